/* Mapped files that lose their end while they are read.
 *
 * A file that somebody truncates, or whose disk fails, under a mapping gives no error of a
 * call: touching a page that is no longer there raises SIGBUS. The program then says which file
 * it was and ends with status 1, as it does for every other error; what was written so far
 * stays as a kill would leave it. Replacing a file by renaming another over it is harmless: the
 * mapping keeps the old one.
 *
 * The handler does what signal-safety(7) allows and nothing else, from whatever thread. */
#ifndef MAPPED_H
#define MAPPED_H

#include <stddef.h>

/* Called once by a program's main, before any file is mapped. */
void mapped_watch(void);

/* The handler knows bytes[length] as `path`'s until they are forgotten, which must be before they
 * are unmapped; the path is borrowed until then. More files than it has room for are fine: the
 * message then names none. */
void mapped_remember(const void *bytes, size_t length, const char *path);
void mapped_forget(const void *bytes);

#endif
