/* How much faster drafts make decoding here, when a given share of them is right: `bench --draft`.
 *
 * The text and the drafts are made up, so that each drafted token is right with the given
 * probability after right ones. How many are drafted is decided as `run` does it
 * (draft/drafter_set.h). */
#ifndef BENCH_DRAFTS_H
#define BENCH_DRAFTS_H

#include "model.h"

typedef struct DraftSpeed {
    double plain, drafted; /* tokens a second */
    double times;          /* median over rounds of the ratio of both, which alternate */
    double rows, tokens;   /* of a pass with drafts, on average */
} DraftSpeed;

/* Decodes in turns with drafts and without, in sequence 0 of the cache. The fraction `share` of the
 * drafts is right. Fails when the context is too short or memory is. */
Status bench_drafts(Model *model, KvCache *cache, double share, DraftSpeed *out, Error *error);

#endif
