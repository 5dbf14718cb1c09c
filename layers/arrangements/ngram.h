/* Embeddings of n-grams, which some layers with DeltaNet add to their residual streams (Qwen4-Exp,
 * whose class calls them PLE).
 *
 * The last 2, 3, ... ngram_size tokens are hashed, each n-gram by ngram_heads hashes into tables of
 * their own, whose sizes are different primes. The vectors that they name, side by side, are e.
 * With the streams h[S] and norms that have weights of their own for each stream:
 *
 *     key[s]   = norm_k(key e)[s],  query[s] = norm_q(h[s]),  value = value e
 *     d[s]     = key[s] . query[s] / sqrt(dim)
 *     v[s]     = sigmoid(sign(d[s]) * sqrt(max(|d[s]|, 1e-6))) * value
 *     h[s]     = h[s] + (v[s] + silu(convolution(norm_c(v[s]))))
 *
 * A token before the start, or beyond an end token between it and the row, counts as the end token.
 * The convolution takes every ngram_size-th position. Both keep a state: the last tokens, and the
 * convolution's inputs, after that of the layer's DeltaNet. A table may be larger than memory: it
 * is read through the file's mapping, one row for each hash. */
#ifndef LAYERS_ARRANGEMENTS_NGRAM_H
#define LAYERS_ARRANGEMENTS_NGRAM_H

#include "core/branch.h"
#include "core/weights.h"

/* Floats of the state of a layer, a multiple of 16; 0 where it has no n-grams. */
size_t ngram_state_floats(const Config *config, uint32_t layer);

/* The weights of a layer: ngram_bytes. */
typedef struct Ngram Ngram;
size_t ngram_bytes(const Config *config);
/* Finds the weights of a layer in the file. The state begins at `state` floats of the layer's, a
 * multiple of 16. */
void ngram_find(Finder *finder, uint32_t layer, size_t state, Ngram *out);

/* Computes what is added to the streams, Branch.kept; Branch.weights is an Ngram, and
 * Branch.stream_weights the streams. */
extern const BranchKind ngram_kind;

#endif
