#include "modes/batch/batch_mode.h"

#include <stddef.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "modes/proof/proof_options.h"
#include "modes/inspect/inspect_options.h"
#include "session/embedding_options.h"
#include "modes/batch/batch_options.h"
#include "modes/batch/batch.h"
#include "modes/batch/merge.h"
#include "modes/batch/shard.h"

#define usage(...) (error_set(__VA_ARGS__), STATUS_USAGE)

/* Makes --embed a batch, and refuses options of embeddings without it. --embed is a batch whose
 * lines are texts, with the results in their order. */
static Status check_embed(Options *o, Error *error) {
    BatchOptions *batch = batch_options_to_set(o);
    const ProofOptions *proof = proof_options(o);
    const EmbeddingOptions *embedding = embedding_options(o);
    bool others = embedding->pooling || embedding->dimensions || embedding->embed_normalize ||
                  embedding->embed_prompt || embedding->embed_truncate;
    if (others && !embedding->embed && !o->batch && !proof->replay)
        return usage(error, "--pooling, --dimensions, --embed-normalize, --embed-prompt and "
                            "--embed-truncate need --embed FILE or --batch FILE");
    if (!embedding->embed) return STATUS_OK;
    if (o->prompt || o->prompt_file || o->mode)
        return usage(error, "--embed FILE names the texts, one a line: no -i, -f or -m");
    if (o->json_schema || o->json_object || o->regex || o->grammar || o->choice.n > 0)
        return usage(error, "--embed FILE gives vectors, as lines of JSON: no shape of an answer");
    if (o->batch || batch->batch_text || proof->check)
        return usage(error, "--embed FILE names the texts: no --batch, --batch-text or --check");
    o->batch = embedding->embed;
    batch->batch_text = batch->ordered = true;
    return STATUS_OK;
}

static bool batch_asked(const Options *options) {
    return options->batch != NULL;
}

/* Checks --shard, by its numbers as well. */
static Status check_shard(const Options *o, Error *error) {
    const ProofOptions *proof = proof_options(o);
    const BatchOptions *batch = batch_options(o);
    uint64_t part, of;
    if (!batch->shard) return STATUS_OK;
    if (!o->batch || strcmp(o->batch, "-") == 0)
        return usage(error, "--shard needs the requests' --batch FILE, not stdin");
    if (proof->check)
        return usage(error, "--check looks at results of the whole FILE, not of a --shard");
    return shard_number(batch->shard, &part, &of, error);
}

/* Whoever waits for results as they come has a pipe at each end; numbers of rows are those of one
 * run. */
static Status check_live(const Options *o, Error *error) {
    const ProofOptions *proof = proof_options(o);
    const BatchOptions *batch = batch_options(o);
    bool ordered =
        batch->ordered || batch->batch_text || proof->check || proof->receipt || batch->strict;
    if (batch->live && (strcmp(o->batch, "-") != 0 || o->output || ordered))
        return usage(error, "--live answers the requests of --batch - as they come: no -o, "
                            "--ordered, --batch-text, --check, --receipt or --strict");
    if (batch->logits && (proof->check || batch->resume || proof->receipt))
        return usage(error, "--logits names rows of one run: no --check, --resume or --receipt");
    return STATUS_OK;
}

/* Whether a file of this name is a table, also before it is unpacked. */
static bool names_table(const char *name) {
    static const char *const endings[] = {".gz", ".zst", ".xz", ".bz2"};
    size_t n = strlen(name);
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        size_t m = strlen(endings[i]);
        if (n <= m || strcasecmp(name + n - m, endings[i]) != 0) continue;
        n -= m;
        break;
    }
    return n > 4 &&
           (strncasecmp(name + n - 4, ".csv", 4) == 0 || strncasecmp(name + n - 4, ".tsv", 4) == 0);
}

/* Decides whether the batch is a table, and refuses what does not go with one. A table has a
 * prompt of its own, into which its rows are filled. */
static Status check_table(Options *o, Error *error) {
    const ProofOptions *proof = proof_options(o);
    BatchOptions *batch = batch_options_to_set(o);
    const EmbeddingOptions *embedding = embedding_options(o);
    bool named = o->batch && names_table(o->batch);
    if (embedding->embed || batch->merge || proof->replay || (!named && !batch->csv)) {
        if (batch->csv) return usage(error, "--csv is for --batch FILE");
        if (batch->csv_id)
            return usage(error, "--csv-id names a column of a table: --batch FILE.csv");
        return STATUS_OK;
    }
    if (!o->batch) return usage(error, "--csv is for --batch FILE");
    batch->csv = !batch->batch_text;
    if (!batch->csv && batch->csv_id)
        return usage(error, "--csv-id names a column of a table, which --batch-text does not have");
    if (!batch->csv) return STATUS_OK;
    if (batch->live || proof->receipt)
        return usage(error, "a table of --batch takes no --live and no --receipt");
    /* A missing file is reported when it is opened. */
    bool there = strcmp(o->batch, "-") == 0 || access(o->batch, F_OK) == 0;
    if (!o->prompt && !o->prompt_file && there)
        return usage(error,
                     "--batch %s: -i says what becomes of a row: -i 'Summarize: {text}', with "
                     "the name of a column in braces",
                     o->batch);
    bool standard = strcmp(o->batch, "-") == 0;
    if (standard && o->prompt_file && strcmp(o->prompt_file, "-") == 0)
        return usage(error, "--batch - and -f - both read stdin");
    batch->csv_messages = o->mode == TEXT_CHAT;
    o->mode = TEXT_GENERATE;
    return STATUS_OK;
}

