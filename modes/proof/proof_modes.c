#include "modes/proof/proof_modes.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "modes/proof/proof_options.h"
#include "modes/proof/receipt.h"
#include "session/sampling_numbers.h"
#include "base/sha256.h"
#include "system/descriptor.h"

#define usage(...) (error_set(__VA_ARGS__), STATUS_USAGE)

/* ---- The kind of a record -----------------------------------------------------------------------
 */

enum { LOOKED_AT = 4096 };

/* The file's first bytes or, `last`, its last ones; NUL-terminated. A pipe is not looked at: what
 * is read of it is gone. */
static void look(const char *path, bool last, char text[LOOKED_AT + 1]) {
    struct stat info;
    text[0] = '\0';
    if (stat(path, &info) != 0 || !S_ISREG(info.st_mode)) return;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    off_t from = last && info.st_size > LOOKED_AT ? info.st_size - LOOKED_AT : 0;
    ssize_t n = fd >= 0 ? pread(fd, text, LOOKED_AT, from) : 0;
    text[n > 0 ? n : 0] = '\0';
    for (ssize_t i = 0; i < n; i++)
        if (text[i] == '\0') text[i] = ' ';
    if (fd >= 0) close(fd);
}

/* A conversation says itself what was asked and drawn: whoever gives a prompt or a seed expects
 * another kind of record. */
static Status refuse_beside_session(const Options *o, Error *error) {
    const ProofOptions *proof = proof_options(o);
    bool others = o->batch || options_ask(o, "session") || o->output || proof->receipt ||
                  o->prompt || o->prompt_file || o->system || options_given(o, &o->seed) ||
                  options_given(o, &o->n_tokens);
    for (size_t k = 0, i; k < N_SAMPLING_NUMBERS; k++)
        others = others ||
                 (command_line_find(&o->line, sampling_numbers[k].name, &i) && o->line.given[i]);
    if (!others) return STATUS_OK;
    return usage(error,
                 "--check %s: a conversation, which says itself what was asked, and its seeds: no "
                 "-i, -f, -y, -s, -t, -n, --batch, --session, -o or the like",
                 proof->check);
}

/* Finds out by the file's beginning and end whether --check names a receipt, a conversation or
 * results. */
static Status find_kind(Options *o, Error *error) {
    ProofOptions *proof = proof_options_to_set(o);
    char begin[LOOKED_AT + 1], end[LOOKED_AT + 1];
    if (!proof->check || proof->replay) return STATUS_OK;
    look(proof->check, false, begin);
    look(proof->check, true, end);
    if (begin[0] != '{') return STATUS_OK;
    bool receipt = strstr(begin, "\"verbatim_receipt\"") || strstr(end, "\"verbatim_receipt\"");
    begin[strcspn(begin, "\n")] = '\0';
    bool session = strstr(begin, "\"verbatim_session\""),
         results = strstr(begin, "\"system_fingerprint\"");
    if (session && refuse_beside_session(o, error) != STATUS_OK) return STATUS_USAGE;
    if (results && !session && !receipt && !o->batch)
        return usage(error, "--check %s: results, which need their requests: --batch FILE",
                     proof->check);
    if (session) proof->check_session = proof->check;
    if (receipt && !session) proof->replay = proof->check;
    if (session || receipt) proof->check = NULL;
    return STATUS_OK;
}

static bool never(const Options *o) {
    (void)o;
    return false;
}

const Mode proof_record_kind_mode = {.asked = never, .check = find_kind};

/* ---- --replay ----------------------------------------------------------------------------------
 */

typedef struct Replay {
    Receipt *receipt;
    Output sink; /* of what the kinds write */
    const Mode *const *kinds;
    void *states[REPLAY_MOST_KINDS]; /* theirs */
} Replay;

static bool proof_asked(const Options *o) {
    return proof_options(o)->replay != NULL;
}

/* Refuses options that contradict --check, --receipt or --replay. */
static Status proof_check(Options *o, Error *error) {
    const ProofOptions *proof = proof_options(o);
    static const char *const looking[] = {"info",       "verify",      "tokenize",   "detokenize",
                                          "render",     "eval",        "score",      "attention",
                                          "positions",  "no-cache",    "trace",      "list",
                                          "cache-list", "cache-clear", "shape-test", NULL};
    bool views = options_ask_any(o, looking);
    if (proof->quiet && !proof->check && !proof->check_session && !proof->replay)
        return usage(error, "--quiet leaves out what --check and --replay find the same");
    if (proof->receipt && proof->replay)
        return usage(error, "--receipt writes a receipt and --replay reads one: use one of them");
    if (proof->receipt_key && !proof->receipt && !proof->replay)
        return usage(error, "--receipt-key needs --receipt or --replay");
    if ((proof->receipt || proof->replay) && views)
        return usage(error, "receipts are of a text, a chat or a batch, not of this");
    if ((proof->receipt || proof->replay) && options_ask(o, "merge"))
        return usage(error, "--merge computes no answers: each part of a batch has its receipt");
    if (proof->replay && options_ask(o, "shard") && !o->batch)
        return usage(error, "--replay with --shard needs the requests' --batch FILE");
    if (proof->receipt && proof->check)
        return usage(error, "--receipt writes answers down, --check looks at them: one at a time");
    if (proof->receipt && options_ask(o, "resume"))
        return usage(error, "--receipt writes down a whole batch: not with --resume");
    if (proof->replay && (o->output || options_ask(o, "resume") || o->mode))
        return usage(error, "--replay repeats what the receipt says: no -o, -m or --resume");
    return STATUS_OK;
}

