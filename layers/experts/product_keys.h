/* A feed-forward with experts of one neuron each, found by product keys (Doge; PEER,
 * arXiv:2407.04153):
 *
 *     y = feed-forward(x) + sum over the chosen e of share[e] * activation(down[e] . x) * up[e]
 *
 * The router gives 2K numbers a[K], b[K] of a token; expert i * K + j has the score a[i] + b[j].
 * product_used experts with the largest scores are chosen, of equal ones those with the lowest
 * numbers; share is the softmax of their scores. They are added in the order of their numbers. */
#ifndef LAYERS_EXPERTS_PRODUCT_KEYS_H
#define LAYERS_EXPERTS_PRODUCT_KEYS_H

#include "core/branch.h"

typedef struct ProductKeys {
    Matrix router;   /* 2 * product_keys x dim */
    Matrix down, up; /* product_experts x dim */
} ProductKeys;

/* Finds the weights of the layer whose prefix the finder has. */
ProductKeys product_keys_find(Finder *finder);

/* Floats of working memory for each thread. */
size_t product_keys_thread_floats(const Config *config);

/* Branch.weights: ProductKeys. The feed-forward is that of the layer. */
extern const BranchKind product_keys_kind;

#endif
