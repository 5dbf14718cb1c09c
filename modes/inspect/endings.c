#include "modes/inspect/endings.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "kvcache/kvcache_fork.h"
#include "core/prefill.h"
#include "layers/model_watch.h"
#include "session/logprobs.h"

/* Bytes of an item that are tokenized, with the context again for each ending. */
enum { MOST_TOKENIZED = 256 << 20, SOON_TOKENIZED = 1 << 20 };

/* A row of an ending whose logits are wanted. */
typedef struct Wanted {
    size_t ending;
    int32_t target; /* the token that follows */
} Wanted;

struct Endings {
    const Session *session;
    Model *model;
    Tokenizer *tokenizer;
    KvCache *cache; /* sequence 0: the context; 1 + i: ending i */
    int32_t prefix; /* stands before a text without context; -1: none */
    size_t vocab_size, most_rows;
    TokenList context; /* what sequence 0 holds */
    float *first;      /* [vocab_size] logits of the context's last token */
    float *logits;     /* [most_rows][vocab_size] */
    float *exps;       /* [threads][vocab_size] scratch */
    Row *rows;         /* [most_rows] */
    Wanted *wanted;    /* [most_rows] */
    double *logprobs;  /* [most_rows] */
    bool *greedy;      /* [most_rows] */
    size_t n_rows;     /* rows that wait for a pass */
    uint64_t computed, whole;
};

void endings_free(Endings *e) {
    if (!e) return;
    kvcache_free(e->cache);
    token_list_free(&e->context);
    free(e->first);
    free(e->logits);
    free(e->exps);
    free(e->rows);
    free(e->wanted);
    free(e->logprobs);
    free(e->greedy);
    free(e);
}

Status endings_new(Endings **out, const Session *session, Model *model, KvType kv_type,
                   Tokenizer *tokenizer, Error *error) {
    Endings *e = calloc(1, sizeof *e);
    if (!e) return error_set(error, "no memory for a task");
    *out = e;
    size_t n_eos, vocab = model_config(model)->vocab_size, rows = logprobs_max_rows(model);
    const int32_t *eos = tokenizer_eos(tokenizer, &n_eos);
    const KvShape shape = model_kv_shape(model, kv_type);
    e->session = session;
    e->model = model;
    e->tokenizer = tokenizer;
    e->vocab_size = vocab;
    e->most_rows = rows;
    e->prefix = tokenizer_bos(tokenizer) >= 0 ? tokenizer_bos(tokenizer) : n_eos > 0 ? eos[0] : -1;
    e->first = malloc(vocab * sizeof *e->first);
    e->logits = malloc(rows * vocab * sizeof *e->logits);
    e->exps = malloc((size_t)model_threads(model) * vocab * sizeof *e->exps);
    e->rows = calloc(rows, sizeof *e->rows);
    e->wanted = calloc(rows, sizeof *e->wanted);
    e->logprobs = calloc(rows, sizeof *e->logprobs);
    e->greedy = calloc(rows, sizeof *e->greedy);
    if (!e->first || !e->logits || !e->exps || !e->rows || !e->wanted || !e->logprobs || !e->greedy)
        return error_set(error, "no memory for the logits of a task");
    return kvcache_new(&e->cache, &shape, 1 + ENDINGS_MOST, 0, error);
}

void endings_rows(const Endings *e, uint64_t *computed, uint64_t *whole) {
    *computed = e->computed;
    *whole = e->whole;
}

/* ---- Tokens -----------------------------------------------------------------------------------
 */

static Status endings_encode(const Endings *e, const char *text, size_t length, bool begins,
                             TokenList *ids, Error *error) {
    const Options *o = e->session->options;
    unsigned flags = o->special ? TOKENIZE_PARSE_SPECIAL : 0;
    int32_t bos = tokenizer_bos(e->tokenizer);
    if (begins && o->bos == BOS_AUTO) flags |= TOKENIZE_ADD_BOS;
    if (begins && o->bos == BOS_YES && bos >= 0 && !token_list_push(ids, bos))
        return error_set(error, "no memory for a text");
    return tokenizer_encode(e->tokenizer, text, length, NULL, flags, ids, error);
}

