/* LatentMoE: layers that are a mixture of experts and nothing else, whose experts read and write a
 * vector narrower than the residual stream: Nemotron 3. One matrix makes that vector of the layer's
 * input, another one widens the experts' sum; the router and the shared expert read the input
 * itself. Muse Spark's feed-forwards do the same with a norm of the narrower vector
 * (layers/arrangements/residual_gates.c). */
#ifndef LAYERS_EXPERTS_LATENT_MOE_H
#define LAYERS_EXPERTS_LATENT_MOE_H

#include "core/layer_kind.h"
#include "core/weights.h"

/* The weights of a branch of this kind: Branch.weights, LayerWeights.own. */
typedef struct LatentMoe {
    LayerWeights *mixture; /* the router, experts and shared expert */
    Linear in, out;        /* expert_dim x dim, dim x expert_dim */
    Norm in_norm;          /* of what `in` gives: Muse Spark */
} LatentMoe;

extern const BranchKind latent_moe_kind;

/* The weights of a layer of this kind; NULL: it is of another kind. */
LatentMoe *latent_moe_weights(const LayerWeights *layer);

#endif
