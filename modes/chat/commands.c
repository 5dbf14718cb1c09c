#include "modes/chat/commands.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "advice/spelling.h"
#include "base/utf8.h"
#include "layers/model_watch.h"
#include "modes/chat/command_paths.h"
#include "system/note.h"
#include "modes/chat/chat_settings.h"
#include "modes/chat/turn.h"
#include "system/terminal.h"
#include "system/text_file.h"

typedef struct Command {
    const char *name, *argument, *help;
    Status (*run)(Chat *chat, char *argument, Error *error);
    bool takes_lines; /* its argument is a text, which may have several lines */
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
    size_t n = turn_messages(chat);
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

/* /undo [N]: removes the last N exchanges (1 unless given) from the conversation and prints the
 * first message that was removed. */
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
    if (retracted) return turn_answer(chat, error);
    note("(there is no message to answer)");
    return STATUS_OK;
}

/* Cuts off the blanks after a name; Tab adds one. */
static void cut_blanks(char *argument) {
    size_t n = strlen(argument);
    while (n > 0 && isspace((unsigned char)argument[n - 1])) argument[--n] = '\0';
}

/* Completes a message such as "3 messages": the count does not include the system prompt. */
static const char *and_system(const Chat *chat) {
    return dialogue_system(&chat->dialogue) ? " and the system prompt" : "";
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
    size_t n = turn_messages(chat);
    note("(saved %zu message%s%s to %s)", n, plural(n), and_system(chat), argument);
    return STATUS_OK;
}

/* Replaces the conversation by the messages in `text`, unless the user wants to keep the old ones.
 */
static Status load(Chat *chat, const char *path, const char *text, size_t length, Error *error) {
    bool may;
    if (may_drop_session(chat, "/load", "/reset yes before it", &may, error) != STATUS_OK)
        return STATUS_FAILED;
    if (!may) return STATUS_OK;
    if (dialogue_adopt(&chat->dialogue, path, text, length, error) != STATUS_OK)
        return STATUS_FAILED;
    size_t n = turn_messages(chat);
    note("(loaded %zu message%s%s from %s)", n, plural(n), and_system(chat), path);
    return STATUS_OK;
}

static Status command_load(Chat *chat, char *argument, Error *error) {
    char *text;
    size_t length;
    if (!*argument) return error_set(error, "/load needs a file's name");
    cut_blanks(argument);
    char *path = command_path(argument);
    /* Read first: nobody is asked about a file that is not there. */
    Status status = path ? courier_read(&chat->courier, path, &text, &length, error)
                         : error_set(error, "no memory for a path");
    if (status == STATUS_OK) {
        status = load(chat, path, text, length, error);
        free(text);
    }
    free(path);
    return status;
}

static Status command_set(Chat *chat, char *argument, Error *error) {
    return settings_command(&chat->dialogue, &chat->view.hides_reasoning, argument, error);
}

static Status command_stats(Chat *chat, char *argument, Error *error) {
    (void)argument, (void)error;
    turn_show_stats(chat);
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
        note("%zu of %u tokens, %zu message%s%s%s", ids.length, context, turn_messages(chat),
             plural(turn_messages(chat)), and_system(chat),
             ids.length >= context ? ": the last one does not fit" : "");
    token_list_free(&ids);
    return status;
}

static Status command_quit(Chat *chat, char *argument, Error *error) {
    (void)argument, (void)error;
    chat->leaves = true;
    return STATUS_OK;
}

/* Opens the user's editor on a draft. *text, freed by the caller, is what was written, without its
 * last newlines; *length 0: nothing was. */
static Status edit(Chat *chat, const char *draft, char **text, size_t *length, Error *error) {
    bool chosen = getenv("VISUAL") || getenv("EDITOR");
    if (!chosen && !line_editor_is_terminal(chat->editor))
        return error_set(error, "/edit opens an editor, which needs a terminal");
    if (courier_edit(&chat->courier, draft, text, length, error) != STATUS_OK) return STATUS_FAILED;
    size_t mark = utf8_mark_length(*text, *length), n;
    *length -= mark;
    memmove(*text, *text + mark, *length + 1);
    while ((n = text_file_without_line_end(*text, *length)) < *length) *length = n;
    (*text)[*length] = '\0';
    return STATUS_OK;
}

/* Lets the user rewrite the last answer, from which the conversation then goes on. */
static Status edit_answer(Chat *chat, Error *error) {
    const char *answer = dialogue_last_said(&chat->dialogue, true);
    char *text;
    size_t length;
    if (!answer) return error_set(error, "/edit answer: there is no answer yet");
    if (edit(chat, answer, &text, &length, error) != STATUS_OK) return STATUS_FAILED;
    Status status = STATUS_OK;
    if (length > 0) status = dialogue_replace_answer(&chat->dialogue, text, length, error);
    if (status == STATUS_OK)
        note("%s", length > 0 ? "(the answer is replaced)" : "(nothing was written: it stays)");
    free(text);
    return status;
}

/* /edit TEXT: opens the user's editor on a new message and says what comes back. /edit: on the
 * message that did not fit, or else on the last message, which what comes back replaces. */
static Status command_edit(Chat *chat, char *argument, Error *error) {
    char *text, *undone = NULL;
    size_t length;
    if (strcmp(argument, "answer") == 0) return edit_answer(chat, error);
    const char *last = dialogue_last_said(&chat->dialogue, false);
    bool replaces = !*argument && !chat->returned && last;
    const char *draft = *argument ? argument : chat->returned ? chat->returned : last ? last : "";
    if (edit(chat, draft, &text, &length, error) != STATUS_OK) return STATUS_FAILED;
    note("%s", length > 0 ? text : "(nothing was written in the editor: no message)");
    Status status = STATUS_OK;
    if (length > 0 && replaces) status = dialogue_undo(&chat->dialogue, 1, &undone, error);
    free(undone);
    if (length > 0 && status == STATUS_OK) status = turn_say(chat, text, error);
    free(text);
    return status;
}

