#include "layers/layer_fields.h"

/* Checks what attention with chosen heads reads of the configuration. */
static Status check(const Config *c, uint32_t l, Error *error) {
    const HeadShape h = config_heads(c, l);
    if (c->experts.count == 0 || c->experts.identity > 0 || c->router.kind != ROUTER_SOFTMAX_CHOSEN)
        return error_set(error,
                         "layer %u: a mixture of heads needs experts (n_experts %u, of which "
                         "zero_experts %u) and the router 'softmax_chosen'",
                         l, c->experts.count, c->experts.identity);
    if ((uint64_t)h.n_kv_heads * c->experts.per_token != h.n_heads)
        return error_set(error,
                         "layer %u: n_heads is %u, but must be n_kv_heads (%u) times "
                         "n_experts_used (%u)",
                         l, h.n_heads, h.n_kv_heads, c->experts.per_token);
    if (h.value_dim != h.head_dim || (uint64_t)h.n_heads * h.head_dim > 1 << 19)
        return error_set(error, "layer %u: %u heads of %u elements, with values of %u", l,
                         h.n_heads, h.head_dim, h.value_dim);
    if (config_check_rotary(c, l, error) != STATUS_OK) return STATUS_FAILED;
    if (c->chunk[l] > 0 || c->position == POSITION_ALIBI || c->kv_distance[l] > 0 ||
        c->query_scaling != 0.0f)
        return error_set(error,
                         "layer %u: a mixture of heads with chunks, ALiBi, the keys of another "
                         "layer or queries that grow",
                         l);
    return STATUS_OK;
}

static double work(const Config *c, uint32_t l) {
    const HeadShape h = config_heads(c, l);
    return c->dim *
           (2.0 * h.head_dim * ((double)h.n_heads + h.n_kv_heads) + (double)c->experts.count);
}

const LayerFields head_mixture_fields = {.validate = check, .work = work};
