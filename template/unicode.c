/* What Python's str knows of characters: categories from utf8proc, and the case mappings that
 * give several characters (Unicode's SpecialCasing.txt, the unconditional part). */
#include "template/template.h"

#include <utf8proc.h>

typedef struct SpecialCase {
    uint16_t c, upper[3], title[3];
} SpecialCase;

static const SpecialCase special_cases[] = {
    {0xDF, {0x53, 0x53}, {0x53, 0x73}},
    {0x149, {0x2BC, 0x4E}, {0x2BC, 0x4E}},
    {0x1F0, {0x4A, 0x30C}, {0x4A, 0x30C}},
    {0x390, {0x399, 0x308, 0x301}, {0x399, 0x308, 0x301}},
    {0x3B0, {0x3A5, 0x308, 0x301}, {0x3A5, 0x308, 0x301}},
    {0x587, {0x535, 0x552}, {0x535, 0x582}},
    {0x1E96, {0x48, 0x331}, {0x48, 0x331}},
    {0x1E97, {0x54, 0x308}, {0x54, 0x308}},
    {0x1E98, {0x57, 0x30A}, {0x57, 0x30A}},
    {0x1E99, {0x59, 0x30A}, {0x59, 0x30A}},
    {0x1E9A, {0x41, 0x2BE}, {0x41, 0x2BE}},
    {0x1F50, {0x3A5, 0x313}, {0x3A5, 0x313}},
    {0x1F52, {0x3A5, 0x313, 0x300}, {0x3A5, 0x313, 0x300}},
    {0x1F54, {0x3A5, 0x313, 0x301}, {0x3A5, 0x313, 0x301}},
    {0x1F56, {0x3A5, 0x313, 0x342}, {0x3A5, 0x313, 0x342}},
    {0x1F80, {0x1F08, 0x399}, {0x1F88}},
    {0x1F81, {0x1F09, 0x399}, {0x1F89}},
    {0x1F82, {0x1F0A, 0x399}, {0x1F8A}},
    {0x1F83, {0x1F0B, 0x399}, {0x1F8B}},
    {0x1F84, {0x1F0C, 0x399}, {0x1F8C}},
    {0x1F85, {0x1F0D, 0x399}, {0x1F8D}},
    {0x1F86, {0x1F0E, 0x399}, {0x1F8E}},
    {0x1F87, {0x1F0F, 0x399}, {0x1F8F}},
    {0x1F88, {0x1F08, 0x399}, {0x1F88}},
    {0x1F89, {0x1F09, 0x399}, {0x1F89}},
    {0x1F8A, {0x1F0A, 0x399}, {0x1F8A}},
    {0x1F8B, {0x1F0B, 0x399}, {0x1F8B}},
    {0x1F8C, {0x1F0C, 0x399}, {0x1F8C}},
    {0x1F8D, {0x1F0D, 0x399}, {0x1F8D}},
    {0x1F8E, {0x1F0E, 0x399}, {0x1F8E}},
    {0x1F8F, {0x1F0F, 0x399}, {0x1F8F}},
    {0x1F90, {0x1F28, 0x399}, {0x1F98}},
    {0x1F91, {0x1F29, 0x399}, {0x1F99}},
    {0x1F92, {0x1F2A, 0x399}, {0x1F9A}},
    {0x1F93, {0x1F2B, 0x399}, {0x1F9B}},
    {0x1F94, {0x1F2C, 0x399}, {0x1F9C}},
    {0x1F95, {0x1F2D, 0x399}, {0x1F9D}},
    {0x1F96, {0x1F2E, 0x399}, {0x1F9E}},
    {0x1F97, {0x1F2F, 0x399}, {0x1F9F}},
    {0x1F98, {0x1F28, 0x399}, {0x1F98}},
    {0x1F99, {0x1F29, 0x399}, {0x1F99}},
    {0x1F9A, {0x1F2A, 0x399}, {0x1F9A}},
    {0x1F9B, {0x1F2B, 0x399}, {0x1F9B}},
    {0x1F9C, {0x1F2C, 0x399}, {0x1F9C}},
    {0x1F9D, {0x1F2D, 0x399}, {0x1F9D}},
    {0x1F9E, {0x1F2E, 0x399}, {0x1F9E}},
    {0x1F9F, {0x1F2F, 0x399}, {0x1F9F}},
    {0x1FA0, {0x1F68, 0x399}, {0x1FA8}},
    {0x1FA1, {0x1F69, 0x399}, {0x1FA9}},
    {0x1FA2, {0x1F6A, 0x399}, {0x1FAA}},
    {0x1FA3, {0x1F6B, 0x399}, {0x1FAB}},
    {0x1FA4, {0x1F6C, 0x399}, {0x1FAC}},
    {0x1FA5, {0x1F6D, 0x399}, {0x1FAD}},
    {0x1FA6, {0x1F6E, 0x399}, {0x1FAE}},
    {0x1FA7, {0x1F6F, 0x399}, {0x1FAF}},
    {0x1FA8, {0x1F68, 0x399}, {0x1FA8}},
    {0x1FA9, {0x1F69, 0x399}, {0x1FA9}},
    {0x1FAA, {0x1F6A, 0x399}, {0x1FAA}},
    {0x1FAB, {0x1F6B, 0x399}, {0x1FAB}},
    {0x1FAC, {0x1F6C, 0x399}, {0x1FAC}},
    {0x1FAD, {0x1F6D, 0x399}, {0x1FAD}},
    {0x1FAE, {0x1F6E, 0x399}, {0x1FAE}},
    {0x1FAF, {0x1F6F, 0x399}, {0x1FAF}},
    {0x1FB2, {0x1FBA, 0x399}, {0x1FBA, 0x345}},
    {0x1FB3, {0x391, 0x399}, {0x1FBC}},
    {0x1FB4, {0x386, 0x399}, {0x386, 0x345}},
    {0x1FB6, {0x391, 0x342}, {0x391, 0x342}},
    {0x1FB7, {0x391, 0x342, 0x399}, {0x391, 0x342, 0x345}},
    {0x1FBC, {0x391, 0x399}, {0x1FBC}},
    {0x1FC2, {0x1FCA, 0x399}, {0x1FCA, 0x345}},
    {0x1FC3, {0x397, 0x399}, {0x1FCC}},
    {0x1FC4, {0x389, 0x399}, {0x389, 0x345}},
    {0x1FC6, {0x397, 0x342}, {0x397, 0x342}},
    {0x1FC7, {0x397, 0x342, 0x399}, {0x397, 0x342, 0x345}},
    {0x1FCC, {0x397, 0x399}, {0x1FCC}},
    {0x1FD2, {0x399, 0x308, 0x300}, {0x399, 0x308, 0x300}},
    {0x1FD3, {0x399, 0x308, 0x301}, {0x399, 0x308, 0x301}},
    {0x1FD6, {0x399, 0x342}, {0x399, 0x342}},
    {0x1FD7, {0x399, 0x308, 0x342}, {0x399, 0x308, 0x342}},
    {0x1FE2, {0x3A5, 0x308, 0x300}, {0x3A5, 0x308, 0x300}},
    {0x1FE3, {0x3A5, 0x308, 0x301}, {0x3A5, 0x308, 0x301}},
    {0x1FE4, {0x3A1, 0x313}, {0x3A1, 0x313}},
    {0x1FE6, {0x3A5, 0x342}, {0x3A5, 0x342}},
    {0x1FE7, {0x3A5, 0x308, 0x342}, {0x3A5, 0x308, 0x342}},
    {0x1FF2, {0x1FFA, 0x399}, {0x1FFA, 0x345}},
    {0x1FF3, {0x3A9, 0x399}, {0x1FFC}},
    {0x1FF4, {0x38F, 0x399}, {0x38F, 0x345}},
    {0x1FF6, {0x3A9, 0x342}, {0x3A9, 0x342}},
    {0x1FF7, {0x3A9, 0x342, 0x399}, {0x3A9, 0x342, 0x345}},
    {0x1FFC, {0x3A9, 0x399}, {0x1FFC}},
    {0xFB00, {0x46, 0x46}, {0x46, 0x66}},
    {0xFB01, {0x46, 0x49}, {0x46, 0x69}},
    {0xFB02, {0x46, 0x4C}, {0x46, 0x6C}},
    {0xFB03, {0x46, 0x46, 0x49}, {0x46, 0x66, 0x69}},
    {0xFB04, {0x46, 0x46, 0x4C}, {0x46, 0x66, 0x6C}},
    {0xFB05, {0x53, 0x54}, {0x53, 0x74}},
    {0xFB06, {0x53, 0x54}, {0x53, 0x74}},
    {0xFB13, {0x544, 0x546}, {0x544, 0x576}},
    {0xFB14, {0x544, 0x535}, {0x544, 0x565}},
    {0xFB15, {0x544, 0x53B}, {0x544, 0x56B}},
    {0xFB16, {0x54E, 0x546}, {0x54E, 0x576}},
    {0xFB17, {0x544, 0x53D}, {0x544, 0x56D}},
};

