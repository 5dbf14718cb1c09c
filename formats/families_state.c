/* Families most of whose layers keep a state instead of keys and values: gated DeltaNet, Mamba,
 * short convolutions. */
#include <stdio.h>
#include <string.h>

#include "formats/json.h"
#include "formats/state_rules.h"

/* ---- Keys ---- */

#define DELTA_KEYS                                                                                 \
    {"linear_conv_kernel_dim", "state_kernel", 4}, {"linear_key_head_dim", "state_key_dim", 128},  \
        {"linear_value_head_dim", "state_value_dim", 128},                                         \
        {"linear_num_key_heads", "state_key_heads", 16}, {                                         \
        "linear_num_value_heads", "state_heads", 32                                                \
    }
#define QWEN_KEYS(kv_heads)                                                                        \
    KV_HEADS(kv_heads), HEAD_DIM(256), CONTEXT(32768), {"rms_norm_eps", "norm_eps", 1e-6},         \
        DELTA_KEYS
#define QWEN_EXPERTS(n, n_used)                                                                    \
    EXPERT_KEYS("num_experts", n, n_used, "moe_intermediate_size", 512), {                         \
        "shared_expert_intermediate_size", "shared_ffn_dim", 512                                   \
    }

static const ConfigRule qwen3_next_config[] = {
    SIZE_KEYS(151936, 2048, 5632, 48, 16), QWEN_KEYS(2), QWEN_EXPERTS(512, 10), {0}};
static const ConfigRule qwen3_5_config[] = {
    SIZE_KEYS(248320, 4096, 12288, 32, 16), QWEN_KEYS(4), {0}};
/* Every layer is a mixture; there is no intermediate_size. */
static const ConfigRule qwen3_5_moe_config[] = {
    {"vocab_size", "vocab_size", 248320},
    {"hidden_size", "dim", 2048},
    {"num_hidden_layers", "n_layers", 40},
    {"num_attention_heads", "n_heads", 16},
    {"moe_intermediate_size", "ffn_dim", 512},
    QWEN_KEYS(2),
    QWEN_EXPERTS(256, 8),
    {0},
};
/* The activation of the feed-forward is that of the convolution as well. A bias of q_proj would
 * reach the gate of the heads. */
static const FixedKey qwen_fixed[] = {{"hidden_act", "\"silu\""}, {"attention_bias", "false"}, {0}};

static const ConfigRule lfm2_config[] = {
    SIZE_KEYS(65536, 2560, 12288, 32, 32),
    {"block_ff_dim|intermediate_size", "ffn_dim", 12288},
    KV_HEADS(8),
    CONTEXT(128000),
    {"norm_eps", "norm_eps", 1e-5},
    {"conv_L_cache", "state_kernel", 3},
    {0},
};
static const ConfigRule lfm2_moe_config[] = {
    SIZE_KEYS(65536, 2048, 7168, 32, 32),
    KV_HEADS(8),
    CONTEXT(128000),
    EXPERT_KEYS("num_experts", 32, 4, "moe_intermediate_size", 1792),
    {"norm_topk_prob", "router_normalize", 1},
    {"routed_scaling_factor", "router_scale", 1},
    {"norm_eps", "norm_eps", 1e-5},
    {"conv_L_cache", "state_kernel", 3},
    {0},
};

#define MAMBA2_KEYS                                                                                \
    {"mamba_n_heads", "state_heads", 128}, {"mamba_n_groups", "state_key_heads", 1},               \
        {"mamba_d_state", "state_key_dim", 256}, {                                                 \
        "mamba_d_conv", "state_kernel", 4                                                          \
    }
