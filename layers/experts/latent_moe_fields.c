#include "layers/layer_fields.h"

static Status check(const Config *c, uint32_t layer, Error *error) {
    if (c->experts.count == 0 || c->experts.identity > 0 || c->experts.dim == 0 ||
        c->experts.dim > c->dim)
        return error_set(error,
                         "layer %u: expert_dim is %u, but must be 1 to dim (%u), with n_experts "
                         "(%u) of which none gives its input (zero_experts %u)",
                         layer, c->experts.dim, c->dim, c->experts.count, c->experts.identity);
    if (!c->without_ffn[layer])
        return error_set(error, "layer %u is a mixture of experts and has a feed-forward as well",
                         layer);
    if (c->activation != ACTIVATION_XIELU) return STATUS_OK;
    return error_set(error, "layer %u: activation 'xielu' with experts", layer);
}

static double latent_moe_work(const Config *c, uint32_t layer) {
    double matrices = c->gated ? 3.0 : 2.0;
    double routed = matrices * c->experts.per_token * c->experts.ffn_dim * c->experts.dim;
    (void)layer;
    return routed + c->dim * (2.0 * c->experts.dim + c->experts.count +
                              matrices * c->experts.shared_ffn_dim);
}

const LayerFields latent_moe_fields = {.validate = check, .work = latent_moe_work};