/* Encodes an ending after its context, and keeps what follows the first `drop` tokens. */
static Status encode_ending(const Endings *e, const EndingText *context, const EndingText *ending,
                            bool begins, size_t drop, TokenList *out, Error *error) {
    TokenList ids = {0};
    char *joined = malloc(context->length + ending->length + 1);
    if (!joined) return error_set(error, "no memory for a text");
    memcpy(joined, context->text, context->length);
    memcpy(joined + context->length, ending->text, ending->length);
    Status status =
        endings_encode(e, joined, context->length + ending->length, begins, &ids, error);
    free(joined);
    for (size_t i = drop; i < ids.length && status == STATUS_OK; i++)
        if (!token_list_push(out, ids.ids[i])) status = error_set(error, "no memory for a text");
    token_list_free(&ids);
    return status;
}

/* Refuses an item whose texts, with the context again for each ending, take too long to tokenize.
 */
static Status check_size(const EndingText *context, const EndingText *endings, size_t n,
                         size_t *total, Error *error) {
    *total = context->length;
    for (size_t i = 0; i < n; i++) {
        *total += context->length + endings[i].length;
        if (*total > MOST_TOKENIZED)
            return error_set(error,
                             "%zu choices behind a context of %zu bytes are too much text: at "
                             "most %d MiB, with the context for each",
                             n, context->length, MOST_TOKENIZED >> 20);
    }
    return STATUS_OK;
}

/* Encodes the context and each ending as endings_score says. Spaces at the end of the context go to
 * the endings. */
static Status encode_all(const Endings *e, const EndingText *context, const EndingText *endings,
                         size_t n, TokenList *before, TokenList *after, Error *error) {
    size_t bare = context->length, total;
    if (check_size(context, endings, n, &total, error) != STATUS_OK) return STATUS_FAILED;
    while (bare > 0 && strchr(" \t\n\r", context->text[bare - 1])) bare--;
    Status status =
        bare > 0 ? endings_encode(e, context->text, bare, true, before, error) : STATUS_OK;
    if (status == STATUS_OK && before->length == 0) {
        if (e->prefix < 0)
            return error_set(error, "an empty context, and no token of the model begins a text");
        if (!token_list_push(before, e->prefix)) return error_set(error, "no memory for a text");
    }
    for (size_t i = 0; i < n && status == STATUS_OK; i++) {
        if (*e->session->interrupted) return STATUS_INTERRUPTED;
        if (total > SOON_TOKENIZED) session_progress(e->session, "tokenizing", i, n);
        size_t drop = bare > 0 ? before->length : 0;
        status = encode_ending(e, context, &endings[i], bare > 0, drop, &after[i], error);
        if (status == STATUS_OK && after[i].length == 0)
            return error_set(error, "choice %zu has no tokens of its own", i + 1);
    }
    return status;
}

/* ---- Rows -------------------------------------------------------------------------------------
 */

/* The log-probability of a token by the logits before it. */
static double token_logprob(const Endings *e, const float *logits, int32_t target, float *exps,
                            bool *greedy) {
    double total =
        logprobs_log_sum(model_isa(e->model)->numeric, logits, e->vocab_size, exps, NULL);
    *greedy = logprobs_argmax(logits, e->vocab_size) == (size_t)target;
    return (double)logits[target] - total;
}

