#include "base/unicode.h"
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

size_t utf8_decode(const char *text, size_t n, uint32_t *code) {
    const uint8_t *s = (const uint8_t *)text;
    if (n == 0) return 0;
    if (s[0] < 0x80) {
        *code = s[0];
        return 1;
    }
    if (s[0] < 0xC2 || s[0] > 0xF4) return 0;
    size_t length = s[0] < 0xE0 ? 2 : s[0] < 0xF0 ? 3 : 4;
    if (length > n) return 0;
    uint32_t c = s[0] & (0x7F >> length);
    for (size_t i = 1; i < length; i++) {
        if ((s[i] & 0xC0) != 0x80) return 0;
        c = c << 6 | (s[i] & 0x3F);
    }
    static const uint32_t least[5] = {0, 0, 0x80, 0x800, 0x10000};
    if (c < least[length] || c > 0x10FFFF || (c >= 0xD800 && c < 0xE000)) return 0;
    *code = c;
    return length;
}

size_t utf8_encode(uint32_t code, char text[4]) {
    if (code < 0x80) {
        text[0] = (char)code;
        return 1;
    }
    size_t length = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = length - 1; i > 0; i--, code >>= 6) text[i] = (char)(0x80 | (code & 0x3F));
    text[0] = (char)((0xF00u >> length & 0xF0) | code);
    return length;
}

size_t utf8_valid_prefix(const char *text, size_t n) {
    size_t i = 0;
    uint32_t code;
    while (i < n) {
        uint64_t word;
        while (n - i >= 8 && (memcpy(&word, text + i, 8), (word & 0x8080808080808080u) == 0))
            i += 8;
        if (i == n) break;
        size_t length = utf8_decode(text + i, n - i, &code);
        if (length == 0) break;
        i += length;
    }
    return i;
}

/* The bounds of the second byte after lead byte `lead` (Unicode table 3-7). */
static bool second_fits(uint8_t lead, uint8_t second) {
    uint8_t low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    uint8_t high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    return second >= low && second <= high;
}

size_t utf8_bad_length(const char *text, size_t n) {
    const uint8_t *s = (const uint8_t *)text;
    if (n < 2 || s[0] < 0xC2 || s[0] > 0xF4 || !second_fits(s[0], s[1])) return n < 1 ? 0 : 1;
    size_t length = s[0] < 0xE0 ? 2 : s[0] < 0xF0 ? 3 : 4, i = 2;
    while (i < length && i < n && (s[i] & 0xC0) == 0x80) i++;
    return i;
}

size_t utf8_incomplete_tail(const char *text, size_t n) {
    const uint8_t *s = (const uint8_t *)text;
    for (size_t back = 1; back <= 3 && back <= n; back++) {
        uint8_t lead = s[n - back];
        if ((lead & 0xC0) == 0x80) continue;
        if (lead < 0xC2 || lead > 0xF4) return 0;
        size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
        if (back >= length || (back > 1 && !second_fits(lead, s[n - back + 1]))) return 0;
        return back;
    }
    return 0;
}

bool unicode_is_space(uint32_t c) {
    return (c >= 9 && c <= 13) || c == ' ' || c == 0x85 || c == 0xA0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
           c == 0x205F || c == 0x3000;
}

static bool text_reserve(TextBuffer *text, size_t more) {
    if (text->failed) return false;
    if (more <= text->capacity - text->length && text->bytes && (!text->marked || text->marks))
        return true;
    size_t capacity = text->capacity < 64 ? 64 : text->capacity;
    while (capacity - text->length < more) {
        if (capacity > SIZE_MAX / 4 || (text->limit && capacity >= text->limit)) {
            text->failed = true;
            return false;
        }
        capacity *= 2;
    }
    char *bytes = realloc(text->bytes, capacity);
    if (bytes) text->bytes = bytes;
    uint8_t *marks = NULL;
    bool with_marks = text->marked || text->marks; /* both arrays have the one capacity */
    if (with_marks && (marks = realloc(text->marks, capacity))) text->marks = marks;
    if (!bytes || (with_marks && !marks)) {
        text->failed = true;
        return false;
    }
    text->capacity = capacity;
    return true;
}

