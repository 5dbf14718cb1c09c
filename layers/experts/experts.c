#include "layers/experts/experts.h"

#include <string.h>

void experts_choose(const float *rank, size_t n, size_t n_chosen, uint32_t *chosen) {
    for (size_t i = 0, n_listed = 0; i < n; i++) {
        size_t at = n_listed;
        while (at > 0 && rank[i] > rank[chosen[at - 1]]) at--;
        if (at == n_chosen) continue;
        if (n_listed < n_chosen) n_listed++;
        memmove(chosen + at + 1, chosen + at, (n_listed - 1 - at) * sizeof *chosen);
        chosen[at] = (uint32_t)i;
    }
}

void experts_route(const Numeric *numeric, const Config *c, float *logits, uint32_t *chosen,
                   float *routing_weights) {
    size_t n_used = c->experts.per_token;
    experts_choose(logits, c->experts.count, n_used, chosen);
    for (size_t k = 0; k < n_used; k++) routing_weights[k] = logits[chosen[k]];
    float max = routing_weights[0];
    bool of_all = c->router.kind == ROUTER_SOFTMAX;
    float sum = of_all ? numeric->softmax_sum(logits, max, c->experts.count)
                       : numeric->softmax_sum(routing_weights, max, n_used);
    for (size_t k = 0; k < n_used; k++)
        routing_weights[k] = (of_all ? logits[chosen[k]] : routing_weights[k]) / sum;
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
