/* Sizes of tensors as text: sums of products of whole numbers and named sizes, such as
 *
 *     n_heads * head_dim + 2 * n_kv_heads * head_dim
 *
 * The names are those of Config's fields; those that differ from layer to layer are the layer's.
 * size_name lists them. Beside fields there are expert_dim, which is dim where the field is 0,
 * unrotated_dim (head_dim without the rotated elements), state_group (heads that share a key head
 * of the state), hyper_maps (the numbers that a map of hyper-connections makes of a position),
 * out_group_width (n_heads * head_dim / out_groups), pool_series (2 where the pools of compressed
 * attention overlap, else 1) and half_values (n_kv_heads * value_dim / 2). */
#ifndef FORMATS_FAMILY_SIZES_H
#define FORMATS_FAMILY_SIZES_H

#include "core/config.h"

enum { SIZE_TERMS = 8 };

/* A sum's value in one layer. Values that do not fit are SIZE_MAX, which no tensor has. */
typedef struct SizeSum {
    size_t total;
    size_t n_terms;
    size_t terms[SIZE_TERMS];
    /* The first term with the factor state_heads, and the product of its other factors: which term
     * holds heads of states, and how wide each is. heads_width 0: none does. */
    size_t heads_term, heads_width;
} SizeSum;

/* Evaluates the text; false when it has another form than above, or a name that is unknown. */
bool size_sum(const char *text, const Config *config, uint32_t layer, SizeSum *sum);

/* The total of a text that is known to be right: 0 where it is not. */
size_t size_of(const char *text, const Config *config, uint32_t layer);

/* The i-th name; NULL: there are no more. */
const char *size_name(size_t i);

#endif
