/* The model's state, shared by model.c (the forward pass) and model_setup.c (opening, closing). */
#ifndef MODEL_INTERNAL_H
#define MODEL_INTERNAL_H

#include "model.h"
#include "weights.h"

struct Model {
    const Config *config;
    const ModelFile *file;
    Weights weights;
    const Isa *isa;
    int n_threads;
    uint32_t context, max_rows;
    double row_work; /* multiply-adds of the matrix products of one row */
    const AttentionObserver *observer;
    const InputObserver *input_observer;
    double *seconds; /* [MODEL_PARTS], or NULL */
    Barrier barrier;
    MatmulMemory *matmul;
    AttentionMemory *attention;

    /* Working memory of a forward pass, n = max_rows. */
    float *x;                     /* [n][dim]  the residual stream */
    float *normed, *normed2;      /* [n][dim]  inputs of attention and of a parallel block's FFN */
    float *y, *z;                 /* [n][dim]  their outputs */
    float *q, *attended;          /* [n][n_heads * head_dim] */
    float *k, *v;                 /* [n][n_kv_heads * head_dim] */
    float *gate, *up;             /* [n][widest feed-forward] */
    float *cosine[2], *sine[2];   /* [n][rotary_dim / 2], of each RoPE table */
    AttentionRow *attention_rows; /* [n] */
    /* Mixtures of experts, k = n_experts_used. */
    float *routing;         /* [n][n_experts]  the router's logits */
    float *shares;          /* [n][k]          what the chosen experts' outputs are multiplied by */
    uint32_t *chosen;       /* [n][k]          the experts of each row */
    uint32_t *expert_first; /* [n_experts + 1] where each expert's part of expert_slots begins */
    uint32_t *expert_slots; /* [n * k]         indices into chosen, sorted by expert */
    float *expert_in, *expert_out; /* [n][dim]  the rows of one expert */
    float *scaled_freqs; /* [rotary_dim / 2], a RoPE table made for this context; or NULL */
};

#endif