static Status open_replay(void **state, const Session *session, SandboxRules *rules, Error *error) {
    Replay *replay = calloc(1, sizeof *replay);
    if (!replay) return error_set(error, "no memory for a receipt");
    *state = replay;
    replay->sink.fd = -1;
    replay->kinds = session->replay_kinds;
    Status status = receipt_open(&replay->receipt, session->options, error);
    if (status == STATUS_OK) status = output_open(&replay->sink, "/dev/null", error);
    for (size_t i = 0; status == STATUS_OK && replay->kinds[i]; i++)
        if (replay->kinds[i]->open)
            status = replay->kinds[i]->open(&replay->states[i], session, rules, error);
    return status;
}

static Status proof_prepare(void *state, Options *options, Session *session, Error *error) {
    Replay *replay = state;
    session->receipt = replay->receipt;
    session->output = &replay->sink;
    return receipt_read(replay->receipt, options, session, error);
}

static Status proof_run(void *state, Session *session, Error *error) {
    const ProofOptions *proof = proof_options(session->options);
    Replay *replay = state;
    const char *kind = receipt_kind(replay->receipt);
    size_t i = 0;
    while (replay->kinds[i] && strcmp(replay->kinds[i]->name, kind) != 0) i++;
    if (!replay->kinds[i])
        return error_set(error, "%s: a receipt of a '%.40s', which this version does not know",
                         proof->replay, kind);
    if (options_ask(session->options, "session") && strcmp(kind, "chat") != 0)
        return error_set(error, "%s: not of a chat, whose messages --session would have",
                         proof->replay);
    Status status = receipt_begin(replay->receipt, session, kind, error);
    if (status == STATUS_OK) status = replay->kinds[i]->run(replay->states[i], session, error);
    return status == STATUS_OK ? receipt_finish(replay->receipt, error) : status;
}

static void close_replay(void *state) {
    Replay *replay = state;
    if (!replay) return;
    for (size_t i = 0; replay->kinds[i]; i++)
        if (replay->kinds[i]->close) replay->kinds[i]->close(replay->states[i]);
    receipt_close(replay->receipt);
    output_close(&replay->sink);
    free(replay);
}

const Mode proof_replay_mode = {.traits = MODE_OWN_OUTPUT | MODE_WITHOUT_HEAD,
                                .asked = proof_asked,
                                .check = proof_check,
                                .open = open_replay,
                                .prepare = proof_prepare,
                                .run = proof_run,
                                .close = close_replay};

/* ---- Replaying one text ---------------------------------------------------------------------- */

/* What --check says the text was: it is drafted from that. */
typedef struct RecordedText {
    int fd; /* -1: none */
    char *text;
    size_t length; /* without the newline that `run` adds */
    bool ends;     /* it has that newline */
} RecordedText;

/* Mode.open: opens the recorded text of --check. */
static Status open_recorded_text(void **state, const Session *session, SandboxRules *rules,
                                 Error *error) {
    const char *path = proof_options(session->options)->check;
    RecordedText *record = calloc(1, sizeof *record);
    (void)rules;
    if (!record) return error_set(error, "no memory for a text");
    *state = record;
    record->fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    return path && record->fd < 0 ? error_set(error, "%s: %s", path, strerror(errno)) : STATUS_OK;
}

static void close_recorded_text(void *state) {
    RecordedText *record = state;
    if (!record) return;
    if (record->fd >= 0) close(record->fd);
    free(record->text);
    free(record);
}

Status proof_generate(Session *session, const GenerateRecord *record, Error *error) {
    GeneratedText text = {0};
    bool kept = session->receipt != NULL;
    Status status = generate_run(session, record, kept ? &text : NULL, error);
    if (status == STATUS_OK && kept) status = receipt_take_text(session, &text, error);
    generated_text_free(&text);
    return status;
}

/* Says whether the recorded text is the one that the receipt was made of. */
static void compare_record(const Session *session, const RecordedText *record) {
    const json_t *item = json_array_get(receipt_items(session->receipt), 0);
    const json_t *answer = json_array_get(json_object_get(item, "answers"), 0);
    char digest[SHA256_HEX];
    sha256_text(record->text, record->length, digest);
    json_t *got = json_string(digest);
    receipt_compare(session->receipt, "recorded", json_object_get(answer, "sha256"), got);
    json_decref(got);
    if (record->ends) return;
    json_t *report =
        json_pack("{s:b, s:s}", "same", 0, "error", "the newline at its end is missing");
    receipt_report(session->receipt, "recorded", report);
    json_decref(report);
}

static Status run_text(void *state, Session *session, Error *error) {
    static const size_t most = (size_t)1 << 30;
    RecordedText *record = state;
    if (record->fd < 0) return proof_generate(session, NULL, error);
    Status status = descriptor_read(record->fd, proof_options(session->options)->check, most,
                                    session->interrupted, &record->text, &record->length, error);
    if (status != STATUS_OK) return status;
    record->ends = record->length > 0 && record->text[record->length - 1] == '\n';
    if (record->ends) record->length--;
    compare_record(session, record);
    const GenerateRecord text = {record->text, record->length};
    return proof_generate(session, &text, error);
}

const Mode proof_replay_text = {
    .name = "text", .open = open_recorded_text, .run = run_text, .close = close_recorded_text};