static const ConfigRule granitemoehybrid_config[] = {
    SIZE_KEYS(32000, 4096, 11008, 32, 32),
    MOE_KEYS(0, 0, 2048, 1e-6),
    EXPERT_KEYS("num_local_experts", 8, 2, "intermediate_size", 11008),
    {"shared_intermediate_size", "shared_ffn_dim", 1024},
    GRANITE_KEYS,
    MAMBA2_KEYS,
    {0},
};
static const ConfigRule bamba_config[] = {
    SIZE_KEYS(128000, 4096, 14336, 32, 32), KV_HEADS(8), HEAD_DIM(0), CONTEXT(262144),
    {"rms_norm_eps", "norm_eps", 1e-5},     MAMBA2_KEYS, {0},
};
static const ConfigRule nemotron_h_config[] = {
    SIZE_KEYS(131072, 4096, 21504, 4, 32),
    KV_HEADS(8),
    HEAD_DIM(128),
    CONTEXT(4096),
    {"layer_norm_epsilon", "norm_eps", 1e-5},
    {"mlp_hidden_act", "activation", ACTIVATION_RELU2},
    {"ssm_state_size", "state_key_dim", 128},
    {"mamba_num_heads", "state_heads", 128},
    {"mamba_head_dim", "state_value_dim", 64},
    {"mamba_n_groups|n_groups", "state_key_heads", 8},
    {"mamba_d_conv|conv_kernel", "state_kernel", 4},
    EXPERT_KEYS("n_routed_experts|num_local_experts", 8, 2, "moe_intermediate_size", 7688),
    {"moe_shared_expert_intermediate_size", "shared_ffn_dim", 7688},
    {"n_group", "router_groups", 1},
    {"topk_group", "router_groups_used", 1},
    {"norm_topk_prob", "router_normalize", 1},
    {"routed_scaling_factor", "router_scale", 1},
    {"moe_latent_size", "expert_dim", 0},
    {0},
};
static const FixedKey nemotron_h_fixed[] = {{"mamba_hidden_act", "\"silu\""}, {0}};
/* The activation of the feed-forward is that of the convolution as well. */
static const FixedKey granite_fixed[] = {{"hidden_act", "\"silu\""}, {0}};
/* transformers rotates half of a head whatever the key says. */
static const FixedKey bamba_fixed[] = {
    {"hidden_act", "\"silu\""}, {"partial_rotary_factor", "0.5"}, {0}};

/* ---- Biases ---- */

#define MAMBA_BIASES                                                                               \
    {MAMBA_IN, "mamba_proj_bias", false}, {                                                        \
        " mamba.taps ", "mamba_conv_bias", true                                                    \
    }
static const BiasRule granite_biases[] = {{QKVO, "attention_bias", false}, MAMBA_BIASES, {0}};
static const BiasRule bamba_biases[] = {
    {QKVO, "attention_bias", false}, {GATED, "mlp_bias", false}, MAMBA_BIASES, {0}};
static const BiasRule nemotron_h_biases[] = {
    {MAMBA_IN, "use_bias", false},
    {" mamba.taps ", "use_conv_bias", true},
    {" w_up w_down shared.w_up shared.w_down experts_in experts_out ", "mlp_bias", false},
    {0}};
static const BiasRule lfm2_biases[] = {
    {" convolution.b convolution.c convolution.x convolution.out convolution.taps ", "conv_bias",
     false},
    {0}};

/* ---- Tensors ---- */

#define PLUS_ONE(to, from)                                                                         \
    {                                                                                              \
        to, from ".weight", N_ONE, N_DIM, RULE_ADD_ONE, {0}, {                                     \
            0                                                                                      \
        }                                                                                          \
    }
#define PLUS_ONE_NORMS                                                                             \
    PLUS_ONE("attention_norm", FROM_LAYER "input_layernorm"),                                      \
        PLUS_ONE("ffn_norm", FROM_LAYER "post_attention_layernorm")
/* q_proj holds, for each head, its query and the gate of its output. */
#define GATED_ATTENTION                                                                            \
    SOME("wq", "self_attn.q_proj.weight", N_Q, N_DIM, RULE_BY_HEAD, {N_NONE}, {N_Q, N_OUT}),       \
        SOME("attention_gate", "self_attn.q_proj.weight", N_OUT, N_DIM, RULE_BY_HEAD, {N_Q},       \
             {N_Q, N_OUT}),                                                                        \
        SOME_MATRIX("wk", "self_attn.k_proj", N_KV, N_DIM),                                        \
        SOME_MATRIX("wv", "self_attn.v_proj", N_V, N_DIM),                                         \
        SOME_MATRIX("wo", "self_attn.o_proj", N_DIM, N_OUT),                                       \
        SOME("q_norm", "self_attn.q_norm.weight", N_ONE, N_HEAD, RULE_ADD_ONE, {0}, {0}),          \
        SOME("k_norm", "self_attn.k_norm.weight", N_ONE, N_HEAD, RULE_ADD_ONE, {0}, {0})
