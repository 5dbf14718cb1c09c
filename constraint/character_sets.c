#include "constraint/character_sets.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/array.h"
#include "base/unicode.h"

/* ---- Sets ---------------------------------------------------------------------------------- */

void charset_add(CharSet *set, uint32_t from, uint32_t to) {
    if (to > 0x10FFFF) to = 0x10FFFF;
    if (set->failed || from > to) return;
    if (!array_reserve(&set->ranges, &set->capacity, set->n + 1, sizeof *set->ranges)) {
        set->failed = true;
        return;
    }
    set->ranges[set->n++] = (CharRange){from, to};
}

void charset_add_all(CharSet *set, const CharSet *other) {
    for (size_t i = 0; i < other->n; i++)
        charset_add(set, other->ranges[i].from, other->ranges[i].to);
    set->failed |= other->failed;
}

static int compare_ranges(const void *a, const void *b) {
    const CharRange *x = a, *y = b;
    return x->from < y->from ? -1 : x->from > y->from;
}

static void sort_ranges(CharSet *set) {
    size_t n = 0;
    if (set->n > 1) qsort(set->ranges, set->n, sizeof *set->ranges, compare_ranges);
    for (size_t i = 0; i < set->n; i++) {
        CharRange r = set->ranges[i];
        if (n > 0 && r.from <= set->ranges[n - 1].to + 1) {
            if (r.to > set->ranges[n - 1].to) set->ranges[n - 1].to = r.to;
        } else {
            set->ranges[n++] = r;
        }
    }
    set->n = n;
}

static void complement(CharSet *set) {
    CharSet out = {0};
    uint32_t next = 0;
    for (size_t i = 0; i < set->n; i++) {
        if (set->ranges[i].from > next) charset_add(&out, next, set->ranges[i].from - 1);
        next = set->ranges[i].to + 1;
    }
    charset_add(&out, next, 0x10FFFF);
    out.failed |= set->failed;
    free(set->ranges);
    *set = out;
}

void charset_normalize(CharSet *set, bool negate) {
    sort_ranges(set);
    if (!negate) complement(set);
    charset_add(set, 0xD800, 0xDFFF);
    sort_ranges(set);
    complement(set);
}

bool charset_add_category(CharSet *set, const char *name, size_t length) {
    static const char *const names[] = {"Cn", "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd",
                                        "Nl", "No", "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "Sm",
                                        "Sc", "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Cs", "Co"};
    uint32_t wanted = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names && (length == 1 || length == 2); i++)
        if (memcmp(names[i], name, length) == 0) wanted |= (uint32_t)1 << i;
    if (!wanted) return false;
    for (uint32_t code = 0, from = 0; code <= 0x110000; code++) {
        bool in = code < 0x110000 && wanted >> utf8proc_category((utf8proc_int32_t)code) & 1;
        if (in) continue;
        if (code > from) charset_add(set, from, code - 1);
        from = code + 1;
    }
    return true;
}

void charset_free(CharSet *set) {
    free(set->ranges);
    *set = (CharSet){0};
}

bool charset_hex(const char *text, size_t n, size_t digits, uint32_t *number) {
    uint32_t value = 0;
    if (n < digits) return false;
    for (size_t i = 0; i < digits; i++) {
        char c = text[i];
        if (!isxdigit((unsigned char)c)) return false;
        value = value << 4 | (uint32_t)(c <= '9' ? c - '0' : (c | 32) - 'a' + 10);
    }
    *number = value;
    return true;
}

/* ---- Expressions --------------------------------------------------------------------------- */

/* The expression of the characters between two, whose UTF-8 from[n] and to[n] is equally long.
 * Ranges with one lead byte are that byte and the range of the rest; others are split into three.
 */
static Regex utf8_range(RegexArena *arena, const char *from, const char *to, size_t n) {
    unsigned char low = (unsigned char)from[0], high = (unsigned char)to[0];
    if (n == 1) return regex_range(arena, low, high);
    if (low == high)
        return regex_concat(arena, regex_byte(arena, low),
                            utf8_range(arena, from + 1, to + 1, n - 1));
    /* The first lead byte with its rests from `from` on, the last with its rests up to `to`, and
     * the lead bytes between with all rests. */
    static const char least[] = "\x80\x80\x80", most[] = "\xBF\xBF\xBF";
    bool whole_low = memcmp(from + 1, least, n - 1) == 0;
    bool whole_high = memcmp(to + 1, most, n - 1) == 0;
    Regex parts[3] = {REGEX_NONE, REGEX_NONE, REGEX_NONE};
    if (!whole_low)
        parts[0] =
            regex_concat(arena, regex_byte(arena, low++), utf8_range(arena, from + 1, most, n - 1));
    if (!whole_high)
        parts[1] =
            regex_concat(arena, regex_byte(arena, high--), utf8_range(arena, least, to + 1, n - 1));
    if (low <= high)
        parts[2] = regex_concat(arena, regex_range(arena, low, high),
                                utf8_range(arena, least, most, n - 1));
    return regex_or(arena, parts, 3);
}

static const char short_escapes[] = "\"\"\\\\\bb\ff\nn\rr\tt";

/* The character's escape in a JSON string: short where there is one, else \u00XX. */
static Regex escaped(RegexArena *arena, uint32_t code) {
    for (const char *e = short_escapes; *e; e += 2)
        if ((uint32_t)e[0] == code) return regex_text(arena, (char[]){'\\', e[1]}, 2);
    static const char digits[] = "0123456789abcdef";
    char text[] = {'\\', 'u', '0', '0', digits[code >> 4 & 15], digits[code & 15]};
    return regex_text(arena, text, sizeof text);
}

