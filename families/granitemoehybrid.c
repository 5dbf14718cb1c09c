/* Granite 4 and Bamba: Mamba 2 with a few layers that attend. */
#include "families/shared.h"

static FamilyFinish granitemoehybrid_finish;
static FamilyMore granitemoehybrid_more;
static GgufFinish gguf_granitehybrid_finish;
static FamilyFinish bamba_finish;

const Family families_granitemoehybrid[] = {
    /* The activation of the feed-forward is that of the convolution as well. */
    {
        .model_type = "granitemoehybrid",
        .keys = KEYS(
            SIZE_KEYS(32000, 4096, 11008, 32, 32), KV_HEADS(0), HEAD_DIM(0), CONTEXT(2048),
            {"rms_norm_eps", "norm_eps", 1e-6}, {"hidden_act", "activation", ACTIVATION_SILU},
            {"num_local_experts", "n_experts", 8}, {"num_experts_per_tok", "n_experts_used", 2},
            {"intermediate_size", "expert_ffn_dim", 11008},
            {"shared_intermediate_size", "shared_ffn_dim", 1024},
            {"embedding_multiplier", "embedding_scale", 1},
            {"attention_multiplier", "attention_scale", 1},
            {"residual_multiplier", "residual_scale", 1}, {"mamba_n_heads", "state_heads", 128},
            {"mamba_n_groups", "state_key_heads", 1}, {"mamba_d_state", "state_key_dim", 256},
            {"mamba_d_conv", "state_kernel", 4}),
        .fixed = FIXED({"hidden_act", "\"silu\""}),
        .biases = BIASES({QKVO, "attention_bias", false}, {MAMBA_IN, "mamba_proj_bias", false},
                         {" mamba.taps ", "mamba_conv_bias", true}),
        .tensors =
            (const TensorRule[]){
                EMBEDDING("model.embed_tokens"),
                LLAMA_NORMS,
                SOME_ATTENTION,
                MAMBA2(".mamba."),
                MATRIX("router", ".block_sparse_moe.router.layer.weight", "n_experts", "dim",
                       .optional = true),
                MATRIX("experts.%u.w_gate experts.%u.w_up", ".block_sparse_moe.input_linear.weight",
                       "expert_ffn_dim + expert_ffn_dim", "dim", .optional = true),
                MATRIX("experts.%u.w_down", ".block_sparse_moe.output_linear.weight", "dim",
                       "expert_ffn_dim", .optional = true),
                LLAMA_END,
                {0},
            },
        .bos_id = 1,
        .eos_id = 2,
        .steps = STEPS(STEP("granite")),
        .finish = granitemoehybrid_finish,
        .more = granitemoehybrid_more,
        .gguf =
            (const GgufFamily[]){
                {
                    .architecture = "granitehybrid",
                    .required = "ssm.conv_kernel ssm.inner_size ssm.state_size ssm.time_step_rank "
                                "ssm.group_count",
                    .pairing = ROPE_INTERLEAVED,
                    .tensors =
                        (const TensorRule[]){
                            EMBEDDING("token_embd"),
                            NORM("attention_norm", ".attn_norm"),
                            NORM("ffn_norm", ".ffn_norm"),
                            LINEAR("wq", ".attn_q", "n_heads * head_dim", "dim",
                                   .order = ORDER_PAIRED, .optional = true),
                            LINEAR("wk", ".attn_k", "n_kv_heads * head_dim", "dim",
                                   .order = ORDER_PAIRED, .optional = true),
                            LINEAR("wv", ".attn_v", "n_kv_heads * value_dim", "dim",
                                   .optional = true),
                            LINEAR("wo", ".attn_output", "dim", "n_heads * value_dim",
                                   .optional = true),
                            GGUF_MAMBA2,
                            GGUF_SOME_FFN,
                            GGUF_SOME_EXPERTS,
                            GGUF_END,
                            {0},
                        },
                    .finish = gguf_granitehybrid_finish,
                },
                {0},
            },
    },
    /* transformers rotates half of a head whatever the key says. */
    {
        .model_type = "bamba",
        .keys =
            KEYS(SIZE_KEYS(128000, 4096, 14336, 32, 32), KV_HEADS(8), HEAD_DIM(0), CONTEXT(262144),
                 {"rms_norm_eps", "norm_eps", 1e-5}, {"mamba_n_heads", "state_heads", 128},
                 {"mamba_n_groups", "state_key_heads", 1}, {"mamba_d_state", "state_key_dim", 256},
                 {"mamba_d_conv", "state_kernel", 4}),
        .fixed = FIXED({"hidden_act", "\"silu\""}, {"partial_rotary_factor", "0.5"}),
        .biases =
            BIASES({QKVO, "attention_bias", false}, {GATED, "mlp_bias", false},
                   {MAMBA_IN, "mamba_proj_bias", false}, {" mamba.taps ", "mamba_conv_bias", true}),
        .tensors =
            (const TensorRule[]){
                EMBEDDING("model.embed_tokens"),
                NORM("attention_norm", ".input_layernorm"),
                NORM("ffn_norm", ".pre_ff_layernorm"),
                SOME_ATTENTION,
                MAMBA2(".mamba."),
                GATED_FFN(".feed_forward."),
                NORM("final_norm", "model.final_layernorm"),
                OUTPUT("lm_head"),
                {0},
            },
        .rope = {.part = "partial_rotary_factor", .part_absent = 0.5},
        .bos_id = 1,
        .eos_id = 2,
        .finish = bamba_finish,
    },
    {0},
};

