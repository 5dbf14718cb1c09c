/* Qwen3-Next and Qwen 3.5: gated DeltaNet beside gated attention. */
#include "families/shared.h"

/* Without layer_types every full_attention_interval-th layer attends. */
static Status read_qwen_kinds(const json_t *json, Config *config, Error *error) {
    static const KindName names[] = {
        {"linear_attention", LAYER_DELTA}, {"full_attention", LAYER_ATTENTION}, {0}};
    const json_t *types = json_value(json, "layer_types");
    if (types) return family_state_read_kinds(types, names, config, error);
    double interval = json_number(json, "full_attention_interval", 4);
    if (!(interval >= 1 && interval <= 1e6))
        return error_set(error, "config.json: full_attention_interval is %g", interval);
    for (uint32_t l = 0; l < config->n_layers; l++)
        config->layer_kind[l] = (l + 1) % (uint32_t)interval ? LAYER_DELTA : LAYER_ATTENTION;
    return STATUS_OK;
}

static Status gguf_qwen3next_finish(const GgufModel *m, Config *c) {
    if (gguf_delta_kinds(m, c, LAYER_ATTENTION) != STATUS_OK) return STATUS_FAILED;
    c->qk_norm = QK_NORM_HEAD;
    c->router.kind = ROUTER_SOFTMAX_CHOSEN;
    if (c->experts.count > 0 && c->ffn_dim == 0) c->ffn_dim = c->experts.ffn_dim;
    return gguf_read_state(m, c);
}

/* The converter reorders the heads of v, so that neighbours have different keys. */
static Status gguf_qwen35_finish(const GgufModel *m, Config *c) {
    c->state.tiled = true;
    return gguf_qwen3next_finish(m, c);
}

const FamilyHook families_qwen3_next[] = {
    {"read_qwen_kinds", .finish = read_qwen_kinds},
    {"qwen3next", .gguf_finish = gguf_qwen3next_finish},
    {"qwen35", .gguf_finish = gguf_qwen35_finish},
    {0},
};
