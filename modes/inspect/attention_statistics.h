/* What the softmax of a head is like over a text, with the scale of the scores and without it. */
#ifndef ATTENTION_STATISTICS_H
#define ATTENTION_STATISTICS_H

#include "modes/inspect/attention_maps.h"

/* Fills out[attention_maps_end] with the softmax of a query's scores without the scale, which
 * are capped and take ALiBi's part as the model has it, and returns the first key that it sees. */
size_t attention_statistics_unscaled(const AttentionMaps *maps, size_t layer, size_t head,
                                     size_t query, double *out);

/* The statistics of one head over a text. */
typedef struct AttentionStatistics {
    double product_variance, score_variance; /* over all keys that any query sees */
    double entropy, unscaled_entropy;        /* mean of the queries, in nats */
    double largest, unscaled_largest;        /* mean of each query's largest weight */
    double gradient, unscaled_gradient;      /* mean of each query's sum of y (1 - y): the
                                              * derivatives of weights y by their own scores */
    double most_entropy;                     /* if each query's weights were equal */
} AttentionStatistics;
Status attention_statistics_of(const AttentionMaps *maps, size_t layer, size_t head,
                               AttentionStatistics *out, Error *error);

#endif
