/* Mixtures of experts: which experts a token goes to, and with what shares. */
#ifndef EXPERTS_H
#define EXPERTS_H

#include <stdint.h>

#include "numeric.h"

enum { EXPERTS_MAX = 1024, EXPERTS_MAX_USED = 64 };

typedef enum RouterKind {
    ROUTER_SOFTMAX,        /* shares are the softmax over all experts: Qwen 2 MoE, OLMoE */
    ROUTER_SOFTMAX_CHOSEN, /* over the chosen alone: Mixtral, GPT-OSS, Granite */
    ROUTER_SPARSE_MIXER,   /* one after another, each among those near it: Phi 3.5 MoE */
    ROUTER_KINDS
} RouterKind;

/* The n_used experts with the largest logits[n_experts], largest first, ties to the lowest
 * index, and their shares. `jitter` (sparse mixer: arXiv:2409.12136, as at inference): only
 * experts within 2 * jitter of the largest, relatively, count into the softmax.
 * n_used <= n_experts <= EXPERTS_MAX. Overwrites logits. */
void experts_route(const Numeric *numeric, RouterKind kind, float jitter, float *logits,
                   size_t n_experts, size_t n_used, uint32_t *chosen, float *shares);

#endif
