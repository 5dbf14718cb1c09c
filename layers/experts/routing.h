/* Routers of mixtures of experts other than a plain softmax, from ROUTER_SPARSE_MIXER on:
 * layers/experts/routing.c. */
#ifndef LAYERS_EXPERTS_ROUTING_H
#define LAYERS_EXPERTS_ROUTING_H

#include "core/config.h"

/* Chooses experts as experts_route does (experts.h), by RouterConfig.kind:
 *
 *     scaled         a softmax over the chosen times correction[n_experts] (NULL: 1)
 *     sparse_mixer   the largest logits; each weight is a softmax over the experts that are not
 *                    chosen before and within a relative distance of 2 * jitter
 *                    (arXiv:2409.12136, as at inference)
 *     ..._scores     the largest scores plus correction[n_experts] (NULL: none) among the best
 *                    groups; the scores without it are the routing weights (arXiv:2405.04434
 *                    ranks groups by their best expert, arXiv:2412.19437 by their best two, with
 *                    sigmoid and correction) */
void routing_route(const Numeric *numeric, const Config *config, const float *correction,
                   float *logits, uint32_t *chosen, float *routing_weights);

/* As routing_route, where a table has chosen the experts: table[n_experts_used], in which an expert
 * may stand twice. Only for routers with scores. */
void routing_weigh(const Numeric *numeric, const Config *config, const float *table, float *logits,
                   uint32_t *chosen, float *routing_weights);

#endif
