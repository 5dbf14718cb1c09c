#include "layers/layer_fields.h"

/* clang-format off */
const FieldTable rwkv_keys = FIELD_TABLE(
    KEY_UINT("rwkv_rescale_every", rwkv.rescale_every, CONFIG_MAX_LAYERS));

/* clang-format on */

enum { MOST_HALVINGS = 64 };

static Status validate(const Config *c, uint32_t l, Error *error) {
    uint32_t every = c->rwkv.rescale_every;
    if (c->state.n_heads == 0 || config_ffn_dim(c, l) == 0 || !c->without_ffn[l] ||
        c->norm_place != NORM_BEFORE || c->parallel_block || c->stack != STACK_PLAIN)
        return error_set(error,
                         "layer %u: RWKV with state_heads %u, a feed-forward of its own, or norms "
                         "elsewhere than before",
                         l, c->state.n_heads);
    if (every == 0 || l / every <= MOST_HALVINGS) return STATUS_OK;
    return error_set(error, "layer %u: rwkv_rescale_every %u halves more than %d times", l, every,
                     MOST_HALVINGS);
}

static double work(const Config *c, uint32_t l) {
    return c->dim * (4.0 * c->state.n_heads + 2.0 * config_ffn_dim(c, l) + c->dim);
}

const LayerFields rwkv_fields = {.validate = validate, .work = work};
