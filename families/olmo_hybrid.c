/* OLMo Hybrid: gated DeltaNet with norms before, attention with norms after. */
#include "families/shared.h"
#include "formats/family/convolutions.h"

static const TensorRule olmo_hybrid_after[] = {
    VECTOR("post_attention_norm", ".post_attention_layernorm.weight", "dim", .optional = true),
    VECTOR("post_attention_norm", ".feedforward_layer_norm.weight", "dim", .optional = true),
    NORM("post_ffn_norm", ".post_feedforward_layernorm"),
    {0},
};

/* The norms of layers with a state, and of those that attend. Checkpoints and transformers have
 * different names for them, and transformers writes the second norm of both under one name. */
static const TensorRule olmo_hybrid_before[] = {
    VECTOR("attention_norm", ".attention_layer_norm.weight", "dim", .optional = true),
    VECTOR("attention_norm", ".input_layernorm.weight", "dim", .optional = true),
    VECTOR("ffn_norm", ".feedforward_layer_norm.weight", "dim", .optional = true),
    VECTOR("ffn_norm", ".post_attention_layernorm.weight", "dim", .optional = true),
    {0},
};

/* Refuses a layer without one of its norms, which would be left out. */
static Status check_norms(const RuleContext *context, uint32_t l, bool attends, Error *error) {
    static const char *const names[2][2] = {{"attention_norm", "ffn_norm"},
                                            {"post_attention_norm", "post_ffn_norm"}};
    const Source *source = context->source;
    for (int i = 0; i < 2; i++) {
        char name[MODELFILE_NAME_BYTES];
        bool found = false;
        snprintf(name, sizeof name, "layers.%u.%s", l, names[attends][i]);
        for (size_t k = 0; k < source->n_tensors; k++)
            found = found || strcmp(source->tensors[k].name, name) == 0;
        if (!found) return error_set(error, "%s: no tensor becomes '%s'", source->path, name);
    }
    return STATUS_OK;
}

static Status olmo_hybrid_more(const RuleContext *context, const json_t *json, Error *error) {
    const Config *c = &context->source->config;
    (void)json;
    for (uint32_t l = 0; l < c->n_layers; l++) {
        bool attends = c->layer_kind[l] == LAYER_ATTENTION;
        if (rules_apply_to_layer(context, attends ? olmo_hybrid_after : olmo_hybrid_before, l,
                                 error) != STATUS_OK ||
            check_norms(context, l, attends, error) != STATUS_OK)
            return STATUS_FAILED;
    }
    return convolutions_join(context, "model.layers.%u.linear_attn.%c_conv1d.weight", error);
}

/* A base of RoPE that is null: the layers are not rotated. */
static bool has_no_rope(const json_t *json) {
    const json_t *parameters = json_value(json, "rope_scaling");
    if (!json_object_size(parameters)) parameters = json_value(json, "rope_parameters");
    const json_t *theta = json_object_get(parameters, "rope_theta");
    return json_is_null(theta ? theta : json_object_get(json, "rope_theta"));
}

/* Reads the heads of the states, where absent keys follow from the model's sizes. */
static Status olmo_hybrid_heads(const json_t *json, Config *config, Error *error) {
    double heads = config->n_heads;
    if (family_state_read_whole(json, "linear_num_key_heads", heads, &config->state.n_key_heads,
                                error) != STATUS_OK ||
        family_state_read_whole(json, "linear_num_value_heads", heads, &config->state.n_heads,
                                error) != STATUS_OK ||
        family_state_read_whole(json, "linear_key_head_dim",
                                floor(0.75 * config->dim / config->state.n_key_heads),
                                &config->state.key_dim, error) != STATUS_OK)
        return STATUS_FAILED;
    return family_state_read_whole(json, "linear_value_head_dim", 2.0 * config->state.key_dim,
                                   &config->state.value_dim, error);
}

/* Without layer_types every fourth layer attends, and the last one if there are fewer. */
static Status olmo_hybrid_finish(const json_t *json, Config *config, Error *error) {
    static const KindName names[] = {
        {"linear_attention", LAYER_DELTA}, {"full_attention", LAYER_ATTENTION}, {0}};
    const json_t *types = json_value(json, "layer_types");
    if (olmo_hybrid_heads(json, config, error) != STATUS_OK) return STATUS_FAILED;
    if (has_no_rope(json)) config->position = POSITION_NONE;
    if (types) return family_state_read_kinds(types, names, config, error);
    for (uint32_t l = 0; l < config->n_layers; l++) {
        bool attends = l % 4 == 3 || (config->n_layers < 4 && l + 1 == config->n_layers);
        config->layer_kind[l] = attends ? LAYER_ATTENTION : LAYER_DELTA;
    }
    return STATUS_OK;
}

const FamilyHook families_olmo_hybrid[] = {
    {"olmo_hybrid", .finish = olmo_hybrid_finish, .more = olmo_hybrid_more},
    {0},
};