static const SpecialCase *find_special(uint32_t c) {
    size_t low = 0, high = sizeof special_cases / sizeof *special_cases;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (special_cases[middle].c < c)
            low = middle + 1;
        else
            high = middle;
    }
    bool found = low < sizeof special_cases / sizeof *special_cases && special_cases[low].c == c;
    return found ? &special_cases[low] : NULL;
}

static utf8proc_category_t category(uint32_t c) {
    return utf8proc_category((utf8proc_int32_t)c);
}

bool char_is_space(uint32_t c) {
    return (c >= 9 && c <= 13) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 ||
           c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 ||
           c == 0x202F || c == 0x205F || c == 0x3000;
}

bool char_ends_line(uint32_t c) {
    return (c >= 10 && c <= 13) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 ||
           c == 0x2029;
}

bool char_is_alpha(uint32_t c) {
    utf8proc_category_t k = category(c);
    return k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_LO;
}

bool char_is_digit(uint32_t c) {
    bool raised = c == 0xB2 || c == 0xB3 || c == 0xB9 || c == 0x2070 ||
                  (c >= 0x2074 && c <= 0x2079) || (c >= 0x2080 && c <= 0x2089);
    return raised || category(c) == UTF8PROC_CATEGORY_ND;
}

bool char_is_numeric(uint32_t c) {
    utf8proc_category_t k = category(c);
    return k == UTF8PROC_CATEGORY_ND || k == UTF8PROC_CATEGORY_NL || k == UTF8PROC_CATEGORY_NO;
}

