/* Prefill: runs a text through the model in chunks, calls of model_forward with many rows.
 *
 * A prompt that is to be continued needs only the logits of its last token; scoring a text needs
 * every token's logits, and a view of attention needs none. The caller says which:
 *
 *     const Prefill p = {.ids = ids, .n = n, .first_wanted = n - 1, .logits = logits};
 *     status = prefill(model, cache, &p, &error);      logits[vocab_size] are the last token's
 */
#ifndef PREFILL_H
#define PREFILL_H

#include <signal.h>

#include "model.h"

/* One call of model_forward that has been made. Valid during after_chunk only. */
typedef struct PrefillChunk {
    const Row *rows; /* [n] */
    size_t n;
    size_t done;         /* tokens that have run so far, including these */
    size_t total;        /* tokens of the whole prefill */
    const float *logits; /* [n_logits][vocab_size], of the rows that want them */
    size_t n_logits;
} PrefillChunk;

typedef struct Prefill {
    int32_t sequence;
    const int32_t *ids; /* [n] */
    size_t n;
    size_t first_wanted; /* tokens from this index on want logits; n: no token does */
    const bool *wanted;  /* [n], the tokens that want logits instead; NULL: first_wanted says it */
    size_t max_rows;     /* of one chunk; 0: model_max_rows() */
    float *logits; /* [rows of a chunk that want them][vocab_size]; each chunk overwrites it */
    const volatile sig_atomic_t *interrupted; /* nonzero: stop between two chunks; NULL: never */
    /* Called after each chunk, also after the last. A result other than STATUS_OK ends the prefill,
     * which returns it. May be NULL. */
    Status (*after_chunk)(void *context, const PrefillChunk *chunk, Error *error);
    void *context;
} Prefill;

/* Runs the n tokens and appends them to the sequence in the cache. Returns STATUS_INTERRUPTED when
 * `interrupted` is set and tokens are left to run. Chunks that have run stay in the cache, whatever
 * happens later. */
Status prefill(Model *model, KvCache *cache, const Prefill *p, Error *error);

#endif