/* order: RULE_STATES or 0. */
#define DELTA_REST(order)                                                                          \
    SOME("delta.out", "linear_attn.out_proj.weight", N_DIM, N_STATE_OUT, order, {0}, {0}),         \
        SOME("delta.convolution", "linear_attn.conv1d.weight", N_STATE_TAPS, N_STATE_MIXED,        \
             RULE_VECTOR | RULE_TRANSPOSED | (order), {0}, {0}),                                   \
        SOME("delta.decay", "linear_attn.A_log", N_ONE, N_STATE_HEADS, RULE_MINUS_EXP | (order),   \
             {0}, {0}),                                                                            \
        SOME("delta.step_bias", "linear_attn.dt_bias", N_ONE, N_STATE_HEADS, order, {0}, {0}),     \
        SOME_VECTOR("delta.norm", "linear_attn.norm.weight", N_STATE_VALUE)
/* Qwen3-Next: q, k, v and z lie together for each key head, and so do b and a. */
#define NEXT_PART(to, rows, ...)                                                                   \
    SOME(to, "linear_attn.in_proj_qkvz.weight", rows, N_DIM, RULE_BY_STATE_KEY, __VA_ARGS__,       \
         {N_STATE_MIXED, N_STATE_OUT})
#define NEXT_DELTA                                                                                 \
    NEXT_PART("delta.q", N_STATE_KEYS, {N_NONE}),                                                  \
        NEXT_PART("delta.k", N_STATE_KEYS, {N_STATE_KEYS}),                                        \
        SOME("delta.v", "linear_attn.in_proj_qkvz.weight", N_STATE_OUT, N_DIM, RULE_BY_STATE_KEY,  \
             {N_STATE_KEYS, N_STATE_KEYS}, {N_STATE_MIXED, N_STATE_OUT}),                          \
        NEXT_PART("delta.z", N_STATE_OUT, {N_STATE_MIXED}),                                        \
        SOME("delta.b", "linear_attn.in_proj_ba.weight", N_STATE_HEADS, N_DIM, RULE_BY_STATE_KEY,  \
             {N_NONE}, {N_STATE_HEADS, N_STATE_HEADS}),                                            \
        SOME("delta.a", "linear_attn.in_proj_ba.weight", N_STATE_HEADS, N_DIM, RULE_BY_STATE_KEY,  \
             {N_STATE_HEADS}, {N_STATE_HEADS, N_STATE_HEADS}),                                     \
        DELTA_REST(0)
/* Qwen 3.5: state_tiled, so that the sums over the heads of the output have the order, and the
 * bits, that they have in GGUF files. */
#define QWEN_PART(to, rows, ...)                                                                   \
    SOME(to, "linear_attn.in_proj_qkv.weight", rows, N_DIM, RULE_STATES, __VA_ARGS__,              \
         {N_STATE_MIXED})
#define QWEN_HEADS(to, from, rows) SOME(to, from ".weight", rows, N_DIM, RULE_STATES, {0}, {0})
#define QWEN_DELTA                                                                                 \
    QWEN_PART("delta.q", N_STATE_KEYS, {N_NONE}),                                                  \
        QWEN_PART("delta.k", N_STATE_KEYS, {N_STATE_KEYS}),                                        \
        SOME("delta.v", "linear_attn.in_proj_qkv.weight", N_STATE_OUT, N_DIM, RULE_STATES,         \
             {N_STATE_KEYS, N_STATE_KEYS}, {N_STATE_MIXED}),                                       \
        QWEN_HEADS("delta.z", "linear_attn.in_proj_z", N_STATE_OUT),                               \
        QWEN_HEADS("delta.b", "linear_attn.in_proj_b", N_STATE_HEADS),                             \
        QWEN_HEADS("delta.a", "linear_attn.in_proj_a", N_STATE_HEADS), DELTA_REST(RULE_STATES)
