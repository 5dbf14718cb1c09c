#include "chat/chat.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "chat/command_paths.h"
#include "chat/courier.h"
#include "chat/dialogue.h"
#include "chat/line_editor.h"
#include "chat/word_wrap.h"
#include "system/descriptor.h"
#include "system/terminal.h"

/* Messages are C strings: a zero byte would cut one. */
#define ZERO_BYTE "a message cannot hold a zero byte"

static const char dim[] = "\033[2m", plain[] = "\033[0m";

struct Chat {
    Session *session;
    Dialogue dialogue;
    LineEditor *editor;
    Courier courier;
    volatile sig_atomic_t *interrupted;
    bool colours;  /* on stdout */
    bool leaves;   /* after /quit */
    bool closed;   /* stdout is unusable */
    int lost;      /* the errno of why it is; 0 for EPIPE */
    bool thinking; /* the answer is between <think> and </think> */
    bool hides_reasoning;
    TextBuffer waiting; /* the end of what has come, which may begin a mark */
    bool in_header;     /* of a channel (gpt-oss), whose text is not shown */
    char header[64];    /* [header_length] of it, as far as it fits */
    size_t header_length;
    bool at_line_start;
    WordWrap wrap;      /* of the answer */
    TextBuffer wrapped; /* scratch */
    AnswerStats last;
    size_t n_failed;  /* messages and commands from a pipe */
    char *returned;   /* the message that did not fit, for /edit; NULL: none */
    SessionFile file; /* until the conversation takes it over */
    Error file_note;
    char state_directory[4096];
};

/* Whether `fd` is a terminal with colours that NO_COLOR (no-color.org) does not forbid. */
static bool has_colours(int fd) {
    const char *term = getenv("TERM"), *no_colour = getenv("NO_COLOR");
    return isatty(fd) && term && *term && strcmp(term, "dumb") != 0 && !(no_colour && *no_colour);
}

/* Writes a remark to stderr, dim where the terminal can. */
PRINTF_LIKE(1, 2) static void note(const char *format, ...) {
    char *text;
    va_list arguments;
    va_start(arguments, format);
    int length = vasprintf(&text, format, arguments);
    va_end(arguments);
    if (length < 0) return;
    bool colours = has_colours(STDERR_FILENO);
    fprintf(stderr, "%s", colours ? dim : "");
    terminal_write(STDERR_FILENO, text, (size_t)length);
    fprintf(stderr, "%s\n", colours ? plain : "");
    free(text);
}

/* Writes a remark that quotes a message, or the first 200 bytes of a longer one, cut at a whole
 * character. */
static void note_message(const char *before, const char *message, const char *after) {
    size_t most = 200, length = strlen(message);
    if (length <= most) {
        note("%s%s%s", before, message, after);
        return;
    }
    while (((unsigned char)message[most] & 0xC0) == 0x80) most--;
    note("%s%.*s...%s", before, (int)most, message, after);
}

/* ---- Showing an answer --------------------------------------------------------------------- */

static void close_screen(Chat *chat) {
    chat->closed = true;
    if (errno != EPIPE) chat->lost = errno;
}

/* Where lines end on stdout; 0: nowhere, because it is no terminal, or too narrow. */
static size_t margin(void) {
    struct winsize size = {0};
    bool known = isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0;
    return known && size.ws_col >= 20 ? size.ws_col : 0;
}

static void put_wrapped(Chat *chat) {
    size_t n = chat->wrapped.length;
    chat->wrapped.length = 0;
    if (n == 0 || chat->closed) return;
    if (!terminal_write(STDOUT_FILENO, chat->wrapped.bytes, n)) close_screen(chat);
}

static void put(Chat *chat, const char *text, size_t length) {
    if (length == 0 || chat->closed) return;
    word_wrap_put(&chat->wrap, text, length, margin(), &chat->wrapped);
    put_wrapped(chat);
    chat->at_line_start = text[length - 1] == '\n';
}

/* Writes the word that waits for its end. */
static void put_rest(Chat *chat) {
    word_wrap_flush(&chat->wrap, margin(), &chat->wrapped);
    put_wrapped(chat);
}

static void set_thinking(Chat *chat, bool thinking) {
    put_rest(chat);
    chat->thinking = thinking;
    if (!chat->colours || chat->closed) return;
    const char *code = thinking ? dim : plain;
    if (descriptor_write(STDOUT_FILENO, code, strlen(code)) < strlen(code)) close_screen(chat);
}

/* Writes a piece of reasoning, unless it is hidden. */
static void put_thought(Chat *chat, const char *text, size_t length) {
    if (!chat->hides_reasoning) put(chat, text, length);
}

static void put_part(Chat *chat, const char *text, size_t length) {
    (chat->thinking ? put_thought : put)(chat, text, length);
}

