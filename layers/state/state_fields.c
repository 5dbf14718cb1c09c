#include "layers/state/state_fields.h"

/* clang-format off */
const FieldTable state_keys = FIELD_TABLE(
    KEY_UINT("state_heads", state.n_heads, 1 << 16),
    KEY_UINT("state_key_heads", state.n_key_heads, 1 << 12),
    KEY_UINT("state_key_dim", state.key_dim, 1 << 12),
    KEY_UINT("state_value_dim", state.value_dim, 1 << 12),
    KEY_UINT("state_kernel", state.conv_kernel, 16),
    KEY_UINT("state_rank", state.dt_rank, 1 << 14));

const FieldTable state_shared_block_keys = FIELD_TABLE(
    KEY_UINT("shared_blocks", shared_blocks, CONFIG_MAX_LAYERS),
    KEY_UINT("adapter_rank", adapter_rank, 1 << 14));

const FieldTable state_delta_keys = FIELD_TABLE(
    KEY_BOOL("state_tiled", state.tiled),
    KEY_BOOL("state_norm_first", state.norm_first),
    KEY_BOOL("state_by_key", state.decay_by_key),
    KEY_AMOUNT("state_norm_eps", state.norm_eps),
    KEY_AMOUNT("state_beta", state.beta),
    KEY_AMOUNT("state_decay_most", state.decay_most));

const FieldTable state_gate_keys = FIELD_TABLE(
    KEY_BOOL("state_sigmoid_gate", state.sigmoid_gate));

const FieldTable state_mix_keys = FIELD_TABLE(
    KEY_UINT("state_mix_kernel", state.mix_kernel, 16));

/* clang-format on */

StateSizes state_sizes(const Config *c) {
    StateSizes sizes = {.keys = (size_t)c->state.n_key_heads * c->state.key_dim,
                        .values = (size_t)c->state.n_heads * c->state.value_dim};
    sizes.channels = 2 * sizes.keys + sizes.values;
    return sizes;
}

float state_norm_eps(const Config *c) {
    return c->state.norm_eps > 0.0f ? c->state.norm_eps : c->norm_eps;
}

/* Checks the heads of a state and its convolution. */
static Status check_heads(const Config *c, uint32_t layer, Error *error) {
    if (c->state.n_heads == 0 || c->state.n_key_heads == 0 || c->state.key_dim == 0 ||
        c->state.value_dim == 0 || c->state.conv_kernel == 0)
        return error_set(error,
                         "layer %u: state_heads %u, state_key_heads %u, state_key_dim %u, "
                         "state_value_dim %u, state_kernel %u: none of them may be 0",
                         layer, c->state.n_heads, c->state.n_key_heads, c->state.key_dim,
                         c->state.value_dim, c->state.conv_kernel);
    if (c->state.n_heads % c->state.n_key_heads != 0)
        return error_set(error,
                         "layer %u: state_heads (%u) is not a multiple of state_key_heads (%u)",
                         layer, c->state.n_heads, c->state.n_key_heads);
    const StateSizes sizes = state_sizes(c);
    if (sizes.channels > 1 << 20 || sizes.values * c->state.key_dim > 1 << 26)
        return error_set(error, "layer %u: a state of %u heads, %u x %u each, is too large", layer,
                         c->state.n_heads, c->state.key_dim, c->state.value_dim);
    return STATUS_OK;
}

static Status check_delta(const Config *c, uint32_t layer, Error *error) {
    if (c->state.decay_by_key &&
        (c->state.n_key_heads != c->state.n_heads || c->state.key_dim != c->state.value_dim))
        return error_set(error,
                         "layer %u: state_by_key with %u x %u for the keys and %u x %u for the "
                         "values, which must be equal",
                         layer, c->state.n_key_heads, c->state.key_dim, c->state.n_heads,
                         c->state.value_dim);
    if (c->ngram.layer[layer] > 0 && c->stack != STACK_GATED_STREAMS)
        return error_set(error, "layer %u: ngram_layer needs stack 'gated_streams'", layer);
    return check_heads(c, layer, error);
}

