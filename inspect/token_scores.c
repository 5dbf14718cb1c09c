#include "inspect/token_scores.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "inspect/picture.h"

enum { ALTERNATIVES = 5 };

typedef struct TokenScore {
    double logprob;
    size_t rank; /* 1: the likeliest */
    int32_t top[ALTERNATIVES];
    double top_logprob[ALTERNATIVES];
    size_t n_top;
} TokenScore;

/* Ties of ranks go to the lowest id, as everywhere. */
static bool before(const float *logits, size_t a, size_t b) {
    return logits[a] > logits[b] || (a < b && logits[a] == logits[b]);
}

static TokenScore score_token(const Numeric *numeric, const float *logits, size_t n, int32_t token,
                              float *shares) {
    TokenScore score = {.rank = 1};
    float max = numeric->maximum(logits, n);
    memcpy(shares, logits, n * sizeof *shares);
    double shift = (double)max + log((double)numeric->softmax_sum(shares, max, n));
    for (size_t i = 0; i < n; i++) {
        score.rank += before(logits, i, (size_t)token);
        size_t at = score.n_top;
        while (at > 0 && before(logits, i, (size_t)score.top[at - 1])) at--;
        if (at == ALTERNATIVES) continue;
        if (score.n_top < ALTERNATIVES) score.n_top++;
        memmove(score.top + at + 1, score.top + at, (score.n_top - 1 - at) * sizeof *score.top);
        score.top[at] = (int32_t)i;
    }
    for (size_t i = 0; i < score.n_top; i++)
        score.top_logprob[i] = (double)logits[score.top[i]] - shift;
    score.logprob = (double)logits[token] - shift;
    return score;
}

/* scores[i] of ids[i + 1] after ids[0 ... i]. */
static Status score_ids(const Session *session, const TokenList *ids, TokenScore *scores,
                        Error *error) {
    Model *model = session->model;
    size_t vocab_size = model_config(model)->vocab_size, most = model_max_rows(model);
    if (most > 64) most = 64;
    const KvShape shape = model_kv_shape(model, session->kv_type);
    Row *rows = calloc(most, sizeof *rows);
    float *logits = malloc(most * vocab_size * sizeof *logits);
    float *shares = malloc(vocab_size * sizeof *shares);
    KvCache *cache = NULL;
    Status status = rows && logits && shares ? kvcache_new(&cache, &shape, 1, 0, error)
                                             : error_set(error, "no memory for the logits");
    for (size_t done = 0; status == STATUS_OK && done + 1 < ids->length;) {
        size_t part = ids->length - 1 - done < most ? ids->length - 1 - done : most;
        for (size_t i = 0; i < part; i++)
            rows[i] = (Row){
                .position = (int32_t)(done + i), .token = ids->ids[done + i], .wants_logits = true};
        status = model_forward(model, cache, rows, part, logits, error);
        for (size_t i = 0; status == STATUS_OK && i < part; i++)
            scores[done + i] = score_token(model_isa(model)->numeric, logits + i * vocab_size,
                                           vocab_size, ids->ids[done + i + 1], shares);
        done += part;
        if (status == STATUS_OK && *session->interrupted) status = STATUS_INTERRUPTED;
    }
    kvcache_free(cache);
    free(rows);
    free(logits);
    free(shares);
    return status;
}

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
    size_t n = one.length < 60 ? one.length : 60;
    while (n > 0 && n < one.length && ((unsigned char)one.bytes[n] & 0xC0) == 0x80) n--;
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
        if (o->score == SCORE_JSON) {
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
