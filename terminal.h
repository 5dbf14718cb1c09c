/* What is written for a person to read: colours only where they belong, and no control
 * sequence of a stranger's. */
#ifndef TERMINAL_H
#define TERMINAL_H

#include <stdbool.h>
#include <stddef.h>

/* A terminal that understands colours and where NO_COLOR does not forbid them. */
bool terminal_has_colours(int fd);

/* Writes text[length] (UTF-8); when `fd` is a terminal, control characters but newline and tab
 * (escape sequences, C1 controls) are shown in caret notation instead of obeyed. False when
 * the reader has gone. */
bool terminal_write(int fd, const char *text, size_t length);

#endif
