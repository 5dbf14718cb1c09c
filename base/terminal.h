/* What is written for a person to read: colours only where they belong, and no control
 * sequence of a stranger's. */
#ifndef TERMINAL_H
#define TERMINAL_H

#include <stdbool.h>
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/status.h"

/* A terminal that understands colours and where NO_COLOR does not forbid them. */
bool terminal_has_colours(int fd);

/* Writes "[###.......]", a bar of `width` places (at most 60), as full as done is of total. */
void terminal_bar(FILE *out, int width, uint64_t done, uint64_t total);

/* text[length] (UTF-8) as a terminal can be given it: control characters but newline and tab
 * (escape sequences, C1 controls) in caret notation, what is no UTF-8 as U+FFFD. Fills
 * shown[size] (size >= 8) as far as it goes with whole characters, and returns how many bytes;
 * *used: how many of the text's they stand for. */
size_t terminal_show(const char *text, size_t length, char *shown, size_t size, size_t *used);

/* Writes text[length] (UTF-8); when `fd` is a terminal, as terminal_show has it, else as it
 * is. False when the reader has gone. */
bool terminal_write(int fd, const char *text, size_t length);

/* Formatted text through terminal_write: errors, lists and remarks with names of files and pieces
 * of them in it, which nobody need trust. */
void terminal_print(FILE *out, const char *format, ...) PRINTF_LIKE(2, 3);

/* The same as one line whatever the names hold, with a newline behind it: their own newlines, too,
 * are in caret notation. False with errno when it cannot be written. */
bool terminal_line(FILE *out, const char *format, ...) PRINTF_LIKE(2, 3);
#define terminal_say(format, ...)                                                                  \
    terminal_line(stderr, "%s: " format, program_invocation_short_name, ##__VA_ARGS__)

#endif
