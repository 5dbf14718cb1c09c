#include "modes/inspect/token_scores.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "modes/inspect/inspect_options.h"
#include "base/utf8.h"
#include "modes/inspect/picture.h"
#include "core/prefill.h"
#include "session/logprobs.h"

enum { ALTERNATIVES = 5 };

typedef struct TokenScore {
    double logprob;
    size_t rank;               /* 1: the likeliest */
    int32_t top[ALTERNATIVES]; /* the n_top likeliest tokens, best first */
    double top_logprob[ALTERNATIVES];
    size_t n_top;
} TokenScore;

typedef struct Scoring {
    const Session *session;
    const TokenList *ids;
    TokenScore *scores; /* [ids - 1]; scores[i] is that of ids[i + 1] after ids[0 ... i] */
    float *exps;        /* [vocab_size] scratch */
} Scoring;

/* Whether token a ranks before token b: by logit, equal logits by id. */
static bool before(const float *logits, size_t a, size_t b) {
    return logits[a] > logits[b] || (a < b && logits[a] == logits[b]);
}

/* Inserts token id into the list of the likeliest, which stays sorted; the last one drops out. */
static void insert_top(TokenScore *score, const float *logits, size_t id) {
    size_t at = score->n_top;
    while (at > 0 && before(logits, id, (size_t)score->top[at - 1])) at--;
    if (at == ALTERNATIVES) return;
    if (score->n_top < ALTERNATIVES) score->n_top++;
    memmove(score->top + at + 1, score->top + at, (score->n_top - 1 - at) * sizeof *score->top);
    score->top[at] = (int32_t)id;
}

static TokenScore score_token(const Numeric *numeric, const float *logits, size_t n, int32_t token,
                              float *exps) {
    TokenScore score = {.rank = 1};
    double log_sum = logprobs_log_sum(numeric, logits, n, exps, NULL);
    for (size_t i = 0; i < n; i++) {
        score.rank += before(logits, i, (size_t)token);
        insert_top(&score, logits, i);
    }
    for (size_t i = 0; i < score.n_top; i++)
        score.top_logprob[i] = (double)logits[score.top[i]] - log_sum;
    score.logprob = (double)logits[token] - log_sum;
    return score;
}

static Status score_chunk(void *context, const PrefillChunk *chunk, Error *error) {
    const Scoring *s = context;
    const Model *model = s->session->model;
    size_t vocab_size = model_config(model)->vocab_size, first = chunk->done - chunk->n_logits;
    (void)error;
    for (size_t i = 0; i < chunk->n_logits; i++)
        s->scores[first + i] =
            score_token(model_isa(model)->numeric, chunk->logits + i * vocab_size, vocab_size,
                        s->ids->ids[first + i + 1], s->exps);
    return *s->session->interrupted ? STATUS_INTERRUPTED : STATUS_OK;
}

/* Fills scores[ids - 1] by one pass over the text. */
static Status score_ids(const Session *session, const TokenList *ids, TokenScore *scores,
                        Error *error) {
    Model *model = session->model;
    const KvShape shape = model_kv_shape(model, session->kv_type);
    size_t vocab_size = model_config(model)->vocab_size, n = ids->length - 1;
    size_t rows = logprobs_max_rows(model);
    if (rows > n) rows = n;
    Scoring s = {session, ids, scores, malloc(vocab_size * sizeof *s.exps)};
    float *logits = malloc(rows * vocab_size * sizeof *logits);
    KvCache *cache = NULL;
    Status status = s.exps && logits ? kvcache_new(&cache, &shape, 1, 0, error)
                                     : error_set(error, "no memory for the logits");
    if (status == STATUS_OK) {
        const Prefill p = {.ids = ids->ids,
                           .n = n,
                           .max_rows = rows,
                           .logits = logits,
                           .after_chunk = score_chunk,
                           .context = &s};
        status = prefill(model, cache, &p, error);
    }
    kvcache_free(cache);
    free(logits);
    free(s.exps);
    return status;
}

/* Adds a token's text: in quotes and cut at 60 bytes, or as two fields of a JSON object. */
static void add_token(const Session *session, Sheet *out, int32_t id, bool is_json) {
    size_t length;
    const char *bytes = tokenizer_token_text(session->tokenizer, id, &length);
    if (is_json) {
        sheet_printf(out, "\"id\": %d, \"token\": \"", id);
        sheet_json(out, bytes, length);
        sheet_printf(out, "\"");
        return;
    }
    Sheet one = {0};
    sheet_plain(&one, bytes, length);
    size_t n = utf8_boundary(one.bytes, one.length, one.length < 60 ? one.length : 60);
    sheet_printf(out, "'%.*s'", (int)n, one.bytes ? one.bytes : "");
    sheet_free(&one);
}

