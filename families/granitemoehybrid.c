/* Granite 4 and Bamba: Mamba 2 with a few layers that attend. */
#include "families/shared.h"

/* state.value_dim: mamba_d_head, or mamba_expand * dim / mamba_n_heads where that is not a number.
 */
static Status read_mamba_width(const json_t *json, Config *config, Error *error) {
    uint32_t expand = 1;
    const json_t *width = json_value(json, "mamba_d_head");
    if (family_state_no_step_limit(json, error) != STATUS_OK) return STATUS_FAILED;
    if (json_is_number(width))
        return family_state_read_whole(json, "mamba_d_head", 0, &config->state.value_dim, error);
    if (family_state_read_whole(json, "mamba_expand", 2, &expand, error) != STATUS_OK)
        return STATUS_FAILED;
    if (config->state.n_heads == 0 || expand > 1024)
        return error_set(error, "config.json: mamba_n_heads is %u, mamba_expand %u",
                         config->state.n_heads, expand);
    config->state.value_dim = (uint32_t)((uint64_t)expand * config->dim / config->state.n_heads);
    return STATUS_OK;
}

/* Rotated only where position_embedding_type says so. Without experts the shared expert is the
 * feed-forward. */
static Status granitemoehybrid_finish(const json_t *json, Config *config, Error *error) {
    const char *position = json_text(json, "position_embedding_type");
    if (read_mamba_width(json, config, error) != STATUS_OK) return STATUS_FAILED;
    config->position = position && strcmp(position, "rope") == 0 ? POSITION_ROPE : POSITION_NONE;
    if (config->experts.count == 0) {
        config->ffn_dim = config->experts.shared_ffn_dim;
        config->experts.shared_ffn_dim = 0;
    }
    return STATUS_OK;
}

static Status bamba_finish(const json_t *json, Config *config, Error *error) {
    const json_t *attending = json_value(json, "attn_layer_indices"), *item;
    size_t i;
    json_array_foreach((json_t *)attending, i, item) {
        json_int_t layer = json_integer_value(item);
        if (layer >= 0 && layer < config->n_layers) config->layer_kind[layer] = LAYER_ATTENTION;
    }
    return read_mamba_width(json, config, error);
}

/* Sets the scales, the kinds of the layers and the sizes of the state from a GGUF file. A model
 * with RoPE is computed as the family "bamba", any other has no positions. */
static Status gguf_granitehybrid_finish(const GgufModel *m, Config *c) {
    double divisor = 1.0, embedding = 1.0, residual = 1.0;
    bool rotated = true;
    gguf_model_bool(m, "rope.scaling.finetuned", &rotated);
    gguf_model_float(m, "logit_scale", &divisor);
    gguf_model_float(m, "embedding_scale", &embedding);
    gguf_model_float(m, "residual_scale", &residual);
    if (!(divisor > 0.0))
        return error_set(m->error, "%s: logit_scale is %g", m->source->path, divisor);
    if (!rotated) c->position = POSITION_NONE;
    if (rotated) snprintf(c->family, sizeof c->family, "bamba");
    if (rotated && c->head_dim % 2 != 0)
        return error_set(m->error, "%s: heads of %u elements cannot be rotated", m->source->path,
                         c->head_dim);
    c->rope_pairing = ROPE_HALVES; /* ORDER_PAIRED */
    c->logit_scale = (float)(1.0 / divisor);
    c->embedding_scale = (float)embedding;
    c->residual_scale = (float)residual;
    if (c->experts.count > 0 && c->ffn_dim == 0) c->ffn_dim = c->experts.ffn_dim;
    if (gguf_kinds_by_heads(m, c, LAYER_ATTENTION, LAYER_MAMBA2) != STATUS_OK) return STATUS_FAILED;
    return gguf_read_state(m, c);
}

const FamilyHook families_granitemoehybrid[] = {
    {"granitemoehybrid", .finish = granitemoehybrid_finish},
    {"granitehybrid", .gguf_finish = gguf_granitehybrid_finish},
    {"bamba", .finish = bamba_finish},
    {0},
};
