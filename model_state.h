/* The model's state, shared by model.c (the forward pass) and model_setup.c (opening, closing). */
#ifndef MODEL_STATE_H
#define MODEL_STATE_H

#include "layer_kind.h"
#include "attention.h"
#include "base/threads.h"
#include "isa.h"
#include "model_row.h"
#include "weights.h"

struct Model {
    const Config *config;
    const ModelFile *file;
    Weights weights;
    const Isa *isa;
    int n_threads;
    uint32_t context, max_rows;
    size_t ffn_rows; /* of feed-forwards in one call: max_rows, and room for a token's experts */
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
    float *q, *attended;          /* [n][n_heads * head_dim], [n][n_heads * value_dim] */
    float *k, *v;                 /* [n][n_kv_heads * head_dim], [n][n_kv_heads * value_dim] */
    float *attention_gate;        /* [n][n_heads * value_dim] where a layer has a gate */
    float *gate, *up;             /* [ffn_rows][widest feed-forward] */
    float *cosine[2], *sine[2];   /* [n][n_pairs], of each RoPE table */
    size_t n_pairs[2];            /* half the table's rotary_dim; 0: no such table */
    AttentionRow *attention_rows; /* [n] */
    /* Mixtures of experts, k = n_experts_used. */
    float *routing;         /* [n][n_experts]  the router's logits */
    float *shares;          /* [n][k]          what the chosen experts' outputs are multiplied by */
    uint32_t *chosen;       /* [n][k]          the experts of each row */
    uint32_t *expert_first; /* [n_experts + 1] where each expert's part of expert_slots begins */
    uint32_t *expert_slots; /* [n * k]         indices into chosen, sorted by expert */
    float *expert_in, *expert_out; /* [ffn_rows][dim]  the rows of some experts */
    /* Layers of other kinds (layer_kind.h): what their row_floats and thread_floats ask for. */
    float *layer_rows;    /* [n][layer_row_floats] */
    float *layer_threads; /* [n_threads][layer_thread_floats], each 64-byte aligned */
    size_t layer_row_floats, layer_thread_floats;
    float *scaled_freqs; /* [rotary_dim / 2], a RoPE table made for this context; or NULL */
};

#endif
