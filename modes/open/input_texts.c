#include "modes/open/input_texts.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "system/terminal.h"
#include "system/text_file.h"

/* The most bytes of a prompt or a chat template. */
static const size_t MOST_TEXT = (size_t)1 << 30;

/* ---- Before the rights are given up ---- */

/* Opens a file that is read later; NULL: there is none. Returns 0 or errno. */
static int try_open_text(InputText *input, const char *path) {
    if (!path) return 0;
    input->name = path;
    input->fd = open(path, O_RDONLY | O_CLOEXEC);
    return input->fd < 0 ? errno : 0;
}

static Status open_text(InputText *input, const char *path, Error *error) {
    int why = try_open_text(input, path);
    return why ? error_set(error, "%s: %s", path, strerror(why)) : STATUS_OK;
}

/* Other programs take the name of a template that they know ("chatml") here. */
static Status open_template(InputText *input, const Options *o, Error *error) {
    int why = try_open_text(input, o->chat_template);
    if (!why) return STATUS_OK;
    if (why != ENOENT) return error_set(error, "%s: %s", o->chat_template, strerror(why));
    return error_set(error,
                     "--chat-template %s: no such file: it takes a template of Jinja, and without "
                     "it the model's own is used",
                     o->chat_template);
}

/* Opens the text to continue or, for --eval, to score. */
static Status open_prompt(InputText *input, const Options *o, Error *error) {
    const char *eval = options_text(o, "eval"), *path = eval ? eval : o->prompt_file;
    /* These read all of stdin where no text is given. */
    static const char *const filter[] = {"tokenize", "detokenize", "render", "single-turn", NULL};
    bool filters = options_ask_any(o, filter) && !o->prompt;
    bool from_stdin = path        ? strcmp(path, "-") == 0
                      : o->prompt ? strcmp(o->prompt, "-") == 0
                                  : filters;
    input->name = from_stdin ? "stdin" : "the prompt";
    if (!from_stdin) return open_text(input, path, error);
    input->fd = STDIN_FILENO;
    if (isatty(STDIN_FILENO)) terminal_say("reading stdin; Ctrl-D ends it");
    return STATUS_OK;
}

/* -y @FILE; "@@TEXT" is the text "@TEXT". */
static bool names_system_file(const char *system) {
    return system && system[0] == '@' && system[1] && system[1] != '@';
}

Status input_texts_open(InputTexts *texts, const Options *o, Error *error) {
    Status status = open_prompt(&texts->prompt, o, error);
    if (status == STATUS_OK) status = open_template(&texts->chat_template, o, error);
    if (status == STATUS_OK && names_system_file(o->system))
        status = open_text(&texts->system, o->system + 1, error);
    return status;
}

/* ---- Afterwards ---- */

static Status read_text(InputText *input, const volatile sig_atomic_t *interrupted, Error *error) {
    if (input->fd < 0) return STATUS_OK;
    return text_file_read(input->fd, input->name, MOST_TEXT, interrupted, &input->text,
                          &input->length, error);
}

/* Drops the one line end after a message that a file or a pipe holds: `echo` and editors put it
 * there, and the same message typed at a terminal has none. llama.cpp does so with its -f and
 * -sysf, too. */
static void drop_line_end(InputText *input) {
    input->length = text_file_without_line_end(input->text, input->length);
    input->text[input->length] = '\0';
}

/* Makes what the file of -y @FILE holds, without the line end at its end, the system prompt; and
 * "@TEXT" of -y @@TEXT. */
static Status read_system(InputText *input, Options *o, const volatile sig_atomic_t *interrupted,
                          Error *error) {
    Status status = read_text(input, interrupted, error);
    if (o->system && strncmp(o->system, "@@", 2) == 0) o->system++;
    if (status != STATUS_OK || !input->text) return status;
    if (strlen(input->text) != input->length)
        return error_set(error, "%s is not UTF-8 text that can be a message: it has a NUL byte",
                         input->name);
    drop_line_end(input);
    o->system = input->text;
    return STATUS_OK;
}

/* -i beside -f: puts the prompt on a line before the text. */
static Status put_before(InputText *input, const char *prompt, Error *error) {
    size_t n = strlen(prompt);
    bool ends = n == 0 || strchr(" \t\n", prompt[n - 1]);
    char *joined = malloc(n + 1 + input->length + 1);
    if (!joined) return error_set(error, "no memory for the prompt");
    memcpy(joined, prompt, n);
    if (!ends) joined[n++] = '\n';
    memcpy(joined + n, input->text, input->length + 1);
    free(input->text);
    input->text = joined;
    input->length += n;
    return STATUS_OK;
}

/* Reads the prompt of -i, -f or both, which must be UTF-8. */
static Status read_prompt(InputText *input, const Options *o, bool continues, Session *session,
                          Error *error) {
    const char *given = o->prompt;
    bool both = input->fd >= 0 && given && o->prompt_file;
    Status status = STATUS_OK;
    if (input->fd < 0 || both)
        status =
            text_file_check("the prompt", given ? given : "", given ? strlen(given) : 0, error);
    if (status != STATUS_OK) return status;
    if (input->fd < 0) {
        input->text = strdup(given ? given : "");
        if (!input->text) return error_set(error, "no memory for the prompt");
        input->length = strlen(input->text);
    } else {
        status = read_text(input, session->interrupted, error);
        if (status == STATUS_OK && (o->mode == TEXT_CHAT || options_ask(o, "render")))
            drop_line_end(input);
        if (status == STATUS_OK && both) status = put_before(input, given, error);
        if (status != STATUS_OK) return status;
    }
    if (continues && input->fd >= 0 && input->length == 0)
        terminal_say("%s is empty: the text starts from nothing", input->name);
    session->prompt = input->text;
    session->prompt_length = input->length;
    return STATUS_OK;
}

Status input_texts_read(InputTexts *texts, Options *o, bool continues, Session *session,
                        Error *error) {
    Status status = read_prompt(&texts->prompt, o, continues, session, error);
    if (status == STATUS_OK) status = read_text(&texts->chat_template, session->interrupted, error);
    session->chat_template = texts->chat_template.text;
    return status == STATUS_OK ? read_system(&texts->system, o, session->interrupted, error)
                               : status;
}

/* Looks without waiting: a pipe may stay open and empty for ever. A file that somebody has begun to
 * read is that reader's, like the list of a shell's loop. */
void input_texts_hint_at_stdin(const InputTexts *texts, const Options *o) {
    struct stat info;
    struct pollfd ready = {.fd = STDIN_FILENO, .events = POLLIN};
    if (o->prompt_file || texts->prompt.fd == STDIN_FILENO) return;
    if (fstat(STDIN_FILENO, &info) != 0) return;
    bool file = S_ISREG(info.st_mode) && info.st_size > 0 && lseek(STDIN_FILENO, 0, SEEK_CUR) == 0;
    bool pipe = S_ISFIFO(info.st_mode) && poll(&ready, 1, 0) == 1 && ready.revents & POLLIN;
    if (file || pipe)
        terminal_say("text waits on stdin, which is not read: -f - %s",
                     o->prompt ? "puts it after the prompt of -i" : "takes it as the prompt");
}

static void close_text(InputText *input) {
    if (input->fd > STDIN_FILENO) close(input->fd);
    free(input->text);
}

void input_texts_close(InputTexts *texts) {
    close_text(&texts->prompt);
    close_text(&texts->chat_template);
    close_text(&texts->system);
}
