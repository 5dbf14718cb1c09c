#include "draft/mtp_drafter.h"

#include <stdlib.h>
#include <string.h>

#include "kvcache/kvcache_fork.h"
#include "draft/draft_choice.h"
#include "layers/arrangements/mtp.h"

/* Rows of one call of the layers; hidden states that wait for it. */
enum { CALL_ROWS = 64, KEPT_STATES = 512 };

struct MtpDrafts {
    const Model *model;
    Mtp *mtp;
    KvCache *cache;
    int32_t *free_sequences;
    size_t n_free, dim, vocab_size;
    float *logits, *scratch; /* [vocab_size] each */
    float *next;             /* [CALL_ROWS][dim] */
};

typedef struct MtpDrafter {
    Drafter drafter;
    MtpDrafts *shared;
    Sampler *sampler;
    int32_t sequence; /* -1: none yet */
    bool failed;      /* silent from now on */
    size_t begun;     /* the cache's first position */
    size_t verified;  /* rows of the cache before this position are the text's */

    /* The model's hidden states of positions [begin, begin + n), and their tokens. */
    float *hidden; /* [KEPT_STATES][dim] */
    int32_t tokens[KEPT_STATES];
    size_t begin, n;
} MtpDrafter;

Status mtp_drafts_open(MtpDrafts **out, const ModelFile *file, const Model *model, KvType kv_type,
                       size_t max_texts, Error *error) {
    *out = NULL;
    if (modelfile_config(file)->mtp.n_layers == 0) return STATUS_OK;
    MtpDrafts *s = calloc(1, sizeof *s);
    if (!s) return error_set(error, "no memory for prediction layers");
    s->model = model;
    s->dim = model_config(model)->dim;
    s->vocab_size = model_config(model)->vocab_size;
    s->free_sequences = calloc(max_texts, sizeof *s->free_sequences);
    s->logits = malloc(s->vocab_size * sizeof *s->logits);
    s->scratch = malloc(s->vocab_size * sizeof *s->scratch);
    s->next = malloc(CALL_ROWS * s->dim * sizeof *s->next);
    Status status = STATUS_OK;
    if (!s->free_sequences || !s->logits || !s->scratch || !s->next)
        status = error_set(error, "no memory for prediction layers");
    if (status == STATUS_OK) status = mtp_open(&s->mtp, file, model, CALL_ROWS, error);
    if (status == STATUS_OK) {
        KvShape shape = mtp_kv_shape(s->mtp, kv_type);
        status = kvcache_new(&s->cache, &shape, max_texts, 0, error);
    }
    if (status != STATUS_OK) {
        mtp_drafts_close(s);
        return status;
    }
    for (size_t i = 0; i < max_texts; i++) s->free_sequences[s->n_free++] = (int32_t)i;
    *out = s;
    return STATUS_OK;
}

void mtp_drafts_close(MtpDrafts *s) {
    if (!s) return;
    kvcache_free(s->cache);
    mtp_close(s->mtp);
    free(s->free_sequences);
    free(s->logits);
    free(s->scratch);
    free(s->next);
    free(s);
}

void mtp_drafts_warm_up(MtpDrafts *s) {
    enum { WARM_ROWS = 32 }; /* about as many as are read at first (drafter_set.c) */
    Row rows[WARM_ROWS];
    Error ignored; /* the first draft fails in the same way */
    memset(s->next, 0, WARM_ROWS * s->dim * sizeof *s->next);
    /* From position 1: a row needs the hidden state of the position before it. */
    for (int32_t i = 0; i < WARM_ROWS; i++)
        rows[i] = (Row){.position = 1 + i, .wants_logits = i == WARM_ROWS - 1};
    kvcache_reset(s->cache, 0, 1);
    mtp_forward(s->mtp, s->cache, 0, rows, WARM_ROWS, s->next, s->logits, NULL, &ignored);
    kvcache_reset(s->cache, 0, 0);
}

/* ---- What the model computed ---- */

/* Drops the oldest states, so that `n` more fit. */
static void make_room(MtpDrafter *d, size_t n) {
    if (d->n + n <= KEPT_STATES) return;
    size_t dim = d->shared->dim, drop = d->n + n - KEPT_STATES;
    memmove(d->hidden, d->hidden + drop * dim, (d->n - drop) * dim * sizeof *d->hidden);
    memmove(d->tokens, d->tokens + drop, (d->n - drop) * sizeof *d->tokens);
    d->begin += drop;
    d->n -= drop;
}

/* Drafter.ran: keeps the hidden states and tokens of the rows that the model has computed. */
static void ran(Drafter *drafter, const Row *rows, size_t first, size_t n) {
    MtpDrafter *d = (MtpDrafter *)drafter;
    size_t dim = d->shared->dim;
    if (d->failed || n == 0) return;
    if (!d->hidden) d->hidden = malloc(KEPT_STATES * dim * sizeof *d->hidden);
    d->failed = d->hidden == NULL;
    if (d->failed) return;
    if (n > KEPT_STATES) first += n - KEPT_STATES, n = KEPT_STATES;
    size_t position = (size_t)rows[first].position;
    if (position < d->begin || position > d->begin + d->n) d->begin = position, d->n = 0;
    d->n = position - d->begin; /* what comes after was a draft */
    make_room(d, n);
    mtp_hidden(d->shared->model, first, n, d->hidden + d->n * dim);
    for (size_t i = 0; i < n; i++) d->tokens[d->n + i] = rows[first + i].token;
    d->n += n;
}

/* ---- The draft ---- */