static bool needs_escape(uint32_t code) {
    return code < 0x20 || code == '"' || code == '\\';
}

Regex regex_char(RegexArena *arena, uint32_t code, Writing writing) {
    char bytes[4];
    if (writing == WRITING_JSON && needs_escape(code)) return escaped(arena, code);
    return regex_text(arena, bytes, utf8_encode(code, bytes));
}

Regex regex_string(RegexArena *arena, const char *text, size_t n, Writing writing) {
    Regex out = REGEX_EMPTY;
    while (n > 0) {
        unsigned char byte = (unsigned char)text[--n];
        Regex one = writing == WRITING_JSON && needs_escape(byte) ? escaped(arena, byte)
                                                                  : regex_byte(arena, byte);
        out = regex_concat(arena, one, out);
    }
    return out;
}

/* Adds the characters from..to, none of which needs an escape: a range for each length in UTF-8. */
static void add_plain(RegexArena *arena, uint32_t from, uint32_t to, Regex *out) {
    static const uint32_t last[] = {0x7F, 0x7FF, 0xFFFF, 0x10FFFF};
    for (int i = 0; i < 4 && from <= to; i++) {
        if (from > last[i]) continue;
        char low[4], high[4];
        uint32_t end = to < last[i] ? to : last[i];
        size_t n = utf8_encode(from, low);
        utf8_encode(end, high);
        *out = regex_or2(arena, *out, utf8_range(arena, low, high, n));
        from = end + 1;
    }
}

Regex regex_charset(RegexArena *arena, const CharSet *set, Writing writing) {
    Regex out = REGEX_NONE;
    if (set->failed && !arena->failed) arena->failed = "there is no memory for it";
    for (size_t i = 0; i < set->n && !arena->failed; i++) {
        CharRange r = set->ranges[i];
        /* Below the first character after \ the range is cut at those that are written as escapes.
         */
        while (writing == WRITING_JSON && r.from <= r.to && r.from < 0x60) {
            if (needs_escape(r.from)) {
                out = regex_or2(arena, out, escaped(arena, r.from++));
                continue;
            }
            uint32_t end = r.from < '"' ? '"' - 1 : r.from < '\\' ? '\\' - 1 : r.to;
            if (end > r.to) end = r.to;
            add_plain(arena, r.from, end, &out);
            r.from = end + 1;
        }
        if (r.from <= r.to) add_plain(arena, r.from, r.to, &out);
    }
    return arena->failed ? REGEX_NONE : out;
}

Regex regex_any_char(RegexArena *arena, Writing writing) {
    CharSet all = {0};
    charset_add(&all, 0, 0x10FFFF);
    charset_normalize(&all, false);
    Regex out = regex_charset(arena, &all, writing);
    charset_free(&all);
    return out;
}

Regex regex_any_json_char(RegexArena *arena) {
    CharRange plain[] = {
        {0x20, '"' - 1}, {'"' + 1, '\\' - 1}, {'\\' + 1, 0xD7FF}, {0xE000, 0x10FFFF}};
    CharSet set = {.ranges = plain, .n = 4};
    ByteSet hex = {{0}}, short_names = {{0}}, no_d = {{0}}, low = {{0}}, high = {{0}},
            below_8 = {{0}};
    byteset_add(&hex, '0', '9'), byteset_add(&hex, 'a', 'f'), byteset_add(&hex, 'A', 'F');
    no_d = hex;
    no_d.bits['D' >> 6] &= ~((uint64_t)1 << ('D' & 63));
    no_d.bits['d' >> 6] &= ~((uint64_t)1 << ('d' & 63));
    for (const char *c = "\"\\/bfnrt"; *c; c++)
        byteset_add(&short_names, (unsigned char)*c, (unsigned char)*c);
    byteset_add(&below_8, '0', '7');
    byteset_add(&high, '8', '9'), byteset_add(&high, 'a', 'b'), byteset_add(&high, 'A', 'B');
    byteset_add(&low, 'c', 'f'), byteset_add(&low, 'C', 'F');
    Regex h = regex_set(arena, &hex), u = regex_text(arena, "\\u", 2);
    Regex d = regex_or2(arena, regex_byte(arena, 'd'), regex_byte(arena, 'D'));
    Regex h2 = regex_repeat(arena, h, 2, 2), h3 = regex_repeat(arena, h, 3, 3);
    Regex lead = regex_concat(arena, regex_concat(arena, d, regex_set(arena, &high)), h2);
    Regex trail = regex_concat(arena, regex_concat(arena, d, regex_set(arena, &low)), h2);
    Regex forms[] = {
        regex_charset(arena, &set, WRITING_PLAIN),
        regex_concat(arena, regex_byte(arena, '\\'), regex_set(arena, &short_names)),
        regex_concat(arena, u, regex_concat(arena, regex_set(arena, &no_d), h3)),
        regex_concat(arena, u,
                     regex_concat(arena, regex_concat(arena, d, regex_set(arena, &below_8)), h2)),
        regex_concat(arena, regex_concat(arena, u, lead), regex_concat(arena, u, trail)),
    };
    return regex_or(arena, forms, sizeof forms / sizeof *forms);
}