static double delta_work(const Config *c, uint32_t layer) {
    const StateSizes sizes = state_sizes(c);
    (void)layer;
    if (c->state.decay_by_key)
        return (double)c->dim * (double)(sizes.channels + sizes.values + c->state.n_heads) +
               2.0 * c->state.key_dim * ((double)c->dim + (double)sizes.values) +
               3.0 * (double)sizes.values * c->state.key_dim;
    return (double)c->dim * (double)(sizes.channels + 2 * sizes.values + 2 * c->state.n_heads) +
           3.0 * (double)sizes.values * c->state.key_dim;
}

const LayerFields delta_fields = {.validate = check_delta, .work = delta_work};

static double mamba2_work(const Config *c, uint32_t layer) {
    const StateSizes sizes = state_sizes(c);
    (void)layer;
    return (double)c->dim * (double)(sizes.channels + 2 * sizes.values + c->state.n_heads) +
           2.0 * (double)sizes.values * c->state.key_dim;
}

const LayerFields mamba2_fields = {.validate = check_heads, .work = mamba2_work};

static Status check_lightning(const Config *c, uint32_t layer, Error *error) {
    if (c->state.n_heads == 0 || c->state.key_dim == 0 ||
        c->state.n_key_heads != c->state.n_heads || c->state.key_dim != c->state.value_dim)
        return error_set(error,
                         "layer %u: lightning attention with %u heads of %u for keys and %u of %u "
                         "for values, which must be equal",
                         layer, c->state.n_key_heads, c->state.key_dim, c->state.n_heads,
                         c->state.value_dim);
    const StateSizes sizes = state_sizes(c);
    if (sizes.values <= 1 << 20 && sizes.values * c->state.key_dim <= 1 << 26) return STATUS_OK;
    return error_set(error, "layer %u: a state of %u heads, %u x %u each, is too large", layer,
                     c->state.n_heads, c->state.key_dim, c->state.value_dim);
}

static double lightning_work(const Config *c, uint32_t layer) {
    const StateSizes sizes = state_sizes(c);
    (void)layer;
    return 5.0 * c->dim * (double)sizes.values + 2.0 * (double)sizes.values * c->state.key_dim;
}

const LayerFields lightning_fields = {.validate = check_lightning, .work = lightning_work};

static Status check_mamba(const Config *c, uint32_t layer, Error *error) {
    if (check_heads(c, layer, error) != STATUS_OK) return STATUS_FAILED;
    if (c->state.dt_rank > 0 && c->state.value_dim == 1 &&
        c->state.n_key_heads <= STATE_MOST_MAMBA_HEADS)
        return STATUS_OK;
    return error_set(error,
                     "layer %u: state_rank %u, state_value_dim %u, state_key_heads %u: Mamba needs "
                     "a rank, values of 1 and at most %u heads",
                     layer, c->state.dt_rank, c->state.value_dim, c->state.n_key_heads,
                     STATE_MOST_MAMBA_HEADS);
}

static double mamba_work(const Config *c, uint32_t layer) {
    double inner = c->state.n_heads, rank = c->state.dt_rank;
    (void)layer;
    return inner * (3.0 * c->dim + 2.0 * rank + 4.0 * c->state.key_dim);
}

const LayerFields mamba_fields = {.validate = check_mamba, .work = mamba_work};