#define SHARED_EXPERT                                                                              \
    MAYBE("shared.w_gate", "mlp.shared_expert.gate_proj", N_SHARED_FFN, N_DIM),                    \
        MAYBE("shared.w_up", "mlp.shared_expert.up_proj", N_SHARED_FFN, N_DIM),                    \
        MAYBE("shared.w_down", "mlp.shared_expert.down_proj", N_DIM, N_SHARED_FFN),                \
        SOME("shared.router", "mlp.shared_expert_gate.weight", N_ONE, N_DIM, RULE_MATRIX, {0},     \
             {0})
/* The form in which transformers 5 keeps experts, and checkpoints of Qwen 3.5. */
#define STACKED_EXPERTS                                                                            \
    SOME("experts.%u.w_gate", "mlp.experts.gate_up_proj", N_EXPERT_FFN, N_DIM, 0, {N_NONE},        \
         {N_EXPERT_FFN, N_EXPERT_FFN}),                                                            \
        SOME("experts.%u.w_up", "mlp.experts.gate_up_proj", N_EXPERT_FFN, N_DIM, 0,                \
             {N_EXPERT_FFN}, {N_EXPERT_FFN, N_EXPERT_FFN}),                                        \
        SOME("experts.%u.w_down", "mlp.experts.down_proj", N_DIM, N_EXPERT_FFN, 0, {0}, {0})
#define PLUS_ONE_END PLUS_ONE("final_norm", "model.norm"), OUTPUT("lm_head")

static const TensorRule qwen3_next_tensors[] = {
    LLAMA_EMBEDDING,  PLUS_ONE_NORMS, GATED_ATTENTION, NEXT_DELTA,
    DENSE_OR_EXPERTS, SHARED_EXPERT,  PLUS_ONE_END,    {0},
};
static const TensorRule qwen3_5_tensors[] = {
    LLAMA_EMBEDDING, PLUS_ONE_NORMS, GATED_ATTENTION, QWEN_DELTA, LLAMA_FFN, PLUS_ONE_END, {0},
};
static const TensorRule qwen3_5_moe_tensors[] = {
    LLAMA_EMBEDDING, PLUS_ONE_NORMS, GATED_ATTENTION, QWEN_DELTA, DENSE_OR_EXPERTS,
    STACKED_EXPERTS, SHARED_EXPERT,  PLUS_ONE_END,    {0},
};

#define LFM2_NORMS                                                                                 \
    NORM("attention_norm", FROM_LAYER "operator_norm"), NORM("ffn_norm", FROM_LAYER "ffn_norm")
#define LFM2_ATTENTION                                                                             \
    SOME_QKV, SOME_LINEAR("wo", "self_attn.out_proj", N_DIM, N_OUT),                               \
        SOME_VECTOR("q_norm", "self_attn.q_layernorm.weight", N_HEAD),                             \
        SOME_VECTOR("k_norm", "self_attn.k_layernorm.weight", N_HEAD)
#define LFM2_END NORM("final_norm", "model.embedding_norm"), OUTPUT("lm_head")

static const TensorRule lfm2_tensors[] = {
    LLAMA_EMBEDDING, LFM2_NORMS, LFM2_ATTENTION, LFM2_CONVOLUTION, LFM2_FFN, LFM2_END, {0},
};
static const TensorRule lfm2_moe_tensors[] = {
    LLAMA_EMBEDDING,
    LFM2_NORMS,
    LFM2_ATTENTION,
    LFM2_CONVOLUTION,
    LFM2_FFN,
    SOME_MATRIX("router", "feed_forward.gate", N_EXPERTS, N_DIM),
    SOME_VECTOR("router.correction", "feed_forward.expert_bias", N_EXPERTS),
    SOME_MATRIX("experts.%u.w_gate", "feed_forward.experts.%u.w1", N_EXPERT_FFN, N_DIM),
    SOME_MATRIX("experts.%u.w_up", "feed_forward.experts.%u.w3", N_EXPERT_FFN, N_DIM),
    SOME_MATRIX("experts.%u.w_down", "feed_forward.experts.%u.w2", N_DIM, N_EXPERT_FFN),
    LFM2_END,
    {0},
};

#define SOME_GATE_UP(to, n)                                                                        \
    SOME_PART(to "w_gate", "shared_mlp.input_linear", n, N_DIM, {N_NONE}, {n, n}),                 \
        SOME_PART(to "w_up", "shared_mlp.input_linear", n, N_DIM, {n}, {n, n}),                    \
        SOME_LINEAR(to "w_down", "shared_mlp.output_linear", N_DIM, n)
