#include "layers/layer_fields.h"

static Status validate(const Config *c, uint32_t l, Error *error) {
    const HeadShape h = config_heads(c, l);
    if (h.n_kv_heads == 0 || h.n_kv_heads % 2 != 0 || h.n_heads % h.n_kv_heads != 0)
        return error_set(error,
                         "layer %u: differential attention with %u heads on %u key/value heads, "
                         "which must be even and divide the heads",
                         l, h.n_heads, h.n_kv_heads);
    if (h.head_dim == 0 || (uint64_t)h.n_heads * h.head_dim > 1 << 19)
        return error_set(error, "layer %u: %u heads of %u elements", l, h.n_heads, h.head_dim);
    if (config_check_rotary(c, l, error) != STATUS_OK) return STATUS_FAILED;
    if (c->chunk[l] > 0 || c->position == POSITION_ALIBI || c->kv_distance[l] > 0 ||
        c->query_scaling != 0.0f)
        return error_set(error,
                         "layer %u: differential attention with chunks, ALiBi, the keys of another "
                         "layer or queries that grow",
                         l);
    return STATUS_OK;
}

static double differential_work(const Config *c, uint32_t l) {
    const HeadShape h = config_heads(c, l);
    return 2.0 * c->dim * h.head_dim * ((double)h.n_heads + h.n_kv_heads);
}

const LayerFields differential_fields = {validate, differential_work};