static Status check_kernel(const Config *c, uint32_t layer, Error *error) {
    if (c->state.conv_kernel > 1) return STATUS_OK;
    return error_set(error, "layer %u: state_kernel is %u, but must be at least 2", layer,
                     c->state.conv_kernel);
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

static Status check_rg_lru(const Config *c, uint32_t layer, Error *error) {
    if (c->state.n_heads == 0 || c->state.n_heads > RG_LRU_MAX_BLOCKS || c->state.value_dim == 0 ||
        c->state.conv_kernel == 0)
        return error_set(error,
                         "layer %u: state_heads %u (at most %d), state_value_dim %u, state_kernel "
                         "%u: none of them may be 0",
                         layer, c->state.n_heads, RG_LRU_MAX_BLOCKS, c->state.value_dim,
                         c->state.conv_kernel);
    if (c->activation != ACTIVATION_XIELU) return STATUS_OK;
    return error_set(error, "layer %u: an RG-LRU with the activation xielu", layer);
}

static double rg_lru_work(const Config *c, uint32_t layer) {
    double channels = (double)state_sizes(c).values;
    (void)layer;
    return channels * (3.0 * c->dim + 2.0 * c->state.value_dim);
}

const LayerFields rg_lru_fields = {.validate = check_rg_lru, .work = rg_lru_work};

/* Checks the heads of attention that is a part of a layer: all layers have the same. */
static Status check_attention(const Config *c, uint32_t layer, Error *error) {
    const HeadShape h = config_heads(c, layer), first = config_heads(c, 0);
    if (h.n_heads % h.n_kv_heads != 0)
        return error_set(error, "layer %u: n_heads (%u) is not a multiple of n_kv_heads (%u)",
                         layer, h.n_heads, h.n_kv_heads);
    if ((uint64_t)h.n_heads * ((uint64_t)h.head_dim + h.value_dim) > 1 << 20)
        return error_set(error, "layer %u: %u heads of %u elements are too many", layer, h.n_heads,
                         h.head_dim);
    if (config_check_rotary(c, layer, error) != STATUS_OK) return STATUS_FAILED;
    if (h.value_dim > h.head_dim)
        return error_set(error, "layer %u: value_dim (%u) is larger than head_dim (%u)", layer,
                         h.value_dim, h.head_dim);
    if (h.n_heads != first.n_heads || h.n_kv_heads != first.n_kv_heads ||
        h.head_dim != first.head_dim || h.value_dim != first.value_dim)
        return error_set(error, "layer %u: its heads are not those of the first layer", layer);
    if (c->window[layer] > 0 || c->chunk[layer] > 0 || c->kv_distance[layer] > 0 ||
        c->position == POSITION_ALIBI)
        return error_set(error,
                         "layer %u: attention as a part of a layer has no window, chunk, ALiBi or "
                         "keys of another layer",
                         layer);
    return STATUS_OK;
}

static Status check_parallel_mamba(const Config *c, uint32_t layer, Error *error) {
    Status status = check_attention(c, layer, error);
    return status == STATUS_OK ? check_heads(c, layer, error) : status;
}

static double attention_work(const Config *c, uint32_t layer, double inputs) {
    const HeadShape h = config_heads(c, layer);
    double each = (double)h.head_dim + h.value_dim;
    return inputs * (h.n_heads * (double)h.head_dim + h.n_kv_heads * each) +
           c->dim * (double)h.n_heads * h.value_dim;
}

static double parallel_mamba_work(const Config *c, uint32_t layer) {
    return mamba2_work(c, layer) + attention_work(c, layer, c->dim);
}

const LayerFields parallel_mamba_fields = {.validate = check_parallel_mamba,
                                           .work = parallel_mamba_work};

static Status check_shared_block(const Config *c, uint32_t layer, Error *error) {
    if (check_parallel_mamba(c, layer, error) != STATUS_OK) return STATUS_FAILED;
    if (c->shared_blocks > 0 && c->adapter_rank > 0 && c->activation != ACTIVATION_XIELU)
        return STATUS_OK;
    return error_set(error,
                     "layer %u: shared_blocks %u, adapter_rank %u: neither may be 0 (nor the "
                     "activation xielu)",
                     layer, c->shared_blocks, c->adapter_rank);
}

static double shared_block_work(const Config *c, uint32_t layer) {
    double dim = c->dim, rank = c->adapter_rank;
    return mamba2_work(c, layer) + attention_work(c, layer, 2 * dim) + 3 * dim * c->ffn_dim +
           dim * dim + rank * (14 * dim + 2.0 * c->ffn_dim);
}

const LayerFields shared_block_fields = {.validate = check_shared_block, .work = shared_block_work};

static Status check_shared_mamba(const Config *c, uint32_t layer, Error *error) {
    if (check_attention(c, layer, error) != STATUS_OK || check_mamba(c, layer, error) != STATUS_OK)
        return STATUS_FAILED;
    if (c->shared_blocks > 0 && c->adapter_rank == 0 && c->activation != ACTIVATION_XIELU)
        return STATUS_OK;
    return error_set(error,
                     "layer %u: shared_blocks %u, adapter_rank %u: a block beside Mamba needs one "
                     "block and no adapters (nor the activation xielu)",
                     layer, c->shared_blocks, c->adapter_rank);
}

static double shared_mamba_work(const Config *c, uint32_t layer) {
    double dim = c->dim;
    return mamba_work(c, layer) + attention_work(c, layer, 2 * dim) + 3 * dim * c->ffn_dim +
           dim * dim;
}

const LayerFields shared_mamba_fields = {.validate = check_shared_mamba, .work = shared_mamba_work};
