/* Nemotron H: a layer is Mamba 2, attention, a feed-forward or a mixture. */
#include "families/shared.h"

static FamilyFinish nemotron_h_finish;
static GgufFinish gguf_nemotron_h_finish;

/* A layer is a mixer or a feed-forward and has one norm, which is taken for both. */
static const TensorRule gguf_nemotron_h_tensors[] = {
    EMBEDDING("token_embd"),
    NORM("attention_norm", ".attn_norm"),
    NORM("ffn_norm", ".attn_norm"),
    LINEAR("wq", ".attn_q", "n_heads * head_dim", "dim", .order = ORDER_PAIRED, .optional = true),
    LINEAR("wk", ".attn_k", "n_kv_heads * head_dim", "dim", .order = ORDER_PAIRED,
           .optional = true),
    LINEAR("wv", ".attn_v", "n_kv_heads * value_dim", "dim", .optional = true),
    LINEAR("wo", ".attn_output", "dim", "n_heads * value_dim", .optional = true),
    GGUF_MAMBA2,
    GGUF_SOME_FFN,
    GGUF_SOME_EXPERTS,
    LINEAR("experts_in", ".ffn_latent_down", "expert_dim", "dim", .optional = true),
    LINEAR("experts_out", ".ffn_latent_up", "dim", "expert_dim", .optional = true),
    CORRECTION(".exp_probs_b.bias"),
    VECTOR("shared.w_up.bias", ".ffn_up_shexp.bias", "shared_ffn_dim", .optional = true),
    VECTOR("shared.w_down.bias", ".ffn_down_shexp.bias", "dim", .optional = true),
    GGUF_END,
    {0},
};

const Family families_nemotron_h[] = {
    /* A layer is a mixer or a feed-forward and has one norm, which is taken for both. */
    {
        .model_type = "nemotron_h",
        .set = SET({"position", POSITION_NONE}, {"gated", 0}, {"router", ROUTER_SIGMOID_SCORES}),
        .keys = KEYS(
            SIZE_KEYS(131072, 4096, 21504, 4, 32), KV_HEADS(8), HEAD_DIM(128), CONTEXT(4096),
            {"layer_norm_epsilon", "norm_eps", 1e-5},
            {"mlp_hidden_act", "activation", ACTIVATION_RELU2},
            {"ssm_state_size", "state_key_dim", 128}, {"mamba_num_heads", "state_heads", 128},
            {"mamba_head_dim", "state_value_dim", 64},
            {"mamba_n_groups|n_groups", "state_key_heads", 8},
            {"mamba_d_conv|conv_kernel", "state_kernel", 4},
            {"n_routed_experts|num_local_experts", "n_experts", 8},
            {"num_experts_per_tok", "n_experts_used", 2},
            {"moe_intermediate_size", "expert_ffn_dim", 7688},
            {"moe_shared_expert_intermediate_size", "shared_ffn_dim", 7688},
            {"n_group", "router_groups", 1}, {"topk_group", "router_groups_used", 1},
            {"norm_topk_prob", "router_normalize", 1}, {"routed_scaling_factor", "router_scale", 1},
            {"moe_latent_size", "expert_dim", 0}),
        .fixed = FIXED({"mamba_hidden_act", "\"silu\""}),
        .biases = BIASES(
            {MAMBA_IN, "use_bias", false}, {" mamba.taps ", "use_conv_bias", true},
            {UP_DOWN " shared.w_up shared.w_down experts_in experts_out ", "mlp_bias", false}),
        .tensors =
            (const TensorRule[]){
                EMBEDDING("model.embeddings"),
                NORM("attention_norm", ".norm"),
                NORM("ffn_norm", ".norm"),
                MATRIX("wq", ".mixer.q_proj.weight", "n_heads * head_dim", "dim", .optional = true),
                MATRIX("wk", ".mixer.k_proj.weight", "n_kv_heads * head_dim", "dim",
                       .optional = true),
                MATRIX("wv", ".mixer.v_proj.weight", "n_kv_heads * value_dim", "dim",
                       .optional = true),
                MATRIX("wo", ".mixer.o_proj.weight", "dim", "n_heads * value_dim",
                       .optional = true),
                MAMBA2(".mixer."),
                LINEAR("w_up", ".mixer.up_proj", "ffn_dim", "dim", .optional = true),
                LINEAR("w_down", ".mixer.down_proj", "dim", "ffn_dim", .optional = true),
                MATRIX("router", ".mixer.gate.weight", "n_experts", "dim", .optional = true),
                CORRECTION(".mixer.gate.e_score_correction_bias"),
                MATRIX("experts.%u.w_up", ".mixer.experts.%u.up_proj.weight", "expert_ffn_dim",
                       "expert_dim", .optional = true),
                MATRIX("experts.%u.w_down", ".mixer.experts.%u.down_proj.weight", "expert_dim",
                       "expert_ffn_dim", .optional = true),
                LINEAR("experts_in", ".mixer.fc1_latent_proj", "expert_dim", "dim",
                       .optional = true),
                LINEAR("experts_out", ".mixer.fc2_latent_proj", "dim", "expert_dim",
                       .optional = true),
                LINEAR("shared.w_up", ".mixer.shared_experts.up_proj", "shared_ffn_dim", "dim",
                       .optional = true),
                LINEAR("shared.w_down", ".mixer.shared_experts.down_proj", "dim", "shared_ffn_dim",
                       .optional = true),
                NORM("final_norm", "model.norm_f"),
                OUTPUT("lm_head"),
                {0},
            },
        .rope = {.none = true},
        .bos_id = 1,
        .eos_id = 2,
        .finish = nemotron_h_finish,
        .gguf =
            (const GgufFamily[]){
                {
                    .architecture = "nemotron_h",
                    .required = "attention.layer_norm_epsilon ssm.conv_kernel ssm.inner_size "
                                "ssm.state_size ssm.time_step_rank "
                                "ssm.group_count",
                    .tensors = gguf_nemotron_h_tensors,
                    .finish = gguf_nemotron_h_finish,
                },
                {
                    .architecture = "nemotron_h_moe",
                    .required = "attention.layer_norm_epsilon ssm.conv_kernel ssm.inner_size "
                                "ssm.state_size ssm.time_step_rank "
                                "ssm.group_count",
                    .tensors = gguf_nemotron_h_tensors,
                    .finish = gguf_nemotron_h_finish,
                },
                {0},
            },
    },
    {0},
};

/* A layer is Mamba 2, attention, a feed-forward or a mixture, by a list of names or a text with a
 * letter for each layer. */
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

/* A layer is what it has tensors of: Mamba 2, attention, a feed-forward or a mixture. */
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
