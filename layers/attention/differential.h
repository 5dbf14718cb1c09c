/* Differential attention: DiffLlama (arXiv 2410.05258; transformers, modeling_diffllama.py).
 *
 * Head h of the first half of the query heads is paired with head h + n_heads / 2. Both attend to
 * twice as wide values, those of two key/value heads beside each other, and the second output,
 * times a factor of the layer, is taken from the first:
 *
 *     value[j]  = v[j mod (n_kv_heads / 2)] and v[j mod (n_kv_heads / 2) + n_kv_heads / 2]
 *     out[h]    = norm(attention(q[h]) - factor * attention(q[h + n_heads / 2]))
 *     y         = wo out                         n_heads / 2 heads of 2 * head_dim elements
 *
 * The vector "differential_factor" holds the factor, lambda, computed at conversion;
 * "differential_norm" is the norm's weight, 1 - lambda_init throughout. The cache stores the wide
 * values, each v twice: half as much again as plain attention.
 *
 * Two steps of attention (core/forward_steps.h) differ: preparation stores other values, and the
 * output subtracts heads. The other steps are attention_part.h's. */
#ifndef LAYERS_ATTENTION_DIFFERENTIAL_H
#define LAYERS_ATTENTION_DIFFERENTIAL_H

#include "core/layer_kind.h"

extern const BranchKind differential_kind;

#endif
