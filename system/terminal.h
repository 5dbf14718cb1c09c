/* Text for a person at a terminal, without the control sequences of untrusted text. */
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

/* What turns dim text on, and off again, where terminal_has_colours. */
#define TERMINAL_DIM "\033[2m"
#define TERMINAL_PLAIN "\033[0m"

/* Whether `fd` is a terminal with colours that NO_COLOR (no-color.org) does not forbid. */
bool terminal_has_colours(int fd);

/* Makes text[length] (UTF-8) safe for a terminal: control characters other than newline and tab
 * become caret notation ("^[" for Escape), those of writing directions "<U+202E>", bytes that are
 * not UTF-8 become U+FFFD. Fills shown[size] (size >= 8) with as many whole characters as fit and
 * returns their bytes; *used receives the bytes of `text` that were converted. */
size_t terminal_show(const char *text, size_t length, char *shown, size_t size, size_t *used);

/* Writes text[length] (UTF-8), through terminal_show when `fd` is a terminal. Returns false with
 * errno when it cannot be written. */
bool terminal_write(int fd, const char *text, size_t length);

/* The columns of the terminal `fd`; 0 where it is no terminal, or one too narrow for lines to end
 * between words. */
size_t terminal_columns(int fd);

/* Writes formatted text and a newline through terminal_write: errors and remarks, which may quote
 * the names and contents of untrusted files. The text stays one line: newlines in it become caret
 * notation as well. Returns false with errno when it cannot be written. */
bool terminal_line(FILE *out, const char *format, ...) PRINTF_LIKE(2, 3);
/* terminal_line on stderr, after the program's name. */
#define terminal_say(format, ...)                                                                  \
    terminal_line(stderr, "%s: " format, program_invocation_short_name, ##__VA_ARGS__)

#endif