static const TensorRule granitemoehybrid_tensors[] = {
    LLAMA_EMBEDDING,
    LLAMA_NORMS,
    SOME_QKV,
    SOME_LINEAR("wo", "self_attn.o_proj", N_DIM, N_OUT),
    MAMBA2("mamba."),
    SOME_MATRIX("router", "block_sparse_moe.router.layer", N_EXPERTS, N_DIM),
    SOME("experts.%u.w_gate", "block_sparse_moe.input_linear.weight", N_EXPERT_FFN, N_DIM, 0,
         {N_NONE}, {N_EXPERT_FFN, N_EXPERT_FFN}),
    SOME("experts.%u.w_up", "block_sparse_moe.input_linear.weight", N_EXPERT_FFN, N_DIM, 0,
         {N_EXPERT_FFN}, {N_EXPERT_FFN, N_EXPERT_FFN}),
    SOME("experts.%u.w_down", "block_sparse_moe.output_linear.weight", N_DIM, N_EXPERT_FFN, 0, {0},
         {0}),
    LLAMA_END,
    {0},
};
/* Beside experts the dense feed-forward is a shared expert. */
static const TensorRule granite_dense[] = {SOME_GATE_UP("", N_FFN), {0}};
static const TensorRule granite_shared[] = {SOME_GATE_UP("shared.", N_SHARED_FFN), {0}};

static const TensorRule bamba_tensors[] = {
    LLAMA_EMBEDDING,
    NORM("attention_norm", FROM_LAYER "input_layernorm"),
    NORM("ffn_norm", FROM_LAYER "pre_ff_layernorm"),
    SOME_QKV,
    SOME_LINEAR("wo", "self_attn.o_proj", N_DIM, N_OUT),
    MAMBA2("mamba."),
    LINEAR("w_gate", FROM_LAYER "feed_forward.gate_proj", N_FFN, N_DIM),
    LINEAR("w_up", FROM_LAYER "feed_forward.up_proj", N_FFN, N_DIM),
    LINEAR("w_down", FROM_LAYER "feed_forward.down_proj", N_DIM, N_FFN),
    NORM("final_norm", "model.final_layernorm"),
    OUTPUT("lm_head"),
    {0},
};

/* A layer is a mixer or a feed-forward and has one norm, which is taken for both. */
static const TensorRule nemotron_h_tensors[] = {
    EMBEDDING("model.embeddings"),
    NORM("attention_norm", FROM_LAYER "norm"),
    NORM("ffn_norm", FROM_LAYER "norm"),
    SOME_MATRIX("wq", "mixer.q_proj", N_Q, N_DIM),
    SOME_MATRIX("wk", "mixer.k_proj", N_KV, N_DIM),
    SOME_MATRIX("wv", "mixer.v_proj", N_V, N_DIM),
    SOME_MATRIX("wo", "mixer.o_proj", N_DIM, N_OUT),
    MAMBA2("mixer."),
    SOME_LINEAR("w_up", "mixer.up_proj", N_FFN, N_DIM),
    SOME_LINEAR("w_down", "mixer.down_proj", N_DIM, N_FFN),
    SOME_MATRIX("router", "mixer.gate", N_EXPERTS, N_DIM),
    SOME_VECTOR("router.correction", "mixer.gate.e_score_correction_bias", N_EXPERTS),
    SOME_MATRIX("experts.%u.w_up", "mixer.experts.%u.up_proj", N_EXPERT_FFN, N_EXPERT_DIM),
    SOME_MATRIX("experts.%u.w_down", "mixer.experts.%u.down_proj", N_EXPERT_DIM, N_EXPERT_FFN),
    SOME_LINEAR("experts_in", "mixer.fc1_latent_proj", N_EXPERT_DIM, N_DIM),
    SOME_LINEAR("experts_out", "mixer.fc2_latent_proj", N_DIM, N_EXPERT_DIM),
    SOME_LINEAR("shared.w_up", "mixer.shared_experts.up_proj", N_SHARED_FFN, N_DIM),
    SOME_LINEAR("shared.w_down", "mixer.shared_experts.down_proj", N_DIM, N_SHARED_FFN),
    NORM("final_norm", "model.norm_f"),
    OUTPUT("lm_head"),
    {0},
};

