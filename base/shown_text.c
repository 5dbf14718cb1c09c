#include "base/shown_text.h"

#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "base/utf8.h"

/* Whether `code` is DEL, a C0 control other than newline and tab, or a C1 control. */
static bool is_control(uint32_t code) {
    return (code < 0x20 && code != '\n' && code != '\t') || (code >= 0x7F && code < 0xA0);
}

/* Whether `code` is a control of writing directions, which could show a text in an order other than
 * its own: embeddings and overrides (U+202A to U+202E) and isolates (U+2066 to U+2069). */
static bool is_direction(uint32_t code) {
    return (code >= 0x202A && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069);
}

/* Writes caret notation: "^[" for Escape, "^?" for DEL, "^[[" for the C1 control U+009B, which
 * Escape and '[' stand for as well. */
static size_t put_caret(uint32_t code, char *out) {
    size_t n = 0;
    out[n++] = '^';
    if (code >= 0x80) out[n++] = '[';
    out[n++] = (char)(code == 0x7F ? '?' : (code & 0x1F) + 64);
    return n;
}

static size_t put_number(uint32_t code, char *out) {
    static const char digits[] = "0123456789ABCDEF";
    memcpy(out, "<U+", 3);
    for (int i = 0; i < 4; i++) out[3 + i] = digits[code >> (12 - 4 * i) & 15];
    out[7] = '>';
    return 8;
}

size_t shown_text(const char *text, size_t length, char *shown, size_t size, size_t *used) {
    size_t at = 0, out = 0;
    while (at < length) {
        char bytes[SHOWN_MOST] = UTF8_REPLACEMENT; /* some terminals take stray bytes as controls */
        uint32_t code;
        size_t n = utf8_decode(text + at, length - at, &code), n_out = n;
        if (n == 0)
            n = 1, n_out = 3;
        else if (is_control(code))
            n_out = put_caret(code, bytes);
        else if (is_direction(code))
            n_out = put_number(code, bytes);
        else
            memcpy(bytes, text + at, n);
        if (n_out > size - out) break;
        memcpy(shown + out, bytes, n_out);
        out += n_out;
        at += n;
    }
    *used = at;
    return out;
}

void shown_text_write(FILE *out, const char *text, size_t length) {
    bool terminal = isatty(fileno(out));
    for (size_t at = 0, used = length; at < length; at += used) {
        char shown[1024];
        size_t n =
            terminal ? shown_text(text + at, length - at, shown, sizeof shown, &used) : length;
        fwrite(terminal ? shown : text, 1, n, out);
    }
}
