#include "modes/inspect/score.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "layers/model_watch.h"
#include "modes/inspect/inspect_options.h"
#include "base/clock.h"
#include "modes/inspect/inspect.h"
#include "core/prefill.h"
#include "session/logprobs.h"
#include "system/terminal.h"

/* ---- The entropy of attention ---- */

/* How spread out the attention weights are: the sums over every query of every head that runs while
 * the observer takes part. They are in fixed point, so that threads can add in any order and get
 * the same result. */
typedef struct AttentionEntropy {
    PassObserver observer; /* the first field */
    int64_t sum;           /* of the entropies, in 2^-32 nats */
    int64_t max;           /* of the entropies that even weights would have: log(positions seen) */
    int64_t n;             /* queries times heads */
} AttentionEntropy;

/* PassObserver.attended */
static void add_entropy(PassObserver *observer, size_t layer, size_t row, size_t head,
                        int32_t first, float *weights, size_t n) {
    AttentionEntropy *entropy = (AttentionEntropy *)observer;
    double sum = 0.0;
    (void)layer, (void)row, (void)head, (void)first;
    for (size_t i = 0; i < n; i++)
        if (weights[i] > 0.0f) sum -= (double)weights[i] * log((double)weights[i]);
    int64_t fixed = (int64_t)(sum * 0x1p32), max = (int64_t)(log((double)n) * 0x1p32);
#pragma omp atomic
    entropy->sum += fixed;
#pragma omp atomic
    entropy->max += max;
#pragma omp atomic
    entropy->n++;
}

/* A mean in nats; 0 when nothing ran. */
static double mean_entropy(int64_t sum, int64_t n) {
    return n ? (double)sum * 0x1p-32 / (double)n : 0.0;
}

/* ---- Scores ---- */

/* What is known of one scored token; the other_... fields are from --against's model. */
typedef struct Score {
    size_t position;         /* in its window, where the beginning-of-text token is the first */
    double loss, other_loss; /* -log p(token) */
    double divergence;       /* from the other distribution: sum of p_other (log p_other - log p) */
    bool same_top;           /* both models have the same likeliest token */
} Score;

typedef struct Scoring {
    Session *session;
    const TokenList *ids;
    int32_t bos; /* the token that begins each window; -1: none */
    size_t vocab_size;
    size_t max_rows; /* of one forward pass */
    KvCache *cache, *other_cache;
    int32_t *window;              /* [context] the running window's tokens, with the bos */
    float *logits, *other_logits; /* [max_rows][vocab_size] */
    float *exps, *other_exps;     /* [threads][vocab_size] */
    AttentionEntropy entropy;     /* measured with --stats and --override */
    Score *scores;                /* [ids], of which n_scores are known */
    size_t n_scores;
    size_t n_bytes; /* of the text that is scored */
    size_t n_rows;  /* rows computed, in each of the models */
    double start;   /* clock_seconds() */
    bool told_how_long;
} Scoring;

/* ---- One token ------------------------------------------------------------------------------- */

/* Scores the token `target` by the logits before it. exps and other_exps are scratch. */
static Score score_token(const Scoring *s, const float *logits, const float *other_logits,
                         int32_t target, float *exps, float *other_exps) {
    const Numeric *numeric = model_isa(s->session->model)->numeric;
    size_t n = s->vocab_size;
    double other_sum, divergence = 0.0;
    double log_sum = logprobs_log_sum(numeric, logits, n, exps, NULL);
    Score score = {.loss = log_sum - (double)logits[target]};
    if (!s->session->other) return score;
    double other_log_sum = logprobs_log_sum(numeric, other_logits, n, other_exps, &other_sum);
    for (size_t i = 0; i < n; i++)
        divergence += (double)other_exps[i] *
                      (((double)other_logits[i] - other_log_sum) - ((double)logits[i] - log_sum));
    score.other_loss = other_log_sum - (double)other_logits[target];
    score.divergence = divergence / other_sum;
    score.same_top = logprobs_argmax(other_logits, n) == logprobs_argmax(logits, n);
    return score;
}

/* ---- Windows --------------------------------------------------------------------------------- */