static const TensorRule granite_shared[] = {
    LINEAR("shared.w_gate shared.w_up", ".shared_mlp.input_linear",
           "shared_ffn_dim + shared_ffn_dim", "dim", .optional = true),
    LINEAR("shared.w_down", ".shared_mlp.output_linear", "dim", "shared_ffn_dim", .optional = true),
    {0},
};

/* Beside experts the dense feed-forward is a shared expert. */
static const TensorRule granite_dense[] = {
    LINEAR("w_gate w_up", ".shared_mlp.input_linear", "ffn_dim + ffn_dim", "dim", .optional = true),
    LINEAR("w_down", ".shared_mlp.output_linear", "dim", "ffn_dim", .optional = true),
    {0},
};

/* state.value_dim: mamba_d_head, or mamba_expand * dim / mamba_n_heads where that is no number. */
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
    static const KindName names[] = {{"mamba", LAYER_MAMBA2},
                                     {"linear_attention", LAYER_MAMBA2},
                                     {"attention", LAYER_ATTENTION},
                                     {"full_attention", LAYER_ATTENTION},
                                     {0}};
    const char *position = json_text(json, "position_embedding_type");
    const json_t *types = json_value(json, "layer_types");
    if (!types) types = json_value(json, "layers_block_type");
    if (read_mamba_width(json, config, error) != STATUS_OK) return STATUS_FAILED;
    config->position = position && strcmp(position, "rope") == 0 ? POSITION_ROPE : POSITION_NONE;
    config->router.kind = ROUTER_SOFTMAX_CHOSEN;
    if (config->experts.count == 0) {
        config->ffn_dim = config->experts.shared_ffn_dim;
        config->experts.shared_ffn_dim = 0;
    }
    for (uint32_t l = 0; l < config->n_layers; l++) config->layer_kind[l] = LAYER_MAMBA2;
    return types ? family_state_read_kinds(types, names, config, error) : STATUS_OK;
}

static Status granitemoehybrid_more(const RuleContext *context, const json_t *json, Error *error) {
    (void)json;
    return rules_apply(
        context, context->source->config.experts.count ? granite_shared : granite_dense, error);
}

static Status bamba_finish(const json_t *json, Config *config, Error *error) {
    const json_t *attending = json_value(json, "attn_layer_indices"), *item;
    size_t i;
    for (uint32_t l = 0; l < config->n_layers; l++) config->layer_kind[l] = LAYER_MAMBA2;
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
    c->router.kind = ROUTER_SOFTMAX_CHOSEN;
    if (c->experts.count > 0 && c->ffn_dim == 0) c->ffn_dim = c->experts.ffn_dim;
    if (gguf_kinds_by_heads(m, c, LAYER_ATTENTION, LAYER_MAMBA2) != STATUS_OK) return STATUS_FAILED;
    return gguf_read_state(m, c);
}
