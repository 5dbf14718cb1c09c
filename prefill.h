/* Prefill: runs the tokens of one text through the model, as many rows a call as fit.
 *
 * A prompt before generation needs the logits of its last token alone; scoring a text needs those
 * of every token; a view of attention needs none. All of them are one Prefill:
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
    size_t done, total;  /* tokens of the text that have run, these included; all that will run */
    const float *logits; /* [n_logits][vocab_size], of ids[done - n_logits ... done - 1] */
    size_t n_logits;
} PrefillChunk;

typedef struct Prefill {
    int32_t sequence;
    const int32_t *ids; /* [n] */
    size_t n;
    size_t first_wanted; /* tokens from this index on want logits; n: none does */
    size_t max_rows;     /* of one call; 0: model_max_rows() */
    float *logits; /* [wanted rows of one call][vocab_size]; each call writes from the start */
    const volatile sig_atomic_t *interrupted; /* nonzero: stop between two chunks; NULL: never */
    /* Called after each chunk, also the last; anything but STATUS_OK ends the prefill. May be NULL.
     */
    Status (*after_chunk)(void *context, const PrefillChunk *chunk, Error *error);
    void *context;
} Prefill;

/* Appends the n tokens to the cache, from kvcache_next() of the sequence on. STATUS_INTERRUPTED
 * when `interrupted` was set before the last chunk; the chunks that have run stay in the cache
 * then, and also when a later one fails. */
Status prefill(Model *model, KvCache *cache, const Prefill *p, Error *error);

/* How many rows a call may take when all of them want logits: at most model_max_rows(), and no more
 * than 64 MiB of logits. At least 1. */
size_t prefill_rows_with_logits(const Model *model);

#endif
