#include "draft/draft_model.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "kvcache/kvcache_fork.h"
#include "kvcache/kvcache_snapshots.h"
#include "draft/draft_choice.h"
#include "core/prefill.h"

struct DraftModel {
    Model *model;
    TokenMap *map;
    KvCache *cache;
    int32_t *free_sequences;
    size_t n_free;
    float *logits; /* [2][vocab_size]; the second for the sampler */
};

typedef struct ModelDrafter {
    Drafter drafter;
    DraftModel *shared;
    Sampler *sampler;
    int32_t sequence; /* of the cache; -1: none yet */
    bool failed;      /* silent from now on */
    size_t begin;     /* tokens of the text from the second up to this one are left out */
    TokenList text;   /* as it was proposed for last, in the large model's tokens, without those */
    size_t *ends;     /* [text.length]: tokens of `spelled` up to that token's end */
    size_t ends_capacity;
    TokenList spelled; /* the text in the small model's tokens */
    TokenList cached;  /* the small model's tokens in the cache */
} ModelDrafter;

Status draft_model_new(DraftModel **out, Model *model, TokenMap *map,
                       const DraftModelOptions *options, Error *error) {
    KvShape shape = model_kv_shape(model, options->kv_type);
    size_t vocab_size = model_config(model)->vocab_size, n = options->max_texts;
    DraftModel *shared = calloc(1, sizeof *shared);
    if (!shared) return error_set(error, "no memory for a model that drafts");
    shared->model = model;
    shared->map = map;
    shared->free_sequences = calloc(n, sizeof *shared->free_sequences);
    shared->logits = malloc(2 * vocab_size * sizeof *shared->logits);
    Status status = STATUS_OK;
    if (!shared->free_sequences || !shared->logits)
        status = error_set(error, "no memory for a model that drafts");
    if (status == STATUS_OK)
        status = kvcache_new(&shared->cache, &shape, n, options->max_bytes, error);
    if (status != STATUS_OK) {
        draft_model_free(shared);
        return status;
    }
    while (shared->n_free < n) {
        shared->free_sequences[shared->n_free] = (int32_t)shared->n_free;
        shared->n_free++;
    }
    *out = shared;
    return STATUS_OK;
}

void draft_model_free(DraftModel *shared) {
    if (!shared) return;
    kvcache_free(shared->cache);
    free(shared->free_sequences);
    free(shared->logits);
    free(shared);
}

void draft_model_warm_up(DraftModel *shared) {
    enum { WARM_ROWS = 32 }; /* about as many as are read at first (drafter_set.c) */
    Row rows[WARM_ROWS];
    Error ignored; /* a draft that fails so is silent */
    for (int32_t i = 0; i < WARM_ROWS; i++) rows[i] = (Row){0, i, 0, i == WARM_ROWS - 1};
    model_forward(shared->model, shared->cache, rows, WARM_ROWS, shared->logits, &ignored);
    kvcache_reset(shared->cache, 0, 0);
}

const Model *draft_model_model(const DraftModel *shared) {
    return shared->model;
}

const KvShape *draft_model_kv_shape(const DraftModel *shared) {
    return kvcache_shape(shared->cache);
}

/* ---- The text in the small model's tokens, and what of it the cache holds ---- */

static size_t common_prefix(const TokenList *list, const int32_t *ids, size_t n) {
    size_t i = 0;
    while (i < n && i < list->length && list->ids[i] == ids[i]) i++;
    return i;
}

/* How many tokens of d->text are right if it is to hold text[0] and then text[begin ... n - 1]: the
 * length of the common prefix. */
static size_t known_from(const ModelDrafter *d, const int32_t *text, size_t n, size_t begin) {
    const TokenList *known = &d->text;
    size_t i = 0;
    if (known->length == 0 || known->ids[0] != text[0]) return 0;
    for (i = 1; i < known->length && begin + i - 1 < n; i++)
        if (known->ids[i] != text[begin + i - 1]) break;
    return i;
}

/* Where d should begin to read text[n]: where it began before, unless it would have to read more
 * than a window from there, or is to know more than it does. */
static size_t best_begin(const ModelDrafter *d, const int32_t *text, size_t n) {
    size_t window = d->drafter.window, afresh = window > 0 && n > window + 1 ? n - window : 1;
    if (d->begin == 0 || d->begin >= n || afresh == 1) return afresh;
    size_t unread = n - d->begin + 1 - known_from(d, text, n, d->begin);
    return unread > window || d->begin > afresh ? afresh : d->begin;
}

static size_t unread(Drafter *drafter, const int32_t *text, size_t n) {
    const ModelDrafter *d = (const ModelDrafter *)drafter;
    if (d->failed || (d->sequence < 0 && d->shared->n_free == 0)) return 0;
    size_t begin = best_begin(d, text, n);
    return n - begin + 1 - known_from(d, text, n, begin);
}

/* Makes d->text the text from its best beginning on, and d->spelled its tokens in the draft model's
 * vocabulary. Keeps what both have in common with the last call. */
