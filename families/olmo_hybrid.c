/* OLMo Hybrid: gated DeltaNet with norms before, attention with norms after. */
#include "families/shared.h"
#include "formats/family/convolutions.h"

static FamilyFinish olmo_hybrid_finish;
static FamilyMore olmo_hybrid_more;

const Family families_olmo_hybrid[] = {
    /* The activation of the feed-forward is that of the convolution as well. */
    {
        .model_type = "olmo_hybrid",
        .set =
            SET({"qk_norm", QK_NORM_ALL}, {"stack", STACK_MIXED_NORMS}, {"state_norm_eps", 1e-5}),
        .keys =
            KEYS(SIZE_KEYS(100352, 3840, 11008, 32, 30), KV_HEADS(0), HEAD_DIM(0), CONTEXT(65536),
                 {"rms_norm_eps", "norm_eps", 1e-6}, {"linear_conv_kernel_dim", "state_kernel", 4}),
        .fixed = FIXED({"hidden_act", "\"silu\""}),
        .biases = BIASES({QKVO, "attention_bias", false}),
        .tensors =
            (const TensorRule[]){
                EMBEDDING("model.embed_tokens"),
                SOME_ATTENTION,
                VECTOR("q_norm", ".self_attn.q_norm.weight", "n_heads * head_dim",
                       .optional = true),
                VECTOR("k_norm", ".self_attn.k_norm.weight", "n_kv_heads * head_dim",
                       .optional = true),
                MATRIX("delta.q", ".linear_attn.q_proj.weight", "state_key_heads * state_key_dim",
                       "dim", .optional = true),
                MATRIX("delta.k", ".linear_attn.k_proj.weight", "state_key_heads * state_key_dim",
                       "dim", .optional = true),
                MATRIX("delta.v", ".linear_attn.v_proj.weight", "state_heads * state_value_dim",
                       "dim", .optional = true),
                MATRIX("delta.z", ".linear_attn.g_proj.weight", "state_heads * state_value_dim",
                       "dim", .optional = true),
                MATRIX("delta.a", ".linear_attn.a_proj.weight", "state_heads", "dim",
                       .optional = true),
                MATRIX("delta.b", ".linear_attn.b_proj.weight", "state_heads", "dim",
                       .optional = true),
                MATRIX("delta.out", ".linear_attn.o_proj.weight", "dim",
                       "state_heads * state_value_dim", .optional = true),
                TABLE("delta.convolution", ".linear_attn.conv1d.weight", "state_kernel",
                      "2 * state_key_heads * state_key_dim + state_heads * state_value_dim",
                      .turned = TURNED_ALWAYS, .optional = true),
                VECTOR("delta.decay", ".linear_attn.A_log", "state_heads",
                       .values = VALUES_MINUS_EXP, .optional = true),
                VECTOR("delta.step_bias", ".linear_attn.dt_bias", "state_heads", .optional = true),
                VECTOR("delta.norm", ".linear_attn.o_norm.weight", "state_value_dim",
                       .optional = true),
                LLAMA_FFN,
                LLAMA_END,
                {0},
            },
        .bos_id = -1,
        .eos_id = 100257,
        .finish = olmo_hybrid_finish,
        .more = olmo_hybrid_more,
    },
    {0},
};

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
    if (json_switch(json, "linear_allow_neg_eigval", true)) config->state.beta = 2.0f;
    if (has_no_rope(json)) config->position = POSITION_NONE;
    if (types) return family_state_read_kinds(types, names, config, error);
    for (uint32_t l = 0; l < config->n_layers; l++) {
        bool attends = l % 4 == 3 || (config->n_layers < 4 && l + 1 == config->n_layers);
        config->layer_kind[l] = attends ? LAYER_ATTENTION : LAYER_DELTA;
    }
    return STATUS_OK;
}