/* Tells a person once how long a long text will take. */
static void print_estimate(Scoring *s) {
    enum { LONG = 60, SOON = 1 }; /* seconds: of the whole, and after which it can be estimated */
    double seconds = clock_seconds() - s->start;
    if (s->told_how_long || !s->session->shows_progress || seconds < SOON) return;
    double whole = seconds * (double)s->ids->length / (double)s->n_scores;
    s->told_how_long = true;
    if (whole < LONG) return;
    session_progress(s->session, "scoring", 0, 0);
    terminal_say("%zu tokens take about %.0f minutes; --limit N scores the first N", s->ids->length,
                 ceil(whole / 60.0));
}

/* Runs the chunk's rows through the other model as well, then scores the token after each row that
 * wanted logits. Threads share the tokens. */
static Status score_chunk(void *context, const PrefillChunk *chunk, Error *error) {
    Scoring *s = context;
    const Session *session = s->session;
    s->n_rows += chunk->n;
    if (session->other && model_forward(session->other, s->other_cache, chunk->rows, chunk->n,
                                        s->other_logits, error) != STATUS_OK)
        return STATUS_FAILED;
    const int32_t *targets = s->window + chunk->done - chunk->n_logits + 1;
    size_t n = s->vocab_size;
    int n_threads = model_threads(session->model);
#pragma omp parallel for num_threads(n_threads) schedule(static)
    for (int t = 0; t < n_threads; t++)
        for (size_t k = (size_t)t; k < chunk->n_logits; k += (size_t)n_threads) {
            Score *score = &s->scores[s->n_scores + k];
            *score = score_token(s, chunk->logits + k * n, s->other_logits + k * n, targets[k],
                                 s->exps + (size_t)t * n, s->other_exps + (size_t)t * n);
            score->position = (size_t)(targets + k - s->window);
        }
    s->n_scores += chunk->n_logits;
    print_estimate(s);
    session_progress(session, "scoring", s->n_scores, s->ids->length);
    return *session->interrupted ? STATUS_INTERRUPTED : STATUS_OK;
}

