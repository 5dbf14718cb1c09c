#include "modes/proof/check_text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "modes/proof/proof_options.h"
#include "modes/proof/difference.h"
#include "session/drafting.h"
#include "session/generate.h"
#include "session/shape.h"
#include "system/descriptor.h"
#include "system/terminal.h"

/* The text being generated once more, and its record. */
typedef struct CheckText {
    int fd;
    char *file; /* the record: [length] with the newline that ends it */
    size_t length;
    TextBuffer text; /* what the model gives: the prompt with --echo, then its text */
    GenerationOptions options;
    Generation generation;
    TokenList ids;
    KvCache *cache;
    Drafter *drafter;  /* what the text asks ... */
    Drafter *recorded; /* ... and the record in it */
    Decoding decoding;
    float *logits;
    bool left; /* the record, and is not completed */
} CheckText;

static bool check_text_asked(const Options *o) {
    return proof_options(o)->check && !o->batch;
}

static Status open_record(void **state, const Session *session, SandboxRules *rules, Error *error) {
    const char *name = proof_options(session->options)->check;
    CheckText *c = calloc(1, sizeof *c);
    (void)rules;
    if (!c) return error_set(error, "no memory for a check");
    *state = c;
    c->fd = open(name, O_RDONLY | O_CLOEXEC);
    return c->fd < 0 ? error_set(error, "%s: %s", name, strerror(errno)) : STATUS_OK;
}

static void close_record(void *state) {
    CheckText *c = state;
    if (!c) return;
    if (c->fd >= 0) close(c->fd);
    decoding_free(&c->decoding);
    drafter_free(c->drafter);
    if (c->generation.sampler) generation_free(&c->generation);
    token_rule_free(c->options.rule);
    kvcache_free(c->cache);
    token_list_free(&c->ids);
    text_free(&c->text);
    free(c->logits);
    free(c->file);
    free(c);
}

/* The record's part that is the model's: after the prompt, before the last newline. */
static void generated_part(const CheckText *c, const char **record, size_t *length) {
    size_t skip = c->text.length, end = c->length;
    if (end > 0 && c->file[end - 1] == '\n') end--;
    if (skip > end || memcmp(c->file, c->text.bytes ? c->text.bytes : "", skip) != 0) skip = 0;
    *record = c->file + skip;
    *length = end - skip;
}

/* Reads the recorded text and prepares a generation of the same prompt, for which the record
 * drafts. */
static Status check_text_prepare(CheckText *c, Session *session, Error *error) {
    static const size_t most = (size_t)1 << 30;
    const Options *o = session->options;
    const ProofOptions *proof = proof_options(o);
    const KvShape shape = model_kv_shape(session->model, session->kv_type);
    size_t vocab_size = model_config(session->model)->vocab_size, length;
    const char *record;
    Status status = descriptor_read(c->fd, proof->check, most, session->interrupted, &c->file,
                                    &c->length, error);
    if (status == STATUS_OK) status = session_generation_options(session, &c->options, error);
    if (status != STATUS_OK) return status;
    c->options.rule = NULL;
    if (!options_given(o, &o->seed) && c->options.sampling.temperature > 0.0f) {
        error_set(error, "--check: a text that was drawn is given again by its seed alone: -s N");
        return STATUS_USAGE;
    }
    if (session->prompt_length > 0) c->options.decode_flags |= TOKEN_DECODER_CONTINUE;
    if (o->echo) text_put(&c->text, session->prompt, session->prompt_length, 0);
    generated_part(c, &record, &length);
    status = generate_prompt_ids(session, &c->ids, error);
    if (status == STATUS_OK)
        status = session_rule(session, session->shape, &c->options, &c->options.rule, error);
    if (status == STATUS_OK) status = kvcache_new(&c->cache, &shape, 1, 0, error);
    if (status != STATUS_OK) return status;
    const RecordedDecoding decoding = {.tokenizer = session->tokenizer,
                                       .flags = c->options.decode_flags,
                                       .stops = c->options.n_stop > 0};
    c->recorded = recorded_new(&decoding, record, length, c->ids.length);
    status = drafting_recorded(session, c->recorded, &c->drafter, error);
    if (status != STATUS_OK) return status;
    c->logits = malloc(vocab_size * sizeof *c->logits);
    if (!c->logits) return error_set(error, "no memory for a check");
    status = generation_init(&c->generation, &c->options, session->tokenizer, vocab_size,
                             model_isa(session->model)->numeric, error);
    if (status == STATUS_OK)
        status = decoding_init(&c->decoding, session->model, c->cache, c->drafter, c->ids.ids,
                               c->ids.length, error);
    return status;
}

