#include "modes/chat/chat.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#include "modes/chat/chat_options.h"
#include "base/utf8.h"
#include "modes/chat/chat_receipt.h"
#include "modes/chat/chat_state.h"
#include "modes/chat/commands.h"
#include "system/note.h"
#include "modes/chat/chat_settings.h"
#include "modes/chat/tab_completion.h"
#include "modes/chat/turn.h"
#include "modes/proof/receipt.h"
#include "system/terminal.h"

/* Messages are C strings: a zero byte would cut one. */
#define ZERO_BYTE "a message cannot hold a zero byte"

/* What people type who look for the way out. */
static bool asks_to_leave(const char *text) {
    return strcmp(text, "exit") == 0 || strcmp(text, "quit") == 0;
}

/* Whether the message is the path of a picture or a recording, as a terminal pastes it for a file
 * that is dropped there. */
static bool is_media_path(const char *text) {
    static const char *const endings[] = {".png", ".jpg",  ".jpeg", ".gif", ".webp",
                                          ".bmp", ".heic", ".mp3",  ".wav", ".mp4"};
    size_t n = strlen(text);
    while (n > 0 && strchr(" '\"\n", text[n - 1])) n--;
    bool is_path = (text[0] == '/' || text[0] == '~' || text[0] == '.' || text[0] == '\'') &&
                   !memchr(text, '\n', n);
    for (size_t i = 0; is_path && i < sizeof endings / sizeof *endings; i++) {
        size_t length = strlen(endings[i]);
        if (n > length && strncasecmp(text + n - length, endings[i], length) == 0) return true;
    }
    return false;
}

/* Runs a command or answers a message. *first: no message was answered yet; over pipes an empty
 * line separates answers. */
static Status handle(Chat *chat, char *text, bool *first, Error *error) {
    if (commands_is(text)) return commands_run(chat, text, error);
    if (text[strspn(text, " \t\n")] == '\0') return STATUS_OK;
    if (line_editor_is_terminal(chat->editor) && asks_to_leave(text)) {
        chat->leaves = true;
        return STATUS_OK;
    }
    if (line_editor_is_terminal(chat->editor) && is_media_path(text))
        note("(this program reads only text: the model sees the name, not what is in the file)");
    if (!*first && !line_editor_is_terminal(chat->editor)) answer_view_newline(&chat->view);
    *first = false;
    return turn_say(chat, text, error);
}

static void show_trouble(Chat *chat, const Error *trouble) {
    note("%s", trouble->text);
    if (!line_editor_is_terminal(chat->editor)) chat->n_failed++;
}

/* Handles what was read at once: one message, or a paste that begins with a command, whose commands
 * and messages are handled one after another until one of them is interrupted. */
static void handle_all(Chat *chat, char *text, size_t length, bool *first) {
    Error trouble = {""};
    if (strlen(text) != length) {
        error_set(&trouble, "%s", ZERO_BYTE);
        show_trouble(chat, &trouble);
        return;
    }
    bool is_list = commands_is(text);
    for (char *part = text, *end = text + length; !chat->leaves && !chat->view.closed;) {
        size_t n = is_list ? commands_part(part) : length;
        part[n] = '\0';
        if (handle(chat, part, first, &trouble) == STATUS_FAILED) show_trouble(chat, &trouble);
        part = n < (size_t)(end - part) ? part + n + 1 : end;
        if (part == end) break;
        if (!*chat->interrupted) continue;
        note_message("(not taken: ", part, ")");
        break;
    }
}

/* A file through a pipe is taken line by line, which is not always meant. */
static void hint_at_single_turn(const Chat *chat) {
    if (!line_editor_is_terminal(chat->editor) && isatty(STDERR_FILENO))
        note("(each line of stdin is a message; --single-turn takes all of it as one)");
}