/* The first mark of channels in text[length]; *n is its length. NULL: there is none. */
static const char *channel_mark(const char *text, size_t length, size_t *n) {
    static const char *const marks[] = {"<|start|>", "<|channel|>", "<|end|>"};
    const char *first = NULL;
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        const char *at = memmem(text, length, marks[i], strlen(marks[i]));
        if (!at || (first && at > first)) continue;
        first = at;
        *n = strlen(marks[i]);
    }
    return first;
}

/* Takes what belongs to the header of a channel; returns how much. */
static size_t take_header(Chat *chat, const char *text, size_t length) {
    static const char mark[] = "<|message|>";
    const char *end = memmem(text, length, mark, strlen(mark));
    size_t n = end ? (size_t)(end - text) : length, room = sizeof chat->header - 1;
    if (n < room - chat->header_length) room = chat->header_length + n;
    memcpy(chat->header + chat->header_length, text, room - chat->header_length);
    chat->header_length = room;
    chat->header[room] = '\0';
    if (!end) return length;
    chat->in_header = false;
    set_thinking(chat, strstr(chat->header, "analysis") != NULL);
    return n + strlen(mark);
}

/* Writes a piece of an answer of channels, of which "analysis" is reasoning. A mark is one token,
 * so it never arrives in two pieces. */
static void show_channels(Chat *chat, const char *text, size_t length) {
    while (length > 0) {
        size_t n = 0, used;
        const char *mark = chat->in_header ? NULL : channel_mark(text, length, &n);
        if (chat->in_header) {
            used = take_header(chat, text, length);
        } else {
            size_t before = mark ? (size_t)(mark - text) : length;
            put_part(chat, text, before);
            used = before + n;
        }
        if (mark) {
            if (chat->thinking && !chat->at_line_start) put_thought(chat, "\n", 1);
            set_thinking(chat, false);
            chat->in_header = true;
            chat->header_length = 0;
        }
        text += used;
        length -= used;
    }
}

/* The mark that changes from reasoning to answer or back, and its length without what follows the
 * token; 0: there is none. */
static size_t next_mark(const Chat *chat, const char **mark) {
    const AnswerFormat *format = &chat->dialogue.prompt.answers;
    *mark = chat->thinking ? format->think_close : format->think_open;
    if (!*mark) return 0;
    if (!chat->thinking && strstr(*mark, ">thought")) return strcspn(*mark, "t");
    return strcspn(*mark, "\n");
}

/* Writes a piece of an answer, its reasoning dim. What may begin a mark waits for the next piece.
 */
static void show_text(void *context, const char *text, size_t length) {
    Chat *chat = context;
    if (chat->dialogue.prompt.answers.has_channels) {
        show_channels(chat, text, length);
        return;
    }
    text_put(&chat->waiting, text, length, 0);
    if (chat->waiting.failed) return;
    const char *at = chat->waiting.bytes, *mark, *found;
    size_t left = chat->waiting.length, n;
    while ((n = next_mark(chat, &mark)) > 0 && (found = memmem(at, left, mark, n))) {
        size_t before = (size_t)(found - at);
        put_part(chat, at, before);
        if (!chat->thinking) set_thinking(chat, true);
        put_thought(chat, mark, n);
        if (mark == chat->dialogue.prompt.answers.think_close) set_thinking(chat, false);
        at = found + n;
        left -= before + n;
    }
    size_t held = n > 0 && left >= n ? n - 1 : n > 0 ? left : 0;
    while (held > 0 && memcmp(at + left - held, mark, held) != 0) held--;
    put_part(chat, at, left - held);
    memmove(chat->waiting.bytes, at + left - held, held);
    chat->waiting.length = held;
}

static void show_start(void *context, bool reasoning) {
    if (reasoning) set_thinking(context, true);
}

static void show_left_out(void *context, size_t messages) {
    (void)context;
    if (messages == 1)
        note("(the context is full: the oldest message is left out)");
    else
        note("(the context is full: the oldest %zu messages are left out)", messages);
}

/* Tells a person that an answer did not end by itself. */
static void note_cut(const Chat *chat) {
    size_t most = chat->dialogue.options.max_tokens;
    if (chat->last.finish != FINISH_LENGTH || !isatty(STDERR_FILENO)) return;
    if (most > 0 && chat->last.n_generated >= most)
        note("(cut after %zu tokens, as -n says: /set tokens N changes it)", most);
    else
        note("(cut: the context of %u tokens is full)", model_context(chat->session->model));
}

/* Answers the last message and shows the answer. An interrupted answer is kept. */
static Status answer(Chat *chat, Error *error) {
    const AnswerWatcher watcher = {show_start, show_text, show_left_out, chat};
    chat->at_line_start = true;
    word_wrap_free(&chat->wrap);
    chat->wrap = (WordWrap){0};
    chat->in_header = false;
    Status status = dialogue_answer(&chat->dialogue, &watcher, &chat->last, error);
    put_part(chat, chat->waiting.bytes, chat->waiting.length);
    chat->waiting.length = 0;
    if (chat->thinking) set_thinking(chat, false);
    put_rest(chat);
    if (!chat->at_line_start) put(chat, "\n", 1);
    if (*chat->interrupted && status == STATUS_OK && line_editor_is_terminal(chat->editor))
        note("(interrupted)");
    if (status == STATUS_OK) note_cut(chat);
    return status;
}

