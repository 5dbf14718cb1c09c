/* The maps of attention for a terminal. */
#ifndef ATTENTION_TEXT_H
#define ATTENTION_TEXT_H

#include "modes/inspect/attention_maps.h"

/* Writes token i, right-aligned in 13 columns. */
void attention_text_label(const AttentionMaps *maps, size_t i, Sheet *out);

/* Draws a map for each layer, the mean of its heads. */
void attention_text_maps(const AttentionMaps *maps, Sheet *out);

/* Draws the map of one head, and lists what the last token looks at most, with the scores. */
void attention_text_head(const AttentionMaps *maps, size_t layer, uint32_t head, Sheet *out);

/* Lists the variance of the products and scores of each head, and what their softmax is like with
 * and without the scale. */
Status attention_text_scores(const AttentionMaps *maps, Sheet *out, Error *error);

/* Lists how many singular values of each head's weights, and of its scores where no mask leaves any
 * out, hold most of the sum of their squares: whether attention is of low rank. Fails for long
 * texts. */
Status attention_text_ranks(const AttentionMaps *maps, Sheet *out, Error *error);

#endif