/* Chooses the next token and compares it with the record. */
static Status check_text_choose(CheckText *c, float *logits, size_t vocab_size,
                                GenerationStep *step, Error *error) {
    Generation *g = &c->generation;
    const TokenList *text = &c->decoding.text;
    size_t before = g->n_tokens;
    if (!recorded_look(c->recorded, text->ids, text->length, logits, vocab_size))
        return error_set(error, "no memory for the logits");
    if (generation_next(g, logits, text->length, step, error) != STATUS_OK) return STATUS_FAILED;
    recorded_judge(c->recorded, step->token, g->finish == FINISH_EOS && g->n_tokens == before,
                   g->options.eos, g->options.n_eos);
    text_put(&c->text, step->text, step->length, 0);
    return c->text.failed ? error_set(error, "no memory for the text") : STATUS_OK;
}

/* Generates the text again, with the record as its draft. Stops at the first token that differs
 * unless the whole text is needed: for -o, or because stop strings are to be found. */
static Status generate(CheckText *c, Session *session, Error *error) {
    size_t context = model_context(session->model);
    size_t vocab_size = model_config(session->model)->vocab_size;
    Generation *g = &c->generation;
    float *logits = c->logits;
    GenerationStep step;
    bool completes = session->options->output || g->options.n_stop > 0;
    generation_prompt(g, c->ids.ids, c->ids.length);
    Status status =
        generate_prefill(session, c->cache, NULL, c->ids.ids, c->ids.length, logits, error);
    while (status == STATUS_OK) {
        if (c->decoding.text.length == context) g->options.max_tokens = g->n_tokens + 1;
        status = check_text_choose(c, logits, vocab_size, &step, error);
        c->left = !completes && recorded_divergence(c->recorded)->found;
        if (status != STATUS_OK || g->finish != FINISH_NOT || c->left) return status;
        if (*session->interrupted) return STATUS_INTERRUPTED;
        status = decoding_next(&c->decoding, step.token, &logits, error);
    }
    return status;
}

/* {"same": true}, or where the record differs. */
static json_t *check_text_compare(CheckText *c, const Session *session, bool *same) {
    const Divergence *d = recorded_divergence(c->recorded);
    json_t *report = json_object();
    const char *record;
    size_t length;
    *same = false;
    json_object_set_new(report, "same", json_false());
    if (c->left) {
        c->text.length = session->options->echo ? session->prompt_length : 0;
        generated_part(c, &record, &length);
        size_t before = (size_t)(record - c->file);
        Divergence whole = *d;
        whole.byte += before;
        difference_put_divergence(report, &whole, session->tokenizer, c->file, before + length);
    } else {
        text_put(&c->text, "\n", 1, 0);
        *same = difference_put_texts(report, c->file, c->length, c->text.bytes, c->text.length);
        if (!*same && d->found) difference_put_token(report, d, session->tokenizer);
    }
    if (*same) json_object_set_new(report, "same", json_true());
    return report;
}

static Status print_report(json_t *report, Error *error) {
    char *line = json_dumps(report, JSON_REAL_PRECISION(9));
    if (!line) return error_set(error, "no memory for the report");
    terminal_print(stdout, "%s\n", line);
    free(line);
    return STATUS_OK;
}

/* --check of a text: generates it again, prints the report and, with -o, writes the new text.
 * STATUS_LINES_FAILED: the record differs. */
static Status check_text_run(void *state, Session *session, Error *error) {
    const ProofOptions *proof = proof_options(session->options);
    CheckText *c = state;
    bool same;
    Status status = check_text_prepare(c, session, error);
    if (status == STATUS_OK) status = generate(c, session, error);
    if (status != STATUS_OK) return status;
    json_t *report = check_text_compare(c, session, &same);
    if (!same || !proof->quiet) status = print_report(report, error);
    json_decref(report);
    if (status == STATUS_OK && session->options->output)
        status = output_write(session->output, c->text.bytes, c->text.length, error);
    if (status == STATUS_OK && session->options->output)
        status = output_finish(session->output, error);
    if (session->options->stats) {
        SpeculationStats s = c->decoding.speculation.stats;
        terminal_print(stderr, "check:   %zu tokens in %zu passes\n", c->generation.n_tokens,
                       s.passes);
    }
    if (status != STATUS_OK || same) return status;
    error_set(error, "%s is not what this model gives", proof->check);
    return STATUS_LINES_FAILED;
}

const Mode check_text_mode = {
    .asked = check_text_asked, .open = open_record, .run = check_text_run, .close = close_record};
