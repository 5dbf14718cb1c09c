#include "modes/chat/check_session.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "json/json_reader.h"
#include "modes/proof/proof_options.h"
#include "modes/chat/chat_receipt.h"
#include "modes/proof/record_key.h"
#include "modes/proof/report.h"
#include "system/terminal.h"
#include "system/text_file.h"

typedef struct CheckSession {
    int fd;
    const char *name;
    json_t *header, *messages; /* of the file */
    Report report;
    size_t n_covered; /* messages that a seal covers which was compared */
    size_t n_under;   /* answers that were made under other settings */
} CheckSession;

static bool session_asked(const Options *o) {
    return proof_options(o)->check_session != NULL;
}

static Status open_file(void **state, const Session *session, SandboxRules *rules, Error *error) {
    const ProofOptions *proof = proof_options(session->options);
    CheckSession *c = calloc(1, sizeof *c);
    (void)rules;
    if (!c) return error_set(error, "no memory for a check");
    *state = c;
    c->name = proof->check_session;
    c->report.quiet = proof->quiet;
    c->fd = open(c->name, O_RDONLY | O_CLOEXEC);
    return c->fd < 0 ? error_set(error, "%s: %s", c->name, strerror(errno)) : STATUS_OK;
}

static void close_file(void *state) {
    CheckSession *c = state;
    if (!c) return;
    if (c->fd >= 0) close(c->fd);
    json_decref(c->header);
    json_decref(c->messages);
    free(c);
}

/* ---- Reading ------------------------------------------------------------------------------------
 */

static Status session_add_line(CheckSession *c, const char *text, size_t length, size_t number,
                               Error *error) {
    json_t *line = record_parse(text, length, NULL, error);
    if (!line) return error_prefix(error, "%s: line %zu", c->name, number);
    if (number == 1) {
        c->header = line;
        return STATUS_OK;
    }
    bool message = json_reader_word(json_object_get(line, "role")) &&
                   json_is_string(json_object_get(line, "content"));
    if (!message) error_set(error, "%s: line %zu is not a message", c->name, number);
    if (message && json_array_append(c->messages, line) != 0)
        message = (error_set(error, "%s: no memory for its messages", c->name), false);
    json_decref(line);
    return message ? STATUS_OK : STATUS_FAILED;
}

static Status read_file(CheckSession *c, const Session *session, Error *error) {
    static const size_t most = 1 << 28;
    char *text;
    size_t length, number = 0;
    Status status =
        text_file_read(c->fd, c->name, most, session->interrupted, &text, &length, error);
    if (status != STATUS_OK) return status;
    c->messages = json_array();
    for (size_t at = 0; status == STATUS_OK && at < length; number++) {
        const char *end = memchr(text + at, '\n', length - at);
        size_t n = end ? (size_t)(end - (text + at)) : length - at;
        status = end ? session_add_line(c, text + at, n, number + 1, error)
                     : error_set(error, "%s: its last line is cut", c->name);
        at += n + 1;
    }
    free(text);
    return status;
}

/* ---- Comparing ----------------------------------------------------------------------------------
 */

static Status session_append(Dialogue *d, const json_t *message, Error *error) {
    return conversation_append_message(&d->conversation, json_incref((json_t *)message), error);
}

/* Lets the model give the answer that is message i of the file again and compares it. Then the
 * recorded one takes its place, because the next answers were made after that. */
static Status check_answer(CheckSession *c, Dialogue *d, size_t i, Error *error) {
    const json_t *recorded = json_array_get(c->messages, i);
    const json_t *made_with = json_object_get(recorded, "made_with");
    bool interrupted;
    Status status = chat_receipt_repeat(d, made_with, &interrupted, error);
    if (status != STATUS_OK) return error_prefix(error, "%s: line %zu", c->name, i + 2);
    const char *under = json_string_value(json_object_get(made_with, "under"));
    size_t before = c->report.n_of[VERDICT_SAME];
    c->n_under += under && strcmp(under, d->settings_digest) != 0;
    report_compare(&c->report, "message", i + 1, recorded,
                   json_array_get(d->conversation.messages, i), NULL);
    if (c->report.n_of[VERDICT_SAME] > before) c->n_covered = i + 1;
    if (interrupted)
        report_not_checked(&c->report, "message.made_with.finish", i + 1,
                           "the user ended the answer");
    status = conversation_truncate(&d->conversation, i, error);
    return status == STATUS_OK ? session_append(d, recorded, error) : status;
}

static Status check_messages(CheckSession *c, Dialogue *d, Error *error) {
    Status status = STATUS_OK;
    size_t n = json_array_size(c->messages);
    for (size_t i = 0; status == STATUS_OK && i < n; i++) {
        const json_t *message = json_array_get(c->messages, i);
        bool made = json_object_get(message, "made_with") != NULL;
        status = made ? check_answer(c, d, i, error) : session_append(d, message, error);
        if (!made && strcmp(conversation_role(&d->conversation, i), "assistant") == 0)
            report_not_checked(&c->report, "message", i + 1, "it does not say how it was made");
    }
    if (status == STATUS_OK && c->n_covered < n)
        report_not_checked(&c->report, "messages", c->n_covered + 1,
                           "no answer from this message on is the same and has a seal");
    return status;
}

/* The file has the digest of the settings that its answers share, not the settings. */
static void hint_at_settings(const CheckSession *c) {
    if (c->n_under > 0)
        terminal_say("%s: %zu answer%s made under other settings (made_with.under): give what the "
                     "chat was given, a shape (--json-schema, --choice ...), -c, --kv-type, "
                     "--chat-template",
                     c->name, c->n_under, c->n_under == 1 ? " was" : "s were");
}

/* Checks a conversation's file: compares its header with the one that this session would write,
 * then generates each recorded answer again and reports what differs. */
static Status session_run(void *state, Session *session, Error *error) {
    static const char *const run_fields[] = {"conversation.model", NULL};
    CheckSession *c = state;
    Dialogue d;
    Error note = {.text = ""};
    Status status = read_file(c, session, error);
    if (status != STATUS_OK) return status;
    if (dialogue_open(&d, session, NULL, &note, error) != STATUS_OK) return STATUS_FAILED;
    const json_t *started = json_object_get(c->header, "started");
    if (json_is_integer(started)) d.conversation.started = (time_t)json_integer_value(started);
    if (!localtime_r(&d.conversation.started, &d.prompt.now)) {
        dialogue_close(&d);
        return error_set(error, "%s: 'started' is no time", c->name);
    }
    json_t *header = conversation_header(&d.conversation);
    report_compare(&c->report, "conversation", 0, c->header, header, run_fields);
    json_decref(header);
    status = check_messages(c, &d, error);
    dialogue_close(&d);
    if (status == STATUS_OK) hint_at_settings(c);
    return status == STATUS_OK ? report_end(&c->report, c->name, "part", error) : status;
}

const Mode check_session_mode = {.traits = MODE_OWN_OUTPUT,
                                 .asked = session_asked,
                                 .open = open_file,
                                 .run = session_run,
                                 .close = close_file};
