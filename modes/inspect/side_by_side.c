#include "modes/inspect/side_by_side.h"

#include <stdlib.h>
#include <string.h>

#include "modes/inspect/inspect_options.h"
#include "draft/speculation.h"
#include "modes/inspect/inspect.h"
#include "modes/inspect/why_text.h"
#include "session/generate.h"
#include "session/logprobs.h"

/* One model and what it has answered. */
typedef struct Side {
    Session session; /* with this model in its place */
    const char *name;
    GenerationOptions options;
    TokenList prompt, answer; /* the answer with the token that ended it */
    TextBuffer text;
    float *logits; /* [vocab_size] */
} Side;

static Status begin_side(Side *side, const Session *session, Error *error) {
    side->session = *session;
    side->session.output = NULL;
    side->logits = malloc(model_config(session->model)->vocab_size * sizeof *side->logits);
    if (!side->logits) return error_set(error, "no memory for the logits");
    Status status = session_generation_options(&side->session, &side->options, error);
    return status == STATUS_OK ? generate_prompt_ids(&side->session, &side->prompt, error) : status;
}

static void free_side(Side *side) {
    token_list_free(&side->prompt);
    token_list_free(&side->answer);
    text_free(&side->text);
    free(side->logits);
}

/* The loop of session/generate.c, without drafts, which change no text. */
static Status decode(Side *side, Generation *g, Decoding *decoding, Error *error) {
    size_t position = side->prompt.length, context = model_context(side->session.model);
    float *logits = side->logits;
    for (;; position++) {
        GenerationStep step;
        if (position == context) g->options.max_tokens = g->n_tokens + 1;
        Status status = generation_next(g, logits, position, &step, error);
        if (status != STATUS_OK) return status;
        text_put(&side->text, step.text, step.length, 0);
        if (side->text.failed || !token_list_push(&side->answer, step.token))
            return error_set(error, "no memory for the answer");
        if (g->finish != FINISH_NOT) return STATUS_OK;
        if (*side->session.interrupted) return STATUS_INTERRUPTED;
        status = decoding_next(decoding, step.token, &logits, error);
        if (status != STATUS_OK) return status;
    }
}

/* Generates the answer of one of the two models, in a KV cache of its own and without drafts. */
static Status generate_answer(Side *side, Error *error) {
    const Session *s = &side->session;
    const KvShape shape = model_kv_shape(s->model, s->kv_type);
    const TokenList *ids = &side->prompt;
    KvCache *cache = NULL;
    Generation g = {0};
    Decoding decoding = {0};
    if (s->prompt_length > 0) side->options.decode_flags |= TOKEN_DECODER_CONTINUE;
    Status status = kvcache_new(&cache, &shape, 1, 0, error);
    if (status == STATUS_OK)
        status =
            generation_init(&g, &side->options, s->tokenizer, model_config(s->model)->vocab_size,
                            model_isa(s->model)->numeric, error);
    if (status == STATUS_OK)
        status = decoding_init(&decoding, s->model, cache, NULL, ids->ids, ids->length, error);
    if (status == STATUS_OK) {
        generation_prompt(&g, ids->ids, ids->length);
        status = generate_prefill(s, cache, NULL, ids->ids, ids->length, side->logits, error);
    }
    if (status == STATUS_OK) status = decode(side, &g, &decoding, error);
    decoding_free(&decoding);
    generation_free(&g);
    kvcache_free(cache);
    return status;
}

/* The log-probabilities of two tokens after the prompt and the first n tokens of the answer. */
static Status two_logprobs(Side *side, size_t n, const int32_t tokens[2], double out[2],
                           Error *error) {
    const Session *s = &side->session;
    const KvShape shape = model_kv_shape(s->model, s->kv_type);
    size_t vocab_size = model_config(s->model)->vocab_size;
    float *exps = malloc(vocab_size * sizeof *exps);
    KvCache *cache = NULL;
    TokenList *ids = &side->prompt;
    Status status = exps ? STATUS_OK : error_set(error, "no memory for probabilities");
    for (size_t i = 0; i < n && status == STATUS_OK; i++)
        if (!token_list_push(ids, side->answer.ids[i]))
            status = error_set(error, "no memory for the text");
    if (status == STATUS_OK) status = kvcache_new(&cache, &shape, 1, 0, error);
    if (status == STATUS_OK)
        status = generate_prefill(s, cache, NULL, ids->ids, ids->length, side->logits, error);
    if (status == STATUS_OK) {
        double sum;
        double all =
            logprobs_log_sum(model_isa(s->model)->numeric, side->logits, vocab_size, exps, &sum);
        for (size_t i = 0; i < 2; i++) out[i] = (double)side->logits[tokens[i]] - all;
    }
    kvcache_free(cache);
    free(exps);
    return status;
}