static Status run_row(MtpDrafter *d, size_t position, int32_t token, const float *hidden,
                      bool wants, Error *error) {
    MtpDrafts *s = d->shared;
    const Row row = {d->sequence, (int32_t)position, token, wants};
    return mtp_forward(s->mtp, s->cache, 0, &row, 1, hidden, s->logits, s->next, error);
}

/* Runs the layers over the text's tokens at positions [from, n), after states that d holds; the
 * last one gives logits and its state. */
static Status run_text(MtpDrafter *d, const int32_t *text, size_t from, size_t n, Error *error) {
    MtpDrafts *s = d->shared;
    Row rows[CALL_ROWS];
    Status status = STATUS_OK;
    for (size_t at = from, count; at + 1 < n && status == STATUS_OK; at += count) {
        count = n - 1 - at < CALL_ROWS ? n - 1 - at : CALL_ROWS;
        for (size_t i = 0; i < count; i++)
            rows[i] = (Row){d->sequence, (int32_t)(at + i), text[at + i], false};
        status = mtp_forward(s->mtp, s->cache, 0, rows, count,
                             d->hidden + (at - 1 - d->begin) * s->dim, s->logits, NULL, error);
    }
    if (status != STATUS_OK) return status;
    return run_row(d, n - 1, text[n - 1], d->hidden + (n - 2 - d->begin) * s->dim, true, error);
}

/* Whether d holds the states of text[n] from some position up to the last token but one. */
static bool has_states(const MtpDrafter *d, const int32_t *text, size_t n) {
    return d->hidden && n >= 2 && d->begin + 1 < n && d->begin + d->n >= n - 1 &&
           memcmp(d->tokens, text + d->begin, (n - 1 - d->begin) * sizeof *text) == 0;
}

/* Where the cache would begin for text[n]: at the first position that has a state before it, or in
 * the window. */
static size_t first_afresh(const MtpDrafter *d, size_t n) {
    size_t window = d->drafter.window, first = d->begin + 1;
    return window > 0 && n > window + first ? n - window : first;
}

/* Whether the layers can continue after the row `next` of their cache; else they begin afresh. */
static bool can_continue(const MtpDrafter *d, size_t next, size_t n) {
    size_t window = d->drafter.window;
    if (next <= d->begin || next >= n) return false;
    return window == 0 || (n - next <= window && d->begun <= first_afresh(d, n));
}

/* The position of the first row that the layers must run. */
static size_t first_row(MtpDrafter *d, size_t n) {
    KvCache *cache = d->shared->cache;
    size_t next = (size_t)kvcache_next(cache, d->sequence);
    if (next > d->verified) {
        kvcache_truncate(cache, d->sequence, (int32_t)d->verified);
        next = (size_t)kvcache_next(cache, d->sequence);
    }
    if (can_continue(d, next, n)) return next;
    d->begun = first_afresh(d, n);
    kvcache_reset(cache, d->sequence, (int32_t)d->begun);
    return d->begun;
}

static size_t unread(Drafter *drafter, const int32_t *text, size_t n) {
    const MtpDrafter *d = (const MtpDrafter *)drafter;
    size_t next = d->sequence < 0 ? 0 : (size_t)kvcache_next(d->shared->cache, d->sequence);
    if (d->failed || !has_states(d, text, n)) return 0;
    if (next > d->verified) next = d->verified;
    return n - (can_continue(d, next, n) ? next : first_afresh(d, n));
}

/* Drafter.propose: runs the prediction layers over the text's tokens that they have not seen, then
 * over each token that they draft. */
static size_t mtp_propose(Drafter *drafter, const int32_t *text, size_t n, int32_t *drafts,
                          size_t most) {
    MtpDrafter *d = (MtpDrafter *)drafter;
    MtpDrafts *s = d->shared;
    Error error; /* a drafter that fails is silent: the text goes on without it */
    size_t n_drafts = 0, context = model_context(s->model);
    if (d->failed || !has_states(d, text, n) || n + most > context) return 0;
    if (d->sequence < 0 && s->n_free == 0) return 0;
    if (d->sequence < 0) d->sequence = s->free_sequences[--s->n_free];
    d->failed = run_text(d, text, first_row(d, n), n, &error) != STATUS_OK;
    d->verified = n;
    while (!d->failed && n_drafts < most) {
        int32_t token = draft_choice(d->sampler, s->model, s->logits, s->scratch, n + n_drafts);
        if (token < 0) break;
        drafts[n_drafts++] = token;
        if (n_drafts < most)
            d->failed = run_row(d, n + n_drafts - 1, token, s->next, true, &error) != STATUS_OK;
    }
    return n_drafts;
}

/* Does nothing: accepted drafts appear among the text's tokens. */
static void mtp_learn(Drafter *drafter, size_t n, size_t accepted) {
    (void)drafter;
    (void)n;
    (void)accepted;
}

static void free_drafter(Drafter *drafter) {
    MtpDrafter *d = (MtpDrafter *)drafter;
    if (d->sequence >= 0) {
        kvcache_reset(d->shared->cache, d->sequence, 0);
        d->shared->free_sequences[d->shared->n_free++] = d->sequence;
    }
    sampler_free(d->sampler);
    free(d->hidden);
    free(d);
}

Drafter *mtp_drafter(MtpDrafts *shared, const SamplerOptions *sampling) {
    MtpDrafter *d = calloc(1, sizeof *d);
    if (!d) return NULL;
    d->shared = shared;
    d->sequence = -1;
    d->drafter = (Drafter){.most = MTP_DRAFTS,
                           .propose = mtp_propose,
                           .learn = mtp_learn,
                           .free = free_drafter,
                           .ran = ran,
                           .unread = unread};
    d->sampler = draft_choice_new(sampling, shared->model);
    if (d->sampler) return &d->drafter;
    free_drafter(&d->drafter);
    return NULL;
}
