/* Which positions an indexer ranks highest for each row of a pass, or which pools of neighbouring
 * positions (kvcache/pool_keys.h): the step that layers/attention/indexer.h and
 * layers/attention/compressed.h share.
 *
 * The scores are those of layers/attention/index_scores.h, by Config.indexer's heads, over all
 * positions, or complete pools, up to the row's own. The threads share rows and, where these are
 * few, parts of what each row sees; layers/attention/selection.h joins the parts, so that the
 * choice depends neither on the call nor on the threads. */
#ifndef LAYERS_ATTENTION_RANKING_H
#define LAYERS_ATTENTION_RANKING_H

#include "core/forward_steps.h"
#include "layers/attention/selection.h"

typedef struct Ranking {
    size_t layer;
    const float *q;       /* [n][index_heads * index_dim], of all rows of the pass */
    const float *weights; /* [n][index_heads] */
    size_t k;             /* how many are chosen, where there are more */
    size_t pool;          /* positions of a pool, whose keys are POOL_INDEX_KEYs; 0: positions are
                           * ranked, whose keys lie in the place of the layer's values */
    size_t thread_offset; /* where its part of a thread's memory begins, in floats: a multiple of
                           * 16 */
} Ranking;

/* Floats of each thread's part, a multiple of 16. */
size_t ranking_thread_floats(const Config *config, size_t k, bool pools);

/* How many positions a row sees: up to its own, counted from the start of its sequence. */
size_t ranking_seen(const ForwardPass *pass, size_t row);
/* The index keys of one page of the row's sequence, where positions are ranked. */
void *ranking_keys(const ForwardPass *pass, size_t layer, size_t row, size_t page);

/* Calls `take` with what n rows from `first` on choose, once for each row: the positions or pools
 * best->positions[best->n], rising. n is at most the number of threads. All threads call it, and it
 * returns when all are done. */
void ranking_choose(ForwardPass *pass, const Ranking *ranking, size_t first, size_t n,
                    void (*take)(void *context, size_t row, const Selection *best), void *context);

#endif
