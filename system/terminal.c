#include "system/terminal.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/shown_text.h"
#include "base/utf8.h"
#include "system/descriptor.h"

void terminal_bar(FILE *out, int width, uint64_t done, uint64_t total) {
    char bar[60];
    int filled = done < total ? (int)(width * ((double)done / (double)total)) : width;
    memset(bar, '.', sizeof bar);
    memset(bar, '#', (size_t)filled);
    fprintf(out, "[%.*s]", width, bar);
}

bool terminal_code(FILE *out, TerminalCode code) {
    static const char *const codes[] = {[TERMINAL_DIM] = "\033[2m",
                                        [TERMINAL_PLAIN] = "\033[0m",
                                        [TERMINAL_CLEAR_LINE] = "\r\033[K",
                                        [TERMINAL_CLEAR_BELOW] = "\r\033[J",
                                        [TERMINAL_PASTES_MARKED] = "\033[?2004h",
                                        [TERMINAL_PASTES_BARE] = "\033[?2004l"};
    return fputs(codes[code], out) >= 0 && fflush(out) == 0;
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

bool terminal_write(int fd, const char *text, size_t length) {
    if (!isatty(fd)) return descriptor_write(fd, text, length) == length;
    for (size_t at = 0, used; at < length; at += used) {
        char shown[1024];
        size_t n = shown_text(text + at, length - at, shown, sizeof shown, &used);
        if (descriptor_write(fd, shown, n) < n) return false;
    }
    return true;
}

bool terminal_put(FILE *out, const char *text, size_t length) {
    if (!isatty(fileno(out))) return fwrite(text, 1, length, out) == length;
    return fflush(out) == 0 && terminal_write(fileno(out), text, length);
}

bool terminal_print(FILE *out, const char *format, ...) {
    char *text;
    va_list arguments;
    va_start(arguments, format);
    int length = vasprintf(&text, format, arguments);
    va_end(arguments);
    if (length < 0) return false;
    bool done = terminal_put(out, text, (size_t)length);
    free(text);
    return done;
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
    if (length >= BYTES) text[BYTES - 1 - utf8_incomplete_tail(text, BYTES - 1)] = '\0';
    for (const char *c = text; *c; c++) {
        if (*c == '\n') line[n++] = '^';
        line[n++] = *c == '\n' ? 'J' : *c;
    }
    line[n++] = '\n';
    fflush(out);
    return terminal_write(fileno(out), line, n);
}
