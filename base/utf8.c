#include "base/utf8.h"

#include <string.h>

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

size_t utf8_boundary(const char *text, size_t n, size_t at) {
    while (at > 0 && at < n && utf8_continues(text[at])) at--;
    return at;
}

size_t utf8_count(const char *text, size_t n) {
    size_t count = 0;
    for (size_t i = 0; i < n; i++) count += !utf8_continues(text[i]);
    return count;
}

bool utf8_is_utf16(const char *text, size_t n) {
    return n >= 2 && (memcmp(text, "\xFF\xFE", 2) == 0 || memcmp(text, "\xFE\xFF", 2) == 0);
}

size_t utf8_mark_length(const char *text, size_t n) {
    return n >= 3 && memcmp(text, UTF8_MARK, 3) == 0 ? 3 : 0;
}
