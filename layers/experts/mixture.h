/* Mixtures of experts (LayerKinds.mixture), and the steps of those whose experts read something
 * else than the router. All threads of the forward pass call them. */
#ifndef LAYERS_EXPERTS_MIXTURE_H
#define LAYERS_EXPERTS_MIXTURE_H

#include "core/forward_steps.h"

/* The working memory of a call. n = max_rows, k = n_experts_used, most = Model.ffn_rows. */
typedef struct MixtureRows {
    float *routing;         /* [n][n_experts]  the router's logits */
    float *routing_weights; /* [n][k]          routing weights of the chosen experts */
    uint32_t *chosen;       /* [n][k]          the experts of each row */
    uint32_t *first;        /* [n_experts + 1] where each expert's part of slots begins */
    uint32_t *slots;        /* [n * k]         indices into chosen, sorted by expert; after them
                               [n * k]         the rows that made these choices */
    float *in, *out;        /* [most][dim]     the rows of some experts */
    HiddenRows hidden;      /* [most]          of experts, or of the shared one */
    size_t most;
} MixtureRows;

extern const BranchKind mixture_kind;

/* Takes them first of what a branch takes, so that mixture_choices finds them. */
MixtureRows mixture_take(Rows *memory, const Model *model, const LayerWeights *weights);

/* first and slots of the mixture that is running, for a PassObserver. */
MixtureRows mixture_choices(const Model *model);

/* y[n][width] = the sum of the chosen experts' outputs for in[n][width], each times its routing
 * weight; the router reads routed[n][dim]. width is at most dim. */
void mixture_sum(ForwardPass *pass, const LayerWeights *weights, const MixtureRows *rows,
                 const float *routed, const float *in, size_t width, float *y);

/* y[n][dim] += the shared expert's output for in[n][dim], times its weight. */
void mixture_add_shared(ForwardPass *pass, const LayerWeights *weights, const MixtureRows *rows,
                        const float *in, float *y);

#endif