void text_put(TextBuffer *text, const char *bytes, size_t n, uint8_t mark) {
    if (!text_reserve(text, n)) return; /* no bytes as well: the text is then "", not NULL */
    if (n == 0) return;
    memcpy(text->bytes + text->length, bytes, n);
    if (text->marked) memset(text->marks + text->length, mark, n);
    text->length += n;
}

void text_free(TextBuffer *text) {
    free(text->bytes);
    free(text->marks);
    *text = (TextBuffer){0};
}

/* Copies source bytes with their own marks. */
static void copy(TextBuffer *out, const char *in, size_t n, const uint8_t *marks) {
    if (!text_reserve(out, n)) return;
    memcpy(out->bytes + out->length, in, n);
    if (out->marked && marks) memcpy(out->marks + out->length, marks, n);
    if (out->marked && !marks) memset(out->marks + out->length, 0, n);
    out->length += n;
}

/* What is made of several bytes comes from the template when all of them do. */
static uint8_t mark_of(const uint8_t *marks, size_t n) {
    if (!marks) return 0;
    uint8_t mark = 1;
    for (size_t i = 0; i < n; i++) mark &= marks[i] != 0;
    return mark;
}

static void put_code(TextBuffer *out, uint32_t code, uint8_t mark) {
    char bytes[4];
    text_put(out, bytes, utf8_encode(code, bytes), mark);
}

/* ---- ByteLevel's alphabet ---- */

static bool prints_as_itself(uint32_t b) {
    return (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xFF && b != 0xAD);
}

static uint32_t bytelevel_code(uint8_t byte) {
    if (prints_as_itself(byte)) return byte;
    if (byte < 0x21) return 256u + byte; /* the others in order: 0..32, 127..160, 173 */
    return byte == 0xAD ? 256u + 67 : 256u + 33 + (byte - 127u);
}

int bytelevel_byte(uint32_t code) {
    if (code < 256) return prints_as_itself(code) ? (int)code : -1;
    if (code < 256 + 33) return (int)code - 256;
    if (code < 256 + 67) return (int)code - 256 - 33 + 127;
    return code == 256 + 67 ? 0xAD : -1;
}

void bytelevel_map(TextBuffer *out, const char *bytes, size_t n, const uint8_t *marks) {
    for (size_t i = 0; i < n; i++)
        put_code(out, bytelevel_code((uint8_t)bytes[i]), marks ? marks[i] : 0);
}

/* ---- Normalization forms ---- */

typedef struct Codes {
    utf8proc_int32_t *codes;
    size_t length, capacity;
} Codes;

static bool codes_reserve(Codes *codes, size_t more) {
    if (codes->capacity - codes->length >= more) return true;
    size_t capacity = codes->capacity * 2 + more + 64;
    utf8proc_int32_t *grown = realloc(codes->codes, capacity * sizeof *grown);
    if (!grown) return false;
    codes->codes = grown;
    codes->capacity = capacity;
    return true;
}

static int combining_class(utf8proc_int32_t code) {
    return utf8proc_get_property(code)->combining_class;
}