/* Reads and handles messages until the user leaves. What fails is shown, and the chat goes on. */
static Status talk(Chat *chat, Error *error) {
    bool first = true;
    size_t n_read = 0;
    while (!chat->leaves && !chat->view.closed) {
        char *text;
        size_t length = 0;
        if (*chat->interrupted == SIGINT) *chat->interrupted = 0;
        if (*chat->interrupted) return STATUS_INTERRUPTED;
        LineResult result = line_editor_read(chat->editor, "> ", &text, &length);
        if (result == LINE_FAILED)
            return error_set(error, "a message cannot be read: %s", strerror(errno));
        if (result == LINE_INTERRUPTED || result == LINE_LEFT_EMPTY) {
            if (!line_editor_is_terminal(chat->editor)) return STATUS_INTERRUPTED;
            answer_view_newline(&chat->view);
            /* Not the end: perhaps it was a second press to stop the answer. */
            if (result == LINE_LEFT_EMPTY) note("(Ctrl-D leaves, and /quit)");
            continue;
        }
        if (result == LINE_END) {
            if (line_editor_is_terminal(chat->editor))
                answer_view_newline(&chat->view); /* the shell's prompt begins a line */
            break;
        }
        if (++n_read == 2) hint_at_single_turn(chat);
        handle_all(chat, text, length, &first);
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
    Status status = turn_answer(chat, error);
    if (status != STATUS_FAILED || !chat->last.too_long || chat->session->prompt_length > 0 ||
        !line_editor_is_terminal(chat->editor))
        return status;
    note("%s (/undo takes it back)", error->text);
    return STATUS_OK;
}

/* Shows a person where a resumed conversation stands: the last message and the end of its answer.
 */
static void show_last_exchange(const Chat *chat) {
    enum { MOST = 2000 }; /* bytes of the answer */
    const char *message = dialogue_last_said(&chat->dialogue, false);
    const char *answer = dialogue_last_said(&chat->dialogue, true);
    if (message) note_message("> ", message, "");
    if (!answer) return;
    size_t length = strlen(answer);
    size_t from = length > MOST ? utf8_boundary(answer, length, length - MOST) : 0;
    note("%s%s", from > 0 ? "..." : "", answer + from);
}

static void show_banner(const Chat *chat) {
    const char *name = model_config(chat->session->model)->name;
    size_t n = turn_messages(chat);
    note("%s. /help lists the commands, Ctrl-D leaves.",
         *name ? name : modelfile_path(chat->session->file));
    if (n == 0) return;
    note("(%zu message%s so far)", n, plural(n));
    show_last_exchange(chat);
}

/* Prepares the conversation, then answers -i TEXT or talks. */
static Status chat_begin(Chat *chat, Error *error) {
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
        status = turn_say(chat, chat->session->prompt, error);
        if (chat->last.unshaped) chat->session->cut_after = chat->last.n_generated;
        return status == STATUS_OK && *chat->interrupted ? STATUS_INTERRUPTED : status;
    }
    if (chat_options(o)->single_turn || o->prompt_file)
        return error_set(error, "there is no message: the text to answer is empty");
    return talk(chat, error);
}

Status chat_prepare(Chat **out, const Options *options, volatile sig_atomic_t *interrupted,
                    SandboxRules *rules, Error *error) {
    Chat *chat = calloc(1, sizeof *chat);
    if (!chat) return error_set(error, "no memory for a chat");
    *out = chat;
    chat->interrupted = interrupted;
    tzset(); /* for the template's clock: the sandbox will not let it read /etc/localtime */
    chat->view.format = &chat->dialogue.prompt.answers;
    chat->view.colours = terminal_has_colours(STDOUT_FILENO);
    chat->dialogue.conversation.file = chat->file = SESSION_FILE_NONE;
    chat->courier = (Courier){-1, -1, -1};
    const char *path = chat_options(options)->session;
    if (path && session_file_open(&chat->file, path, &chat->file_note, error) != STATUS_OK)
        return STATUS_FAILED;
    if (courier_start(&chat->courier, path ? &chat->file : NULL, error) != STATUS_OK)
        return STATUS_FAILED;
    chat->editor = line_editor_new(tab_completion, &chat->courier, interrupted);
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
    answer_view_free(&chat->view);
    free(chat->returned);
    free(chat);
}

Status chat_run(Chat *chat, Session *session, Error *error) {
    Error remark = chat->file_note;
    chat->session = session;
    chat->view.hides_reasoning = session->options->hide_reasoning;
    Status status = chat->file.path ? dialogue_open_file(&chat->dialogue, session, &chat->file,
                                                         &chat->courier, &remark, error)
                                    : dialogue_open(&chat->dialogue, session, NULL, &remark, error);
    if (status != STATUS_OK) return status;
    if (remark.text[0]) note("(%s)", remark.text);
    settings_note_reasoning(&chat->dialogue);
    if (session->receipt && receipt_settings(session->receipt, session, &chat->dialogue.options,
                                             &chat->dialogue.prompt.now, error) != STATUS_OK)
        return STATUS_FAILED;
    status = chat_begin(chat, error);
    if (status == STATUS_OK && chat->n_cut > 0 && !session->cut_after && !isatty(STDERR_FILENO))
        note("(%zu answer%s cut by -n or by the end of the context)", chat->n_cut,
             chat->n_cut == 1 ? " was" : "s were");
    if (status != STATUS_FAILED && chat->view.lost)
        return error_set(error, "stdout: cannot be written: %s", strerror(chat->view.lost));
    if (status == STATUS_OK && session->receipt) status = chat_receipt_add(&chat->dialogue, error);
    if (status == STATUS_OK && chat->dialogue.conversation.unsaved)
        return error_set(error, "%s: not all of the conversation could be saved",
                         chat->dialogue.conversation.path);
    if (status == STATUS_OK && chat->n_failed > 0)
        return error_set(error, "%zu %s: the reasons are above", chat->n_failed,
                         chat->n_failed == 1 ? "message or command failed"
                                             : "messages or commands failed");
    return status;
}
