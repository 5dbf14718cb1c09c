#include "base/base64.h"

#include <stdint.h>

int base64_value(char c) {
    return c >= 'A' && c <= 'Z'   ? c - 'A'
           : c >= 'a' && c <= 'z' ? c - 'a' + 26
           : c >= '0' && c <= '9' ? c - '0' + 52
           : c == '+'             ? 62
           : c == '/'             ? 63
                                  : -1;
}

size_t base64_encode(const void *bytes, size_t n, char *text) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const uint8_t *from = bytes;
    size_t length = 0;
    for (size_t i = 0; i < n; i += 3) {
        size_t left = n - i;
        uint32_t three = (uint32_t)from[i] << 16;
        if (left > 1) three |= (uint32_t)from[i + 1] << 8;
        if (left > 2) three |= from[i + 2];
        text[length++] = digits[three >> 18];
        text[length++] = digits[three >> 12 & 63];
        text[length++] = left > 1 ? digits[three >> 6 & 63] : '=';
        text[length++] = left > 2 ? digits[three & 63] : '=';
    }
    return length;
}

bool base64_decode(const char *text, size_t n, char *bytes, size_t *length) {
    size_t padding = 0;
    *length = 0;
    while (padding < 2 && padding < n && text[n - 1 - padding] == '=') padding++;
    if (n % 4 != 0) return false;
    for (size_t i = 0; i < n; i += 4) {
        uint32_t four = 0;
        size_t digits = i + 4 == n ? 4 - padding : 4;
        for (size_t k = 0; k < 4; k++) {
            int value = k < digits ? base64_value(text[i + k]) : 0;
            if (value < 0) return false;
            four = four << 6 | (uint32_t)value;
        }
        for (size_t k = 0; k + 1 < digits; k++)
            bytes[(*length)++] = (char)(four >> (16 - 8 * k) & 0xFF);
    }
    return true;
}
