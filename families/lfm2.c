/* LFM2 and LFM3: short convolutions beside attention. */
#include "families/shared.h"

/* What a switch adds. transformers calls it g_proj. */
static const TensorRule lfm3_gate[] = {
    MATRIX("attention_gate", ".self_attn.gate_proj.weight", "n_heads", "dim", .optional = true),
    MATRIX("attention_gate", ".self_attn.g_proj.weight", "n_heads", "dim", .optional = true),
    {0},
};

/* Sets the kinds of layers, their windows and RoPE tables. Layers are convolutions, or attend to
 * everything or to a window; the latter two have a RoPE table each. */
static Status lfm3_finish(const json_t *json, Config *config, Error *error) {
    static const KindName names[] = {{"conv", LAYER_CONVOLUTION},
                                     {"full_attention", LAYER_ATTENTION},
                                     {"sliding_attention", LAYER_ATTENTION},
                                     {0}};
    const json_t *types = json_value(json, "layer_types");
    uint32_t window = 0;
    bool slides_any = false;
    if (types && family_state_read_kinds(types, names, config, error) != STATUS_OK)
        return STATUS_FAILED;
    for (uint32_t l = 0; l < config->n_layers; l++) {
        const char *type = types                 ? json_string_value(json_array_get(types, l))
                           : l % 4 == 2          ? "full_attention"
                           : l % 4 == 0 && l > 0 ? "sliding_attention"
                                                 : "conv";
        bool slides = strcmp(type, "sliding_attention") == 0;
        if (slides && !slides_any &&
            family_state_read_whole(json, "sliding_window", 256, &window, error) != STATUS_OK)
            return STATUS_FAILED;
        slides_any = slides_any || slides;
        config->layer_kind[l] = strcmp(type, "conv") == 0 ? LAYER_CONVOLUTION : LAYER_ATTENTION;
        config->window[l] = slides ? window : 0;
        config->rope_table[l] = slides;
    }
    return STATUS_OK;
}

static Status lfm3_more(const RuleContext *context, const json_t *json, Error *error) {
    if (!json_switch(json, "use_attention_gate", true)) return STATUS_OK;
    return rules_apply(context, lfm3_gate, error);
}

static const KindName lfm2_kinds[] = {{"conv", LAYER_CONVOLUTION},
                                      {"full_attention", LAYER_ATTENTION},
                                      {"attention", LAYER_ATTENTION},
                                      {0}};

/* The width of the feed-forward is two thirds of the key's, then multiplied and rounded up. */
static Status lfm2_ffn(const json_t *json, Config *config, Error *error) {
    uint32_t multiple = 1;
    double times = json_number(json, "block_ffn_dim_multiplier", 1.0);
    if (!json_switch(json, "block_auto_adjust_ff_dim", true)) return STATUS_OK;
    if (family_state_read_whole(json, "block_multiple_of", 256, &multiple, error) != STATUS_OK)
        return STATUS_FAILED;
    if (!(times > 0 && times < 1e3))
        return error_set(error, "config.json: block_ffn_dim_multiplier is %g", times);
    double width = floor(2.0 * config->ffn_dim / 3.0);
    const json_t *multiplier = json_object_get(json, "block_ffn_dim_multiplier");
    if (!json_is_null(multiplier)) width = multiple * ceil(floor(times * width) / multiple);
    if (!(width <= 1 << 20)) return error_set(error, "config.json: the feed-forward is too wide");
    config->ffn_dim = (uint32_t)width;
    return STATUS_OK;
}

/* Without layer_types the layers of full_attn_idxs attend; without both, all. */
static Status lfm2_finish(const json_t *json, Config *config, Error *error) {
    const json_t *types = json_value(json, "layer_types"), *item;
    const json_t *attending = json_value(json, "full_attn_idxs");
    size_t i;
    if (lfm2_ffn(json, config, error) != STATUS_OK) return STATUS_FAILED;
    if (types) return family_state_read_kinds(types, lfm2_kinds, config, error);
    for (uint32_t l = 0; l < config->n_layers; l++)
        config->layer_kind[l] = attending ? LAYER_CONVOLUTION : LAYER_ATTENTION;
    json_array_foreach((json_t *)attending, i, item) {
        json_int_t layer = json_integer_value(item);
        if (layer >= 0 && layer < config->n_layers) config->layer_kind[layer] = LAYER_ATTENTION;
    }
    return STATUS_OK;
}

static Status lfm2_moe_finish(const json_t *json, Config *config, Error *error) {
    config->activation = ACTIVATION_SILU;
    return family_state_read_kinds(json_value(json, "layer_types"), lfm2_kinds, config, error);
}

static Status gguf_convolution_kinds(const GgufModel *m, Config *c) {
    return gguf_kinds_by_heads(m, c, LAYER_ATTENTION, LAYER_CONVOLUTION);
}

const FamilyHook families_lfm2[] = {
    {"lfm3", .finish = lfm3_finish, .more = lfm3_more},
    {"lfm2", .finish = lfm2_finish},
    {"convolution_kinds", .gguf_finish = gguf_convolution_kinds},
    {"lfm2_moe", .finish = lfm2_moe_finish},
    {0},
};
