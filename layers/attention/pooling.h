/* Softmax pooling of neighbouring rows: what a layer remembers of each `size` positions of a text
 * in one vector (GLM-5 Next's indexer, DeepSeek V4's compressors).
 *
 * Each position has a vector of values and one of gates. A pool's element e is the mean of its
 * positions' elements, weighted by the softmax over the positions of gate[e] + bias[place][e],
 * where place counts the positions within a pool. Pools follow each other from the start of the
 * sequence.
 *
 * Where pools overlap, values and gates are 2 * dim wide. A pool then takes the first halves of the
 * positions of the pool before it, and the second halves of its own.
 *
 * The softmax is an online one, position by position, in a state that the cache keeps of the
 * sequence. So the bits depend neither on the call nor on the threads. */
#ifndef LAYERS_ATTENTION_POOLING_H
#define LAYERS_ATTENTION_POOLING_H

#include "core/forward_steps.h"

typedef struct Pooling {
    const float *bias; /* [size][width], width = dim or 2 * dim */
    size_t dim, size;
    bool overlaps;
    size_t state; /* where its part of the layer's state begins, a multiple of 16 */
} Pooling;

/* Floats of the state, a multiple of 16. */
size_t pooling_state_floats(size_t dim, bool overlaps);

/* Takes the rows of the pass into the states of their sequences. Changes values[n][width] and
 * gates[n][width]: where a row completes a pool, the first dim elements of its values become that
 * pool's. All threads call it, and it returns when all are done. */
void pooling_run(ForwardPass *pass, size_t layer, const Pooling *pooling, float *values,
                 float *gates);

/* The number of the pool that row `row` completes, from 0; -1: it completes none. */
int64_t pooling_completes(const ForwardPass *pass, size_t row, size_t size);

#endif
