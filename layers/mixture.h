/* The steps of mixture_kind (layer_kind.h), for mixtures whose experts read something else than
 * the router. All threads of the forward pass call them. */
#ifndef LAYERS_MIXTURE_H
#define LAYERS_MIXTURE_H

#include "forward_pass.h"

/* y[n][width] = the sum of the chosen experts' outputs for in[n][width], each times its share; the
 * router reads routed[n][dim]. width is at most dim. */
void mixture_sum(ForwardPass *pass, const LayerWeights *weights, const float *routed,
                 const float *in, size_t width, float *y);

/* y[n][dim] += the shared expert's output for in[n][dim], times its share. */
void mixture_add_shared(ForwardPass *pass, const LayerWeights *weights, const float *in, float *y);

#endif