/* Takes back a message that does not fit and keeps its text for /edit. */
static Status give_back(Chat *chat, Error *error) {
    Error reason = *error;
    if (dialogue_undo(&chat->dialogue, 1, &chat->returned, error) != STATUS_OK)
        return STATUS_FAILED;
    if (!line_editor_is_terminal(chat->editor))
        return error_set(error, "%s; the conversation goes on without it", reason.text);
    uint32_t most = model_config(chat->session->model)->context;
    char larger[64] = "";
    if (most > model_context(chat->session->model))
        snprintf(larger, sizeof larger, ", -c %u makes the context larger", most);
    return error_set(error, "%s (it is taken back: /edit opens it to be shortened%s)", reason.text,
                     larger);
}

/* Adds a message of the user and answers it. */
static Status say(Chat *chat, const char *text, Error *error) {
    if (dialogue_say(&chat->dialogue, text, strlen(text), error) != STATUS_OK) return STATUS_FAILED;
    free(chat->returned);
    chat->returned = NULL;
    Status status = answer(chat, error);
    if (status != STATUS_FAILED) return status;
    if (chat->last.too_long) return give_back(chat, error);
    Error reason = *error;
    return error_set(error, "%s (the message is kept: /retry answers it, /undo takes it back)",
                     reason.text);
}

/* The number of messages, without the system prompt. */
static size_t count_messages(const Chat *chat) {
    return conversation_length(&chat->dialogue.conversation) -
           (dialogue_system(&chat->dialogue) ? 1 : 0);
}

/* The ending of a word for n things. */
static const char *plural(size_t n) {
    return n == 1 ? "" : "s";
}

/* ---- Commands ------------------------------------------------------------------------------ */

typedef struct Command {
    const char *name, *argument, *help;
    Status (*run)(Chat *chat, char *argument, Error *error);
} Command;

static Status command_help(Chat *chat, char *argument, Error *error);

static Status command_system(Chat *chat, char *argument, Error *error) {
    const char *now = dialogue_system(&chat->dialogue);
    if (!*argument) {
        note("%s", now ? now : "(no system prompt)");
        return STATUS_OK;
    }
    bool remove = strcmp(argument, "none") == 0;
    return dialogue_set_system(&chat->dialogue, remove ? NULL : argument, error);
}

/* Whether a command may drop the messages of the session's file: a person is asked, a pipe must say
 * `yes` beforehand. *may is false after a refusal that needs no error. */
static Status may_drop_session(Chat *chat, const char *command, const char *yes, bool *may,
                               Error *error) {
    const char *path = chat->dialogue.conversation.path;
    size_t n = count_messages(chat);
    *may = !path || n == 0;
    if (*may) return STATUS_OK;
    if (!line_editor_is_terminal(chat->editor))
        return error_set(error, "%s would erase %zu message%s of %s; %s does it", command, n,
                         plural(n), path, yes);
    note("this erases %zu message%s of %s", n, plural(n), path);
    *may = line_editor_confirm(chat->editor, "erase them? [y/N] ");
    if (!*may) note("(nothing was erased)");
    return STATUS_OK;
}

static Status command_reset(Chat *chat, char *argument, Error *error) {
    bool may = strcmp(argument, "yes") == 0;
    if (*argument && !may) return error_set(error, "/reset takes no argument but yes");
    if (!may && may_drop_session(chat, "/reset", "/reset yes", &may, error) != STATUS_OK)
        return STATUS_FAILED;
    if (!may) return STATUS_OK;
    if (dialogue_reset(&chat->dialogue, error) != STATUS_OK) return STATUS_FAILED;
    note("(a new conversation)");
    return STATUS_OK;
}

static Status command_undo(Chat *chat, char *argument, Error *error) {
    char *text;
    size_t n = 1, most = dialogue_exchanges(&chat->dialogue);
    if (*argument) {
        if (argument[strspn(argument, "0123456789")] != '\0' || strlen(argument) > 9)
            return error_set(error, "/undo takes a number of exchanges, as in /undo 2");
        n = strtoul(argument, NULL, 10);
        if (n == 0 || n > most)
            return error_set(error, "/undo %s: there %s %zu", argument, most == 1 ? "is" : "are",
                             most);
    }
    if (dialogue_undo(&chat->dialogue, n, &text, error) != STATUS_OK) return STATUS_FAILED;
    if (!text)
        note("(nothing to take back)");
    else if (n == 1)
        note_message("(taken back: ", text, ")");
    else
        note_message("(taken back, and what followed: ", text, ")");
    free(text);
    return STATUS_OK;
}

