#include "layers/experts/routing.h"

#include <string.h>

#include "layers/experts/experts.h"

/* ---- The sparse mixer ---- */

/* The routing weight that the sparse mixer gives the last of chosen[n_chosen]: its softmax over the
 * experts that were not chosen before it and whose logits are near its own. */
static float mixer_weight(const Numeric *numeric, float jitter, const float *logits, size_t n,
                          const uint32_t *chosen, size_t n_chosen) {
    float near[CONFIG_MAX_EXPERTS], max = logits[chosen[n_chosen - 1]];
    for (size_t i = 0; i < n; i++) {
        float size = fabsf(logits[i]) > max ? fabsf(logits[i]) : max;
        near[i] = (max - logits[i]) / size > 2.0f * jitter ? -INFINITY : logits[i];
    }
    for (size_t k = 0; k + 1 < n_chosen; k++) near[chosen[k]] = -INFINITY;
    return 1.0f / numeric->softmax_sum(near, max, n);
}

static void route_sparse_mixer(const Numeric *numeric, const Config *c, const float *logits,
                               uint32_t *chosen, float *routing_weights) {
    experts_choose(logits, c->experts.count, c->experts.per_token, chosen);
    for (size_t k = 0; k < c->experts.per_token; k++)
        routing_weights[k] =
            mixer_weight(numeric, c->router.jitter, logits, c->experts.count, chosen, k + 1);
}

/* ---- Routers with scores ---- */

/* Turns logits into scores. */
static void make_scores(const Numeric *numeric, const Config *c, float *logits) {
    size_t n = c->experts.count;
    if (c->router.logit_scale != 0.0f) numeric->scale(logits, c->router.logit_scale, n);
    if (c->router.softcap > 0.0f) numeric->softcap(logits, c->router.softcap, n);
    if (c->router.kind == ROUTER_ROOT_SCORES) {
        numeric->activate(ACTIVATION_SOFTPLUS, logits, NULL, n);
        for (size_t i = 0; i < n; i++) logits[i] = sqrtf(logits[i]);
    } else if (c->router.kind == ROUTER_SIGMOID_SCORES) {
        for (size_t i = 0; i < n; i++) logits[i] = -logits[i];
        numeric->softmax_sum(logits, 0.0f, n); /* becomes exp(-logit) */
        for (size_t i = 0; i < n; i++) logits[i] = 1.0f / (1.0f + logits[i]);
    } else {
        float sum = numeric->softmax_sum(logits, numeric->maximum(logits, n), n);
        for (size_t i = 0; i < n; i++) logits[i] = logits[i] / sum;
    }
}

/* Sets the ranks of all experts outside the best groups to minus infinity (or 0:
 * router.groups_zero). A group ranks by the sum of its best two experts, or by its best one. */
static void keep_best_groups(const Config *c, float *rank) {
    size_t n_groups = c->router.groups, size = c->experts.count / n_groups;
    float of_group[CONFIG_MAX_EXPERTS];
    uint32_t best[CONFIG_MAX_EXPERTS];
    bool kept[CONFIG_MAX_EXPERTS] = {false};
    for (size_t g = 0; g < n_groups; g++) {
        const float *in_group = rank + g * size;
        experts_choose(in_group, size, 2, best);
        of_group[g] = in_group[best[0]];
        if (c->router.kind != ROUTER_SOFTMAX_SCORES || c->router.group_pairs)
            of_group[g] += in_group[best[1]];
    }
    experts_choose(of_group, n_groups, c->router.groups_used, best);
    for (size_t i = 0; i < c->router.groups_used; i++) kept[best[i]] = true;
    for (size_t i = 0; i < c->experts.count; i++)
        if (!kept[i / size]) rank[i] = c->router.groups_zero ? 0.0f : -INFINITY;
}

/* Sets the routing weights of the chosen experts from the scores of all. */
static void set_routing_weights(const Config *c, const float *scores, const uint32_t *chosen,
                                float *routing_weights) {
    float sum = 0.0f;
    for (size_t k = 0; k < c->experts.per_token; k++) sum += scores[chosen[k]];
    if (sum < c->router.sum_min) sum = c->router.sum_min;
    if (!c->router.normalize) sum = 1.0f;
    for (size_t k = 0; k < c->experts.per_token; k++)
        routing_weights[k] = scores[chosen[k]] / sum * c->router.scale;
}

static void route_by_scores(const Numeric *numeric, const Config *c, const float *correction,
                            float *logits, uint32_t *chosen, float *routing_weights) {
    float rank[CONFIG_MAX_EXPERTS];
    memcpy(rank, logits, c->experts.count * sizeof *rank);
    make_scores(numeric, c, logits);
    for (size_t i = 0; correction && i < c->experts.count; i++)
        rank[i] = (c->router.ranks_logits ? rank[i] : logits[i]) + correction[i];
    if (c->router.groups > 1) {
        if (!correction) memcpy(rank, logits, c->experts.count * sizeof *rank);
        keep_best_groups(c, rank);
    }
    if (c->experts.always > 0) {
        if (!correction) memcpy(rank, logits, c->experts.count * sizeof *rank);
        for (size_t i = 0; i < c->experts.always; i++) rank[c->experts.count - 1 - i] = INFINITY;
    }
    experts_choose(rank, c->experts.count, c->experts.per_token, chosen);
    set_routing_weights(c, logits, chosen, routing_weights);
}

/* Gives each number to the list once: one that is there already becomes the lowest that is not,
 * without weight, and its weight goes to the first. */
static void part_equals(uint32_t *chosen, float *routing_weights, size_t n) {
    for (size_t k = 1; k < n; k++) {
        size_t first = 0, at = 0;
        while (chosen[first] != chosen[k]) first++;
        if (first == k) continue;
        routing_weights[first] += routing_weights[k];
        routing_weights[k] = 0.0f;
        for (chosen[k] = 0; at < n; at++)
            if (at != k && chosen[at] == chosen[k]) chosen[k]++, at = SIZE_MAX;
    }
}

void routing_weigh(const Numeric *numeric, const Config *c, const float *table, float *logits,
                   uint32_t *chosen, float *routing_weights) {
    make_scores(numeric, c, logits);
    for (size_t k = 0; k < c->experts.per_token; k++) chosen[k] = (uint32_t)table[k];
    set_routing_weights(c, logits, chosen, routing_weights);
    part_equals(chosen, routing_weights, c->experts.per_token);
}

/* ---- Both ---- */

void routing_route(const Numeric *numeric, const Config *c, const float *correction, float *logits,
                   uint32_t *chosen, float *routing_weights) {
    if (c->router.kind == ROUTER_SCALED) {
        experts_route(numeric, c, logits, chosen, routing_weights);
        for (size_t k = 0; correction && k < c->experts.per_token; k++)
            routing_weights[k] *= correction[chosen[k]];
    } else if (c->router.kind == ROUTER_SPARSE_MIXER) {
        route_sparse_mixer(numeric, c, logits, chosen, routing_weights);
    } else {
        route_by_scores(numeric, c, correction, logits, chosen, routing_weights);
    }
}