/* Runs the text's tokens [first, first + n) as one window and scores those from `scored` on. */
static Status score_window(Scoring *s, size_t first, size_t n, size_t scored, Error *error) {
    size_t begin = s->bos >= 0, length = begin + n;
    if (begin) s->window[0] = s->bos;
    memcpy(s->window + begin, s->ids->ids + first, n * sizeof *s->window);
    kvcache_reset(s->cache, 0, 0);
    if (s->other_cache) kvcache_reset(s->other_cache, 0, 0);
    size_t target = begin + scored - first; /* index in the window of the first token to score */
    const Prefill p = {.ids = s->window,
                       .n = length - 1, /* no token follows the last one */
                       .first_wanted = target > 0 ? target - 1 : 0,
                       .max_rows = s->max_rows,
                       .logits = s->logits,
                       .after_chunk = score_chunk,
                       .context = s};
    return prefill(s->session->model, s->cache, &p, error);
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

/* ---- The report ------------------------------------------------------------------------------ */

static int ascending(const void *a, const void *b) {
    const double *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

static Status percentile_99(const Scoring *s, double *result, Error *error) {
    double *sorted = malloc(s->n_scores * sizeof *sorted);
    if (!sorted) return error_set(error, "no memory for the scores");
    for (size_t i = 0; i < s->n_scores; i++) sorted[i] = s->scores[i].divergence;
    qsort(sorted, s->n_scores, sizeof *sorted, ascending);
    *result = sorted[(s->n_scores * 99 + 99) / 100 - 1];
    free(sorted);
    return STATUS_OK;
}

static Status report_model(const Scoring *s, Error *error) {
    double loss = 0.0, squares = 0.0, n = (double)s->n_scores;
    for (size_t i = 0; i < s->n_scores; i++) {
        loss += s->scores[i].loss;
        squares += s->scores[i].loss * s->scores[i].loss;
    }
    double mean = loss / n, variance = squares / n - mean * mean;
    double deviation = sqrt(variance > 0.0 ? variance / n : 0.0);
    return inspect_print(s->session, error,
                         "tokens              %zu scored\n"
                         "perplexity          %.6g +- %.2g\n"
                         "bits a byte         %.6g\n",
                         s->n_scores, exp(mean), exp(mean) * deviation,
                         loss / log(2.0) / (double)s->n_bytes);
}

static Status report_comparison(const Scoring *s, Error *error) {
    double loss = 0.0, divergence = 0.0, tail = 0.0, n = (double)s->n_scores;
    size_t same = 0;
    for (size_t i = 0; i < s->n_scores; i++) {
        loss += s->scores[i].other_loss;
        divergence += s->scores[i].divergence;
        same += s->scores[i].same_top;
    }
    if (percentile_99(s, &tail, error) != STATUS_OK) return STATUS_FAILED;
    return inspect_print(s->session, error,
                         "other perplexity    %.6g\n"
                         "divergence, mean    %.6g\n"
                         "divergence, 99%%     %.6g\n"
                         "same top token      %.3f%%\n",
                         exp(loss / n), divergence / n, tail, 100.0 * (double)same / n);
}

/* Where the context is longer than the model's: the perplexity inside the model's, and in each
 * stretch beyond it, which is as long as all before it. */
static Status report_positions(const Scoring *s, Error *error) {
    size_t made_for = model_config(s->session->model)->context, end = made_for;
    size_t context = model_context(s->session->model);
    Status status = STATUS_OK;
    if (context <= made_for) return STATUS_OK;
    for (size_t begin = 0; status == STATUS_OK && begin < context; begin = end, end *= 2) {
        double loss = 0.0, n = 0.0;
        for (size_t i = 0; i < s->n_scores; i++) {
            if (s->scores[i].position < begin || s->scores[i].position >= end) continue;
            loss += s->scores[i].loss;
            n++;
        }
        if (n > 0.0)
            status = inspect_print(s->session, error, "  position %zu to %-6zu %.6g, %.0f tokens\n",
                                   begin, (end < context ? end : context) - 1, exp(loss / n), n);
    }
    return status;
}

static Status report(const Scoring *s, Error *error) {
    const Session *session = s->session;
    Status status = report_model(s, error);
    if (status == STATUS_OK) status = report_positions(s, error);
    if (status == STATUS_OK && session->options->stats)
        status = inspect_print(session, error, "rows computed       %zu\n", s->n_rows);
    if (status == STATUS_OK && s->entropy.n > 0)
        status = inspect_print(session, error,
                               "attention entropy   %.6g of %.6g nats, mean of %lld rows\n",
                               mean_entropy(s->entropy.sum, s->entropy.n),
                               mean_entropy(s->entropy.max, s->entropy.n), (long long)s->entropy.n);
    if (status == STATUS_OK && session->overridden)
        status = inspect_print(session, error, "overridden          %.400s\n", session->overridden);
    if (status == STATUS_OK && session->other) status = report_comparison(s, error);
    return status;
}

/* ---- The mode -------------------------------------------------------------------------------- */

static Status check_models(const Session *session, Error *error) {
    const InspectOptions *inspect = inspect_options(session->options);
    const Model *model = session->model, *other = session->other;
    if (model_context(model) < 3)
        return error_set(error, "a context of %u is too short to score in: give -c 3 or more",
                         model_context(model));
    if (!other) return STATUS_OK;
    if (model_config(other)->vocab_size != model_config(model)->vocab_size)
        return error_set(error, "%s: has %u tokens, but %s has %u: they cannot be compared",
                         inspect->against, model_config(other)->vocab_size, session->options->model,
                         model_config(model)->vocab_size);
    if (model_context(other) < model_context(model))
        return error_set(error, "%s: has only %u positions: give -c %u", inspect->against,
                         model_context(other), model_context(other));
    return STATUS_OK;
}

KvType score_other_kv_type(const Session *session) {
    return session->kv_type == KV_F32 ? KV_F32 : model_kv_type(session->other);
}

/* Allocates the buffers for scoring and a KV cache for the model, and for the other one if there is
 * one. */
static Status score_prepare(Scoring *s, Error *error) {
    const Session *session = s->session;
    const Model *model = session->model, *other = session->other;
    const KvShape shape = model_kv_shape(model, session->kv_type);
    size_t n_threads = (size_t)model_threads(model);
    s->vocab_size = model_config(model)->vocab_size;
    s->max_rows = logprobs_max_rows(model);
    if (other && s->max_rows > model_max_rows(other)) s->max_rows = model_max_rows(other);
    s->window = malloc(model_context(model) * sizeof *s->window);
    s->logits = malloc(s->max_rows * s->vocab_size * sizeof(float));
    s->other_logits = malloc(other ? s->max_rows * s->vocab_size * sizeof(float) : 1);
    s->exps = malloc(n_threads * s->vocab_size * sizeof(float));
    s->other_exps = malloc(n_threads * s->vocab_size * sizeof(float));
    s->scores = calloc(s->ids->length, sizeof *s->scores);
    if (!s->window || !s->logits || !s->other_logits || !s->exps || !s->other_exps || !s->scores)
        return error_set(error, "no memory to score %zu tokens in", s->ids->length);
    if (kvcache_new(&s->cache, &shape, 1, 0, error) != STATUS_OK) return STATUS_FAILED;
    if (!other) return STATUS_OK;
    const KvShape other_shape = model_kv_shape(other, score_other_kv_type(session));
    return kvcache_new(&s->other_cache, &other_shape, 1, 0, error);
}

static void release(Scoring *s) {
    kvcache_free(s->cache);
    kvcache_free(s->other_cache);
    free(s->window);
    free(s->logits);
    free(s->other_logits);
    free(s->exps);
    free(s->other_exps);
    free(s->scores);
}

/* Leaves the first `limit` tokens of the text, and counts the bytes that these are. */
static Status cut_text(Scoring *s, TokenList *ids, uint64_t limit, Error *error) {
    TokenDecoder decoder;
    Status status = STATUS_OK;
    const char *bytes;
    size_t n;
    s->n_bytes = s->session->prompt_length;
    if (limit == 0 || limit >= ids->length) return STATUS_OK;
    ids->length = (size_t)limit;
    s->n_bytes = 0;
    token_decoder_init(&decoder, s->session->tokenizer, 0);
    for (size_t i = 0; i < ids->length && status == STATUS_OK; i++, s->n_bytes += n)
        status = token_decoder_push(&decoder, ids->ids[i], &bytes, &n, error);
    if (status == STATUS_OK) status = token_decoder_flush(&decoder, &bytes, &n, error);
    if (status == STATUS_OK) s->n_bytes += n;
    token_decoder_free(&decoder);
    return status;
}

Status score_run(Session *session, Error *error) {
    TokenList ids = {0};
    Scoring s = {.session = session, .ids = &ids, .bos = -1, .start = clock_seconds()};
    const Options *o = session->options;
    const InspectOptions *inspect = inspect_options(o);
    unsigned flags = o->special ? TOKENIZE_PARSE_SPECIAL : 0;
    bool begins = o->bos == BOS_NO ? false : o->bos ? true : tokenizer_adds_bos(session->tokenizer);
    if (begins) s.bos = tokenizer_bos(session->tokenizer);
    Status status = tokenizer_encode(session->tokenizer, session->prompt, session->prompt_length,
                                     NULL, flags, &ids, error);
    if (status == STATUS_OK && ids.length < 2)
        status = error_set(error, "%s: too short to score: give a text of at least two tokens",
                           inspect->eval);
    if (status == STATUS_OK) status = cut_text(&s, &ids, inspect->limit, error);
    if (status == STATUS_OK) status = check_models(session, error);
    if (status == STATUS_OK) status = score_prepare(&s, error);
    bool watches = session->overridden || o->stats;
    s.entropy.observer.attended = add_entropy;
    if (status == STATUS_OK && watches) model_add_observer(session->model, &s.entropy.observer);
    if (status == STATUS_OK) status = score_text(&s, error);
    if (watches) model_remove_observer(session->model, &s.entropy.observer);
    session_progress(session, "scoring", 0, 0);
    if (status == STATUS_OK) status = report(&s, error);
    release(&s);
    token_list_free(&ids);
    return status;
}
