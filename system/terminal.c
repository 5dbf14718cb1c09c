#include "system/terminal.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "system/descriptor.h"

void terminal_bar(FILE *out, int width, uint64_t done, uint64_t total) {
    char bar[60];
    int filled = done < total ? (int)(width * ((double)done / (double)total)) : width;
    memset(bar, '.', sizeof bar);
    memset(bar, '#', (size_t)filled);
    fprintf(out, "[%.*s]", width, bar);
}

size_t terminal_columns(int fd) {
    enum { NARROWEST = 20 };
    struct winsize size = {0};
    bool known = isatty(fd) && ioctl(fd, TIOCGWINSZ, &size) == 0;
    return known && size.ws_col >= NARROWEST ? size.ws_col : 0;
}

bool terminal_has_colours(int fd) {
    const char *term = getenv("TERM"), *no_colour = getenv("NO_COLOR");
    return isatty(fd) && term && *term && strcmp(term, "dumb") != 0 && !(no_colour && *no_colour);
}

/* The bytes of the UTF-8 character at the beginning of text[length]; 0: there is none. */
static size_t character_bytes(const unsigned char *text, size_t length) {
    unsigned char c = text[0];
    size_t n = c < 0x80 ? 1 : c >= 0xC2 && c < 0xE0 ? 2 : c >= 0xE0 && c < 0xF0 ? 3 : 4;
    if (c >= 0xF5 || (c >= 0x80 && c < 0xC2) || n > length) return 0;
    for (size_t i = 1; i < n; i++)
        if ((text[i] & 0xC0) != 0x80) return 0;
    return n;
}

/* Whether c[n] is DEL, a C0 control other than newline and tab, or a C1 control (U+0080 to U+009F).
 */
static bool is_control(const unsigned char *c, size_t n) {
    return (n == 1 && ((c[0] < 0x20 && c[0] != '\n' && c[0] != '\t') || c[0] == 0x7F)) ||
           (n == 2 && c[0] == 0xC2 && c[1] < 0xA0);
}

/* The code point of a control of writing directions, which could show a text in an order other than
 * its own: embeddings and overrides (U+202A to U+202E) and isolates (U+2066 to U+2069). Else 0. */
static unsigned direction_control(const unsigned char *c, size_t n) {
    if (n != 3 || c[0] != 0xE2) return 0;
    unsigned code = 0x2000 | (c[1] & 0x3Fu) << 6 | (c[2] & 0x3Fu);
    return (code >= 0x202A && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069) ? code : 0;
}

size_t terminal_show(const char *text, size_t length, char *shown, size_t size, size_t *used) {
    size_t at = 0, out = 0;
    while (at < length) {
        const unsigned char *c = (const unsigned char *)text + at;
        const char *bytes = text + at;
        char caret[16];
        size_t n = character_bytes(c, length - at), n_out = n;
        if (n == 0) { /* some terminals read a stray byte as a C1 control */
            bytes = "\xEF\xBF\xBD";
            n = 1, n_out = 3;
        } else if (is_control(c, n)) {
            unsigned char letter = c[n - 1] == 0x7F ? '?' : (c[n - 1] & 0x1F) + 64;
            n_out = (size_t)snprintf(caret, sizeof caret, n == 1 ? "^%c" : "^[%c", letter);
            bytes = caret;
        } else if (direction_control(c, n)) {
            n_out = (size_t)snprintf(caret, sizeof caret, "<U+%X>", direction_control(c, n));
            bytes = caret;
        }
        if (out + n_out > size) break;
        memcpy(shown + out, bytes, n_out);
        out += n_out;
        at += n;
    }
    *used = at;
    return out;
}

bool terminal_write(int fd, const char *text, size_t length) {
    if (!isatty(fd)) return descriptor_write(fd, text, length) == length;
    for (size_t at = 0, used; at < length; at += used) {
        char shown[1024];
        size_t n = terminal_show(text + at, length - at, shown, sizeof shown, &used);
        if (descriptor_write(fd, shown, n) < n) return false;
    }
    return true;
}

bool terminal_line(FILE *out, const char *format, ...) {
    enum { BYTES = 8192 }; /* a longer text is cut */
    char text[BYTES], line[2 * BYTES];
    size_t n = 0;
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (length < 0) return false;
    for (const char *c = text; *c; c++) {
        if (*c == '\n') line[n++] = '^';
        line[n++] = *c == '\n' ? 'J' : *c;
    }
    line[n++] = '\n';
    fflush(out);
    return terminal_write(fileno(out), line, n);
}
