#include "chat/note.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "system/terminal.h"
#include "system/word_wrap.h"

void note(const char *format, ...) {
    char *text;
    va_list arguments;
    va_start(arguments, format);
    int length = vasprintf(&text, format, arguments);
    va_end(arguments);
    if (length < 0) return;
    bool colours = terminal_has_colours(STDERR_FILENO);
    size_t columns = terminal_columns(STDERR_FILENO);
    WordWrap wrap = {0};
    TextBuffer lines = {0};
    word_wrap_put(&wrap, text, (size_t)length, columns, &lines);
    word_wrap_flush(&wrap, columns, &lines);
    fprintf(stderr, "%s", colours ? TERMINAL_DIM : "");
    terminal_write(STDERR_FILENO, lines.bytes, lines.length);
    fprintf(stderr, "%s\n", colours ? TERMINAL_PLAIN : "");
    word_wrap_free(&wrap);
    text_free(&lines);
    free(text);
}

void note_message(const char *before, const char *message, const char *after) {
    size_t most = 200, length = strlen(message);
    if (length <= most) {
        note("%s%s%s", before, message, after);
        return;
    }
    while (((unsigned char)message[most] & 0xC0) == 0x80) most--;
    note("%s%.*s...%s", before, (int)most, message, after);
}