static Status command_retry(Chat *chat, char *argument, Error *error) {
    const Conversation *c = &chat->dialogue.conversation;
    size_t n = conversation_length(c);
    bool retracted, answered = n > 0 && strcmp(conversation_role(c, n - 1), "assistant") == 0;
    (void)argument;
    if (dialogue_retract(&chat->dialogue, &retracted, error) != STATUS_OK) return STATUS_FAILED;
    if (retracted && answered && chat->dialogue.options.sampling.temperature == 0)
        note("(at temperature 0 the same message gets the same answer: /set temperature 0.7)");
    if (retracted) return answer(chat, error);
    note("(there is no message to answer)");
    return STATUS_OK;
}

/* Cuts the blanks behind a name off, of which Tab adds one. */
static void cut_blanks(char *argument) {
    size_t n = strlen(argument);
    while (n > 0 && isspace((unsigned char)argument[n - 1])) argument[--n] = '\0';
}

static Status command_save(Chat *chat, char *argument, Error *error) {
    char *text;
    size_t length;
    if (!*argument) return error_set(error, "/save needs a file's name");
    if (conversation_text(&chat->dialogue.conversation, &text, &length, error) != STATUS_OK)
        return STATUS_FAILED;
    cut_blanks(argument);
    char *path = command_path(argument);
    Status status = path ? courier_write(&chat->courier, path, text, length, error)
                         : error_set(error, "no memory for a path");
    free(path);
    free(text);
    if (status != STATUS_OK) return status;
    size_t n = conversation_length(&chat->dialogue.conversation);
    note("(saved %zu message%s to %s)", n, plural(n), argument);
    return STATUS_OK;
}

static Status command_load(Chat *chat, char *argument, Error *error) {
    char *text;
    size_t length;
    bool may;
    if (!*argument) return error_set(error, "/load needs a file's name");
    if (may_drop_session(chat, "/load", "/reset yes before it", &may, error) != STATUS_OK)
        return STATUS_FAILED;
    if (!may) return STATUS_OK;
    cut_blanks(argument);
    char *path = command_path(argument);
    Status status = path ? courier_read(&chat->courier, path, &text, &length, error)
                         : error_set(error, "no memory for a path");
    if (status == STATUS_OK) {
        status = dialogue_adopt(&chat->dialogue, path, text, length, error);
        free(text);
    }
    free(path);
    if (status != STATUS_OK) return status;
    size_t n = conversation_length(&chat->dialogue.conversation);
    note("(loaded %zu message%s from %s)", n, plural(n), argument);
    return STATUS_OK;
}

/* An option that /set changes. */
typedef struct Setting {
    const char *name;
    bool whole;    /* the field is a uint32_t; otherwise a float */
    size_t offset; /* of the field in GenerationOptions */
    double low, high;
} Setting;

#define SAMPLING(field) offsetof(GenerationOptions, sampling.field)
static const Setting settings[] = {
    {"temperature", false, SAMPLING(temperature), 0, 1e3},
    {"top-p", false, SAMPLING(top_p), 0, 1},
    {"min-p", false, SAMPLING(min_p), 0, 1},
    {"repetition-penalty", false, SAMPLING(repetition_penalty), 1e-3, 1e3},
    {"presence-penalty", false, SAMPLING(presence_penalty), -1e3, 1e3},
    {"frequency-penalty", false, SAMPLING(frequency_penalty), -1e3, 1e3},
    {"top-k", true, SAMPLING(top_k), 0, 1e9},
};
static const size_t n_settings = sizeof settings / sizeof *settings;

static const char *const reasoning_words[] = {
    [REASONING_AUTO] = "auto", [REASONING_ON] = "on", [REASONING_OFF] = "off"};

static void show_settings(const Chat *chat) {
    const Dialogue *d = &chat->dialogue;
    const GenerationOptions *o = &d->options;
    for (size_t i = 0; i < n_settings; i++) {
        const char *at = (const char *)o + settings[i].offset;
        double value = settings[i].whole ? *(const uint32_t *)at : (double)*(const float *)at;
        note("%-20s %g", settings[i].name, value);
    }
    note("%-20s %zu", "tokens", o->max_tokens);
    note("%-20s %llu", "seed", (unsigned long long)o->sampling.seed);
    note("%-20s %s", "reasoning", reasoning_words[d->prompt.reasoning]);
    note("%-20s %s", "reasoning-effort", d->prompt.effort ? d->prompt.effort : "none");
    note("%-20s %lld", "reasoning-budget", (long long)d->budget);
    note("%-20s %s", "hide-reasoning", chat->hides_reasoning ? "on" : "off");
}

