/* Latent attention (MLA): DeepSeek V2 and V3 (arXiv 2405.04434, 2412.19437), and what follows them.
 *
 * A position stores one vector for all heads: the latent, from which the keys and values of all
 * heads could be made, and a rotated part that all keys share. They are never made. The matrices
 * that would make them are multiplied with the queries and with the outputs instead, so that all
 * heads attend to the latent itself, as if it were one key/value head ("absorbed"):
 *
 *     q[head]       = wq x, or wq_b norm(wq_a x)                       head_dim elements
 *     latent, r     = norm(first kv_lora_rank of wkv_a x), rotate(rest)  stored as one key
 *                     (dots3 note normalizes the rest before its rotation)
 *     query[head]   = k_b[head] (q[head] without its rotated part), rotate(rotated part)
 *                     (scaled by head_scale.h in Mistral Large 4)
 *     out[head]     = v_b[head] attention(query[head], keys; values are the keys' latents)
 *     out[head]     = out[head] * sigmoid(gate x)      where the layer has a gate
 *     y             = wo out
 *
 * A layer may read the latents of an earlier one (Config.kv_distance) and have no wkv_a: Mistral
 * Large 4. Prompts and single tokens are computed in the same way, hence with the same bits.
 *
 * All steps of attention (core/forward_steps.h) differ, but for attending where there is no
 * indexer. */
#ifndef LAYERS_ATTENTION_LATENT_H
#define LAYERS_ATTENTION_LATENT_H

#include "core/layer_kind.h"
#include "layers/attention/indexer.h"
#include "core/weights.h"

/* The weights of a layer: LayerWeights.own. A rank has some of the heads. */
typedef struct Latent {
    Matrix wq;   /* n_heads * head_dim from dim, or from q_lora_rank (wq_b) */
    Linear wq_a; /* q_lora_rank x dim; absent: queries are made from the input */
    Norm q_norm;
    HeadScale q_scale;
    Linear wkv_a; /* kv_lora_rank + rotary_dim x dim; absent: the latents are an earlier layer's */
    Norm kv_norm;
    const float *shared_key_norm; /* [rotary_dim], before the rotation: dots3 note; NULL: none */
    Matrix
        gate; /* n_heads or n_heads * value_dim, from dim or from what wq_b reads; absent: none */
    const float *sinks; /* [n_heads], AttentionParams.sinks */
    Linear wo;          /* dim x n_heads * value_dim */
    Indexer indexer;
    Matrix *k_b;   /* [n_heads], kv_lora_rank x head_dim - rotary_dim each */
    Matrix *v_b;   /* [n_heads], value_dim x kv_lora_rank each */
    Matrix list[]; /* both */
} Latent;

extern const BranchKind latent_kind;

/* The weights of a layer of this kind; NULL: it is of another kind. */
Latent *latent_weights(const LayerWeights *layer);

#endif