/* ---- What is printed ---- */

static Status print_answer(const Session *session, const Side *side, Error *error) {
    Status status = inspect_print(session, error, "--- %s\n", side->name);
    if (status == STATUS_OK && side->text.length > 0)
        status = output_write(session->output, side->text.bytes, side->text.length, error);
    return status == STATUS_OK ? output_write(session->output, "\n", 1, error) : status;
}

/* A token's text as a string of JSON; NULL: no memory. The caller frees it. */
static char *token_name(const Session *session, int32_t token) {
    size_t length;
    const char *text = tokenizer_token_text(session->tokenizer, token, &length);
    json_t *json = json_stringn(text, length);
    char *name = json ? json_dumps(json, JSON_ENCODE_ANY) : NULL;
    json_decref(json);
    return name;
}

static Status print_parting(const Session *session, Side *sides, size_t at, Error *error) {
    const int32_t tokens[] = {sides[0].answer.ids[at], sides[1].answer.ids[at]};
    Status status = inspect_print(session, error, "--- they part at token %zu\n", at + 1);
    char *names[2];
    for (size_t i = 0; i < 2; i++) names[i] = token_name(session, tokens[i]);
    for (size_t i = 0; i < 2 && status == STATUS_OK; i++) {
        double logprobs[2];
        status = two_logprobs(&sides[i], at, tokens, logprobs, error);
        for (size_t k = 0; k < 2 && status == STATUS_OK; k++)
            status = inspect_print(session, error, "%s: log p = %.4f of token %d %s%s\n",
                                   sides[i].name, logprobs[k], tokens[k], names[k] ? names[k] : "",
                                   k == i ? ", which it took" : "");
    }
    for (size_t i = 0; i < 2; i++) free(names[i]);
    return status;
}

/* The number of tokens that begin both answers. */
static size_t parting(const Side *sides) {
    size_t n = sides[0].answer.length, m = sides[1].answer.length, at = 0;
    while (at < n && at < m && sides[0].answer.ids[at] == sides[1].answer.ids[at]) at++;
    return at;
}

static Status compare(const Session *session, Side *sides, Error *error) {
    size_t n = sides[0].answer.length, m = sides[1].answer.length, at = parting(sides);
    if (at == n && at == m)
        return inspect_print(session, error, "--- both give the same %zu tokens\n", n);
    if (at < n && at < m) return print_parting(session, sides, at, error);
    return inspect_print(session, error, "--- the same up to token %zu, where %s was cut\n", at,
                         sides[at == n ? 0 : 1].name);
}

/* --why: which tensors make the other model go on as the first does. compare() has put the answer
 * up to the parting after the prompts. */
static Status explain_parting(const Session *session, ModelFile *file, const Side *sides,
                              Error *error) {
    size_t at = parting(sides);
    if (at == sides[0].answer.length || at == sides[1].answer.length) return STATUS_OK;
    if (sides[0].options.sampling.temperature != 0.0f)
        return error_set(error, "--why explains the likeliest token: give -t 0");
    return why_text_parting(session, file, sides[1].session.kv_type, sides[0].prompt.ids,
                            sides[0].prompt.length, error);
}

Status side_by_side_run(Session *session, ModelFile *file, Error *error) {
    const InspectOptions *inspect = inspect_options(session->options);
    Session others = *session;
    others.model = session->other;
    others.file = file;
    others.kv_type = session_kv_type(session->other, session->options->kv_type);
    Side sides[2] = {{.name = session->options->model}, {.name = inspect->against}};
    if (model_config(session->other)->vocab_size != model_config(session->model)->vocab_size)
        return error_set(error, "%s: has %u tokens, but %s has %u: they cannot be compared",
                         sides[1].name, model_config(session->other)->vocab_size, sides[0].name,
                         model_config(session->model)->vocab_size);
    Status status = begin_side(&sides[0], session, error);
    if (status == STATUS_OK) status = begin_side(&sides[1], &others, error);
    if (status == STATUS_OK) sides[1].options.sampling = sides[0].options.sampling;
    for (size_t i = 0; i < 2 && status == STATUS_OK; i++) {
        status = generate_answer(&sides[i], error);
        if (status == STATUS_OK) status = print_answer(session, &sides[i], error);
    }
    if (status == STATUS_OK) status = compare(session, sides, error);
    if (status == STATUS_OK && inspect->why) status = explain_parting(session, file, sides, error);
    for (size_t i = 0; i < 2; i++) free_side(&sides[i]);
    return status;
}
