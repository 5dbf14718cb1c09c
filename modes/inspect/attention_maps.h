/* What each token of a text attends to: the softmax weights of every layer and head as the forward
 * pass computes them, and the scores that the softmax took. Both come through the observer of
 * core/attention.h; the logits keep their bits. */
#ifndef ATTENTION_MAPS_H
#define ATTENTION_MAPS_H

#include "modes/inspect/picture.h"
#include "session/session.h"

/* A "map" is the [query][key] matrix of one layer and head. */
typedef struct AttentionMaps {
    const Session *session;
    TokenList ids;                          /* the text */
    size_t n;                               /* tokens */
    uint32_t n_layers, n_heads, n_kv_heads; /* n_heads: of the layer that has the most */
    float *weights;                         /* [n_layers][n_heads][n query][n key] */
    float *scores;   /* the same, -INFINITY where a query does not see a key; NULL: not asked for */
    uint32_t *first; /* [n_layers][n], the first key that a query sees */
    size_t base;     /* the text's token that is row 0 of the running forward pass */
} AttentionMaps;

/* Runs the session's prompt and fills *maps, which attention_maps_free frees in any case. Fails
 * when the weights would take more than 1 GiB. */
Status attention_maps_collect(AttentionMaps *maps, Session *session, bool with_scores,
                              Error *error);
void attention_maps_free(AttentionMaps *maps);

const float *attention_map(const AttentionMaps *maps, size_t layer, size_t head);
const float *attention_score_map(const AttentionMaps *maps, size_t layer, size_t head);

/* Heads of the layer, and how many keys and values they share. */
uint32_t attention_maps_heads(const AttentionMaps *maps, size_t layer);
uint32_t attention_maps_kv_heads(const AttentionMaps *maps, size_t layer);
/* The key/value head that the head reads. */
uint32_t attention_maps_kv_head(const AttentionMaps *maps, size_t layer, uint32_t head);

/* The end of the keys that a query may see: those up to itself, unless a mask was overridden. */
size_t attention_maps_end(const AttentionMaps *maps, size_t query);

/* Whether the layer attends in a way that the maps hold; the maps of others stay 0. */
bool attention_maps_attends(const AttentionMaps *maps, size_t layer);

/* What is said of a layer that has no maps: "keeps a state and does not attend" or the like. */
const char *attention_maps_absence(const AttentionMaps *maps, size_t layer);

/* Fills out[n][n] with the mean map of those of n_layers layers from `first` on that attend, all
 * heads. */
void attention_maps_mean(const AttentionMaps *maps, size_t first, size_t n_layers, float *out);

/* Writes token i into *out, which it empties first: at most max_characters characters, spaces as an
 * open box. The bytes are as the vocabulary has them, so escape them before showing them. */
void attention_maps_label(const AttentionMaps *maps, size_t i, size_t max_characters, Sheet *out);

/* Writes one line: the model's name, its shape and what was overridden. */
void attention_maps_describe(const AttentionMaps *maps, Sheet *out);

#endif
