/* Untrusted text as a terminal may show it: what would steer the terminal becomes visible. */
#ifndef SHOWN_TEXT_H
#define SHOWN_TEXT_H

#include <stddef.h>
#include <stdio.h>

enum { SHOWN_MOST = 8 }; /* bytes that one character becomes at most */

/* Makes text[length] (UTF-8) safe for a terminal: control characters other than newline and tab
 * become caret notation ("^[" for Escape), characters that change the writing direction "<U+202E>",
 * bytes that are not UTF-8 become U+FFFD. Fills shown[size] (size >= SHOWN_MOST) with as many whole
 * characters as fit and returns their bytes; *used receives the bytes of `text` that were
 * converted. A handler of signals may call it. */
size_t shown_text(const char *text, size_t length, char *shown, size_t size, size_t *used);

/* Writes text[length] as a terminal may show it where `out` is one; else the bytes as they are. */
void shown_text_write(FILE *out, const char *text, size_t length);

#endif
