/* Reading messages of a person: edited with libedit at a terminal, else from a pipe. */
#ifndef LINE_EDITOR_H
#define LINE_EDITOR_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct LineEditor LineEditor;

typedef enum LineResult {
    LINE_TEXT,        /* a message */
    LINE_END,         /* Ctrl-D, or the pipe's end */
    LINE_INTERRUPTED, /* Ctrl-C: what was typed is dropped */
    LINE_FAILED       /* errno says why: EMSGSIZE for a message of more than 256 MiB */
} LineResult;

/* Creates a line editor. Tab completes `words` (NULL-terminated, borrowed) at the start of a line.
 * The history is kept in $XDG_STATE_HOME/verbatim/history, or ~/.local/state/verbatim/history,
 * where that can be written. *interrupted is set by the program's signal handlers (stop_signals.h).
 * Returns NULL when memory is short. */
LineEditor *line_editor_new(const char *const *words, const volatile sig_atomic_t *interrupted);
void line_editor_free(LineEditor *editor);

bool line_editor_is_terminal(const LineEditor *editor);

/* Finds the directory of the history; false: no history is kept. */
bool line_editor_directory(const LineEditor *editor, char *directory, size_t size);

/* Reads a message: one line, or several when a line ends in a backslash, when they stand between
 * two lines of three double quotes, or when they were pasted together. *text, freed by the caller,
 * has no final newline and is NUL-terminated; *length bytes, among which may be zeros. */
LineResult line_editor_read(LineEditor *editor, const char *prompt, char **text, size_t *length);

/* Asks a person a question; true for an answer that begins with y. False without a terminal. */
bool line_editor_confirm(LineEditor *editor, const char *question);

#endif
