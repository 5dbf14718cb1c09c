#include "modes/chat/line_editor.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include "base/array.h"
#include "base/utf8.h"
#include "system/terminal.h"
#include "system/text_file.h"

#if defined(HAVE_LIBEDIT)
#include <histedit.h>
#include <locale.h>

#include "modes/chat/terminal_keys.h"
#include "system/own_file.h"
#include "system/quiet_terminal.h"
#endif

enum {
    MOST_BYTES = 1 << 28,    /* of one message: a pipe may never end a line */
    PASTE_MILLISECONDS = 20, /* lines of one paste follow each other faster than anybody types */
    HISTORY_LINES = 1000
};

struct LineEditor {
    LineCompletion *complete;
    void *context;
    const volatile sig_atomic_t *interrupted;
    bool terminal, asks; /* asks: what is typed answers a question, and is not remembered */
    const char *prompt;
    char *line;    /* the line read last without libedit */
    bool has_read; /* such a line */
    size_t capacity;
#if defined(HAVE_LIBEDIT)
    EditLine *edit;
    TerminalKeys keys;
    bool cleared;      /* Ctrl-C cleared the line */
    bool was_empty;    /* nothing stood in it then */
    int columns;       /* of the window, as libedit knows it */
    bool marks_pastes; /* TERMINAL_PASTES_MARKED was sent */
    History *history;
    char history_path[4096]; /* empty: no history is kept */
#endif
};

#if defined(HAVE_LIBEDIT)

static char *current_prompt(EditLine *edit) {
    LineEditor *editor;
    el_get(edit, EL_CLIENTDATA, &editor);
    return (char *)editor->prompt;
}

/* Inserts what the words have in common beyond the `typed` bytes, and a space after a whole word;
 * when there is nothing to insert, lists the words. */
static unsigned char insert_common(EditLine *edit, char *words, size_t typed) {
    size_t common = strcspn(words, "\n");
    bool single = words[common] && !strchr(words + common + 1, '\n');
    bool whole = single && common > 0 && words[common - 1] != '/';
    char *list = words + common + 1;
    if (common > typed) {
        words[common] = '\0';
        if (el_insertstr(edit, words + typed) != 0) return CC_ERROR;
        if (whole) el_insertstr(edit, " ");
        return CC_REFRESH;
    }
    if (single) return CC_NORM;
    terminal_print(stdout, "\n");
    for (char *name = strtok_r(list, "\n", &words); name; name = strtok_r(NULL, "\n", &words))
        terminal_print(stdout, "%s  ", name);
    terminal_print(stdout, "\n");
    fflush(stdout);
    return CC_REDISPLAY;
}

/* What Tab does. In a line that is not a command, such as pasted code, it inserts a tab. */
static unsigned char editor_complete(EditLine *edit, int key) {
    LineEditor *editor;
    const LineInfo *info = el_line(edit);
    size_t length = (size_t)(info->cursor - info->buffer);
    (void)key;
    el_get(edit, EL_CLIENTDATA, &editor);
    if (length == 0 || info->buffer[0] != '/')
        return el_insertstr(edit, "\t") == 0 ? CC_REFRESH : CC_ERROR;
    char *words = NULL;
    size_t typed = editor->complete(editor->context, info->buffer, length, &words);
    unsigned char result = words && *words ? insert_common(edit, words, typed) : CC_ERROR;
    free(words);
    return result;
}

/* What Ctrl-C does while a line is edited. It is a key then: as a signal it could come between two
 * reads and go unnoticed. */
static unsigned char clear_line(EditLine *edit, int key) {
    LineEditor *editor;
    (void)key;
    el_get(edit, EL_CLIENTDATA, &editor);
    const LineInfo *line = el_line(edit);
    editor->cleared = true;
    editor->was_empty = line->lastchar == line->buffer;
    return CC_EOF;
}

/* What Ctrl-Z does while a line is edited: stops the program as the terminal would, with the
 * terminal as it was before. */
