#include "base/unicode.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/array.h"
#include "base/unicode_ages.h"

/* ---- UTF-8 ---- */

/* The number of bytes at the start of text[n] that fit a well-formed UTF-8 sequence (Unicode table
 * 3-7). *length is the length of the sequence that the lead byte text[0] announces; both are 0
 * where text[0] is not a lead byte. */
static size_t sequence_prefix(const char *text, size_t n, size_t *length) {
    const uint8_t *s = (const uint8_t *)text;
    *length = 0;
    if (n == 0 || (s[0] >= 0x80 && s[0] < 0xC2) || s[0] > 0xF4) return 0;
    *length = s[0] < 0x80 ? 1 : s[0] < 0xE0 ? 2 : s[0] < 0xF0 ? 3 : 4;
    if (*length == 1 || n == 1) return 1;
    uint8_t low = s[0] == 0xE0 ? 0xA0 : s[0] == 0xF0 ? 0x90 : 0x80;
    uint8_t high = s[0] == 0xED ? 0x9F : s[0] == 0xF4 ? 0x8F : 0xBF;
    if (s[1] < low || s[1] > high) return 1;
    size_t i = 2;
    while (i < *length && i < n && utf8_continues(text[i])) i++;
    return i;
}

size_t utf8_decode(const char *text, size_t n, uint32_t *code) {
    size_t length;
    if (n > 0 && (uint8_t)text[0] < 0x80) {
        *code = (uint8_t)text[0];
        return 1;
    }
    if (sequence_prefix(text, n, &length) < length || length == 0) return 0;
    *code = (uint8_t)text[0] & (0x7Fu >> length);
    for (size_t i = 1; i < length; i++) *code = *code << 6 | ((uint8_t)text[i] & 0x3F);
    return length;
}

size_t utf8_next(const char *text, size_t n, uint32_t *code) {
    size_t length = utf8_decode(text, n, code);
    if (length == 0) *code = 0xFFFD;
    return length ? length : 1;
}

size_t utf8_valid_prefix(const char *text, size_t n) {
    size_t i = 0, length;
    uint32_t code;
    uint64_t word;
    do { /* 8 bytes of ASCII at a time */
        while (n - i >= 8 && (memcpy(&word, text + i, 8), (word & 0x8080808080808080u) == 0))
            i += 8;
        length = utf8_decode(text + i, n - i, &code);
        i += length;
    } while (length > 0);
    return i;
}

size_t utf8_bad_length(const char *text, size_t n) {
    size_t length, prefix = sequence_prefix(text, n, &length);
    return prefix == 0 && n > 0 ? 1 : prefix;
}

size_t utf8_incomplete_tail(const char *text, size_t n) {
    size_t length, back = 1;
    if (n == 0 || (uint8_t)text[n - 1] < 0x80) return 0;
    while (back < 3 && back < n && utf8_continues(text[n - back])) back++;
    if (back > n) return 0;
    size_t prefix = sequence_prefix(text + n - back, back, &length);
    return prefix == back && prefix < length ? back : 0;
}

size_t utf8_previous(const char *text, size_t at) {
    do at--;
    while (at > 0 && utf8_continues(text[at]));
    return at;
}

size_t utf8_encode(uint32_t code, char text[4]) {
    size_t length = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = length - 1; i > 0; i--, code >>= 6) text[i] = (char)(0x80 | (code & 0x3F));
    text[0] = (char)(length == 1 ? code : (0xF00u >> length & 0xF0) | code);
    return length;
}

void utf8_put(TextBuffer *out, uint32_t code, uint8_t from_template) {
    char bytes[4];
    text_put(out, bytes, utf8_encode(code, bytes), from_template);
}

void utf8_put_repaired(TextBuffer *out, const char *bytes, size_t n) {
    for (;;) {
        size_t valid = utf8_valid_prefix(bytes, n);
        text_put(out, bytes, valid, 0);
        if (valid == n) return;
        size_t bad = valid + utf8_bad_length(bytes + valid, n - valid);
        text_put(out, UTF8_REPLACEMENT, 3, 0);
        bytes += bad;
        n -= bad;
    }
}

bool unicode_is_space(uint32_t c) {
    return (c >= 9 && c <= 13) || c == ' ' || c == 0x85 || c == 0xA0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
           c == 0x205F || c == 0x3000;
}

/* ---- ByteLevel's alphabet ---- */

static bool prints_as_itself(uint32_t b) {
    return (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xFF && b != 0xAD);
}

/* The other 68 bytes (0 to 32, 127 to 160, 173) have the code points from 256 on, in order. */
static uint32_t bytelevel_code(uint8_t byte) {
    if (prints_as_itself(byte)) return byte;
    return byte < 0x21 ? 256u + byte : byte == 0xAD ? 256u + 67 : 256u + 33 + (byte - 127u);
}

int bytelevel_byte(uint32_t code) {
    if (code < 256) return prints_as_itself(code) ? (int)code : -1;
    if (code < 256 + 33) return (int)code - 256;
    if (code < 256 + 67) return (int)code - 256 - 33 + 127;
    return code == 256 + 67 ? 0xAD : -1;
}