static void write_json(const Session *session, const TokenList *ids, const TokenScore *scores,
                       double sum, Sheet *out) {
    size_t n = ids->length - 1;
    sheet_printf(out, "{\"logprob\": %.9g, \"n_tokens\": %zu, \"perplexity\": %.9g, \"tokens\": [",
                 sum, n, exp(-sum / (double)n));
    for (size_t i = 0; i < n; i++) {
        sheet_printf(out, "%s\n {", i ? "," : "");
        add_token(session, out, ids->ids[i + 1], true);
        sheet_printf(out, ", \"logprob\": %.9g, \"rank\": %zu, \"top\": [", scores[i].logprob,
                     scores[i].rank);
        for (size_t k = 0; k < scores[i].n_top; k++) {
            sheet_printf(out, "%s{", k ? ", " : "");
            add_token(session, out, scores[i].top[k], true);
            sheet_printf(out, ", \"logprob\": %.9g}", scores[i].top_logprob[k]);
        }
        sheet_printf(out, "]}");
    }
    sheet_printf(out, "]}\n");
}

/* Writes a row for each token with its log-probability, the sum so far, its rank and the likeliest
 * tokens; then the total and the perplexity. */
static void write_table(const Session *session, const TokenList *ids, const TokenScore *scores,
                        double sum, Sheet *out) {
    size_t n = ids->length - 1;
    double running = 0.0;
    sheet_printf(out, "  log p     sum   rank  token; likeliest\n");
    for (size_t i = 0; i < n; i++) {
        running += scores[i].logprob;
        sheet_printf(out, "%7.3f %7.2f %6zu  ", scores[i].logprob, running, scores[i].rank);
        add_token(session, out, ids->ids[i + 1], false);
        sheet_printf(out, ";");
        for (size_t k = 0; k < scores[i].n_top; k++) {
            sheet_printf(out, " ");
            add_token(session, out, scores[i].top[k], false);
            sheet_printf(out, " %.0f%%", 100.0 * exp(scores[i].top_logprob[k]));
        }
        sheet_printf(out, "\n");
    }
    sheet_printf(out, "log p %.6g of %zu tokens, perplexity %.6g\n", sum, n, exp(-sum / (double)n));
    if (session->overridden) sheet_printf(out, "overridden: %.900s\n", session->overridden);
}

Status token_scores_run(Session *session, Error *error) {
    TokenList ids = {0};
    const Options *o = session->options;
    const InspectOptions *inspect = inspect_options(o);
    unsigned flags = o->special ? TOKENIZE_PARSE_SPECIAL : 0;
    bool begins = o->bos == BOS_NO ? false : o->bos ? true : tokenizer_adds_bos(session->tokenizer);
    int32_t bos = begins ? tokenizer_bos(session->tokenizer) : -1;
    if (bos >= 0 && !token_list_push(&ids, bos)) return error_set(error, "no memory for the text");
    Status status = tokenizer_encode(session->tokenizer, session->prompt, session->prompt_length,
                                     NULL, flags, &ids, error);
    if (status == STATUS_OK && ids.length < 2)
        status = error_set(error, "the text has no token that follows another: give one, -i TEXT");
    if (status == STATUS_OK && ids.length > model_context(session->model))
        status = error_set(error, "the text is %zu tokens long, but the context has %u positions",
                           ids.length, model_context(session->model));
    TokenScore *scores = status == STATUS_OK ? calloc(ids.length, sizeof *scores) : NULL;
    if (status == STATUS_OK && !scores) status = error_set(error, "no memory for the scores");
    if (status == STATUS_OK) status = score_ids(session, &ids, scores, error);
    if (status == STATUS_OK) {
        Sheet out = {0};
        double sum = 0.0;
        for (size_t i = 0; i + 1 < ids.length; i++) sum += scores[i].logprob;
        if (inspect->score == SCORE_JSON) {
            write_json(session, &ids, scores, sum, &out);
        } else {
            write_table(session, &ids, scores, sum, &out);
        }
        status = out.failed ? error_set(error, "no memory for the table")
                            : output_write(session->output, out.bytes, out.length, error);
        sheet_free(&out);
    }
    free(scores);
    token_list_free(&ids);
    return status;
}