/* Runs the rows that wait and adds what they give to the scores. */
static Status flush(Endings *e, EndingScore *scores, Error *error) {
    size_t n = e->n_rows;
    int n_threads = model_threads(e->model);
    e->n_rows = 0;
    if (n == 0) return STATUS_OK;
    if (*e->session->interrupted) return STATUS_INTERRUPTED;
    Status status = model_forward(e->model, e->cache, e->rows, n, e->logits, error);
    if (status != STATUS_OK) return status;
    e->computed += n;
#pragma omp parallel for num_threads(n_threads) schedule(static)
    for (int t = 0; t < n_threads; t++)
        for (size_t k = (size_t)t; k < n; k += (size_t)n_threads)
            e->logprobs[k] = token_logprob(e, e->logits + k * e->vocab_size, e->wanted[k].target,
                                           e->exps + (size_t)t * e->vocab_size, &e->greedy[k]);
    for (size_t k = 0; k < n; k++) {
        EndingScore *s = &scores[e->wanted[k].ending];
        s->logprob += e->logprobs[k];
        s->greedy = s->greedy && e->greedy[k];
    }
    return STATUS_OK;
}

static Status show_context(void *context, const PrefillChunk *chunk, Error *error) {
    const Endings *e = context;
    (void)error;
    if (chunk->done < chunk->total)
        session_progress(e->session, "reading the context", chunk->done, chunk->total);
    return STATUS_OK;
}

/* Makes sequence 0 hold ids[n] and e->first the logits of the last, with what it has of them. */
static Status run_context(Endings *e, const int32_t *ids, size_t n, Error *error) {
    size_t common = 0;
    while (common + 1 < n && common < e->context.length && e->context.ids[common] == ids[common])
        common++;
    kvcache_truncate(e->cache, 0, (int32_t)common);
    size_t next = (size_t)kvcache_next(e->cache, 0);
    e->context.length = 0;
    const Prefill p = {.ids = ids + next,
                       .n = n - next,
                       .first_wanted = n - next - 1,
                       .logits = e->first,
                       .interrupted = e->session->interrupted,
                       .after_chunk = show_context,
                       .context = e};
    Status status = prefill(e->model, e->cache, &p, error);
    if (status != STATUS_OK) {
        kvcache_reset(e->cache, 0, 0);
        return status;
    }
    e->computed += n - next;
    for (size_t i = 0; i < n; i++)
        if (!token_list_push(&e->context, ids[i])) return error_set(error, "no memory for a text");
    return STATUS_OK;
}

/* Scores the endings after the context of n tokens that sequence 0 holds. The last token of an
 * ending is scored, not run. */
static Status run_endings(Endings *e, size_t n, const TokenList *after, size_t n_endings,
                          EndingScore *scores, Error *error) {
    Status status = STATUS_OK;
    for (size_t i = 0; i < n_endings && status == STATUS_OK; i++) {
        int32_t sequence = (int32_t)i + 1;
        EndingScore *s = &scores[i];
        *s = (EndingScore){.n_tokens = after[i].length};
        s->logprob = token_logprob(e, e->first, after[i].ids[0], e->exps, &s->greedy);
        e->whole += n + after[i].length - 1;
        if (after[i].length == 1) continue;
        status = kvcache_fork(e->cache, 0, (int32_t)n, sequence, error);
        for (size_t k = 0; k + 1 < after[i].length && status == STATUS_OK; k++) {
            e->rows[e->n_rows] = (Row){.sequence = sequence,
                                       .position = (int32_t)(n + k),
                                       .token = after[i].ids[k],
                                       .wants_logits = true};
            e->wanted[e->n_rows++] = (Wanted){i, after[i].ids[k + 1]};
            if (e->n_rows == e->most_rows) status = flush(e, scores, error);
        }
    }
    if (status == STATUS_OK) status = flush(e, scores, error);
    e->n_rows = 0;
    for (size_t i = 0; i < n_endings; i++) kvcache_reset(e->cache, (int32_t)i + 1, 0);
    return status;
}

