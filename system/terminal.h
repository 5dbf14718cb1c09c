/* Text for a person at a terminal, without the control sequences of untrusted text. Everything that
 * a program writes to stdout and stderr goes through a function of this header or through an Output
 * (output.h); scripts/check-texts knows the exceptions. */
#ifndef TERMINAL_H
#define TERMINAL_H

#include <stdbool.h>
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/status.h"

/* Writes a progress bar "[###.......]" of `width` characters (at most 60), done / total of them
 * filled. */
void terminal_bar(FILE *out, int width, uint64_t done, uint64_t total);

/* What the program itself tells a terminal to do. */
typedef enum TerminalCode {
    TERMINAL_DIM, /* text from here on, where terminal_has_colours */
    TERMINAL_PLAIN,
    TERMINAL_CLEAR_LINE,    /* the cursor's, for a progress line */
    TERMINAL_CLEAR_BELOW,   /* the cursor's line and all below it */
    TERMINAL_PASTES_MARKED, /* the beginning and the end of pasted text (bracketed paste) */
    TERMINAL_PASTES_BARE
} TerminalCode;

/* Sends a code to a terminal. Returns false with errno when it cannot be written. */
bool terminal_code(FILE *out, TerminalCode code);

/* Whether `fd` is a terminal with colours that NO_COLOR (no-color.org) does not forbid. */
bool terminal_has_colours(int fd);

/* Writes text[length] (UTF-8), through shown_text when `fd` is a terminal. Returns false with
 * errno when it cannot be written. */
bool terminal_write(int fd, const char *text, size_t length);

/* Writes text[length], or formatted text of any length, to a stream: through terminal_write when it
 * is a terminal. Returns false with errno when it cannot be written. */
bool terminal_put(FILE *out, const char *text, size_t length);
bool terminal_print(FILE *out, const char *format, ...) PRINTF_LIKE(2, 3);

/* The columns of the terminal `fd`; 0 where it is not a terminal, or one too narrow for lines to
 * end between words. */
size_t terminal_columns(int fd);

/* Writes formatted text and a newline through terminal_write: errors and remarks, which may quote
 * the names and contents of untrusted files. The text stays one line: newlines in it become caret
 * notation as well. Returns false with errno when it cannot be written. */
bool terminal_line(FILE *out, const char *format, ...) PRINTF_LIKE(2, 3);
/* terminal_line on stderr, after the program's name. */
#define terminal_say(format, ...)                                                                  \
    terminal_line(stderr, "%s: " format, program_invocation_short_name, ##__VA_ARGS__)

#endif
