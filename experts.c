#include "experts.h"

#include <string.h>

static bool is_chosen(size_t expert, const uint32_t *chosen, size_t n_chosen) {
    for (size_t k = 0; k < n_chosen; k++)
        if (chosen[k] == expert) return true;
    return false;
}

/* The expert with the largest logit among those not yet chosen. Never returns one twice, even when
 * all logits are NaN. */
static size_t next_expert(const float *logits, size_t n, const uint32_t *chosen, size_t n_chosen) {
    size_t best = n;
    for (size_t i = 0; i < n; i++)
        if (!is_chosen(i, chosen, n_chosen) && (best == n || logits[i] > logits[best])) best = i;
    return best;
}

/* The sparse mixer's share of chosen[n_chosen]: its part of a softmax over the experts that are not
 * chosen before it and whose logits are near its own. */
static float mixer_share(const Numeric *numeric, float jitter, const float *logits, size_t n,
                         const uint32_t *chosen, size_t n_chosen) {
    float near[CONFIG_MAX_EXPERTS], max = logits[chosen[n_chosen]];
    for (size_t i = 0; i < n; i++) {
        float size = fabsf(logits[i]) > max ? fabsf(logits[i]) : max;
        bool is_far = (max - logits[i]) / size > 2.0f * jitter;
        near[i] = is_far || is_chosen(i, chosen, n_chosen) ? -INFINITY : logits[i];
    }
    return 1.0f / numeric->softmax_sum(near, max, n);
}

void experts_route(const Numeric *numeric, RouterKind kind, float jitter, float *logits,
                   size_t n_experts, size_t n_used, uint32_t *chosen, float *shares) {
    for (size_t k = 0; k < n_used; k++) {
        chosen[k] = (uint32_t)next_expert(logits, n_experts, chosen, k);
        shares[k] = logits[chosen[k]];
        if (kind == ROUTER_SPARSE_MIXER)
            shares[k] = mixer_share(numeric, jitter, logits, n_experts, chosen, k);
    }
    if (kind == ROUTER_SPARSE_MIXER) return;
    float max = shares[0];
    float sum = kind == ROUTER_SOFTMAX ? numeric->softmax_sum(logits, max, n_experts)
                                       : numeric->softmax_sum(shares, max, n_used);
    for (size_t k = 0; k < n_used; k++)
        shares[k] = (kind == ROUTER_SOFTMAX ? logits[chosen[k]] : shares[k]) / sum;
}

void experts_sort(const uint32_t *chosen, size_t n, size_t n_experts, uint32_t *first,
                  uint32_t *slots) {
    memset(first, 0, (n_experts + 1) * sizeof *first);
    for (size_t i = 0; i < n; i++) first[chosen[i] + 1]++;
    for (size_t e = 0; e < n_experts; e++) first[e + 1] += first[e];
    for (size_t i = 0; i < n; i++) slots[first[chosen[i]]++] = (uint32_t)i;
    for (size_t e = n_experts; e > 0; e--) first[e] = first[e - 1];
    first[0] = 0;
}
