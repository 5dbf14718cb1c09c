/* Mixtures of experts: which experts a token goes to, and with what routing weights. */
#ifndef LAYERS_EXPERTS_EXPERTS_H
#define LAYERS_EXPERTS_EXPERTS_H

#include <stdint.h>

#include "core/config.h"
#include "core/numeric.h"

/* chosen[n_experts_used] = the experts with the largest of the router's logits[n_experts], largest
 * first, ties to the lowest index; routing_weights[n_experts_used] = what each one's output is
 * multiplied by: a softmax over all experts or over the chosen. Overwrites logits. */
void experts_route(const Numeric *numeric, const Config *config, float *logits, uint32_t *chosen,
                   float *routing_weights);

/* chosen[n_chosen] = the indices of the largest of rank[n], largest first, ties to the lowest
 * index. n_chosen <= n. Never the same index twice, even where ranks are NaN. */
void experts_choose(const float *rank, size_t n, size_t n_chosen, uint32_t *chosen);

/* Sorts the choices of many rows by expert. chosen[n] holds the experts of all rows, row after row;
 * afterwards slots[first[e] ... first[e + 1] - 1] are the indices i with chosen[i] == e, in rising
 * order. first[n_experts + 1], slots[n]. */
void experts_sort(const uint32_t *chosen, size_t n, size_t n_experts, uint32_t *first,
                  uint32_t *slots);

#endif
