#include "base/unicode.h"

/* ---- UTF-8 ---- */

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