static Status spell(ModelDrafter *d, const int32_t *text, size_t n, Error *error) {
    d->begin = best_begin(d, text, n);
    size_t kept = known_from(d, text, n, d->begin);
    d->text.length = kept;
    d->spelled.length = kept > 0 ? d->ends[kept - 1] : 0;
    for (size_t i = kept; i < n - d->begin + 1; i++) {
        int32_t token = i == 0 ? text[0] : text[d->begin + i - 1];
        if (token_map_spell(d->shared->map, token, &d->spelled, error) != STATUS_OK)
            return STATUS_FAILED;
        if (!token_list_push(&d->text, token) ||
            !array_reserve(&d->ends, &d->ends_capacity, i + 1, sizeof *d->ends))
            return error_set(error, "no memory for a text");
        d->ends[i] = d->spelled.length;
    }
    return STATUS_OK;
}

/* Removes from the cache what the text did not take, then runs the tokens of d->spelled that it
 * lacks. The logits are the last token's. */
static Status catch_up(ModelDrafter *d, Error *error) {
    DraftModel *shared = d->shared;
    size_t n = d->spelled.length;
    size_t kept = common_prefix(&d->cached, d->spelled.ids, n - 1);
    kvcache_truncate(shared->cache, d->sequence, (int32_t)kept);
    size_t next = (size_t)kvcache_next(shared->cache, d->sequence);
    d->cached.length = next;
    for (size_t i = next; i < n; i++)
        if (!token_list_push(&d->cached, d->spelled.ids[i]))
            return error_set(error, "no memory for a text");
    const Prefill p = {.sequence = d->sequence,
                       .ids = d->spelled.ids + next,
                       .n = n - next,
                       .first_wanted = n - next - 1,
                       .logits = shared->logits};
    Status status = prefill(shared->model, shared->cache, &p, error);
    if (status == STATUS_OK && !kvcache_hold(shared->cache, d->sequence, 0))
        status = error_set(error, "no memory for a state");
    return status;
}

/* ---- The draft ---- */

/* Runs the token that was drafted last. */
static Status step(ModelDrafter *d, int32_t token, Error *error) {
    DraftModel *shared = d->shared;
    const Row row = {d->sequence, kvcache_next(shared->cache, d->sequence), token, true};
    if (!token_list_push(&d->cached, token)) return error_set(error, "no memory for a text");
    return model_forward(shared->model, shared->cache, &row, 1, shared->logits, error);
}

/* Lets the small model choose up to `most` tokens after the text, until one has no counterpart. */
static size_t draft(ModelDrafter *d, size_t n_text, int32_t *drafts, size_t most, Error *error) {
    DraftModel *shared = d->shared;
    size_t n = 0, vocab_size = model_config(shared->model)->vocab_size;
    while (n < most) {
        int32_t token = draft_choice(d->sampler, shared->model, shared->logits,
                                     shared->logits + vocab_size, n_text + n);
        int32_t back = token_map_back(shared->map, token);
        if (back < 0) break;
        drafts[n++] = back;
        if (n < most && step(d, token, error) != STATUS_OK) {
            d->failed = true;
            break;
        }
    }
    return n;
}

static size_t draft_model_propose(Drafter *drafter, const int32_t *text, size_t n, int32_t *drafts,
                                  size_t most) {
    ModelDrafter *d = (ModelDrafter *)drafter;
    DraftModel *shared = d->shared;
    Error error; /* a drafter that fails is silent: the text goes on without it */
    if (d->failed || (d->sequence < 0 && shared->n_free == 0)) return 0;
    if (d->sequence < 0) d->sequence = shared->free_sequences[--shared->n_free];
    d->failed = spell(d, text, n, &error) != STATUS_OK;
    if (d->failed || d->spelled.length == 0) return 0;
    if (d->spelled.length + most > model_context(shared->model)) return 0;
    d->failed = catch_up(d, &error) != STATUS_OK;
    return d->failed ? 0 : draft(d, n, drafts, most, &error);
}

/* catch_up compares texts, so nothing is to be done here. */
static void draft_model_learn(Drafter *drafter, size_t n, size_t accepted) {
    (void)drafter;
    (void)n;
    (void)accepted;
}

static void free_drafter(Drafter *drafter) {
    ModelDrafter *d = (ModelDrafter *)drafter;
    if (d->sequence >= 0) {
        kvcache_reset(d->shared->cache, d->sequence, 0);
        d->shared->free_sequences[d->shared->n_free++] = d->sequence;
    }
    sampler_free(d->sampler);
    token_list_free(&d->text);
    token_list_free(&d->spelled);
    token_list_free(&d->cached);
    free(d->ends);
    free(d);
}

Drafter *draft_model_drafter(DraftModel *shared, const SamplerOptions *sampling) {
    ModelDrafter *d = calloc(1, sizeof *d);
    if (!d) return NULL;
    d->shared = shared;
    d->sequence = -1;
    d->drafter = (Drafter){.most = DRAFT_MODEL_MOST,
                           .propose = draft_model_propose,
                           .learn = draft_model_learn,
                           .free = free_drafter,
                           .unread = unread};
    d->sampler = draft_choice_new(sampling, shared->model);
    if (d->sampler) return &d->drafter;
    free_drafter(&d->drafter);
    return NULL;
}
