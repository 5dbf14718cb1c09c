/* The weights of a model, found in its file: where model.c reads them.
 *
 * Pointers and matrices are borrowed from the mapping. A vector that is NULL and a matrix
 * whose data is NULL are absent: the step that would use them is left out. */
#ifndef WEIGHTS_H
#define WEIGHTS_H

#include "modelfile.h"

typedef struct Norm {
    const float *weight, *bias; /* [dim] (q and k: [head_dim] or [heads * head_dim]) */
    bool present;               /* a norm may be there without weights (OLMo) */
} Norm;

typedef struct Linear {
    Matrix w;          /* outputs x inputs */
    const float *bias; /* [outputs] */
} Linear;

/* down(activation(gate(x)) * up(x)), or down(activation(up(x))). */
typedef struct FeedForward {
    size_t width;    /* ffn_dim, expert_ffn_dim or shared_ffn_dim */
    Linear gate, up; /* width x dim */
    Linear down;     /* dim x width */
} FeedForward;

typedef struct LayerWeights {
    Norm attention_norm;   /* before attention; after it for NORM_AFTER */
    Linear wq, wk, wv, wo; /* q: n_heads * head_dim; k, v: n_kv_heads * head_dim */
    Norm q_norm, k_norm;
    Norm post_attention_norm; /* NORM_OUTPUT, NORM_AROUND */
    Norm ffn_norm;            /* absent in a parallel block that shares attention_norm */
    FeedForward ffn;
    Norm post_ffn_norm;
    const float *sinks; /* [n_heads]: attention scores that take weight and give nothing */
    /* A mixture of experts instead of ffn, when router has data. */
    Linear router;        /* n_experts x dim */
    FeedForward *experts; /* [n_experts] */
    FeedForward shared;   /* that every token uses */
    Matrix shared_gate;   /* 1 x dim: its share, before the sigmoid */
} LayerWeights;

typedef struct Weights {
    Matrix token_embedding;          /* vocab_size x dim */
    const float *position_embedding; /* [positions][dim]; POSITION_LEARNED */
    size_t n_positions;
    const float *sinusoid_freqs;   /* [dim / 2] */
    const float *alibi_slopes;     /* [n_heads] */
    const float *rope_freqs[2];    /* [rotary_dim / 2] */
    const float *rope_freqs_short; /* instead of the first: LongRoPE in its original context */
    Norm embedding_norm, final_norm;
    Linear output;        /* vocab_size x dim */
    LayerWeights *layers; /* [n_layers], owned */
    FeedForward *experts; /* [n_layers][n_experts], owned; NULL when there are none */
} Weights;

/* Finds every tensor that the file's Config asks for and checks its shape; the Error names
 * the tensor that is missing or wrong. weights_free in any case. */
Status weights_find(Weights *weights, const ModelFile *file, Error *error);
void weights_free(Weights *weights);

#endif