static const Command commands[] = {
    {"/help", "", "this list", command_help, false},
    {"/system", "[TEXT|none]", "show or change the system prompt", command_system, true},
    {"/reset", "[yes]", "forget the conversation (yes: erase its file unasked)", command_reset,
     false},
    {"/undo", "[N]", "take back the last exchange, or N of them", command_undo, false},
    {"/retry", "", "another answer to the last message", command_retry, false},
    {"/edit", "[TEXT|answer]", "rewrite the last message (TEXT: a new one) in $EDITOR",
     command_edit, true},
    {"/save", "FILE", "write the conversation to a file", command_save, false},
    {"/load", "FILE", "go on with a conversation from a file", command_load, false},
    {"/set", "[NAME VALUE]", "show or change an option, as in /set temperature 0.7", command_set,
     false},
    {"/stats", "", "speed of the last answer", command_stats, false},
    {"/info", "", "the model and the machine", command_info, false},
    {"/tokens", "", "how much of the context is used", command_tokens, false},
    {"/quit", "", "leave, as Ctrl-D, exit and /bye do", command_quit, false},
};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

static Status command_help(Chat *chat, char *argument, Error *error) {
    enum { NARROW = 76 /* columns: the longest line has as many */ };
    size_t columns = terminal_columns(STDERR_FILENO);
    (void)chat, (void)argument, (void)error;
    for (size_t i = 0; i < N_COMMANDS; i++) {
        const Command *c = &commands[i];
        if (columns > 0 && columns < NARROW)
            note("%s %s\n  %s", c->name, c->argument, c->help);
        else
            note("%-8s %-13s %s", c->name, c->argument, c->help);
    }
    note("A line that ends in \\ goes on; \"\"\" begins and ends a text of several lines;");
    note("pasted lines stay together. Ctrl-C stops an answer, Ctrl-D leaves.");
    return STATUS_OK;
}

const char *commands_name(size_t i) {
    return i < N_COMMANDS ? commands[i].name : NULL;
}

/* Names that people know from elsewhere. */
static const struct Alias {
    const char *name, *command;
} aliases[] = {{"/exit", "/quit"},   {"/bye", "/quit"},    {"/q", "/quit"},
               {"/clear", "/reset"}, {"/new", "/reset"},   {"/h", "/help"},
               {"/?", "/help"},      {"/regen", "/retry"}, {"/regenerate", "/retry"}};

/* Commands of other programs that have no single command here. */
static const struct {
    const char *name, *says;
} elsewhere[] = {
    {"/show", "/info describes the model, /set shows the options, /system the system prompt"},
    {"/image", "this program reads only text"},
    {"/audio", "this program reads only text"},
    {"/video", "this program reads only text"},
    {"/read", "/load goes on with a conversation; a file as a message: run MODEL -m chat -i TEXT "
              "-f FILE"},
    {"/model", "a chat has one model; another one answers after run OTHER -m chat --session FILE"},
    {"/models", "run --list shows the models on this machine"},
};

static const Command *find_command(const char *name, size_t length) {
    for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
        if (strlen(aliases[i].name) == length && memcmp(aliases[i].name, name, length) == 0)
            return find_command(aliases[i].command, strlen(aliases[i].command));
    for (size_t i = 0; i < N_COMMANDS; i++)
        if (strlen(commands[i].name) == length && memcmp(commands[i].name, name, length) == 0)
            return &commands[i];
    return NULL;
}

Status commands_run(Chat *chat, char *line, Error *error) {
    char *argument = line + strcspn(line, " \t\n");
    size_t length = (size_t)(argument - line);
    argument += strspn(argument, " \t\n");
    const Command *command = find_command(line, length);
    if (command && *argument && !*command->argument)
        return error_set(error, "%s takes no argument", command->name);
    if (command) return command->run(chat, argument, error);
    const char *names[N_COMMANDS];
    line[length] = '\0';
    for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere; i++)
        if (strcmp(elsewhere[i].name, line) == 0)
            return error_set(error, "no command %s: %s", line, elsewhere[i].says);
    for (size_t i = 0; settings_name(i); i++)
        if (strcmp(settings_name(i), line + 1) == 0)
            return error_set(error, "no command %s: /set %s VALUE sets it", line, line + 1);
    for (size_t i = 0; i < N_COMMANDS; i++) names[i] = commands[i].name;
    const char *near = spelling_nearest(line, names, N_COMMANDS);
    if (near) return error_set(error, "no command %s; did you mean %s?", line, near);
    return error_set(error, "no command %s: /help lists them", line);
}

bool commands_is(const char *text) {
    if (strcmp(text, "/?") == 0) return true;
    if (text[0] != '/' || !isalpha((unsigned char)text[1])) return false;
    size_t n = 2;
    while (isalnum((unsigned char)text[n]) || text[n] == '-' || text[n] == '_') n++;
    return text[n] == '\0' || isspace((unsigned char)text[n]);
}

size_t commands_part(const char *text) {
    bool is_command = commands_is(text);
    size_t n = strcspn(text, "\n");
    const Command *command = is_command ? find_command(text, strcspn(text, " \t\n")) : NULL;
    if (is_command && !(command && command->takes_lines)) return n;
    while (text[n] == '\n' && !commands_is(text + n + 1)) n += 1 + strcspn(text + n + 1, "\n");
    return n;
}