/* ---- Fields that no key gives, and keys that a rule cannot describe ---- */

static void qwen_preset(Config *config) {
    config->qk_norm = QK_NORM_HEAD;
}

/* Without layer_types every full_attention_interval-th layer attends. */
static Status read_qwen_kinds(const json_t *json, Config *config, Error *error) {
    static const KindName names[] = {
        {"linear_attention", LAYER_DELTA}, {"full_attention", LAYER_ATTENTION}, {0}};
    const json_t *types = json_value(json, "layer_types");
    if (types) return state_read_kinds(types, names, config, error);
    double interval = json_number(json, "full_attention_interval", 4);
    if (!(interval >= 1 && interval <= 1e6))
        return error_set(error, "config.json: full_attention_interval is %g", interval);
    for (uint32_t l = 0; l < config->n_layers; l++)
        config->layer_kind[l] = (l + 1) % (uint32_t)interval ? LAYER_DELTA : LAYER_ATTENTION;
    return STATUS_OK;
}

static Status qwen3_next_finish(const json_t *json, Config *config, Error *error) {
    if (json_flag(json, "norm_topk_prob", true)) config->router = ROUTER_SOFTMAX_CHOSEN;
    return read_qwen_kinds(json, config, error);
}

static Status qwen3_5_finish(const json_t *json, Config *config, Error *error) {
    config->state_tiled = true; /* RULE_STATES */
    return read_qwen_kinds(json, config, error);
}

static void qwen3_5_moe_preset(Config *config) {
    config->router = ROUTER_SOFTMAX_CHOSEN;
    qwen_preset(config);
}

static void lfm2_preset(Config *config) {
    config->qk_norm = QK_NORM_HEAD;
    config->rope_theta = 1e6f;
}

static void lfm2_moe_preset(Config *config) {
    config->router = ROUTER_SIGMOID_SCORES;
    lfm2_preset(config);
}

static const KindName lfm2_kinds[] = {{"conv", LAYER_CONVOLUTION},
                                      {"full_attention", LAYER_ATTENTION},
                                      {"attention", LAYER_ATTENTION},
                                      {0}};

/* The width of the feed-forward is two thirds of the key's, then multiplied and rounded up. */
static Status lfm2_ffn(const json_t *json, Config *config, Error *error) {
    uint32_t multiple = 1;
    double times = json_number(json, "block_ffn_dim_multiplier", 1.0);
    if (!json_flag(json, "block_auto_adjust_ff_dim", true)) return STATUS_OK;
    if (state_read_whole(json, "block_multiple_of", 256, &multiple, error) != STATUS_OK)
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
    if (types) return state_read_kinds(types, lfm2_kinds, config, error);
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
    return state_read_kinds(json_value(json, "layer_types"), lfm2_kinds, config, error);
}

Status state_no_step_limit(const json_t *json, Error *error) {
    const json_t *limit = json_value(json, "time_step_limit");
    const json_t *low = json_array_get(limit, 0), *high = json_array_get(limit, 1);
    if (!limit || (json_is_number(low) && json_number_value(low) == 0.0 && !json_is_number(high)))
        return STATUS_OK;
    return error_set(error, "config.json: time_step_limit is not [0, Infinity], which this program "
                            "cannot compute");
}

/* The width of a head of Mamba 2 is that of the key, or what heads share of expand * dim. */
static Status read_mamba_width(const json_t *json, Config *config, Error *error) {
    uint32_t expand = 1;
    const json_t *width = json_value(json, "mamba_d_head");
    if (state_no_step_limit(json, error) != STATUS_OK) return STATUS_FAILED;
    if (json_is_number(width))
        return state_read_whole(json, "mamba_d_head", 0, &config->state_value_dim, error);
    if (state_read_whole(json, "mamba_expand", 2, &expand, error) != STATUS_OK)
        return STATUS_FAILED;
    if (config->state_heads == 0 || expand > 1024)
        return error_set(error, "config.json: mamba_n_heads is %u, mamba_expand %u",
                         config->state_heads, expand);
    config->state_value_dim = (uint32_t)((uint64_t)expand * config->dim / config->state_heads);
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
    if (family_granite(json, config, error) != STATUS_OK ||
        read_mamba_width(json, config, error) != STATUS_OK)
        return STATUS_FAILED;
    config->position = position && strcmp(position, "rope") == 0 ? POSITION_ROPE : POSITION_NONE;
    config->router = ROUTER_SOFTMAX_CHOSEN;
    if (config->n_experts == 0) {
        config->ffn_dim = config->shared_ffn_dim;
        config->shared_ffn_dim = 0;
    }
    for (uint32_t l = 0; l < config->n_layers; l++) config->layer_kind[l] = LAYER_MAMBA2;
    return types ? state_read_kinds(types, names, config, error) : STATUS_OK;
}

