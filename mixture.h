/* Mixtures of experts (layers/mixture.c): a feed-forward of many networks, of which a router
 * chooses some for each token. The core build has none and refuses such models (config_fields.c).
 */
#ifndef MIXTURE_H
#define MIXTURE_H

#include "base/outside_core.h"
#include "forward_pass.h"

/* y[n][dim] = the sum of the experts' outputs for in[n][dim], each times its share, in the order of
 * their numbers; the router chooses them by routed[n][dim]. */
OUTSIDE_CORE(void mixture_forward(ForwardPass *pass, const LayerWeights *weights,
                                  const float *routed, const float *in, float *y),
             (void)pass;
             (void)weights; (void)routed; (void)in; (void)y;)

#endif