static int by_class(const void *a, const void *b) {
    /* The upper bits hold the class, then the place, so that equal classes keep their order. */
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Canonical ordering: every run of combining marks by class, stable. utf8proc's own is
 * quadratic in the run. */
static bool order_marks(Codes *codes) {
    for (size_t i = 0; i < codes->length;) {
        size_t end = i;
        bool sorted = true;
        int last = 0;
        for (int cls; end < codes->length && (cls = combining_class(codes->codes[end])) > 0;
             end++) {
            if (cls < last) sorted = false;
            last = cls;
        }
        size_t n = end - i;
        if (!sorted) {
            uint64_t *keys = malloc(n * 2 * sizeof *keys);
            if (!keys) return false;
            utf8proc_int32_t *old = (utf8proc_int32_t *)(keys + n);
            memcpy(old, codes->codes + i, n * sizeof *old);
            for (size_t k = 0; k < n; k++) keys[k] = (uint64_t)combining_class(old[k]) << 48 | k;
            qsort(keys, n, sizeof *keys, by_class);
            for (size_t k = 0; k < n; k++)
                codes->codes[i + k] = old[keys[k] & (((uint64_t)1 << 48) - 1)];
            free(keys);
        }
        i = end + 1;
    }
    return true;
}

/* A character that no normalization joins to what stands before it. */
static bool begins_block(uint32_t c) {
    return c < 0x300 || (c >= 0x3400 && c < 0xA000);
}

static size_t block_end(const char *in, size_t n, size_t at) {
    uint32_t code;
    do {
        size_t length = utf8_decode(in + at, n - at, &code);
        at += length ? length : 1;
    } while (at < n && utf8_decode(in + at, n - at, &code) && !begins_block(code));
    return at;
}

void unicode_normalize(TextBuffer *out, const char *in, size_t n, const uint8_t *marks,
                       UnicodeForm form) {
    Codes codes = {0};
    bool compose = form == UNICODE_NFC || form == UNICODE_NFKC;
    int how = UTF8PROC_DECOMPOSE | UTF8PROC_STABLE |
              (form == UNICODE_NFKC || form == UNICODE_NFKD ? UTF8PROC_COMPAT : 0);
    for (size_t at = 0; at < n && !out->failed;) {
        size_t ascii = at; /* ASCII is itself in every form */
        while (ascii < n && (uint8_t)in[ascii] < 0x80) ascii++;
        if (ascii < n && ascii > at) ascii--; /* its last character may take a mark */
        if (ascii > at) {
            copy(out, in + at, ascii - at, marks ? marks + at : NULL);
            at = ascii;
            continue;
        }
        uint32_t first = 0;
        size_t first_length = utf8_decode(in + at, n - at, &first);
        if (unicode_newer_than_9(first)) {
            copy(out, in + at, first_length, marks ? marks + at : NULL);
            at += first_length;
            continue;
        }
        size_t end = block_end(in, n, at);
        codes.length = 0;
        for (size_t i = at; i < end;) {
            uint32_t code;
            size_t length = utf8_decode(in + i, end - i, &code);
            i += length ? length : 1;
            if (length == 0) continue;
            int boundary = 0;
            if (!codes_reserve(&codes, 32)) goto short_of_memory;
            utf8proc_ssize_t made =
                utf8proc_decompose_char((utf8proc_int32_t)code, codes.codes + codes.length, 32,
                                        (utf8proc_option_t)how, &boundary);
            if (made > 0 && made <= 32) codes.length += (size_t)made;
        }
        if (!order_marks(&codes)) goto short_of_memory;
        utf8proc_ssize_t n_codes = (utf8proc_ssize_t)codes.length;
        if (compose)
            n_codes =
                utf8proc_normalize_utf32(codes.codes, n_codes, UTF8PROC_STABLE | UTF8PROC_COMPOSE);
        uint8_t mark = mark_of(marks ? marks + at : NULL, end - at);
        for (utf8proc_ssize_t i = 0; i < n_codes; i++)
            put_code(out, (uint32_t)codes.codes[i], mark);
        at = end;
    }
    free(codes.codes);
    return;
short_of_memory:
    out->failed = true;
    free(codes.codes);
}

/* ---- Character by character ---- */

typedef void (*EachCode)(TextBuffer *out, uint32_t code, uint8_t mark);

static void each_code(TextBuffer *out, const char *in, size_t n, const uint8_t *marks,
                      EachCode each) {
    for (size_t at = 0; at < n && !out->failed;) {
        uint32_t code;
        size_t length = utf8_decode(in + at, n - at, &code);
        if (length == 0) break;
        each(out, code, mark_of(marks ? marks + at : NULL, length));
        if (at == 0 && out->length == 0) out->lost_start = true;
        at += length;
    }
}

static void lowercase(TextBuffer *out, uint32_t code, uint8_t mark) {
    if (code < 0x80) {
        char c = (char)(code >= 'A' && code <= 'Z' ? code + 32 : code);
        text_put(out, &c, 1, mark);
    } else if (code == 0x130) { /* the one character that becomes two */
        put_code(out, 'i', mark);
        put_code(out, 0x307, mark);
    } else {
        put_code(out, (uint32_t)utf8proc_tolower((utf8proc_int32_t)code), mark);
    }
}

void unicode_lowercase(TextBuffer *out, const char *in, size_t n, const uint8_t *marks) {
    each_code(out, in, n, marks, lowercase);
}

/* The exceptions changed their category after the versions that the library's tables are of. */
static void drop_nonspacing(TextBuffer *out, uint32_t code, uint8_t mark) {
    bool nonspacing = utf8proc_category((utf8proc_int32_t)code) == UTF8PROC_CATEGORY_MN &&
                      !unicode_newer_than_8(code) && code != 0x1885 && code != 0x1886 &&
                      code != 0xA9BD && code != 0x111C9;
    if (!nonspacing && code != 0x1734) put_code(out, code, mark);
}

static void drop_marks(TextBuffer *out, uint32_t code, uint8_t mark) {
    utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)code);
    bool combining = (category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_MC ||
                      category == UTF8PROC_CATEGORY_ME) &&
                     !unicode_newer_than_9(code) && code != 0x111C9;
    if (!combining && code != 0x1CF2 && code != 0x1CF3) put_code(out, code, mark);
}

