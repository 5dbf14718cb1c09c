#include "base/unicode.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"

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
