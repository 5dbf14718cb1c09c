/* Text files that people write, or that a program gave them: the one reader of them.
 *
 * A text is UTF-8. A byte order mark, which some editors put at a file's beginning, is not part of
 * it. A carriage return is a character like any other in a text that is continued, measured or
 * rendered; where the lines of a file are meant (a list of texts, a chat), line_reader.h and
 * text_file_without_line_end take CR LF for a line's end. scripts/check-texts knows who reads bytes
 * instead: records of answers, keys, conversations that a power cut damaged. */
#ifndef TEXT_FILE_H
#define TEXT_FILE_H

#include <signal.h>

#include "base/status.h"

/* Reads all that `fd` still gives into *text (malloc'ed, with a NUL after its *length bytes) as
 * descriptor_read does. Fails with an Error that names `name` at more than `most` bytes and for
 * what is not UTF-8 (compressed files and UTF-16 by their names). STATUS_INTERRUPTED as soon as
 * *interrupted (which may be NULL) is set. *text is NULL unless STATUS_OK. */
Status text_file_read(int fd, const char *name, size_t most,
                      const volatile sig_atomic_t *interrupted, char **text, size_t *length,
                      Error *error);

/* As text_file_read, for JSON, which has no NUL byte: /dev/zero fails at once. */
Status text_file_read_json(int fd, const char *name, size_t most,
                           const volatile sig_atomic_t *interrupted, char **text, size_t *length,
                           Error *error);

/* A text's name inside a command that a message suggests: FILE for what comes from "stdin". */
const char *text_file_command_name(const char *name);

/* Fails for a text that is not UTF-8 and comes from no file, such as an option's value. */
Status text_file_check(const char *name, const char *text, size_t length, Error *error);

/* The length of text[length] without the one line end (LF or CR LF) at its end, where there is one:
 * that of the file or of the pipe, which whoever wrote the text did not mean. */
size_t text_file_without_line_end(const char *text, size_t length);

#endif