void unicode_strip_accents(TextBuffer *out, const char *in, size_t n, const uint8_t *marks,
                           bool nonspacing_only) {
    each_code(out, in, n, marks, nonspacing_only ? drop_nonspacing : drop_marks);
}

void unicode_strip(TextBuffer *out, const char *in, size_t n, const uint8_t *marks, bool left,
                   bool right) {
    size_t from = 0, to = n;
    uint32_t code;
    while (left && from < n) {
        size_t length = utf8_decode(in + from, n - from, &code);
        if (!unicode_is_space(code)) break;
        from += length;
        out->lost_start = true;
    }
    while (right && to > from) {
        size_t last = to - 1;
        while (last > from && ((uint8_t)in[last] & 0xC0) == 0x80) last--;
        if (utf8_decode(in + last, to - last, &code) == 0 || !unicode_is_space(code)) break;
        to = last;
    }
    copy(out, in + from, to - from, marks ? marks + from : NULL);
}

static void bert_clean(TextBuffer *out, uint32_t code, uint8_t mark) {
    bool space = unicode_is_space(code);
    utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)code);
    bool other = (category == UTF8PROC_CATEGORY_CC || category == UTF8PROC_CATEGORY_CF ||
                  category == UTF8PROC_CATEGORY_CO) &&
                 !unicode_newer_than_8(code);
    bool kept_control = code == '\t' || code == '\n' || code == '\r';
    if (code == 0 || code == 0xFFFD || (other && !kept_control)) return;
    put_code(out, space ? ' ' : code, mark);
}

void unicode_bert_clean(TextBuffer *out, const char *in, size_t n, const uint8_t *marks) {
    each_code(out, in, n, marks, bert_clean);
}

