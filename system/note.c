#include "system/note.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/utf8.h"
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
    if (colours) terminal_code(stderr, TERMINAL_DIM);
    terminal_put(stderr, lines.bytes, lines.length);
    if (colours) terminal_code(stderr, TERMINAL_PLAIN);
    terminal_put(stderr, "\n", 1);
    word_wrap_free(&wrap);
    text_free(&lines);
    free(text);
}

void note_message(const char *before, const char *message, const char *after) {
    enum { MOST = 200 };
    size_t length = strlen(message);
    if (length <= MOST)
        note("%s%s%s", before, message, after);
    else
        note("%s%.*s...%s", before, (int)utf8_boundary(message, length, MOST), message, after);
}
