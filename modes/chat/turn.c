#include "modes/chat/turn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kvcache/kvcache_snapshots.h"
#include "system/note.h"
#include "session/drafting.h"
#include "system/peak_memory.h"

static void show_start(void *context, bool reasoning) {
    Chat *chat = context;
    if (reasoning) answer_view_begin_reasoning(&chat->view);
}

static void show_text(void *context, const char *text, size_t length) {
    Chat *chat = context;
    answer_view_put(&chat->view, text, length);
}

static void show_left_out(void *context, size_t messages) {
    (void)context;
    if (messages == 1)
        note("(the context is full: the oldest message is left out)");
    else
        note("(the context is full: the oldest %zu messages are left out)", messages);
}

/* Kept until the answer has ended its line. */
static void keep_trouble(void *context, const char *why) {
    Chat *chat = context;
    error_set(&chat->unkept, "%s", why);
}

/* Tells a person that an answer did not end by itself. */
static void note_cut(Chat *chat) {
    size_t most = chat->dialogue.options.max_tokens;
    if (chat->last.finish != FINISH_LENGTH) return;
    chat->n_cut++;
    if (!isatty(STDERR_FILENO)) return;
    bool commands = line_editor_is_terminal(chat->editor);
    if (most > 0 && chat->last.n_generated >= most)
        note("(cut after %zu tokens, as -n says%s)", most,
             commands ? ": /set tokens N changes it" : "");
    else
        note("(cut: the context of %u tokens is full)", model_context(chat->session->model));
}

void turn_show_stats(const Chat *chat) {
    const AnswerStats *s = &chat->last;
    const KvCache *cache = chat->dialogue.cache;
    size_t computed = s->n_prompt - s->n_cached;
    double used = (double)kvcache_bytes_used(cache) / (1 << 20);
    double snapshots = (double)kvcache_snapshot_bytes(cache) / (1 << 20);
    note("prompt:  %zu tokens, %zu of them cached; %zu in %.3f s, %.1f tokens/s", s->n_prompt,
         s->n_cached, computed, s->prefill_seconds,
         s->prefill_seconds > 0 ? (double)computed / s->prefill_seconds : 0.0);
    note("answer:  %zu tokens in %.3f s, %.1f tokens/s", s->n_generated, s->decode_seconds,
         s->decode_seconds > 0 ? (double)s->n_generated / s->decode_seconds : 0.0);
    drafting_print(stderr, chat->session->drafting); /* of all answers so far */
    note("cache:   %.1f MiB, %.1f MiB of them snapshots", used, snapshots);
    if (chat->session->peak_memory_fd > 0)
        note("memory:  %.1f MiB at most", peak_memory_mib(chat->session->peak_memory_fd));
    note("sandbox: %s", sandbox_text(&chat->session->sandbox));
    note("seed:    %llu", (unsigned long long)chat->dialogue.options.sampling.seed);
}

Status turn_answer(Chat *chat, Error *error) {
    const AnswerWatcher watcher = {show_start, show_text, show_left_out, keep_trouble, chat};
    answer_view_begin(&chat->view);
    line_editor_echo(chat->editor, false);
    Status status = dialogue_answer(&chat->dialogue, &watcher, &chat->last, error);
    answer_view_end(&chat->view);
    line_editor_echo(chat->editor, true);
    if (chat->unkept.text[0])
        note("(%s: the conversation is kept, and computed again when it is resumed)",
             chat->unkept.text);
    chat->unkept.text[0] = '\0';
    if (*chat->interrupted && status == STATUS_OK && line_editor_is_terminal(chat->editor))
        note("(interrupted)");
    if (status == STATUS_OK) note_cut(chat);
    if (status == STATUS_OK && chat->session->options->stats) turn_show_stats(chat);
    return status;
}

/* Removes a message that does not fit from the conversation and keeps its text for /edit. */
static Status withdraw_message(Chat *chat, Error *error) {
    Error reason = *error;
    if (dialogue_undo(&chat->dialogue, 1, &chat->returned, error) != STATUS_OK)
        return STATUS_FAILED;
    bool one_message = chat->session->prompt_length > 0;
    if (!one_message && !line_editor_is_terminal(chat->editor))
        return error_set(error, "%s; the conversation goes on without it", reason.text);
    uint32_t most = model_config(chat->session->model)->context;
    char larger[64] = "";
    if (most > model_context(chat->session->model))
        snprintf(larger, sizeof larger, ", -c %u makes the context larger", most);
    if (one_message) return error_set(error, "%s%s", reason.text, larger);
    return error_set(error, "%s (it is taken back: /edit opens it to be shortened%s)", reason.text,
                     larger);
}

Status turn_say(Chat *chat, const char *text, Error *error) {
    if (dialogue_say(&chat->dialogue, text, strlen(text), error) != STATUS_OK) return STATUS_FAILED;
    free(chat->returned);
    chat->returned = NULL;
    Status status = turn_answer(chat, error);
    if (status != STATUS_FAILED) return status;
    if (chat->last.too_long) return withdraw_message(chat, error);
    bool one_message = chat->session->prompt_length > 0; /* no command follows */
    if (one_message && !chat->file.path) return status;
    Error reason = *error;
    if (one_message)
        return error_set(error, "%s (the message is kept: the next chat with %s answers it)",
                         reason.text, chat->file.path);
    return error_set(error, "%s (the message is kept: /retry answers it, /undo takes it back)",
                     reason.text);
}

size_t turn_messages(const Chat *chat) {
    return conversation_length(&chat->dialogue.conversation) -
           (dialogue_system(&chat->dialogue) ? 1 : 0);
}