static unsigned char suspend(EditLine *edit, int key) {
    LineEditor *editor;
    (void)key;
    el_get(edit, EL_CLIENTDATA, &editor);
    if (editor->marks_pastes) terminal_code(stdout, TERMINAL_PASTES_BARE);
    terminal_print(stdout, "\n");
    fflush(stdout);
    editor->marks_pastes = false;
    el_set(edit, EL_PREP_TERM, 0);
    raise(SIGTSTP);
    el_set(edit, EL_PREP_TERM, 1); /* the shell has let it go on */
    return CC_REDISPLAY;
}

static int window_columns(void) {
    struct winsize size = {0};
    return ioctl(STDIN_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

/* Hands libedit the next key. While it waits it also notices a change of the window's size. */
static int next_key(EditLine *edit, wchar_t *key) {
    LineEditor *editor;
    el_get(edit, EL_CLIENTDATA, &editor);
    if (!editor->marks_pastes) {
        terminal_code(stdout, TERMINAL_PASTES_MARKED);
        fflush(stdout);
        editor->marks_pastes = true;
    }
    while (true) {
        TerminalKeysResult result = terminal_keys_next(&editor->keys, STDIN_FILENO, key);
        if (result != TERMINAL_KEYS_SIGNAL || *editor->interrupted)
            return result > 0 ? 1 : (int)result;
        int columns = window_columns();
        if (columns == editor->columns) continue;
        editor->columns = columns;
        el_resize(edit);
        terminal_code(stdout, TERMINAL_CLEAR_BELOW);
        el_set(edit, EL_REFRESH);
    }
}

/* The handler of SIGWINCH, needed only so that the signal interrupts a read. */
static void on_resize(int signal_number) {
    (void)signal_number;
}

/* Whether the history's directory and file belong to the user or to root. Another user's directory
 * (one that all can write to, or one that sudo kept) or link could send the history anywhere. */
static bool is_own(char *path) {
    struct stat info;
    char *slash = strrchr(path, '/');
    *slash = '\0';
    bool is_own = stat(path, &info) == 0 && (info.st_uid == geteuid() || info.st_uid == 0);
    *slash = '/';
    return is_own && !own_file_is_planted(path);
}

/* Finds the history's file and creates its directories where they are missing. An empty path means
 * that no history is kept. */
static void find_history(char *path, size_t size) {
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    int n;
    if (state && *state == '/') {
        n = snprintf(path, size, "%s/verbatim/history", state);
    } else if (home && *home == '/') {
        n = snprintf(path, size, "%s/.local/state/verbatim/history", home);
    } else {
        n = 0;
    }
    if (n <= 0 || (size_t)n >= size) {
        path[0] = '\0';
        return;
    }
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(path, 0700);
        *slash = '/';
    }
    if (!is_own(path)) path[0] = '\0';
}

/* The keys that terminal_keys.h names, whatever the terminal calls them. */
static const char *const bindings[][2] = {
    {"^[[A", "ed-prev-history"},
    {"^[[B", "ed-next-history"},
    {"^[[C", "ed-next-char"},
    {"^[[D", "ed-prev-char"},
    {"^[[H", "ed-move-to-beg"},
    {"^[[F", "ed-move-to-end"},
    {"^[[3~", "ed-delete-next-char"},
    {"^[d", "em-delete-next-word"},
    {"^[b", "ed-prev-word"},
    {"^[f", "em-next-word"},
    {"^[[5~", "ed-search-prev-history"},
    {"^[[6~", "ed-search-next-history"},
};

/* Sets up libedit with the saved history, our key bindings and command completion. The user's
 * .editrc is read last, so that it overrides them. */
static bool open_libedit(LineEditor *editor) {
    HistEvent event;
    /* libedit uses the locale's encoding; ours is always UTF-8. */
    if (!setlocale(LC_CTYPE, "C.UTF-8")) setlocale(LC_CTYPE, "");
    editor->edit = el_init("verbatim", stdin, stdout, stderr);
    editor->history = history_init();
    if (!editor->edit || !editor->history) return false;
    history(editor->history, &event, H_SETSIZE, HISTORY_LINES);
    history(editor->history, &event, H_SETUNIQUE, 1);
    find_history(editor->history_path, sizeof editor->history_path);
    if (editor->history_path[0]) history(editor->history, &event, H_LOAD, editor->history_path);
    el_set(editor->edit, EL_CLIENTDATA, editor);
    el_set(editor->edit, EL_PROMPT, current_prompt);
    el_set(editor->edit, EL_GETCFN, next_key);
    el_set(editor->edit, EL_EDITOR, "emacs");
    el_set(editor->edit, EL_SIGNAL, 0);
    el_set(editor->edit, EL_HIST, history, editor->history);
    /* el_wset, because el_set copies both texts and never frees them. */
    el_wset(editor->edit, EL_ADDFN, L"verbatim-complete", L"completes commands", editor_complete);
    el_set(editor->edit, EL_BIND, "^I", "verbatim-complete", NULL);
    el_set(editor->edit, EL_BIND, "^R", "em-inc-search-prev", NULL);
    el_wset(editor->edit, EL_ADDFN, L"verbatim-clear", L"clears the line", clear_line);
    el_set(editor->edit, EL_BIND, "^C", "verbatim-clear", NULL);
    el_wset(editor->edit, EL_ADDFN, L"verbatim-suspend", L"stops the program", suspend);
    el_set(editor->edit, EL_BIND, "^Z", "verbatim-suspend", NULL);
    for (size_t i = 0; i < sizeof bindings / sizeof *bindings; i++)
        el_set(editor->edit, EL_BIND, bindings[i][0], bindings[i][1], NULL);
    el_set(editor->edit, EL_SETTY, "-d", "-isig", NULL);
    el_source(editor->edit, NULL);
    return true;
}

static void add_to_history(LineEditor *editor, const char *text) {
    HistEvent event;
    if (!*text) return;
    history(editor->history, &event, H_ENTER, text);
    if (!editor->history_path[0]) return;
    mode_t old = umask(077);
    history(editor->history, &event, H_SAVE, editor->history_path);
    umask(old);
}

#endif

LineEditor *line_editor_new(LineCompletion *completion, void *context,
                            const volatile sig_atomic_t *interrupted) {
    LineEditor *editor = calloc(1, sizeof *editor);
    if (!editor) return NULL;
    editor->complete = completion;
    editor->context = context;
    editor->interrupted = interrupted;
    editor->terminal = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
#if defined(HAVE_LIBEDIT)
    const char *term = getenv("TERM");
    bool dumb = !term || !*term || strcmp(term, "dumb") == 0;
    if (editor->terminal && !dumb && !open_libedit(editor)) {
        line_editor_free(editor);
        return NULL;
    }
#endif
    return editor;
}

void line_editor_free(LineEditor *editor) {
    if (!editor) return;
#if defined(HAVE_LIBEDIT)
    if (editor->history) history_end(editor->history);
    if (editor->edit) el_end(editor->edit);
    terminal_keys_free(&editor->keys);
#endif
    free(editor->line);
    free(editor);
}

bool line_editor_is_terminal(const LineEditor *editor) {
    return editor->terminal;
}

void line_editor_echo(const LineEditor *editor, bool echoes) {
#if defined(HAVE_LIBEDIT)
    if (editor->edit) (echoes ? quiet_terminal_end : quiet_terminal_begin)();
#else
    (void)editor, (void)echoes;
#endif
}

bool line_editor_directory(const LineEditor *editor, char *directory, size_t size) {
#if defined(HAVE_LIBEDIT)
    const char *slash = strrchr(editor->history_path, '/');
    if (!editor->edit || !slash) return false;
    int n = snprintf(directory, size, "%.*s", (int)(slash - editor->history_path),
                     editor->history_path);
    return n > 0 && (size_t)n < size && access(directory, W_OK) == 0;
#else
    (void)editor, (void)directory, (void)size;
    return false;
#endif
}

/* ---- One line ---------------------------------------------------------------------------- */

/* Reads a line of stdin into editor->line, with its newline; -1 at the end of stdin, after an
 * error, when interrupted, or (with EMSGSIZE) at more than MOST_BYTES. */
static ssize_t read_plain(LineEditor *editor) {
    size_t n = 0;
    for (int c = 0; c != '\n';) {
        if (!array_reserve(&editor->line, &editor->capacity, n + 2, 1)) return -1;
        c = getc_unlocked(stdin);
        if (c == EOF && (n == 0 || ferror(stdin))) return -1;
        if (c == EOF) break;
        editor->line[n++] = (char)c;
        if (n > MOST_BYTES) {
            errno = EMSGSIZE;
            return -1;
        }
        if (n % 65536 == 0 && *editor->interrupted) return -1;
    }
    editor->line[n] = '\0';
    return (ssize_t)n;
}

#if defined(HAVE_LIBEDIT)

/* `first`: the first line of a message. Only there does input that waits count as typed ahead;
 * later it is the rest of a paste, which stays where more_is_pasted looks for it. */
static LineResult edit_line(LineEditor *editor, const char *prompt, bool first, const char **line,
                            size_t *length) {
    int n = 0;
    editor->prompt = prompt;
    if (first) terminal_keys_take_ahead(&editor->keys, STDIN_FILENO);
    el_set(editor->edit, EL_PREP_TERM, 1); /* before the prompt invites to type */
    editor->cleared = false;
    *line = el_gets(editor->edit, &n);
    if (editor->cleared || *editor->interrupted) {
        el_reset(editor->edit); /* drops what was typed */
        terminal_keys_drop(&editor->keys);
        return editor->cleared && editor->was_empty ? LINE_LEFT_EMPTY : LINE_INTERRUPTED;
    }
    if (!*line || n <= 0) return LINE_END;
    *length = (size_t)n;
    return LINE_TEXT;
}

#endif

/* Reads a line, without its line end (LF, or CR LF as a file of Windows has it through a pipe) and
 * without a byte order mark at the beginning; *line is valid until the next call. */
static LineResult read_line(LineEditor *editor, const char *prompt, bool first, const char **line,
                            size_t *length) {
#if defined(HAVE_LIBEDIT)
    if (editor->edit) {
        LineResult result = edit_line(editor, prompt, first, line, length);
        if (result == LINE_TEXT && (*line)[*length - 1] == '\n') (*length)--;
        return result;
    }
#endif
    (void)first;
    if (editor->terminal) {
        terminal_print(stdout, "%s", prompt);
        fflush(stdout);
    }
    ssize_t n = read_plain(editor);
    if (*editor->interrupted) {
        clearerr(stdin);
        return LINE_INTERRUPTED;
    }
    if (n < 0) return feof(stdin) ? LINE_END : LINE_FAILED;
    size_t mark = editor->has_read ? 0 : utf8_mark_length(editor->line, (size_t)n);
    editor->has_read = true;
    *line = editor->line + mark;
    *length = text_file_without_line_end(*line, (size_t)n - mark);
    return LINE_TEXT;
}

/* ---- One message ------------------------------------------------------------------------- */

typedef struct Message {
    char *text; /* NUL-terminated */
    size_t length, capacity;
    bool quoted; /* between three double quotes and the next ones */
} Message;

static bool editor_put(Message *message, const char *bytes, size_t n) {
    if (!array_reserve(&message->text, &message->capacity, message->length + n + 1, 1))
        return false;
    memcpy(message->text + message->length, bytes, n);
    message->length += n;
    message->text[message->length] = '\0';
    return true;
}

/* Whether more lines of the same paste wait. A single byte (a Ctrl-D pressed early) is not a paste.
 */
static bool more_is_pasted(const LineEditor *editor) {
#if defined(HAVE_LIBEDIT)
    if (editor->edit) return terminal_keys_paste_goes_on(&editor->keys);
#endif
    struct pollfd wait = {STDIN_FILENO, POLLIN, 0};
    int waiting = 0;
    return editor->terminal && poll(&wait, 1, PASTE_MILLISECONDS) == 1 && (wait.revents & POLLIN) &&
           ioctl(STDIN_FILENO, FIONREAD, &waiting) == 0 && waiting > 1;
}

/* Strips triple quotes that begin a message before its first words, and those that end it after
 * its last ones: people who come from ollama type them so. A line that also opens what it ends, as
 * a docstring does, ends nothing. Returns whether the quotes ended. */
static bool strip_quotes(Message *message, const char **line, size_t *n) {
    static const char quotes[] = "\"\"\"";
    if (!message->quoted && message->length == 0 && *n > 3 && memcmp(*line, quotes, 3) == 0) {
        message->quoted = true;
        *line += 3, *n -= 3;
    }
    if (!message->quoted || *n < 3 || memcmp(*line + *n - 3, quotes, 3) != 0) return false;
    size_t n_quotes = 0;
    for (size_t i = 0; i + 3 <= *n;) {
        bool here = memcmp(*line + i, quotes, 3) == 0;
        n_quotes += here;
        i += here ? 3 : 1;
    }
    if (n_quotes % 2 == 0) return false;
    message->quoted = false;
    *n -= 3;
    return true;
}

/* Adds a line to the message, without the quotes or the backslash that only say that the message
 * goes on. *more: the next line belongs to it as well. False: no memory. */
static bool editor_add_line(const LineEditor *editor, Message *message, const char *line, size_t n,
                            bool *more) {
    if (n == 3 && memcmp(line, "\"\"\"", 3) == 0) {
        *more = message->quoted = !message->quoted;
        /* The newline before the closing quotes is not part of the message. */
        if (!message->quoted && message->length > 0) message->text[--message->length] = '\0';
        return true;
    }
    bool pasted = more_is_pasted(editor);
    /* Lines that are typed may begin and end with three quotes, as in ollama. */
    bool closed = editor->terminal && !pasted && strip_quotes(message, &line, &n);
    bool continued = !message->quoted && !closed && n > 0 && line[n - 1] == '\\';
    *more = message->quoted || continued || pasted;
    if (continued) n--; /* its backslash */
    return editor_put(message, line, n) && (!*more || editor_put(message, "\n", 1));
}

static LineResult read_message(LineEditor *editor, const char *prompt, Message *message) {
    if (!editor_put(message, "", 0)) return LINE_FAILED;
    for (bool more = true; more;) {
        bool first = message->length == 0 && !message->quoted;
        const char *line = NULL;
        size_t n = 0;
        LineResult result = read_line(editor, first ? prompt : "... ", first, &line, &n);
        if (result == LINE_END && message->length > 0) break; /* a pipe's end ends the message */
        if (result == LINE_LEFT_EMPTY && !first) return LINE_INTERRUPTED;
        if (result != LINE_TEXT) return result;
        if (message->length + n > MOST_BYTES) {
            errno = EMSGSIZE;
            return LINE_FAILED;
        }
        if (!editor_add_line(editor, message, line, n, &more)) return LINE_FAILED;
    }
    return LINE_TEXT;
}

#if defined(HAVE_LIBEDIT)

/* Reads a message with the terminal set up for editing, and sets it back. */
static LineResult edit_message(LineEditor *editor, const char *prompt, Message *message) {
    struct sigaction before, resize = {.sa_handler = on_resize};
    sigaction(SIGWINCH, &resize, &before);
    editor->columns = window_columns();
    el_resize(editor->edit); /* the size may have changed while an answer was written */
    LineResult result = read_message(editor, prompt, message);
    if (editor->marks_pastes) terminal_code(stdout, TERMINAL_PASTES_BARE);
    fflush(stdout);
    editor->marks_pastes = false;
    sigaction(SIGWINCH, &before, NULL);
    if (result != LINE_TEXT) return result;
    if (!editor->asks) add_to_history(editor, message->text);
    /* A Ctrl-C typed right after Enter may have arrived as a character, before the terminal turned
     * it into a signal again. It is meant to stop the answer, so raise the signal. */
    terminal_keys_take_ahead(&editor->keys, STDIN_FILENO);
    if (terminal_keys_take_interrupt(&editor->keys)) raise(SIGINT);
    return result;
}

#endif

LineResult line_editor_read(LineEditor *editor, const char *prompt, char **text, size_t *length) {
    Message message = {0};
#if defined(HAVE_LIBEDIT)
    LineResult result = editor->edit ? edit_message(editor, prompt, &message)
                                     : read_message(editor, prompt, &message);
#else
    LineResult result = read_message(editor, prompt, &message);
#endif
    *text = message.text;
    *length = message.length;
    if (result == LINE_TEXT) return result;
    free(*text);
    *text = NULL;
    return result;
}

bool line_editor_confirm(LineEditor *editor, const char *question) {
    char *answer = NULL;
    size_t length;
    if (!editor->terminal) return false;
    editor->asks = true;
    bool yes = line_editor_read(editor, question, &answer, &length) == LINE_TEXT &&
               (answer[0] == 'y' || answer[0] == 'Y');
    editor->asks = false;
    free(answer);
    return yes;
}
