#include "modes/chat/chat_receipt.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "json/json_reader.h"
#include "modes/proof/proof_options.h"
#include "modes/chat/chat_options.h"
#include "modes/proof/receipt.h"
#include "base/sha256.h"
#include "system/text_file.h"

/* ---- Items ------------------------------------------------------------------------------------
 */

static const json_t *message_at(const Dialogue *d, size_t i) {
    return json_array_get(d->conversation.messages, i);
}

static json_t *digest_of(const json_t *text) {
    char digest[SHA256_HEX];
    sha256_text(json_string_value(text), json_string_length(text), digest);
    return json_string(digest);
}

/* The item of the answer that is message i; the messages from `first` on are its prompt. */
static json_t *make_item(const Dialogue *d, size_t first, size_t i) {
    const json_t *answer = message_at(d, i);
    const json_t *reasoning = json_object_get(answer, "reasoning_content");
    json_t *prompt = json_array(), *item = NULL;
    for (size_t k = first; k < i; k++) json_array_append(prompt, (json_t *)message_at(d, k));
    char *text = prompt ? json_dumps(prompt, JSON_COMPACT) : NULL;
    json_t *made_with = json_copy(json_object_get(answer, "made_with"));
    json_object_del(made_with, "seal"); /* the receipt has its own; a keyed one hides messages */
    if (text)
        item = json_pack("{s:o, s:o, s:O}", "prompt",
                         receipt_text(d->session->receipt, text, strlen(text)), "sha256",
                         digest_of(json_object_get(answer, "content")), "made_with", made_with);
    json_decref(made_with);
    if (item && json_is_string(reasoning))
        json_object_set_new(item, "reasoning_sha256", digest_of(reasoning));
    free(text);
    json_decref(prompt);
    return item;
}

/* Items are the answers made with this run's settings (made_with.under is a digest of them); any
 * other message is a part of the next item's prompt. */
Status chat_receipt_add(const Dialogue *d, Error *error) {
    size_t n = conversation_length(&d->conversation), first = 0;
    for (size_t i = 0; i < n; i++) {
        const json_t *made_with = json_object_get(message_at(d, i), "made_with");
        const char *under = json_string_value(json_object_get(made_with, "under"));
        if (!under || strcmp(under, d->settings_digest) != 0) continue;
        if (receipt_item(d->session->receipt, i + 1, make_item(d, first, i), error) != STATUS_OK)
            return STATUS_FAILED;
        first = i + 1;
    }
    return STATUS_OK;
}

/* ---- Replaying --------------------------------------------------------------------------------
 */

/* The messages that the command line gives again, which a keyed receipt does not have. */
typedef struct Given {
    int fd;           /* of --session; -1: none */
    json_t *messages; /* NULL: the receipt has them */
} Given;

/* Mode.open: opens the file of --session, if one is given. */
static Status open_given(void **state, const Session *session, SandboxRules *rules, Error *error) {
    const char *path = chat_options(session->options)->session;
    Given *given = malloc(sizeof *given);
    (void)rules;
    if (!given) return error_set(error, "no memory for a receipt");
    *state = given;
    *given = (Given){.fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1};
    return path && given->fd < 0 ? error_set(error, "%s: %s", path, strerror(errno)) : STATUS_OK;
}

static void close_given(void *state) {
    Given *given = state;
    if (!given) return;
    if (given->fd >= 0) close(given->fd);
    json_decref(given->messages);
    free(given);
}

/* Parses the messages of --session, if it is given. */
static Status read_given(Given *given, const Session *session, Error *error) {
    static const size_t most = (size_t)1 << 30;
    const char *path = chat_options(session->options)->session;
    char *text;
    size_t length;
    if (given->fd < 0) return STATUS_OK;
    Status status =
        text_file_read(given->fd, path, most, session->interrupted, &text, &length, error);
    if (status != STATUS_OK) return status;
    status = conversation_read(path, text, length, &given->messages, error);
    free(text);
    return status;
}

/* The messages of an item's prompt: a new array. `first` is how many the conversation has. */
static Status prompt_of(const Given *given, const json_t *item, size_t first, json_t **messages,
                        Error *error) {
    const json_t *text = json_object_get(json_object_get(item, "prompt"), "text");
    json_int_t number = json_integer_value(json_object_get(item, "number"));
    *messages = NULL;
    if (given->messages) {
        size_t n = json_array_size(given->messages);
        if (number <= (json_int_t)first || number > (json_int_t)n + 1)
            return error_set(error,
                             "the conversation of --session has %zu messages, but an answer of "
                             "the receipt is number %lld",
                             n, (long long)number);
        *messages = json_array();
        for (size_t i = first; i + 1 < (size_t)number; i++)
            json_array_append(*messages, json_array_get(given->messages, i));
    } else if (json_is_string(text)) {
        *messages = json_reader_load(json_string_value(text), json_string_length(text),
                                     JSON_ALLOW_NUL, NULL);
    } else {
        return error_set(error, "its messages are keyed: give the conversation's file with "
                                "--session");
    }
    return json_is_array(*messages) ? STATUS_OK
                                    : error_set(error, "the receipt's messages are damaged");
}