static Status granitemoehybrid_more(const RuleContext *context, const json_t *json, Error *error) {
    (void)json;
    return rules_apply(context, context->source->config.n_experts ? granite_shared : granite_dense,
                       error);
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

static void nemotron_h_preset(Config *config) {
    config->gated = false;
    config->position = POSITION_NONE;
    config->router = ROUTER_SIGMOID_SCORES;
}

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
    if (n == 0 || n > CONFIG_MAX_LAYERS)
        return error_set(error, "config.json: layers_block_type has %zu layers", n);
    if (json_value(json, "moe_latent_size") && config->expert_dim == 0)
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
        bool is_narrow = all[i].letter == 'E' && config->expert_dim > 0;
        config->layer_kind[l] = is_narrow ? LAYER_NARROW : all[i].kind;
        config->without_ffn[l] = config->layer_kind[l] != LAYER_NONE;
        mixes = mixes || all[i].letter == 'E';
    }
    if (!mixes) config->n_experts = config->shared_ffn_dim = config->expert_dim = 0;
    return state_no_step_limit(json, error);
}

#define QUARTER                                                                                    \
    { .part = "partial_rotary_factor", .part_absent = 0.25 }

const Family families_state[] = {
    {"qwen3_next", qwen3_next_config, qwen3_next_tensors, qwen_preset, qwen3_next_finish,
     .fixed = qwen_fixed, .rope = QUARTER, .prediction = PREDICTION_MTP, .bos_id = -1,
     .eos_id = -1},
    {"qwen3_5_text", qwen3_5_config, qwen3_5_tensors, qwen_preset, qwen3_5_finish,
     .fixed = qwen_fixed, .rope = QUARTER, .prediction = PREDICTION_MTP, .bos_id = -1,
     .eos_id = -1},
    {"qwen3_5_moe_text", qwen3_5_moe_config, qwen3_5_moe_tensors, qwen3_5_moe_preset,
     qwen3_5_finish, .fixed = qwen_fixed, .rope = QUARTER, .prediction = PREDICTION_MTP,
     .bos_id = -1, .eos_id = -1},
    {"lfm2", lfm2_config, lfm2_tensors, lfm2_preset, lfm2_finish, .biases = lfm2_biases,
     .tied = true, .tied_key = "tie_embedding", .bos_id = 1, .eos_id = 2},
    {"lfm2_moe", lfm2_moe_config, lfm2_moe_tensors, lfm2_moe_preset, lfm2_moe_finish,
     .biases = lfm2_biases, .tied = true, .tied_key = "tie_embedding", .bos_id = 1, .eos_id = 2},
    {"granitemoehybrid", granitemoehybrid_config, granitemoehybrid_tensors,
     .finish = granitemoehybrid_finish, .more = granitemoehybrid_more, .biases = granite_biases,
     .fixed = granite_fixed, .bos_id = 1, .eos_id = 2},
    {"bamba", bamba_config, bamba_tensors, .finish = bamba_finish, .biases = bamba_biases,
     .fixed = bamba_fixed, .rope = {.part = "partial_rotary_factor", .part_absent = 0.5},
     .bos_id = 1, .eos_id = 2},
    {"nemotron_h", nemotron_h_config, nemotron_h_tensors, nemotron_h_preset, nemotron_h_finish,
     .biases = nemotron_h_biases, .fixed = nemotron_h_fixed, .rope = {.none = true}, .bos_id = 1,
     .eos_id = 2},
    {0},
};