/* A given option of batches that says nothing without one; NULL: none. check_table and check_shard
 * say more of theirs. */
static const OptionRow *batch_only(const Options *o) {
    const BatchOptions *batch = batch_options(o);
    const void *own[] = {&batch->csv, &batch->csv_id, &batch->shard, &batch->merge};
    for (const OptionRow *row = batch_option_table.rows; row->kind != OPTION_END; row++) {
        const void *field = (const char *)batch + row->field;
        bool has_own = false;
        for (size_t i = 0; i < sizeof own / sizeof *own; i++) has_own |= field == own[i];
        if (!has_own && options_given(o, field)) return row;
    }
    return NULL;
}

/* Checks the options of batches. It is called without --batch as well, to refuse options that need
 * it. */
static Status batch_check(Options *o, Error *error) {
    BatchOptions *batch = batch_options_to_set(o);
    const ProofOptions *proof = proof_options(o);
    const InspectOptions *inspect = inspect_options(o);
    Status status = check_embed(o, error);
    if (status == STATUS_OK) status = check_table(o, error);
    if (status != STATUS_OK) return status;
    bool views = inspect->info || inspect->verify || inspect->tokenize || inspect->detokenize ||
                 inspect->render || inspect->eval || inspect->score || inspect->attention ||
                 inspect->positions || inspect->no_cache;
    if (proof->check && (o->mode || views))
        return usage(error, "--check is for one text or --batch: not with -m chat or other modes");
    if (proof->check && o->batch && (batch->resume || batch->retry_failed || batch->strict))
        return usage(error, "--check looks at every line: no --resume, --retry-failed, --strict");
    if (proof->check && o->batch) batch->ordered = true;
    if (o->batch && o->echo)
        return usage(error, "--echo writes the prompt of one text: a result of --batch names its "
                            "request by id or line");
    if (batch->csv && views)
        return usage(error,
                     "--batch %s answers the rows of a table: no --info, --tokenize, --eval "
                     "or other mode",
                     o->batch);
    if (o->batch && (views || ((o->prompt || o->prompt_file) && !batch->csv) || o->mode))
        return usage(error, "--batch takes all that a request says from FILE: no -i, -f, -m "
                            "or other mode. A table, whose rows -i takes, is FILE.csv, "
                            "FILE.tsv or has --csv");
    if (o->batch && o->override.n > 0)
        return usage(error, "--override is for single texts: not with --batch or --session");
    if (batch->batch_text && !o->batch && o->model && strcmp(o->model, "-") == 0)
        return usage(error, "--batch-text names no file: --batch - --batch-text reads stdin");
    const OptionRow *lone = o->batch ? NULL : batch_only(o);
    if (lone) return usage(error, "--%s is for a file of requests: --batch FILE", lone->name);
    if (batch->resume && !o->output) return usage(error, "--resume needs the results' -o FILE");
    if (batch->retry_failed && !batch->resume) return usage(error, "--retry-failed needs --resume");
    if (check_live(o, error) != STATUS_OK) return STATUS_USAGE;
    return check_shard(o, error);
}

static Status open_batch(void **state, const Session *session, SandboxRules *rules, Error *error) {
    (void)rules;
    return batch_open((Batch **)state, session->options, error);
}

static Status run_batch(void *state, Session *session, Error *error) {
    return batch_run(state, session, error);
}

static void close_batch(void *state) {
    batch_close(state);
}

const Mode batch_mode = {.traits = MODE_OWN_OUTPUT | MODE_WITHOUT_HEAD,
                         .asked = batch_asked,
                         .check = batch_check,
                         .open = open_batch,
                         .run = run_batch,
                         .close = close_batch};

/* ---- --merge -----------------------------------------------------------------------------------
 */

static bool merge_asked(const Options *options) {
    return batch_options(options)->merge;
}

static bool may_stand_beside_merge(const OptionRow *row) {
    static const char *const names[] = {"merge",   "batch", "batch-text", "output",
                                        "ordered", "stats", "no-sandbox"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(row->name, names[i]) == 0) return true;
    return false;
}

static Status check_merge(Options *o, Error *error) {
    const BatchOptions *batch = batch_options(o);
    const OptionRow *row;
    if (!batch->merge) return STATUS_OK;
    if (o->model)
        return usage(error, "--merge needs no model: run --merge PARTS... --batch FILE -o ALL");
    if (o->n_parts == 0 || !o->batch || strcmp(o->batch, "-") == 0)
        return usage(error, "--merge needs the parts' results and the requests that they answer: "
                            "run --merge PARTS... --batch FILE -o ALL");
    for (size_t i = 0; (row = command_line_row(&o->line, i)); i++)
        if (o->line.given[i] && !may_stand_beside_merge(row))
            return usage(error, "--merge joins results that are there: not with --%s", row->name);
    return STATUS_OK;
}

static Status run_merge(void *state, Session *session, Error *error) {
    (void)state;
    return merge_run(session, error);
}

const Mode batch_merge_mode = {.name = "--merge",
                               .traits = MODE_WITHOUT_MODEL,
                               .asked = merge_asked,
                               .check = check_merge,
                               .run = run_merge};

/* ---- --replay ----------------------------------------------------------------------------------
 */

static Status open_replay(void **state, const Session *session, SandboxRules *rules, Error *error) {
    (void)rules;
    return batch_replay_open((Batch **)state, session->options, error);
}

static Status run_replay(void *state, Session *session, Error *error) {
    return batch_replay_run(state, session, error);
}

const Mode batch_replay = {
    .name = "batch", .open = open_replay, .run = run_replay, .close = close_batch};