bool char_is_lower(uint32_t c) {
    return category(c) == UTF8PROC_CATEGORY_LL;
}

bool char_is_upper(uint32_t c) {
    utf8proc_category_t k = category(c);
    return k == UTF8PROC_CATEGORY_LU || k == UTF8PROC_CATEGORY_LT;
}

bool char_is_word(uint32_t c) {
    return c == '_' || char_is_alpha(c) || char_is_numeric(c);
}

bool char_is_printable(uint32_t c) {
    utf8proc_category_t k = category(c);
    bool separator =
        k == UTF8PROC_CATEGORY_ZS || k == UTF8PROC_CATEGORY_ZL || k == UTF8PROC_CATEGORY_ZP;
    bool other = k == UTF8PROC_CATEGORY_CN || k == UTF8PROC_CATEGORY_CC ||
                 k == UTF8PROC_CATEGORY_CF || k == UTF8PROC_CATEGORY_CS ||
                 k == UTF8PROC_CATEGORY_CO;
    return c == ' ' || !(separator || other);
}

/* ---- case ---- */

static bool case_ignorable(uint32_t c) {
    utf8proc_category_t k = category(c);
    return k == UTF8PROC_CATEGORY_MN || k == UTF8PROC_CATEGORY_ME || k == UTF8PROC_CATEGORY_CF ||
           k == UTF8PROC_CATEGORY_LM || k == UTF8PROC_CATEGORY_SK || c == '\'' || c == '.' ||
           c == ':' || c == 0xB7 || c == 0x2018 || c == 0x2019 || c == 0x2024 || c == 0x2027;
}