void bytelevel_map(TextBuffer *out, const char *bytes, size_t n, const uint8_t *from_template) {
    for (size_t i = 0; i < n; i++)
        utf8_put(out, bytelevel_code((uint8_t)bytes[i]), from_template ? from_template[i] : 0);
}

/* ---- Normalization forms ---- */

typedef struct Codes {
    utf8proc_int32_t *codes;
    size_t length, capacity;
} Codes;

static bool codes_reserve(Codes *codes, size_t more) {
    return array_reserve(&codes->codes, &codes->capacity, codes->length + more,
                         sizeof *codes->codes);
}

static uint8_t combining_class(utf8proc_int32_t code) {
    return (uint8_t)utf8proc_get_property(code)->combining_class;
}

/* Sorts codes[n] by combining class and keeps the order of equal ones. Needs room[n]. */
static void sort_by_class(utf8proc_int32_t *codes, utf8proc_int32_t *room, size_t n) {
    size_t ends[256] = {0};
    for (size_t i = 0; i < n; i++) ends[combining_class(codes[i])]++;
    for (size_t c = 1; c < 256; c++) ends[c] += ends[c - 1];
    memcpy(room, codes, n * sizeof *codes);
    for (size_t i = n; i-- > 0;) codes[--ends[combining_class(room[i])]] = room[i];
}

/* Canonical ordering: sorts every run of combining marks by class. (utf8proc's own function takes
 * time quadratic in the run.) False when memory is short. */
static bool order_marks(Codes *codes) {
    for (size_t from = 0, to; from < codes->length; from = to + 1) {
        bool sorted = true;
        uint8_t last = 0, class;
        for (to = from; to < codes->length && (class = combining_class(codes->codes[to])); to++) {
            sorted = sorted && class >= last;
            last = class;
        }
        if (sorted) continue;
        if (!codes_reserve(codes, to - from)) return false;
        sort_by_class(codes->codes + from, codes->codes + codes->length, to - from);
    }
    return true;
}

/* Appends the form of in[n]; false when memory is short. */
static bool normalize_block(TextBuffer *out, Codes *codes, const char *in, size_t n,
                            uint8_t from_template, UnicodeForm form) {
    enum { LONGEST = 32 }; /* more than any character decomposes into */
    bool compatible = form == UNICODE_NFKC || form == UNICODE_NFKD;
    bool compose = form == UNICODE_NFC || form == UNICODE_NFKC;
    int how = UTF8PROC_DECOMPOSE | UTF8PROC_STABLE | (compatible ? UTF8PROC_COMPAT : 0);
    codes->length = 0;
    for (size_t at = 0; at < n;) {
        uint32_t code;
        int boundary = 0;
        at += utf8_next(in + at, n - at, &code);
        if (!codes_reserve(codes, LONGEST)) return false;
        utf8proc_ssize_t made =
            utf8proc_decompose_char((utf8proc_int32_t)code, codes->codes + codes->length, LONGEST,
                                    (utf8proc_option_t)how, &boundary);
        if (made > 0 && made <= LONGEST) codes->length += (size_t)made;
    }
    if (!order_marks(codes)) return false;
    utf8proc_ssize_t n_codes = (utf8proc_ssize_t)codes->length;
    if (compose)
        n_codes =
            utf8proc_normalize_utf32(codes->codes, n_codes, UTF8PROC_STABLE | UTF8PROC_COMPOSE);
    for (utf8proc_ssize_t i = 0; i < n_codes; i++)
        utf8_put(out, (uint32_t)codes->codes[i], from_template);
    return true;
}

/* The end of the text from `at` on that no form changes: a run of ASCII (without its last character
 * if a mark may follow), or one character newer than Unicode 9.0. `at` itself where there is none.
 */
static size_t unchanged_end(const char *in, size_t n, size_t at) {
    size_t end = at;
    uint32_t code;
    while (end < n && (uint8_t)in[end] < 0x80) end++;
    if (end == n || end > at + 1) return end == n ? n : end - 1;
    size_t length = utf8_next(in + at, n - at, &code);
    return unicode_newer_than_9(code) ? at + length : at;
}

/* The end of the character at `at` and of all characters that normalization might join to it. */
static size_t block_end(const char *in, size_t n, size_t at) {
    uint32_t code;
    size_t end = at + utf8_next(in + at, n - at, &code);
    while (end < n) {
        size_t length = utf8_next(in + end, n - end, &code);
        bool joins_nothing = code < 0x300 || (code >= 0x3400 && code < 0xA000);
        if (joins_nothing || unicode_newer_than_9(code)) break;
        end += length;
    }
    return end;
}

void unicode_normalize(TextBuffer *out, const char *in, size_t n, const uint8_t *from_template,
                       UnicodeForm form) {
    Codes codes = {0};
    for (size_t at = 0, end; at < n && !out->failed; at = end) {
        end = unchanged_end(in, n, at);
        text_copy(out, in, from_template, at, end);
        if (end > at) continue;
        end = block_end(in, n, at);
        uint8_t all = text_all_from_template(from_template, at, end);
        if (!normalize_block(out, &codes, in + at, end - at, all, form)) out->failed = true;
    }
    free(codes.codes);
}
