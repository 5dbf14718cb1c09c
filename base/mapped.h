/* A handler of SIGBUS for mapped files that are truncated, or whose disk fails, while they are
 * read.
 *
 * No call returns an error then: touching a page that is no longer there raises SIGBUS. The handler
 * says which file it was and ends the program with status 1, as after every other error; files that
 * are being written stay as a kill would leave them. Renaming another file over a mapped one is
 * harmless: the mapping keeps the old file.
 *
 * The handler runs in any thread and does only what signal-safety(7) allows. */
#ifndef MAPPED_H
#define MAPPED_H

#include <stddef.h>

/* Installs the handler of SIGBUS. Called once by a program's main, before any file is mapped. */
void mapped_watch(void);

/* Tells the handler that bytes[length] is a mapping of the file `path`, which is borrowed until
 * mapped_forget. A mapping must be forgotten before it is unmapped. Beyond 256 mappings the message
 * does not name the file. */
void mapped_remember(const void *bytes, size_t length, const char *path);
void mapped_forget(const void *bytes);

#endif