static bool is_cased(uint32_t c) {
    return char_is_lower(c) || char_is_upper(c);
}

/* A capital sigma that ends a word becomes the final form: a letter before it, none after. */
static bool sigma_is_final(Text t, size_t at) {
    bool before = false;
    size_t size;
    for (size_t i = 0; i < at; i += size) {
        uint32_t c = text_char(t, i, &size);
        if (!case_ignorable(c)) before = is_cased(c);
    }
    if (!before) return false;
    for (size_t i = at + 2; i < t.length; i += size) {
        uint32_t c = text_char(t, i, &size);
        if (!case_ignorable(c)) return !is_cased(c);
    }
    return true;
}

/* Writes the character at byte `at` in another case; returns its size in `t`. */
static size_t build_case(Machine *m, Builder *b, Text t, size_t at, Case how) {
    size_t size;
    uint32_t c = text_char(t, at, &size);
    uint8_t from_template = text_from_template(text_cut(t, at, at + size));
    const SpecialCase *special = find_special(c);
    if (how == CASE_LOWER && c == 0x3A3) {
        spend_slow(m, t.length);
        build_char(m, b, sigma_is_final(t, at) ? 0x3C2 : 0x3C3, from_template);
    } else if (how == CASE_LOWER && c == 0x130) {
        build_c(m, b, "i\xCC\x87", from_template);
    } else if (how == CASE_FOLD) {
        utf8proc_int32_t folded[8];
        int last_boundclass = 0;
        utf8proc_ssize_t n = utf8proc_decompose_char((utf8proc_int32_t)c, folded, 8,
                                                     UTF8PROC_CASEFOLD, &last_boundclass);
        for (utf8proc_ssize_t i = 0; i < n && i < 8; i++) {
            build_char(m, b, (uint32_t)folded[i], from_template);
        }
    } else if (how != CASE_LOWER && special) {
        const uint16_t *mapped = how == CASE_UPPER ? special->upper : special->title;
        for (int i = 0; i < 3 && mapped[i]; i++) build_char(m, b, mapped[i], from_template);
    } else {
        utf8proc_int32_t (*map)(utf8proc_int32_t) = how == CASE_LOWER   ? utf8proc_tolower
                                                    : how == CASE_UPPER ? utf8proc_toupper
                                                                        : utf8proc_totitle;
        build_char(m, b, (uint32_t)map((utf8proc_int32_t)c), from_template);
    }
    return size;
}

Text text_case(Machine *m, Text t, Case how) {
    Builder b = {0};
    for (size_t at = 0; at < t.length;) at += build_case(m, &b, t, at, how);
    return built(&b);
}

Text text_capitalize(Machine *m, Text t) {
    Builder b = {0};
    for (size_t at = 0; at < t.length;) {
        at += build_case(m, &b, t, at, at == 0 ? CASE_TITLE : CASE_LOWER);
    }
    return built(&b);
}

Text text_title(Machine *m, Text t) {
    Builder b = {0};
    bool in_word = false;
    for (size_t at = 0, size; at < t.length; at += size) {
        uint32_t c = text_char(t, at, &size);
        build_case(m, &b, t, at, in_word ? CASE_LOWER : CASE_TITLE);
        in_word = is_cased(c);
    }
    return built(&b);
}
