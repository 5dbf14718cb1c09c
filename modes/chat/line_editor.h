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
    LINE_LEFT_EMPTY, /* Ctrl-C at a terminal, where nothing was typed: perhaps somebody wants out */
    LINE_FAILED      /* errno says why: EMSGSIZE for a message of more than 256 MiB */
} LineResult;

/* How Tab completes a line that begins with a slash: returns how many of the last bytes of
 * line[length] begin what can stand there, and sets *words (freed by the caller; NULL: nothing can)
 * to what all of that has in common, then, each after a newline, the whole words. */
typedef size_t LineCompletion(void *context, const char *line, size_t length, char **words);

/* Creates a line editor. Tab calls `complete` with `context`. The history is kept in
 * $XDG_STATE_HOME/verbatim/history, or ~/.local/state/verbatim/history, where that can be written.
 * *interrupted is set by the program's signal handlers (stop_signals.h). Returns NULL when memory
 * is short. */
LineEditor *line_editor_new(LineCompletion *complete, void *context,
                            const volatile sig_atomic_t *interrupted);
void line_editor_free(LineEditor *editor);

bool line_editor_is_terminal(const LineEditor *editor);

/* Between two messages: whether the terminal echoes what is typed ahead. It need not where the next
 * prompt shows that (system/quiet_terminal.h), so that answers stay whole. */
void line_editor_echo(const LineEditor *editor, bool echoes);

/* Finds the directory of the history; false: no history is kept. */
bool line_editor_directory(const LineEditor *editor, char *directory, size_t size);

/* Reads a message: one line, or several when a line ends in a backslash, when they stand between
 * two lines of three double quotes, or when they were pasted together. *text, freed by the caller,
 * has no final newline and is NUL-terminated; *length bytes, among which may be zeros. */
LineResult line_editor_read(LineEditor *editor, const char *prompt, char **text, size_t *length);

/* Asks a person a question; true for an answer that begins with y. False without a terminal. */
bool line_editor_confirm(LineEditor *editor, const char *question);

#endif
