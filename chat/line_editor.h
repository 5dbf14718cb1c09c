/* One message from a person: edited with libedit on a terminal, else a line of a pipe. */
#ifndef LINE_EDITOR_H
#define LINE_EDITOR_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct LineEditor LineEditor;

typedef enum LineResult {
    LINE_TEXT,        /* a message */
    LINE_END,         /* Ctrl-D, or the pipe's end */
    LINE_INTERRUPTED, /* Ctrl-C: the line is cleared */
    LINE_FAILED       /* errno says why: EMSGSIZE for a message of more than 256 MiB */
} LineResult;

/* `words`: NULL-terminated, completed by Tab at the start of a line; borrowed. History is kept in
 * the user's state directory ($XDG_STATE_HOME/verbatim/history) where that can be written.
 * `interrupted` is set by the program's handler of Ctrl-C and of what else ends it. NULL when out
 * of memory. */
LineEditor *line_editor_new(const char *const *words, const volatile sig_atomic_t *interrupted);
void line_editor_free(LineEditor *editor);

bool line_editor_is_terminal(const LineEditor *editor);

/* The directory that keeps the history; false: none is kept. */
bool line_editor_directory(const LineEditor *editor, char *directory, size_t size);

/* Reads a message: a line; more lines after a trailing backslash, between lines of three double
 * quotes, or when they were pasted together. *text is freed by the caller, without the last
 * newline, and ends with a NUL; *length tells of others in it. */
LineResult line_editor_read(LineEditor *editor, const char *prompt, char **text, size_t *length);

#endif
