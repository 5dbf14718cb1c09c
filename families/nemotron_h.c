/* Nemotron H: a layer is Mamba 2, attention, a feed-forward or a mixture. */
#include "families/shared.h"

/* Reads the kind of each layer and what only these kinds have. A layer is Mamba 2, attention, a
 * feed-forward or a mixture, by a list of names or a text with a letter for each layer. */
static Status nemotron_h_finish(const json_t *json, Config *config, Error *error) {
    static const char *const absent[] = {"linear_attention", "moe", "full_attention", "mlp"};
    static const struct {
        const char *name;
        char letter;
        LayerKindNumber kind;
    } all[] = {{"linear_attention", 'M', LAYER_MAMBA2},
               {"mamba", 'M', LAYER_MAMBA2},
               {"full_attention", '*', LAYER_ATTENTION},
               {"attention", '*', LAYER_ATTENTION},
               {"mlp", '-', LAYER_NONE},
               {"moe", 'E', LAYER_NONE}};
    const json_t *list = json_value(json, "layers_block_type");
    const char *pattern = json_text(json, "hybrid_override_pattern");
    if (!list) list = json_value(json, "layer_types");
    size_t n = list ? json_array_size(list) : pattern ? strlen(pattern) : 4;
    bool mixes = false;
    if (family_state_no_step_limit(json, error) != STATUS_OK) return STATUS_FAILED;
    if (n == 0 || n > CONFIG_MAX_LAYERS)
        return error_set(error, "config.json: layers_block_type has %zu layers", n);
    if (json_value(json, "moe_latent_size") && config->experts.dim == 0)
        return error_set(error, "config.json: moe_latent_size is 0");
    config->n_layers = (uint32_t)n;
    for (size_t l = 0; l < n; l++) {
        const char *name = list ? json_string_value(json_array_get(list, l)) : absent[l % 4];
        size_t i = 0, count = sizeof all / sizeof *all;
        while (i < count && !(!list && pattern ? all[i].letter == pattern[l]
                                               : name && strcmp(all[i].name, name) == 0))
            i++;
        if (i == count)
            return error_set(error, "config.json: layer type '%.40s' is not known",
                             !list && pattern ? &pattern[l]
                             : name           ? name
                                              : "(no text)");
        bool is_narrow = all[i].letter == 'E' && config->experts.dim > 0;
        config->layer_kind[l] = is_narrow ? LAYER_LATENT_MOE : all[i].kind;
        config->without_ffn[l] = config->layer_kind[l] != LAYER_NONE;
        mixes = mixes || all[i].letter == 'E';
    }
    if (!mixes) config->experts.count = config->experts.shared_ffn_dim = config->experts.dim = 0;
    return STATUS_OK;
}

/* Finds the kind of each layer by its tensors. A layer is what it has tensors of: Mamba 2,
 * attention, a narrow mixture, or (LAYER_NONE) a plain feed-forward or mixture. No layer has a
 * width of its own: 0 means ffn_dim. What follows the loop is the same for all models of the
 * family. */
static Status gguf_nemotron_h_finish(const GgufModel *m, Config *c) {
    bool mixes = false;
    gguf_model_uint(m, "moe_latent_size", &c->experts.dim);
    for (uint32_t l = 0; l < c->n_layers && l < CONFIG_MAX_LAYERS; l++) {
        bool is_narrow = gguf_model_layer_has(m, l, "ffn_latent_down.weight");
        bool is_mamba = gguf_model_layer_has(m, l, "ssm_in.weight"),
             attends = gguf_model_layer_has(m, l, "attn_q.weight");
        c->layer_kind[l] = is_mamba    ? LAYER_MAMBA2
                           : attends   ? LAYER_ATTENTION
                           : is_narrow ? LAYER_LATENT_MOE
                                       : LAYER_NONE;
        c->without_ffn[l] = is_mamba || attends || is_narrow;
        mixes = mixes || gguf_model_layer_has(m, l, "ffn_gate_inp.weight");
        c->layer_ffn_dim[l] = 0;
    }
    if (!mixes) c->experts.count = c->experts.shared_ffn_dim = 0;
    if (c->ffn_dim == 0) c->ffn_dim = 1; /* no layer has a dense feed-forward */
    if (c->n_kv_heads == 0) c->n_kv_heads = c->n_heads;
    c->gated = false;
    c->activation = ACTIVATION_RELU2;
    c->position = POSITION_NONE;
    c->router.kind = ROUTER_SIGMOID_SCORES;
    c->router.normalize = true;
    return gguf_read_state(m, c);
}

const FamilyHook families_nemotron_h[] = {
    {"nemotron_h", .finish = nemotron_h_finish, .gguf_finish = gguf_nemotron_h_finish},
    {0},
};