static void bert_chinese(TextBuffer *out, uint32_t c, uint8_t mark) {
    bool chinese = (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) ||
                   (c >= 0x20000 && c <= 0x2A6DF) || (c >= 0x2A700 && c <= 0x2B73F) ||
                   (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
                   (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
    if (chinese) text_put(out, " ", 1, mark);
    put_code(out, c, mark);
    if (chinese) text_put(out, " ", 1, mark);
}

void unicode_bert_chinese(TextBuffer *out, const char *in, size_t n, const uint8_t *marks) {
    each_code(out, in, n, marks, bert_chinese);
}

static void nmt(TextBuffer *out, uint32_t c, uint8_t mark) {
    if ((c >= 1 && c <= 8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F || c == 0x8F ||
        c == 0x9F)
        return;
    bool space = c == 9 || c == 10 || c == 12 || c == 13 || c == 0x1680 ||
                 (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 || c == 0x2581 ||
                 c == 0xFEFF || c == 0xFFFD;
    put_code(out, space ? ' ' : c, mark);
}

void unicode_nmt(TextBuffer *out, const char *in, size_t n, const uint8_t *marks) {
    each_code(out, in, n, marks, nmt);
}

/* ---- SentencePiece's precompiled map ---- */

bool charsmap_open(Charsmap *map, const void *bytes, size_t size) {
    uint32_t trie;
    if (size < 4) return false;
    memcpy(&trie, bytes, 4);
    if (trie > size - 4 || trie % 4 != 0) return false;
    map->units = (const char *)bytes + 4;
    map->n_units = trie / 4;
    map->strings = map->units + trie;
    map->strings_size = size - 4 - trie;
    return true;
}

static bool charsmap_unit(const Charsmap *map, size_t i, uint32_t *unit) {
    if (i >= map->n_units) return false;
    memcpy(unit, map->units + 4 * i, 4);
    return true;
}

/* Darts-clone's unit: bits 0-7 label (bit 31 clear), bit 8 has a leaf, bit 9 the offset is
 * shifted by 8, bits 10-30 offset; a leaf holds its value in bits 0-30. */
static size_t unit_offset(uint32_t unit) {
    return (size_t)(unit >> 10) << ((unit & 0x200) >> 6);
}

size_t charsmap_longest(const Charsmap *map, const char *text, size_t n, bool shortest,
                        const char **to, size_t *to_length) {
    size_t found = 0, node = 0;
    uint32_t unit, leaf, value = 0;
    if (!charsmap_unit(map, 0, &unit)) return 0;
    node ^= unit_offset(unit);
    for (size_t i = 0; i < n; i++) {
        uint8_t byte = (uint8_t)text[i];
        if (byte == 0) break;
        node ^= byte;
        if (!charsmap_unit(map, node, &unit) || (unit & 0x800000FFu) != byte) break;
        node ^= unit_offset(unit);
        if (unit >> 8 & 1 && charsmap_unit(map, node, &leaf)) {
            found = i + 1;
            value = leaf & 0x7FFFFFFFu;
            if (shortest) break;
        }
    }
    if (found == 0 || value >= map->strings_size) return 0;
    if (found < n && ((uint8_t)text[found] & 0xC0) == 0x80) return 0; /* would cut a character */
    *to = map->strings + value;
    *to_length = strnlen(*to, map->strings_size - value);
    return utf8_valid_prefix(*to, *to_length) == *to_length ? found : 0;
}

void unicode_charsmap(TextBuffer *out, const char *in, size_t n, const uint8_t *marks,
                      const Charsmap *map) {
    for (size_t at = 0; at < n && !out->failed;) {
        uint32_t code, next;
        size_t end = at + utf8_decode(in + at, n - at, &code), to_length;
        utf8proc_int32_t state = 0;
        while (end < n) {
            size_t length = utf8_decode(in + end, n - end, &next);
            if (utf8proc_grapheme_break_stateful((utf8proc_int32_t)code, (utf8proc_int32_t)next,
                                                 &state))
                break;
            end += length;
            code = next;
        }
        const char *to;
        /* The library looks the cluster up whole and takes the shortest key that begins it. */
        if (end - at < 6 && charsmap_longest(map, in + at, end - at, true, &to, &to_length)) {
            text_put(out, to, to_length, mark_of(marks ? marks + at : NULL, end - at));
            at = end;
            continue;
        }
        while (at < end) {
            size_t length = utf8_decode(in + at, end - at, &code);
            uint8_t mark = mark_of(marks ? marks + at : NULL, length);
            if (charsmap_longest(map, in + at, length, true, &to, &to_length))
                text_put(out, to, to_length, mark);
            else
                text_put(out, in + at, length, mark);
            at += length;
        }
    }
}

const char *unicode_library_version(void) {
    return utf8proc_version();
}
const char *unicode_data_version(void) {
    return utf8proc_unicode_version();
}