/* Changes one of the settings of reasoning; *known is false for others. */
static Status change_reasoning(Chat *chat, const char *name, const char *value, bool *known,
                               Error *error) {
    bool on = strcmp(value, "on") == 0, off = strcmp(value, "off") == 0;
    *known = true;
    if (strcmp(name, "reasoning") == 0) {
        if (!on && !off && strcmp(value, "auto") != 0)
            return error_set(error, "reasoning must be auto, on or off");
        dialogue_set_reasoning(&chat->dialogue, on    ? REASONING_ON
                                                : off ? REASONING_OFF
                                                      : REASONING_AUTO);
        return STATUS_OK;
    }
    if (strcmp(name, "hide-reasoning") == 0) {
        if (!on && !off) return error_set(error, "hide-reasoning must be on or off");
        chat->hides_reasoning = on;
        return STATUS_OK;
    }
    if (strcmp(name, "reasoning-effort") == 0) {
        if (!*value)
            return error_set(error, "reasoning-effort needs a word; none: no effort is said");
        bool none = strcmp(value, "none") == 0;
        return dialogue_set_effort(&chat->dialogue, none ? NULL : value, error);
    }
    *known = strcmp(name, "reasoning-budget") == 0;
    if (!*known) return STATUS_OK;
    if (!*value || value[strspn(value, "0123456789")] != '\0' || strlen(value) > 9) {
        if (!off && strcmp(value, "-1") != 0)
            return error_set(error, "reasoning-budget must be a number of tokens, or off");
        chat->dialogue.budget = REASONING_UNLIMITED;
        return STATUS_OK;
    }
    chat->dialogue.budget = strtoll(value, NULL, 10);
    return STATUS_OK;
}

/* False unless the whole text is a number. */
static bool parse_number(const char *text, double *value) {
    char *end;
    *value = strtod(text, &end);
    return end != text && *end == '\0';
}

static Status change_setting(GenerationOptions *o, const char *name, const char *value,
                             Error *error) {
    double number;
    if (!parse_number(value, &number))
        return error_set(error, "/set %s needs a number, as in /set temperature 0.7", name);
    if (strcmp(name, "seed") == 0) {
        if (value[strspn(value, "0123456789")] != '\0' || !(number < 1.8e19))
            return error_set(error, "seed must be a whole number");
        o->sampling.seed = strtoull(value, NULL, 10);
        return STATUS_OK;
    }
    if (strcmp(name, "tokens") == 0) {
        if (!(number >= 0 && number <= 1e9))
            return error_set(error, "tokens must be from 0 (no limit) to 1e9");
        o->max_tokens = (size_t)number;
        return STATUS_OK;
    }
    for (size_t i = 0; i < n_settings; i++) {
        if (strcmp(name, settings[i].name) != 0) continue;
        if (!(number >= settings[i].low && number <= settings[i].high))
            return error_set(error, "%s must be from %g to %g", name, settings[i].low,
                             settings[i].high);
        char *at = (char *)o + settings[i].offset;
        if (settings[i].whole) {
            *(uint32_t *)at = (uint32_t)number;
        } else {
            *(float *)at = (float)number;
        }
        return STATUS_OK;
    }
    return error_set(error, "no setting '%s': /set alone lists them", name);
}

static Status command_set(Chat *chat, char *argument, Error *error) {
    if (!*argument) {
        show_settings(chat);
        return STATUS_OK;
    }
    char *value = argument + strcspn(argument, " =");
    if (*value) *value++ = '\0';
    value += strspn(value, " =");
    for (char *c = argument; *c; c++)
        if (*c == '_') *c = '-';
    bool known;
    Status status = change_reasoning(chat, argument, value, &known, error);
    return known ? status : change_setting(&chat->dialogue.options, argument, value, error);
}

static Status command_stats(Chat *chat, char *argument, Error *error) {
    const AnswerStats *s = &chat->last;
    (void)argument, (void)error;
    size_t computed = s->n_prompt - s->n_cached;
    note("prompt:  %zu tokens, %zu of them cached; %zu in %.3f s, %.1f tokens/s", s->n_prompt,
         s->n_cached, computed, s->prefill_seconds,
         s->prefill_seconds > 0 ? (double)computed / s->prefill_seconds : 0.0);
    note("answer:  %zu tokens in %.3f s, %.1f tokens/s", s->n_generated, s->decode_seconds,
         s->decode_seconds > 0 ? (double)s->n_generated / s->decode_seconds : 0.0);
    note("sandbox: %s", sandbox_text(&chat->session->sandbox));
    return STATUS_OK;
}

static Status command_info(Chat *chat, char *argument, Error *error) {
    const Config *c = model_config(chat->session->model);
    (void)argument, (void)error;
    note("model:   %s (%s), %s", c->name[0] ? c->name : "no name", c->family,
         modelfile_path(chat->session->file));
    note("shape:   %u layers, width %u, %u heads, %u key/value heads, vocabulary %u", c->n_layers,
         c->dim, c->n_heads, c->n_kv_heads, c->vocab_size);
    note("machine: %s, %d threads", model_isa(chat->session->model)->name,
         model_threads(chat->session->model));
    if (chat->dialogue.conversation.path) note("session: %s", chat->dialogue.conversation.path);
    return STATUS_OK;
}