Status endings_score(Endings *e, const EndingText *context, const EndingText *endings, size_t n,
                     EndingScore *scores, bool *cut, Error *error) {
    TokenList before = {0}, *after = calloc(n, sizeof *after);
    size_t most = 0, room = (size_t)model_context(e->model) + 1, drop = 0;
    Status status = after ? encode_all(e, context, endings, n, &before, after, error)
                          : error_set(error, "no memory for a task");
    for (size_t i = 0; status == STATUS_OK && i < n; i++)
        if (after[i].length > most) most = after[i].length;
    if (status == STATUS_OK && most >= room)
        status = error_set(error, "a choice of %zu tokens does not fit the context of %zu", most,
                           room - 1);
    if (status == STATUS_OK && before.length + most > room) drop = before.length + most - room;
    *cut = drop > 0;
    if (status == STATUS_OK)
        status = run_context(e, before.ids + drop, before.length - drop, error);
    if (status == STATUS_OK) status = run_endings(e, before.length - drop, after, n, scores, error);
    for (size_t i = 0; after && i < n; i++) token_list_free(&after[i]);
    free(after);
    token_list_free(&before);
    return status;
}

/* ---- Documents --------------------------------------------------------------------------------
 */

/* One window of a document. */
typedef struct Window {
    Endings *e;
    const int32_t *ids; /* of the window */
    EndingScore *score;
} Window;

static Status score_chunk(void *context, const PrefillChunk *chunk, Error *error) {
    Window *w = context;
    Endings *e = w->e;
    const int32_t *targets = w->ids + chunk->done - chunk->n_logits + 1;
    int n_threads = model_threads(e->model);
    (void)error;
#pragma omp parallel for num_threads(n_threads) schedule(static)
    for (int t = 0; t < n_threads; t++)
        for (size_t k = (size_t)t; k < chunk->n_logits; k += (size_t)n_threads)
            e->logprobs[k] = token_logprob(e, chunk->logits + k * e->vocab_size, targets[k],
                                           e->exps + (size_t)t * e->vocab_size, &e->greedy[k]);
    for (size_t k = 0; k < chunk->n_logits; k++) {
        w->score->logprob += e->logprobs[k];
        w->score->greedy = w->score->greedy && e->greedy[k];
        w->score->n_tokens++;
    }
    return *e->session->interrupted ? STATUS_INTERRUPTED : STATUS_OK;
}

/* Runs ids[n] as one window and scores those from `from` > 0 on. */
static Status score_window(Endings *e, const int32_t *ids, size_t n, size_t from,
                           EndingScore *scores, Error *error) {
    Window window = {e, ids, scores};
    const Prefill p = {.ids = ids,
                       .n = n - 1, /* no token follows the last one */
                       .first_wanted = from - 1,
                       .max_rows = e->most_rows,
                       .logits = e->logits,
                       .after_chunk = score_chunk,
                       .context = &window};
    kvcache_reset(e->cache, 0, 0);
    e->computed += n - 1;
    e->whole += n - 1;
    return prefill(e->model, e->cache, &p, error);
}

Status endings_document(Endings *e, const EndingText *text, size_t stride, EndingScore *scores,
                        Error *error) {
    TokenList ids = {0};
    int32_t *window = NULL;
    size_t context = model_context(e->model),
           most = context; /* of text; the prefix is not scored */
    *scores = (EndingScore){.greedy = true};
    e->context.length = 0;
    Status status = endings_encode(e, text->text, text->length, false, &ids, error);
    if (status == STATUS_OK && e->prefix < 0)
        status = error_set(error, "no token of the model begins a text");
    if (status == STATUS_OK && ids.length == 0) status = error_set(error, "an empty text");
    if (status == STATUS_OK && !(window = malloc((context + 1) * sizeof *window)))
        status = error_set(error, "no memory for a text");
    if (stride == 0) stride = most / 2 ? most / 2 : 1;
    if (stride > most) stride = most;
    for (size_t first = 0, done = 0; status == STATUS_OK && done < ids.length; first += stride) {
        size_t n = ids.length - first < most ? ids.length - first : most;
        window[0] = e->prefix;
        memcpy(window + 1, ids.ids + first, n * sizeof *window);
        status = score_window(e, window, n + 1, done - first + 1, scores, error);
        done = first + n;
        session_progress(e->session, "scoring a document", done, ids.length);
    }
    free(window);
    token_list_free(&ids);
    return status;
}
