#include "inspect/score.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "inspect/attention_view.h"

/* Of one scored token. */
typedef struct Score {
    double loss, other_loss; /* -log p */
    double divergence;       /* sum of p_other (log p_other - log p) */
    bool same_top;
} Score;

typedef struct Scoring {
    Session *session;
    const TokenList *ids;
    int32_t bos; /* before each window; -1: none */
    size_t vocab_size;
    size_t chunk; /* rows of one forward pass */
    KvCache *cache, *other_cache;
    Row *rows;                    /* [chunk] */
    int32_t *targets;             /* [chunk] the token after each row that wants logits */
    float *logits, *other_logits; /* [chunk][vocab_size] */
    float *shares, *other_shares; /* [threads][vocab_size] */
    AttentionEntropy entropy;     /* of --stats and --override */
    Score *scores;                /* [ids] */
    size_t n_scores;
} Scoring;

/* ---- One distribution ---------------------------------------------------------------------- */

/* log p(i) = logits[i] - shift, and exp(logits - max) into `shares`. The logarithm is the
 * library's: what is printed has six digits. */
static double log_shift(const Numeric *numeric, const float *logits, size_t n, float *shares,
                        double *sum) {
    float max = numeric->maximum(logits, n);
    memcpy(shares, logits, n * sizeof *shares);
    *sum = (double)numeric->softmax_sum(shares, max, n);
    return (double)max + log(*sum);
}

static size_t top(const float *x, size_t n) {
    size_t best = 0;
    for (size_t i = 1; i < n; i++)
        if (x[i] > x[best]) best = i;
    return best;
}

static Score score_row(const Scoring *s, size_t k, float *shares, float *other_shares) {
    const Numeric *numeric = model_isa(s->session->model)->numeric;
    size_t n = s->vocab_size;
    const float *q = s->logits + k * n, *p = s->other_logits + k * n;
    double sum, other_sum, divergence = 0.0;
    double shift = log_shift(numeric, q, n, shares, &sum);
    Score score = {.loss = shift - (double)q[s->targets[k]]};
    if (!s->session->other) return score;
    double other_shift = log_shift(numeric, p, n, other_shares, &other_sum);
    for (size_t i = 0; i < n; i++)
        divergence +=
            (double)other_shares[i] * (((double)p[i] - other_shift) - ((double)q[i] - shift));
    score.other_loss = other_shift - (double)p[s->targets[k]];
    score.divergence = divergence / other_sum;
    score.same_top = top(p, n) == top(q, n);
    return score;
}

/* ---- Windows ----------------------------------------------------------------------------------
 */

/* Tokens [first, first + n) of the text in one window; those from `scored` on are scored. */
static Status score_window(Scoring *s, size_t first, size_t n, size_t scored, Error *error) {
    const Session *session = s->session;
    size_t begin = s->bos >= 0, length = n + begin; /* rows: an optional bos, then the tokens */
    kvcache_reset(s->cache, 0, 0);
    if (s->other_cache) kvcache_reset(s->other_cache, 0, 0);
    /* The last token has none after it to predict. */
    for (size_t done = 0; done + 1 < length;) {
        size_t part = length - 1 - done < s->chunk ? length - 1 - done : s->chunk, wanted = 0;
        for (size_t i = 0; i < part; i++) {
            size_t at = done + i, next = first + at + 1 - begin;
            bool wants = next >= scored;
            s->rows[i] = (Row){.position = (int32_t)at,
                               .token = at < begin ? s->bos : s->ids->ids[first + at - begin],
                               .wants_logits = wants};
            if (wants) s->targets[wanted++] = s->ids->ids[next];
        }
        if (model_forward(session->model, s->cache, s->rows, part, s->logits, error) != STATUS_OK)
            return STATUS_FAILED;
        if (session->other && model_forward(session->other, s->other_cache, s->rows, part,
                                            s->other_logits, error) != STATUS_OK)
            return STATUS_FAILED;
        int n_threads = model_threads(session->model);
#pragma omp parallel for num_threads(n_threads) schedule(static)
        for (int t = 0; t < n_threads; t++)
            for (size_t k = (size_t)t; k < wanted; k += (size_t)n_threads)
                s->scores[s->n_scores + k] = score_row(s, k, s->shares + (size_t)t * s->vocab_size,
                                                       s->other_shares + (size_t)t * s->vocab_size);
        s->n_scores += wanted;
        done += part;
        session_progress(session, "scoring", s->n_scores, s->ids->length);
        if (*session->interrupted) return STATUS_INTERRUPTED;
    }
    return STATUS_OK;
}