static Status command_tokens(Chat *chat, char *argument, Error *error) {
    TokenList ids = {0};
    (void)argument;
    Status status = dialogue_tokens(&chat->dialogue, &ids, error);
    uint32_t context = model_context(chat->session->model);
    if (status == STATUS_OK)
        note("%zu of %u tokens, %zu message%s%s", ids.length, context, count_messages(chat),
             plural(count_messages(chat)),
             ids.length >= context ? ": the last one does not fit" : "");
    token_list_free(&ids);
    return status;
}

static Status command_quit(Chat *chat, char *argument, Error *error) {
    (void)argument, (void)error;
    chat->leaves = true;
    return STATUS_OK;
}

/* Opens the user's editor on `argument`, or on the message that did not fit, and says what comes
 * back. */
static Status command_edit(Chat *chat, char *argument, Error *error) {
    char *text;
    size_t length;
    const char *draft = !*argument && chat->returned ? chat->returned : argument;
    if (courier_edit(&chat->courier, draft, &text, &length, error) != STATUS_OK)
        return STATUS_FAILED;
    while (length > 0 && text[length - 1] == '\n') text[--length] = '\0';
    note("%s", length > 0 ? text : "(nothing was written in the editor: no message)");
    Status status = length > 0 ? say(chat, text, error) : STATUS_OK;
    free(text);
    return status;
}

static const Command commands[] = {
    {"/help", "", "this list", command_help},
    {"/system", "[TEXT|none]", "show or change the system prompt", command_system},
    {"/reset", "[yes]", "forget the conversation (yes: without a question)", command_reset},
    {"/undo", "[N]", "take back the last exchange, or N of them", command_undo},
    {"/retry", "", "another answer to the last message", command_retry},
    {"/edit", "[TEXT]", "write the message in $EDITOR", command_edit},
    {"/save", "FILE", "write the conversation to a file", command_save},
    {"/load", "FILE", "go on with a conversation from a file", command_load},
    {"/set", "[NAME VALUE]", "show or change an option, as in /set temperature 0.7", command_set},
    {"/stats", "", "speed of the last answer", command_stats},
    {"/info", "", "the model and the machine", command_info},
    {"/tokens", "", "how much of the context is used", command_tokens},
    {"/quit", "", "leave, as Ctrl-D, exit and /bye do", command_quit},
};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

static Status command_help(Chat *chat, char *argument, Error *error) {
    (void)chat, (void)argument, (void)error;
    for (size_t i = 0; i < N_COMMANDS; i++)
        note("%-8s %-13s %s", commands[i].name, commands[i].argument, commands[i].help);
    note("A line that ends in \\ goes on; \"\"\" begins and ends a text of several lines;");
    note("pasted lines stay together. Ctrl-C stops an answer, Ctrl-D leaves.");
    return STATUS_OK;
}

/* Names that people know from elsewhere. */
static const struct Alias {
    const char *name, *command;
} aliases[] = {{"/exit", "/quit"}, {"/bye", "/quit"}, {"/clear", "/reset"}, {"/?", "/help"}};

static const Command *find_command(const char *name, size_t length) {
    for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
        if (strlen(aliases[i].name) == length && memcmp(aliases[i].name, name, length) == 0)
            return find_command(aliases[i].command, strlen(aliases[i].command));
    for (size_t i = 0; i < N_COMMANDS; i++)
        if (strlen(commands[i].name) == length && memcmp(commands[i].name, name, length) == 0)
            return &commands[i];
    return NULL;
}

static Status run_command(Chat *chat, char *line, Error *error) {
    char *argument = line + strcspn(line, " \t\n");
    size_t length = (size_t)(argument - line);
    argument += strspn(argument, " \t\n");
    const Command *command = find_command(line, length);
    if (command && *argument && !*command->argument)
        return error_set(error, "%s takes no argument", command->name);
    if (command) return command->run(chat, argument, error);
    return error_set(error, "no command %.*s: /help lists them", (int)length, line);
}

/* ---- The loop ------------------------------------------------------------------------------ */

/* Whether the text begins with a slash and a word. A pasted path ("/usr/bin/env ...") is a message.
 */
static bool is_command(const char *text) {
    if (strcmp(text, "/?") == 0) return true;
    if (text[0] != '/' || !isalpha((unsigned char)text[1])) return false;
    size_t n = 2;
    while (isalnum((unsigned char)text[n]) || text[n] == '-' || text[n] == '_') n++;
    return text[n] == '\0' || isspace((unsigned char)text[n]);
}

