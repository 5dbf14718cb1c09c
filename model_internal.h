/* What the files of the model share: model.c (the forward pass), model_setup.c (what is there
 * before the first and after the last). */
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
    double row_work; /* multiply-adds of one row, attention aside */
    const AttentionObserver *observer;
    const InputObserver *input_observer;
    double *seconds; /* [MODEL_PARTS] */
    Barrier barrier;
    MatmulMemory *matmul;
    AttentionMemory *attention;

    /* The state of the rows in flight, n = max_rows. */
    float *x;                /* [n][dim]      the residual stream */
    float *normed, *normed2; /* [n][dim]      what attention and feed-forward read */
    float *y, *z;            /* [n][dim]      what they give */
    float *q, *attended;     /* [n][n_heads * head_dim] */
    float *k, *v;            /* [n][n_kv_heads * head_dim] */
    float *gate, *up;        /* [n][widest feed-forward] */
    /* Mixtures of experts, k = n_experts_used. */
    float *routing;         /* [n][n_experts]  the router's logits */
    float *shares;          /* [n][k]          of the chosen experts */
    uint32_t *chosen;       /* [n][k]          the experts of each row */
    uint32_t *expert_first; /* [n_experts + 1] where an expert's part of expert_slots begins */
    uint32_t *expert_slots; /* [n * k]         row * k + which of its choices, by expert */
    float *expert_in, *expert_out; /* [n][dim]       the rows of one expert */
    float *cosine[2], *sine[2];    /* [n][rotary_dim / 2], one a frequency table */
    AttentionRow *places;          /* [n] */
    float *scaled_freqs;           /* a RoPE table made when the model was opened; or NULL */
};

#endif