static Status score_text(Scoring *s, Error *error) {
    size_t context = model_context(s->session->model), begin = s->bos >= 0;
    size_t window = context - begin, stride = window / 2 ? window / 2 : 1, scored = 0;
    for (size_t first = 0; scored < s->ids->length; first += stride) {
        size_t left = s->ids->length - first, n = left < window ? left : window;
        Status status = score_window(s, first, n, scored, error);
        if (status != STATUS_OK) return status;
        scored = first + n;
    }
    return STATUS_OK;
}

/* ---- The report ---------------------------------------------------------------------------------
 */

static int by_size(const void *a, const void *b) {
    const double *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

static Status percentile_99(const Scoring *s, double *result, Error *error) {
    double *sorted = malloc(s->n_scores * sizeof *sorted);
    if (!sorted) return error_set(error, "no memory for the scores");
    for (size_t i = 0; i < s->n_scores; i++) sorted[i] = s->scores[i].divergence;
    qsort(sorted, s->n_scores, sizeof *sorted, by_size);
    *result = sorted[(s->n_scores * 99 + 99) / 100 - 1];
    free(sorted);
    return STATUS_OK;
}

static Status report(const Scoring *s, Error *error) {
    const Session *session = s->session;
    double loss = 0.0, squares = 0.0, other = 0.0, divergence = 0.0, n = (double)s->n_scores,
           tail = 0.0;
    size_t same = 0;
    char text[2048];
    for (size_t i = 0; i < s->n_scores; i++) {
        loss += s->scores[i].loss;
        squares += s->scores[i].loss * s->scores[i].loss;
        other += s->scores[i].other_loss;
        divergence += s->scores[i].divergence;
        same += s->scores[i].same_top;
    }
    double mean = loss / n, variance = squares / n - mean * mean;
    double deviation = sqrt(variance > 0.0 ? variance / n : 0.0);
    int length = snprintf(text, sizeof text,
                          "tokens              %zu scored\n"
                          "perplexity          %.6g +- %.2g\n"
                          "bits a byte         %.6g\n",
                          s->n_scores, exp(mean), exp(mean) * deviation,
                          loss / log(2.0) / (double)session->prompt_length);
    if (s->entropy.n > 0)
        length += snprintf(text + length, sizeof text - (size_t)length,
                           "attention entropy   %.6g of %.6g nats, mean of %lld rows\n",
                           attention_entropy_mean(&s->entropy), attention_entropy_most(&s->entropy),
                           (long long)s->entropy.n);
    if (session->overridden)
        length += snprintf(text + length, sizeof text - (size_t)length,
                           "overridden          %.400s\n", session->overridden);
    if (session->other) {
        if (percentile_99(s, &tail, error) != STATUS_OK) return STATUS_FAILED;
        length += snprintf(text + length, sizeof text - (size_t)length,
                           "other perplexity    %.6g\n"
                           "divergence, mean    %.6g\n"
                           "divergence, 99%%     %.6g\n"
                           "same top token      %.3f%%\n",
                           exp(other / n), divergence / n, tail, 100.0 * (double)same / n);
    }
    return output_write(session->output, text, (size_t)length, error);
}

/* ---- The mode -------------------------------------------------------------------------------- */

static Status prepare(Scoring *s, Error *error) {
    enum { LOGITS_BYTES = 64 << 20 };
    const Session *session = s->session;
    const Model *model = session->model, *other = session->other;
    const KvShape shape = model_kv_shape(model, session->kv_type);
    size_t n_threads = (size_t)model_threads(model);
    s->vocab_size = model_config(model)->vocab_size;
    if (other && model_config(other)->vocab_size != s->vocab_size)
        return error_set(error, "%s: has %u tokens, but %s has %zu: they cannot be compared",
                         session->options->against, model_config(other)->vocab_size,
                         session->options->model, s->vocab_size);
    if (other && model_context(other) < model_context(model))
        return error_set(error, "%s: has only %u positions: give -c %u", session->options->against,
                         model_context(other), model_context(other));
    s->chunk = LOGITS_BYTES / (s->vocab_size * sizeof(float));
    if (s->chunk < 1) s->chunk = 1;
    if (s->chunk > model_max_rows(model)) s->chunk = model_max_rows(model);
    if (other && s->chunk > model_max_rows(other)) s->chunk = model_max_rows(other);
    s->rows = calloc(s->chunk, sizeof *s->rows);
    s->targets = calloc(s->chunk, sizeof *s->targets);
    s->logits = malloc(s->chunk * s->vocab_size * sizeof(float));
    s->other_logits = malloc(other ? s->chunk * s->vocab_size * sizeof(float) : 1);
    s->shares = malloc(n_threads * s->vocab_size * sizeof(float));
    s->other_shares = malloc(n_threads * s->vocab_size * sizeof(float));
    s->scores = calloc(s->ids->length, sizeof *s->scores);
    if (!s->rows || !s->targets || !s->logits || !s->other_logits || !s->shares ||
        !s->other_shares || !s->scores)
        return error_set(error, "no memory to score %zu tokens in", s->ids->length);
    if (kvcache_new(&s->cache, &shape, 1, 0, error) != STATUS_OK) return STATUS_FAILED;
    if (!other) return STATUS_OK;
    /* What is compared with never has a coarser cache than its own. */
    const KvType type = session->kv_type == KV_F32 ? KV_F32 : model_kv_type(other);
    const KvShape other_shape = model_kv_shape(other, type);
    return kvcache_new(&s->other_cache, &other_shape, 1, 0, error);
}

static void release(Scoring *s) {
    kvcache_free(s->cache);
    kvcache_free(s->other_cache);
    free(s->rows);
    free(s->targets);
    free(s->logits);
    free(s->other_logits);
    free(s->shares);
    free(s->other_shares);
    free(s->scores);
}

Status score_run(Session *session, Error *error) {
    TokenList ids = {0};
    Scoring s = {.session = session, .ids = &ids, .bos = -1};
    const Options *o = session->options;
    unsigned flags = o->special ? TOKENIZE_PARSE_SPECIAL : 0;
    bool begins = o->bos == BOS_NO ? false : o->bos ? true : tokenizer_adds_bos(session->tokenizer);
    if (begins) s.bos = tokenizer_bos(session->tokenizer);
    Status status = tokenizer_encode(session->tokenizer, session->prompt, session->prompt_length,
                                     NULL, flags, &ids, error);
    if (status == STATUS_OK && ids.length < 2)
        status = error_set(error, "%s: two tokens are the least that can be scored", o->eval);
    if (status == STATUS_OK && model_context(session->model) < 3)
        status = error_set(error, "a context of three is the least that can be scored in");
    if (status == STATUS_OK) status = prepare(&s, error);
    bool watches = session->overridden || o->stats;
    if (status == STATUS_OK && watches) attention_entropy_begin(&s.entropy, session->model);
    if (status == STATUS_OK) status = score_text(&s, error);
    if (watches) attention_entropy_end(&s.entropy, session->model);
    session_progress(session, "scoring", 0, 0);
    if (status == STATUS_OK) status = report(&s, error);
    release(&s);
    token_list_free(&ids);
    return status;
}
