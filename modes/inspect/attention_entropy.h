/* How spread out the attention weights of a run are, measured by their mean entropy. --eval prints
 * it beside the perplexity with --stats and --override. */
#ifndef ATTENTION_ENTROPY_H
#define ATTENTION_ENTROPY_H

#include "model.h"

/* The sums over every query of every head that ran between begin and end. They are in fixed point,
 * so that threads can add in any order and get the same result. */
typedef struct AttentionEntropy {
    PassObserver observer; /* the first field */
    int64_t sum;           /* of the entropies, in 2^-32 nats */
    int64_t max;           /* of the entropies that even weights would have: log(positions seen) */
    int64_t n;             /* queries times heads */
} AttentionEntropy;

/* Starts to measure: the model calls into *entropy until attention_entropy_end. */
void attention_entropy_begin(AttentionEntropy *entropy, Model *model);
void attention_entropy_end(AttentionEntropy *entropy, Model *model);

/* The mean entropy of a query's weights in nats, and the mean of the largest that was possible; 0
 * when nothing ran. */
double attention_entropy_mean(const AttentionEntropy *entropy);
double attention_entropy_max(const AttentionEntropy *entropy);

#endif
