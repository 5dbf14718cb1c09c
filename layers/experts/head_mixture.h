/* Mixture of attention heads (JetMoE, https://arxiv.org/abs/2404.07413): a router chooses
 * n_experts_used experts for each row. An expert is a projection of queries and one of their
 * outputs; all experts read the same keys and values. With the routing weight g of an expert e:
 *
 *     out = bias + the sum over the chosen e of g * wo_e attention(wq_e in; keys, values)
 *
 * An expert has a query head for each key/value head, so that a row has n_heads = n_experts_used *
 * n_kv_heads of them. The rows of an expert are multiplied together, as in
 * layers/experts/mixture.h.
 *
 * Both projections of attention (core/forward_steps.h) differ, an expert's rows at a time; queries
 * are put in order between them. */
#ifndef LAYERS_EXPERTS_HEAD_MIXTURE_H
#define LAYERS_EXPERTS_HEAD_MIXTURE_H

#include "core/layer_kind.h"

extern const BranchKind head_mixture_kind;

#endif