/* What people type who look for the way out. */
static bool asks_to_leave(const char *text) {
    return strcmp(text, "exit") == 0 || strcmp(text, "quit") == 0;
}

/* Runs a command or answers a message. *first: no message was answered yet; over pipes an empty
 * line separates answers. */
static Status handle(Chat *chat, char *text, size_t length, bool *first, Error *error) {
    if (strlen(text) != length) return error_set(error, "%s", ZERO_BYTE);
    if (is_command(text)) return run_command(chat, text, error);
    if (text[strspn(text, " \t\n")] == '\0') return STATUS_OK;
    if (line_editor_is_terminal(chat->editor) && asks_to_leave(text)) {
        chat->leaves = true;
        return STATUS_OK;
    }
    if (!*first && !line_editor_is_terminal(chat->editor)) put(chat, "\n", 1);
    *first = false;
    return say(chat, text, error);
}

/* Reads and handles messages until the user leaves. What fails is shown, and the chat goes on. */
static Status talk(Chat *chat, Error *error) {
    bool first = true;
    while (!chat->leaves && !chat->closed) {
        char *text;
        size_t length = 0;
        Error trouble = {""};
        if (*chat->interrupted == SIGINT) *chat->interrupted = 0;
        if (*chat->interrupted) return STATUS_INTERRUPTED;
        LineResult result = line_editor_read(chat->editor, "> ", &text, &length);
        if (result == LINE_FAILED)
            return error_set(error, "a message cannot be read: %s", strerror(errno));
        if (result == LINE_INTERRUPTED) {
            if (!line_editor_is_terminal(chat->editor)) return STATUS_INTERRUPTED;
            put(chat, "\n", 1);
            continue;
        }
        if (result == LINE_END) {
            if (line_editor_is_terminal(chat->editor))
                put(chat, "\n", 1); /* the shell's prompt begins a line */
            break;
        }
        if (handle(chat, text, length, &first, &trouble) == STATUS_FAILED) {
            note("%s", trouble.text);
            if (!line_editor_is_terminal(chat->editor)) chat->n_failed++;
        }
        free(text);
        if (*chat->interrupted && !line_editor_is_terminal(chat->editor)) return STATUS_INTERRUPTED;
    }
    return STATUS_OK;
}

/* Answers a message that a kill left without its answer. */
static Status finish_last_turn(Chat *chat, Error *error) {
    const Conversation *c = &chat->dialogue.conversation;
    size_t n = conversation_length(c);
    if (n == 0 || strcmp(conversation_role(c, n - 1), "user") != 0) return STATUS_OK;
    note_message("(the last message has no answer yet: ", conversation_content(c, n - 1), ")");
    Status status = answer(chat, error);
    if (status != STATUS_FAILED || !chat->last.too_long || chat->session->prompt_length > 0 ||
        !line_editor_is_terminal(chat->editor))
        return status;
    note("%s (/undo takes it back)", error->text);
    return STATUS_OK;
}

static void show_banner(const Chat *chat) {
    const char *name = model_config(chat->session->model)->name;
    size_t n = count_messages(chat);
    note("%s. /help lists the commands, Ctrl-D leaves.",
         *name ? name : modelfile_path(chat->session->file));
    if (n > 0) note("(%zu message%s so far)", n, plural(n));
}

/* Prepares the conversation, then answers -i TEXT or talks. */
static Status begin(Chat *chat, Error *error) {
    const Options *o = chat->session->options;
    if (o->system && dialogue_set_system(&chat->dialogue, o->system, error) != STATUS_OK)
        return STATUS_FAILED;
    if (chat->session->prompt_length == 0 && line_editor_is_terminal(chat->editor))
        show_banner(chat);
    Status status = finish_last_turn(chat, error);
    if (status != STATUS_OK) return status;
    if (chat->session->prompt_length > 0) {
        if (strlen(chat->session->prompt) != chat->session->prompt_length)
            return error_set(error, "%s", ZERO_BYTE);
        status = say(chat, chat->session->prompt, error);
        return status == STATUS_OK && *chat->interrupted ? STATUS_INTERRUPTED : status;
    }
    return talk(chat, error);
}

/* ---- Tab ----------------------------------------------------------------------------------------
 */

/* Adds a name to the words of a completion if it begins with typed[length]. */
static void add_word(TextBuffer *words, const char *name, const char *typed, size_t length) {
    if (strncmp(name, typed, length) != 0) return;
    size_t n = strlen(name);
    if (!words->bytes) {
        text_put(words, name, n, 0);
    } else { /* the common beginning is the first word */
        size_t common = 0, first = 0;
        const char *end = memchr(words->bytes, '\n', words->length);
        first = end ? (size_t)(end - words->bytes) : words->length;
        while (common < first && common < n && words->bytes[common] == name[common]) common++;
        memmove(words->bytes + common, words->bytes + first, words->length - first);
        words->length -= first - common;
    }
    text_put(words, "\n", 1, 0);
    text_put(words, name, n, 0);
}

