#include "terminal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool terminal_has_colours(int fd) {
    const char *term = getenv("TERM"), *no_colour = getenv("NO_COLOR");
    return isatty(fd) && term && *term && strcmp(term, "dumb") != 0 && !(no_colour && *no_colour);
}

static bool write_all(int fd, const char *text, size_t length) {
    while (length > 0) {
        ssize_t n = write(fd, text, length);
        if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
        if (n <= 0) return false;
        text += n;
        length -= (size_t)n;
    }
    return true;
}

/* Bytes of the control character that begins here; 0 when none does. C1 controls are two
 * bytes long in UTF-8: 0xC2 0x80 to 0xC2 0x9F. */
static size_t control_bytes(const char *text, size_t length) {
    unsigned char c = (unsigned char)text[0];
    if ((c < 0x20 && c != '\n' && c != '\t') || c == 0x7F) return 1;
    if (c == 0xC2 && length > 1 && (unsigned char)text[1] < 0xA0) return 2;
    return 0;
}

bool terminal_write(int fd, const char *text, size_t length) {
    if (!isatty(fd)) return write_all(fd, text, length);
    size_t start = 0;
    for (size_t i = 0; i < length;) {
        size_t n = control_bytes(text + i, length - i);
        if (n == 0) {
            i++;
            continue;
        }
        char shown[8];
        unsigned char c = (unsigned char)text[i + n - 1];
        snprintf(shown, sizeof shown, n == 1 ? "^%c" : "^[%c", c == 0x7F ? '?' : (c & 0x1F) + 64);
        if (!write_all(fd, text + start, i - start) || !write_all(fd, shown, strlen(shown)))
            return false;
        i += n;
        start = i;
    }
    return write_all(fd, text + start, length - start);
}
