/* How a score of attention comes from q . k, and a weight from the scores: the numbers that a
 * reader needs to compute one from the other, and the sentence that says how. */
#ifndef ATTENTION_FORMULA_H
#define ATTENTION_FORMULA_H

#include "modes/inspect/attention_maps.h"

/* What the layer multiplies products of queries and keys by. */
double attention_formula_scale(const AttentionMaps *maps, size_t layer);

/* Scores are capped: cap * tanh(score / cap), before ALiBi; 0: they are not. */
double attention_formula_cap(const AttentionMaps *maps);

/* ALiBi's slope of a head, which is subtracted once for each position between query and key. */
double attention_formula_slope(const AttentionMaps *maps, size_t head);

/* A head's attention sink: a score that takes weight and has no value. NaN: the layer has none, or
 * one of its own for each query. */
double attention_formula_sink(const AttentionMaps *maps, size_t layer, size_t head);

/* Whether q . k can be told from a score: not where the scale is 0, nor where a layer adds a
 * learned bias of the distance. */
bool attention_formula_has_products(const AttentionMaps *maps, size_t layer);

/* The product q . k after a score of a layer and head: without the scale, the cap and ALiBi. The
 * score itself where products cannot be told. Of a score that rounds to the cap, the smallest
 * product that gives it. */
double attention_formula_product(const AttentionMaps *maps, size_t layer, size_t head, size_t query,
                                 size_t key);

/* The score of a product by the layer's formula with another scale. */
double attention_formula_score(const AttentionMaps *maps, double product, double scale, size_t head,
                               size_t query, size_t key);

/* Writes what a score is, with this scale: "q . k times 0.25". */
void attention_formula_write_score(const AttentionMaps *maps, double scale, Sheet *out);

/* Writes "score = ...; weight = ..." of a layer, and below it the slopes and sinks of its heads.
 * Each line begins with `indent`. */
void attention_formula_write(const AttentionMaps *maps, size_t layer, const char *indent,
                             Sheet *out);

/* Writes a line that says which numbers the cache's type rounds (bf16, q8); nothing for others. */
void attention_formula_write_rounding(const AttentionMaps *maps, const char *indent, Sheet *out);

#endif