/* Adds the messages of an item's prompt to the conversation. */
static Status add_prompt(Dialogue *d, const Given *given, const json_t *item, Error *error) {
    json_t *messages, *message;
    size_t i, first = conversation_length(&d->conversation);
    Status status = prompt_of(given, item, first, &messages, error);
    if (status == STATUS_OK) {
        json_array_foreach(messages, i, message) {
            if (status == STATUS_OK)
                status = conversation_append_message(&d->conversation, json_incref(message), error);
        }
    }
    json_decref(messages);
    return status;
}

/* Makes the dialogue give its next answer as `json`, made_with.h, says. */
static Status set_made_with(Dialogue *d, const json_t *json, Error *error) {
    static const char *const words[] = {
        [REASONING_AUTO] = "auto", [REASONING_ON] = "on", [REASONING_OFF] = "off"};
    const char *reasoning = json_reader_word(json_object_get(json, "reasoning"));
    const char *finish = json_reader_word(json_object_get(json, "finish"));
    const json_t *budget = json_object_get(json, "reasoning-budget");
    json_int_t sample = json_integer_value(json_object_get(json, "sample"));
    json_int_t generated = json_integer_value(json_object_get(json, "generated"));
    if (settings_read_sampling(json, &d->options, error) != STATUS_OK) return STATUS_FAILED;
    if (sample < 0 || generated < 0 || (budget && json_integer_value(budget) < 0))
        return error_set(error, "the settings of an answer are damaged");
    d->attempt = (uint64_t)sample;
    d->budget = budget ? json_integer_value(budget) : REASONING_UNLIMITED;
    dialogue_set_reasoning(d, REASONING_AUTO);
    for (size_t i = 0; reasoning && i < sizeof words / sizeof *words; i++)
        if (strcmp(reasoning, words[i]) == 0) dialogue_set_reasoning(d, (ReasoningChoice)i);
    if (finish && strcmp(finish, "interrupted") == 0 && generated > 0)
        d->options.max_tokens = (size_t)generated; /* the user ended it there */
    return dialogue_set_effort(d, json_reader_word(json_object_get(json, "reasoning-effort")),
                               error);
}

/* An answer that the user has interrupted ends here by its length. */
static bool keep_interruption(Dialogue *d, const json_t *made_with) {
    static const char *const keys[] = {"finish", "tokens"};
    const char *finish = json_reader_word(json_object_get(made_with, "finish"));
    size_t n = conversation_length(&d->conversation);
    json_t *own = json_object_get(message_at(d, n - 1), "made_with");
    if (!finish || strcmp(finish, "interrupted") != 0) return false;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        json_object_set(own, keys[i], json_object_get(made_with, keys[i]));
    json_object_set_new(own, "seal", conversation_seal(&d->conversation, n - 1));
    return true;
}

Status chat_receipt_repeat(Dialogue *d, const json_t *made_with, bool *interrupted, Error *error) {
    const AnswerWatcher nobody = {0};
    AnswerStats stats;
    Status status = set_made_with(d, made_with, error);
    *interrupted = false;
    if (status == STATUS_OK) status = dialogue_answer(d, &nobody, &stats, error);
    if (status == STATUS_OK && *d->session->interrupted) status = STATUS_INTERRUPTED;
    if (status == STATUS_OK) *interrupted = keep_interruption(d, made_with);
    return status;
}

/* Gives the answer of one item once more and compares. */
static Status repeat(Dialogue *d, const Given *given, const json_t *item, Error *error) {
    size_t first = conversation_length(&d->conversation);
    bool interrupted = false;
    Status status = add_prompt(d, given, item, error);
    if (status == STATUS_OK && conversation_length(&d->conversation) == first)
        status = error_set(error, "the receipt's messages are damaged");
    if (status == STATUS_OK)
        status = chat_receipt_repeat(d, json_object_get(item, "made_with"), &interrupted, error);
    if (status != STATUS_OK) return status;
    size_t last = conversation_length(&d->conversation) - 1;
    status = receipt_item(d->session->receipt, last + 1, make_item(d, first, last), error);
    if (interrupted)
        receipt_not_checked(d->session->receipt, "item.made_with.finish", last + 1,
                            "the user ended the answer");
    return status;
}

/* Replays a chat's receipt: gives each answer once more and compares it. Stops after the first
 * difference, because every later answer depends on it. */
static Status chat_receipt_run(void *state, Session *session, Error *error) {
    Dialogue d;
    Error note = {.text = ""};
    Receipt *receipt = session->receipt;
    const json_t *items = receipt_items(receipt);
    Status status = read_given(state, session, error);
    if (status != STATUS_OK) return status;
    if (proof_options(session->options)->check)
        return error_set(error, "--check drafts the answers of a text or a batch, not of a chat");
    if (dialogue_open(&d, session, NULL, &note, error) != STATUS_OK) return STATUS_FAILED;
    receipt_clock(receipt, &d.prompt.now);
    status = receipt_settings(receipt, session, &d.options, &d.prompt.now, error);
    size_t before = receipt_n_differ(receipt);
    for (size_t i = 0; status == STATUS_OK && i < json_array_size(items); i++) {
        status = repeat(&d, state, json_array_get(items, i), error);
        if (receipt_n_differ(receipt) > before) break; /* the next answers follow from this one */
    }
    dialogue_close(&d);
    return status;
}

const Mode chat_replay = {
    .name = "chat", .open = open_given, .run = chat_receipt_run, .close = close_given};
