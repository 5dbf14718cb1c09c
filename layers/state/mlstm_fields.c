#include "layers/layer_fields.h"

#include "layers/state/state_fields.h"

/* clang-format off */
const FieldTable mlstm_keys = FIELD_TABLE(
    KEY_AMOUNT("mlstm_gate_cap", mlstm.gate_cap),
    KEY_AMOUNT("mlstm_eps", mlstm.eps));

/* clang-format on */

static Status validate(const Config *c, uint32_t l, Error *error) {
    const StateSizes sizes = state_sizes(c);
    if (c->state.n_heads == 0 || c->state.n_key_heads != c->state.n_heads ||
        c->state.key_dim == 0 || c->state.value_dim == 0 || !(c->mlstm.gate_cap > 0.0f))
        return error_set(error,
                         "layer %u: a matrix LSTM with %u heads of %u for keys and %u of %u for "
                         "values, and mlstm_gate_cap %g",
                         l, c->state.n_key_heads, c->state.key_dim, c->state.n_heads,
                         c->state.value_dim, (double)c->mlstm.gate_cap);
    if (sizes.channels <= 1 << 20 && sizes.values * c->state.key_dim <= 1 << 26) return STATUS_OK;
    return error_set(error, "layer %u: a state of %u heads, %u x %u each, is too large", l,
                     c->state.n_heads, c->state.key_dim, c->state.value_dim);
}

static double work(const Config *c, uint32_t l) {
    const StateSizes sizes = state_sizes(c);
    (void)l;
    return c->dim *
               (2.0 * (double)sizes.keys + 3.0 * (double)sizes.values + 2.0 * c->state.n_heads) +
           2.0 * (double)sizes.values * c->state.key_dim;
}

const LayerFields mlstm_fields = {.validate = validate, .work = work};
