#include "layers/state_fields.h"

StateSizes state_sizes(const Config *c) {
    StateSizes sizes = {.keys = (size_t)c->state_key_heads * c->state_key_dim,
                        .values = (size_t)c->state_heads * c->state_value_dim};
    sizes.channels = 2 * sizes.keys + sizes.values;
    return sizes;
}

/* Checks the heads of a state and its convolution. */
static Status check_heads(const Config *c, uint32_t layer, Error *error) {
    if (c->state_heads == 0 || c->state_key_heads == 0 || c->state_key_dim == 0 ||
        c->state_value_dim == 0 || c->state_kernel == 0)
        return error_set(error,
                         "layer %u: state_heads %u, state_key_heads %u, state_key_dim %u, "
                         "state_value_dim %u, state_kernel %u: none of them may be 0",
                         layer, c->state_heads, c->state_key_heads, c->state_key_dim,
                         c->state_value_dim, c->state_kernel);
    if (c->state_heads % c->state_key_heads != 0)
        return error_set(error,
                         "layer %u: state_heads (%u) is not a multiple of state_key_heads (%u)",
                         layer, c->state_heads, c->state_key_heads);
    const StateSizes sizes = state_sizes(c);
    if (sizes.channels > 1 << 20 || sizes.values * c->state_key_dim > 1 << 26)
        return error_set(error, "layer %u: a state of %u heads, %u x %u each, is too large", layer,
                         c->state_heads, c->state_key_dim, c->state_value_dim);
    return STATUS_OK;
}

static Status check_delta(const Config *c, uint32_t layer, Error *error) {
    if (c->state_by_key &&
        (c->state_key_heads != c->state_heads || c->state_key_dim != c->state_value_dim))
        return error_set(error,
                         "layer %u: state_by_key with %u x %u for the keys and %u x %u for the "
                         "values, which must be equal",
                         layer, c->state_key_heads, c->state_key_dim, c->state_heads,
                         c->state_value_dim);
    return check_heads(c, layer, error);
}

static double delta_work(const Config *c, uint32_t layer) {
    const StateSizes sizes = state_sizes(c);
    (void)layer;
    if (c->state_by_key)
        return (double)c->dim * (double)(sizes.channels + sizes.values + c->state_heads) +
               2.0 * c->state_key_dim * ((double)c->dim + (double)sizes.values) +
               3.0 * (double)sizes.values * c->state_key_dim;
    return (double)c->dim * (double)(sizes.channels + 2 * sizes.values + 2 * c->state_heads) +
           3.0 * (double)sizes.values * c->state_key_dim;
}

const LayerFields delta_fields = {.validate = check_delta, .work = delta_work};

static double mamba2_work(const Config *c, uint32_t layer) {
    const StateSizes sizes = state_sizes(c);
    (void)layer;
    return (double)c->dim * (double)(sizes.channels + 2 * sizes.values + c->state_heads) +
           2.0 * (double)sizes.values * c->state_key_dim;
}

const LayerFields mamba2_fields = {.validate = check_heads, .work = mamba2_work};

static Status check_lightning(const Config *c, uint32_t layer, Error *error) {
    if (c->state_heads == 0 || c->state_key_dim == 0 || c->state_key_heads != c->state_heads ||
        c->state_key_dim != c->state_value_dim)
        return error_set(error,
                         "layer %u: lightning attention with %u heads of %u for keys and %u of %u "
                         "for values, which must be equal",
                         layer, c->state_key_heads, c->state_key_dim, c->state_heads,
                         c->state_value_dim);
    const StateSizes sizes = state_sizes(c);
    if (sizes.values <= 1 << 20 && sizes.values * c->state_key_dim <= 1 << 26) return STATUS_OK;
    return error_set(error, "layer %u: a state of %u heads, %u x %u each, is too large", layer,
                     c->state_heads, c->state_key_dim, c->state_value_dim);
}

static double lightning_work(const Config *c, uint32_t layer) {
    const StateSizes sizes = state_sizes(c);
    (void)layer;
    return 5.0 * c->dim * (double)sizes.values + 2.0 * (double)sizes.values * c->state_key_dim;
}

const LayerFields lightning_fields = {.validate = check_lightning, .work = lightning_work};

static Status check_kernel(const Config *c, uint32_t layer, Error *error) {
    if (c->state_kernel > 1) return STATUS_OK;
    return error_set(error, "layer %u: state_kernel is %u, but must be at least 2", layer,
                     c->state_kernel);
}

static double convolution_work(const Config *c, uint32_t layer) {
    (void)layer;
    return 4.0 * c->dim * c->dim;
}

const LayerFields convolution_fields = {.validate = check_kernel, .work = convolution_work};

static Status check_nothing(const Config *c, uint32_t layer, Error *error) {
    if (!c->without_ffn[layer]) return STATUS_OK;
    return error_set(error, "layer %u has neither attention nor a feed-forward", layer);
}

static double no_work(const Config *c, uint32_t layer) {
    (void)c, (void)layer;
    return 0;
}

const LayerFields no_fields = {.validate = check_nothing, .work = no_work};
