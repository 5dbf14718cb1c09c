#include "chat/line_editor.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#if defined(HAVE_LIBEDIT)
#include <histedit.h>
#include <locale.h>

#include "base/output.h"
#include "chat/terminal_keys.h"
#endif

/* Of one message; what comes from a pipe may never end a line. */
enum { MOST_BYTES = 1 << 28 };

/* Lines of one paste follow each other faster than anybody types. */
enum { PASTE_MILLISECONDS = 20, HISTORY_LINES = 1000 };

struct LineEditor {
    const char *const *words;
    const volatile sig_atomic_t *interrupted;
    bool terminal;
    const char *prompt;
    char *line; /* of a pipe */
    size_t capacity;
#if defined(HAVE_LIBEDIT)
    EditLine *edit;
    TerminalKeys keys;
    bool cleared;      /* by Ctrl-C */
    int columns;       /* of the window, as libedit knows it */
    bool marks_pastes; /* the terminal was asked to */
    History *history;
    char history_path[4096]; /* empty: not kept */
#endif
};

#if defined(HAVE_LIBEDIT)

static char *current_prompt(EditLine *edit) {
    LineEditor *editor;
    el_get(edit, EL_CLIENTDATA, &editor);
    return (char *)editor->prompt;
}

/* Tab: what the words that begin like the line have in common; when that adds nothing and
 * there are several, they are listed. In a line that is no command, as pasted code is, a tab is a
 * tab. */
static unsigned char complete(EditLine *edit, int key) {
    LineEditor *editor;
    const LineInfo *info = el_line(edit);
    size_t typed = (size_t)(info->cursor - info->buffer), n = 0, common = 0;
    const char *first = NULL;
    (void)key;
    el_get(edit, EL_CLIENTDATA, &editor);
    if (typed == 0 || info->buffer[0] != '/')
        return el_insertstr(edit, "\t") == 0 ? CC_REFRESH : CC_ERROR;
    for (size_t i = 0; editor->words[i]; i++) {
        if (strncmp(editor->words[i], info->buffer, typed) != 0) continue;
        if (!first) first = editor->words[i], common = strlen(first);
        for (size_t k = 0; k < common; k++)
            if (editor->words[i][k] != first[k]) common = k;
        n++;
    }
    if (n == 0) return CC_ERROR;
    if (common > typed) {
        char *rest = strndup(first + typed, common - typed);
        int inserted = rest ? el_insertstr(edit, rest) : -1;
        if (n == 1) el_insertstr(edit, " ");
        free(rest);
        return inserted == 0 ? CC_REFRESH : CC_ERROR;
    }
    if (n == 1) return CC_NORM;
    putchar('\n');
    for (size_t i = 0; editor->words[i]; i++)
        if (strncmp(editor->words[i], info->buffer, typed) == 0) printf("%s  ", editor->words[i]);
    putchar('\n');
    fflush(stdout);
    return CC_REDISPLAY;
}

/* Ctrl-C is a key while a line is edited: a signal that comes between two reads is not heard. */
static unsigned char clear_line(EditLine *edit, int key) {
    LineEditor *editor;
    (void)key;
    el_get(edit, EL_CLIENTDATA, &editor);
    editor->cleared = true;
    return CC_EOF;
}

