#include "template/character_classes.h"

#include "base/unicode.h"

#include <utf8proc.h>

static utf8proc_category_t category(uint32_t c) {
    return utf8proc_category((utf8proc_int32_t)c);
}

bool jinja_char_is_space(uint32_t c) {
    return unicode_is_space(c) || (c >= 0x1C && c <= 0x1F);
}

bool jinja_char_ends_line(uint32_t c) {
    return (c >= 10 && c <= 13) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 ||
           c == 0x2029;
}

bool jinja_char_is_alpha(uint32_t c) {
    utf8proc_category_t k = category(c);
    return k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_LO;
}

bool jinja_char_is_digit(uint32_t c) {
    bool raised = c == 0xB2 || c == 0xB3 || c == 0xB9 || c == 0x2070 ||
                  (c >= 0x2074 && c <= 0x2079) || (c >= 0x2080 && c <= 0x2089);
    return raised || category(c) == UTF8PROC_CATEGORY_ND;
}

bool jinja_char_is_numeric(uint32_t c) {
    utf8proc_category_t k = category(c);
    return k == UTF8PROC_CATEGORY_ND || k == UTF8PROC_CATEGORY_NL || k == UTF8PROC_CATEGORY_NO;
}

bool jinja_char_is_lower(uint32_t c) {
    return category(c) == UTF8PROC_CATEGORY_LL;
}

bool jinja_char_is_upper(uint32_t c) {
    utf8proc_category_t k = category(c);
    return k == UTF8PROC_CATEGORY_LU || k == UTF8PROC_CATEGORY_LT;
}

bool jinja_char_is_word(uint32_t c) {
    return c == '_' || jinja_char_is_alpha(c) || jinja_char_is_numeric(c);
}

bool jinja_char_is_printable(uint32_t c) {
    utf8proc_category_t k = category(c);
    bool separator =
        k == UTF8PROC_CATEGORY_ZS || k == UTF8PROC_CATEGORY_ZL || k == UTF8PROC_CATEGORY_ZP;
    bool other = k == UTF8PROC_CATEGORY_CN || k == UTF8PROC_CATEGORY_CC ||
                 k == UTF8PROC_CATEGORY_CF || k == UTF8PROC_CATEGORY_CS ||
                 k == UTF8PROC_CATEGORY_CO;
    return c == ' ' || !(separator || other);
}

bool jinja_char_ignores_case(uint32_t c) {
    utf8proc_category_t k = category(c);
    return k == UTF8PROC_CATEGORY_MN || k == UTF8PROC_CATEGORY_ME || k == UTF8PROC_CATEGORY_CF ||
           k == UTF8PROC_CATEGORY_LM || k == UTF8PROC_CATEGORY_SK || c == '\'' || c == '.' ||
           c == ':' || c == 0xB7 || c == 0x2018 || c == 0x2019 || c == 0x2024 || c == 0x2027;
}

int jinja_digit_value(uint8_t c) {
    if (c >= '0' && c <= '9') return c - '0';
    c |= 32;
    return c >= 'a' && c <= 'z' ? c - 'a' + 10 : 99;
}
