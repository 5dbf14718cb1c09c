#include "experts.h"

/* The largest of those not yet chosen: never an index twice, even among NaNs. */
static size_t pick(const float *logits, size_t n, const uint32_t *chosen, size_t n_chosen) {
    size_t best = n;
    for (size_t i = 0; i < n; i++) {
        bool taken = false;
        for (size_t k = 0; k < n_chosen; k++) taken = taken || chosen[k] == i;
        if (!taken && (best == n || logits[i] > logits[best])) best = i;
    }
    return best;
}

/* The share that the sparse mixer gives to the largest of what is left of the experts. */
static float mixer_share(const Numeric *numeric, float jitter, const float *logits, size_t n,
                         const uint32_t *chosen, size_t n_chosen) {
    float near[EXPERTS_MAX], max = logits[chosen[n_chosen]];
    for (size_t i = 0; i < n; i++) {
        bool counts = true;
        for (size_t k = 0; k < n_chosen; k++) counts = counts && chosen[k] != i;
        float size = fabsf(logits[i]) > max ? fabsf(logits[i]) : max;
        near[i] = counts && !((max - logits[i]) / size > 2.0f * jitter) ? logits[i] : -INFINITY;
    }
    return 1.0f / numeric->softmax_sum(near, max, n);
}

void experts_route(const Numeric *numeric, RouterKind kind, float jitter, float *logits,
                   size_t n_experts, size_t n_used, uint32_t *chosen, float *shares) {
    for (size_t k = 0; k < n_used; k++) {
        chosen[k] = (uint32_t)pick(logits, n_experts, chosen, k);
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