static int window_columns(void) {
    struct winsize size = {0};
    return ioctl(STDIN_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

/* Hands libedit the next key. Another size of the window is heard here, where it waits. */
static int next_key(EditLine *edit, wchar_t *key) {
    LineEditor *editor;
    el_get(edit, EL_CLIENTDATA, &editor);
    if (!editor->marks_pastes) {
        fputs(TERMINAL_KEYS_PASTE_ON, stdout);
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
        fputs("\r\033[J", stdout);
        el_set(edit, EL_REFRESH);
    }
}

/* For SIGWINCH: that it interrupts a read is all that it is for. */
static void on_resize(int signal_number) {
    (void)signal_number;
}

/* A history in a directory of another user (a state directory that all may write to, or one that
 * sudo kept), or through a link of another one, would go wherever that user likes. */
static bool is_own(char *path) {
    struct stat info;
    char *slash = strrchr(path, '/');
    *slash = '\0';
    bool is_own = stat(path, &info) == 0 && (info.st_uid == geteuid() || info.st_uid == 0);
    *slash = '/';
    return is_own && !output_is_planted(path);
}

/* $XDG_STATE_HOME/verbatim/history, its directories made where they are missing; empty: none is
 * kept. */
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

static bool open_libedit(LineEditor *editor) {
    HistEvent event;
    /* libedit takes its characters from the locale; text is UTF-8 here, whatever that is. */
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
    /* The wide form: the narrow one copies both texts and never frees them. */
    el_wset(editor->edit, EL_ADDFN, L"verbatim-complete", L"completes commands", complete);
    el_set(editor->edit, EL_BIND, "^I", "verbatim-complete", NULL);
    el_set(editor->edit, EL_BIND, "^R", "em-inc-search-prev", NULL);
    el_wset(editor->edit, EL_ADDFN, L"verbatim-clear", L"clears the line", clear_line);
    el_set(editor->edit, EL_BIND, "^C", "verbatim-clear", NULL);
    el_set(editor->edit, EL_SETTY, "-d", "-isig", NULL);
    el_source(editor->edit, NULL);
    return true;
}

static void remember(LineEditor *editor, const char *text) {
    HistEvent event;
    if (!editor->edit || !*text) return;
    history(editor->history, &event, H_ENTER, text);
    if (!editor->history_path[0]) return;
    mode_t old = umask(077);
    history(editor->history, &event, H_SAVE, editor->history_path);
    umask(old);
}

#endif

LineEditor *line_editor_new(const char *const *words, const volatile sig_atomic_t *interrupted) {
    LineEditor *editor = calloc(1, sizeof *editor);
    if (!editor) return NULL;
    editor->words = words;
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

/* As getline, but a line that does not end can be interrupted, and ends at MOST_BYTES. */
static ssize_t read_plain(LineEditor *editor) {
    size_t n = 0;
    for (int c = 0; c != '\n';) {
        if (n + 2 > editor->capacity) {
            size_t capacity = editor->capacity * 2 + 4096;
            char *line = realloc(editor->line, capacity);
            if (!line) return -1;
            editor->line = line;
            editor->capacity = capacity;
        }
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

/* One line with its newline taken off, valid until the next call. `first`: of a message; only
 * there what waits was typed ahead. Later it is the rest of a paste, which stays where
 * more_is_pasted looks for it. */
static LineResult read_line(LineEditor *editor, const char *prompt, bool first, const char **line,
                            size_t *length) {
#if defined(HAVE_LIBEDIT)
    if (editor->edit) {
        int n = 0;
        editor->prompt = prompt;
        if (first) terminal_keys_take_ahead(&editor->keys, STDIN_FILENO);
        el_set(editor->edit, EL_PREP_TERM, 1); /* before the prompt invites to type */
        editor->cleared = false;
        *line = el_gets(editor->edit, &n);
        if (editor->cleared || *editor->interrupted) {
            el_reset(editor->edit); /* drops what was typed */
            terminal_keys_drop(&editor->keys);
            return LINE_INTERRUPTED;
        }
        if (!*line || n <= 0) return LINE_END;
        *length = (size_t)n;
        if ((*line)[*length - 1] == '\n') (*length)--;
        return LINE_TEXT;
    }
#endif
    (void)first;
    if (editor->terminal) {
        fputs(prompt, stdout);
        fflush(stdout);
    }
    ssize_t n = read_plain(editor);
    if (*editor->interrupted) {
        clearerr(stdin);
        return LINE_INTERRUPTED;
    }
    if (n < 0) return feof(stdin) ? LINE_END : LINE_FAILED;
    *line = editor->line;
    *length = (size_t)n;
    if (*length > 0 && editor->line[*length - 1] == '\n') editor->line[--*length] = '\0';
    return LINE_TEXT;
}

static bool append(char **text, size_t *length, const char *more, size_t n) {
    char *longer = realloc(*text, *length + n + 2);
    if (!longer) return false;
    memcpy(longer + *length, more, n);
    *length += n;
    longer[*length] = '\0';
    *text = longer;
    return true;
}

/* A single key (a Ctrl-D pressed early) is no paste. */
static bool more_is_pasted(const LineEditor *editor) {
#if defined(HAVE_LIBEDIT)
    if (editor->edit) return terminal_keys_paste_goes_on(&editor->keys);
#endif
    struct pollfd wait = {STDIN_FILENO, POLLIN, 0};
    int waiting = 0;
    return editor->terminal && poll(&wait, 1, PASTE_MILLISECONDS) == 1 && (wait.revents & POLLIN) &&
           ioctl(STDIN_FILENO, FIONREAD, &waiting) == 0 && waiting > 1;
}

/* Whether the message goes on after this line; takes off what only says so. */
static bool goes_on(const LineEditor *editor, bool *quoted, char *text, size_t *length,
                    size_t line_start) {
    const char *line = text + line_start;
    if (strcmp(line, "\"\"\"") == 0) {
        *quoted = !*quoted;
        *length = line_start;
        if (!*quoted && *length > 0) (*length)--; /* the newline before the closing quotes */
        text[*length] = '\0';
        return *quoted;
    }
    if (*quoted) return true;
    if (*length > line_start && text[*length - 1] == '\\') {
        text[--*length] = '\0';
        return true;
    }
    return more_is_pasted(editor);
}

/* The message, line by line. */
static LineResult read_message(LineEditor *editor, const char *prompt, char **text,
                               size_t *text_length) {
    size_t length = 0, line_start = 0, line_length;
    const char *line;
    bool quoted = false, more;
    do {
        bool first = !line_start && !quoted;
        LineResult result = read_line(editor, first ? prompt : "... ", first, &line, &line_length);
        if (result == LINE_END && length > 0) break; /* the end of a pipe ends a message as well */
        if (result != LINE_TEXT) return result;
        if (length + line_length > MOST_BYTES) {
            errno = EMSGSIZE;
            return LINE_FAILED;
        }
        if (!append(text, &length, line, line_length)) return LINE_FAILED;
        size_t before = length;
        more = goes_on(editor, &quoted, *text, &length, line_start);
        bool opened = quoted && before != length && length == line_start;
        if (more && !opened && !append(text, &length, "\n", 1)) return LINE_FAILED;
        line_start = length;
    } while (more);
    *text_length = length;
    return LINE_TEXT;
}

LineResult line_editor_read(LineEditor *editor, const char *prompt, char **text, size_t *length) {
    *text = NULL;
#if defined(HAVE_LIBEDIT)
    struct sigaction before, resize = {.sa_handler = on_resize};
    if (editor->edit) {
        sigaction(SIGWINCH, &resize, &before);
        editor->columns = window_columns();
        el_resize(editor->edit); /* it may have changed while an answer was written */
    }
#endif
    LineResult result = read_message(editor, prompt, text, length);
#if defined(HAVE_LIBEDIT)
    if (editor->edit) {
        if (editor->marks_pastes) fputs(TERMINAL_KEYS_PASTE_OFF, stdout);
        fflush(stdout);
        editor->marks_pastes = false;
        sigaction(SIGWINCH, &before, NULL);
    }
    if (result == LINE_TEXT) remember(editor, *text);
    /* A Ctrl-C right behind Enter, when the terminal made no signal of it yet, means the answer. */
    if (result == LINE_TEXT && editor->edit) {
        terminal_keys_take_ahead(&editor->keys, STDIN_FILENO);
        if (terminal_keys_take_interrupt(&editor->keys)) raise(SIGINT);
    }
#endif
    if (result == LINE_TEXT) return result;
    free(*text);
    *text = NULL;
    return result;
}