/* Where the argument of the command `name` begins in line[length]; 0: this is another command. */
static size_t argument_of(const char *name, const char *line, size_t length) {
    size_t n = strlen(name);
    if (length <= n || memcmp(line, name, n) != 0 || line[n] != ' ') return 0;
    while (n < length && line[n] == ' ') n++;
    return n;
}

/* The names of files that go on from typed[length]. */
static size_t complete_file(Chat *chat, const char *typed, size_t length, char **words) {
    Error error;
    size_t n_names;
    char *text = strndup(typed, length), *path = text ? command_path(text) : NULL;
    const char *slash = path ? strrchr(path, '/') : NULL;
    size_t n = path ? strlen(slash ? slash + 1 : path) : 0;
    if (!path || courier_complete(&chat->courier, path, words, &n_names, &error) != STATUS_OK)
        *words = NULL;
    free(path);
    free(text);
    return n;
}

/* Completes commands, files behind /save and /load, and the names of settings (LineCompletion). */
static size_t complete(void *context, const char *line, size_t length, char **result) {
    static const char *const others[] = {
        "tokens", "seed", "reasoning", "reasoning-effort", "reasoning-budget", "hide-reasoning"};
    Chat *chat = context;
    TextBuffer words = {0};
    size_t at = argument_of("/save", line, length);
    if (at == 0) at = argument_of("/load", line, length);
    if (at > 0) return complete_file(chat, line + at, length - at, result);
    at = argument_of("/set", line, length);
    for (size_t i = 0; at > 0 && i < n_settings; i++)
        add_word(&words, settings[i].name, line + at, length - at);
    for (size_t i = 0; at > 0 && i < sizeof others / sizeof *others; i++)
        add_word(&words, others[i], line + at, length - at);
    for (size_t i = 0; at == 0 && i < N_COMMANDS; i++)
        add_word(&words, commands[i].name, line, length);
    if (words.bytes) text_put(&words, "", 1, 0);
    if (words.failed) text_free(&words);
    *result = words.bytes;
    return length - at;
}

/* ---- The mode ------------------------------------------------------------------------------ */

Status chat_prepare(Chat **out, const Options *options, volatile sig_atomic_t *interrupted,
                    SandboxRules *rules, Error *error) {
    Chat *chat = calloc(1, sizeof *chat);
    if (!chat) return error_set(error, "no memory for a chat");
    *out = chat;
    chat->interrupted = interrupted;
    tzset(); /* for the template's clock: the sandbox will not let it read /etc/localtime */
    chat->colours = has_colours(STDOUT_FILENO);
    chat->dialogue.conversation.file = chat->file = SESSION_FILE_NONE;
    chat->courier = (Courier){-1, -1, -1};
    const char *path = options->session;
    if (path && session_file_open(&chat->file, path, &chat->file_note, error) != STATUS_OK)
        return STATUS_FAILED;
    if (courier_start(&chat->courier, path ? &chat->file : NULL, error) != STATUS_OK)
        return STATUS_FAILED;
    chat->editor = line_editor_new(complete, chat, interrupted);
    if (!chat->editor) return error_set(error, "no memory for a line editor");
    if (line_editor_directory(chat->editor, chat->state_directory, sizeof chat->state_directory))
        sandbox_allow_writing(rules, chat->state_directory);
    return STATUS_OK;
}

void chat_free(Chat *chat) {
    if (!chat) return;
    line_editor_free(chat->editor);
    dialogue_close(&chat->dialogue);
    session_file_close(&chat->file);
    courier_end(&chat->courier);
    text_free(&chat->waiting);
    text_free(&chat->wrapped);
    word_wrap_free(&chat->wrap);
    free(chat->returned);
    free(chat);
}

Status chat_run(Chat *chat, Session *session, Error *error) {
    Error remark = chat->file_note;
    chat->session = session;
    chat->hides_reasoning = session->options->hide_reasoning;
    Status status = chat->file.path ? dialogue_open_file(&chat->dialogue, session, &chat->file,
                                                         &chat->courier, &remark, error)
                                    : dialogue_open(&chat->dialogue, session, NULL, &remark, error);
    if (status != STATUS_OK) return status;
    if (remark.text[0]) note("(%s)", remark.text);
    status = begin(chat, error);
    if (status != STATUS_FAILED && chat->lost)
        return error_set(error, "stdout: cannot be written: %s", strerror(chat->lost));
    if (status == STATUS_OK && chat->dialogue.conversation.unsaved)
        return error_set(error, "%s: not all of the conversation could be saved",
                         chat->dialogue.conversation.path);
    if (status == STATUS_OK && chat->n_failed > 0)
        return error_set(error, "%zu %s: the reasons are above", chat->n_failed,
                         chat->n_failed == 1 ? "message or command failed"
                                             : "messages or commands failed");
    return status;
}
