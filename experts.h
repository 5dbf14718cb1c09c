/* Mixtures of experts: which experts a token goes to, and with what shares. */
#ifndef EXPERTS_H
#define EXPERTS_H

#include <stdint.h>

#include "config.h"
#include "numeric.h"

/* chosen[n_used] = the experts with the largest logits[n_experts], largest first, ties to the
 * lowest index; shares[n_used] = what each one's output is multiplied by. `jitter` is the sparse
 * mixer's (arXiv:2409.12136, as at inference): only experts whose logits are within a relative
 * distance of 2 * jitter from the largest take part in the softmax.
 * n_used <= n_experts <= CONFIG_MAX_EXPERTS. Overwrites logits. */
void experts_route(const Numeric *numeric, RouterKind kind, float jitter, float *logits,
                   size_t n_experts, size_t n_used, uint32_t *chosen, float *shares);

/* Sorts the choices of many rows by expert. chosen[n] holds the experts of all rows, row after row;
 * afterwards slots[first[e] ... first[e + 1] - 1] are the indices i with chosen[i] == e, in rising
 * order. first[n_experts + 1], slots[n]. */
void experts_sort(const uint32_t *chosen, size_t n, size_t n_experts, uint32_t *first,
                  uint32_t *slots);

#endif
