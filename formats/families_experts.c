/* Mixtures of experts. */
#include "formats/family.h"
#include "formats/json.h"

/* ---- Keys ---- */

#define MOE_KEYS(kv_heads, epsilon)                                                                \
    SIZE_KEYS, {"num_key_value_heads", "n_kv_heads", kv_heads}, {"head_dim", "head_dim", 0},       \
        {"max_position_embeddings", "context", 4096}, {"rms_norm_eps", "norm_eps", epsilon},       \
        {"hidden_act", "activation", ACTIVATION_SILU},                                             \
        {"num_local_experts|num_experts", "n_experts", REQUIRED},                                  \
        {"num_experts_per_tok|experts_per_token", "n_experts_used", REQUIRED}, {                   \
        "moe_intermediate_size|intermediate_size", "expert_ffn_dim", REQUIRED                      \
    }

static const ConfigRule mixtral_config[] = {MOE_KEYS(8, 1e-5), {0}};
static const ConfigRule qwen_config[] = {
    MOE_KEYS(0, 1e-6), {"shared_expert_intermediate_size", "shared_ffn_dim", 0}, {0}};
static const ConfigRule olmoe_config[] = {MOE_KEYS(0, 1e-5), {"clip_qkv", "qkv_clip", 0}, {0}};
static const ConfigRule phimoe_config[] = {
    MOE_KEYS(8, 1e-5), {"router_jitter_noise", "router_jitter", 0.01}, {0}};
static const ConfigRule granitemoe_config[] = {MOE_KEYS(0, 1e-6), GRANITE_KEYS, {0}};
static const ConfigRule gpt_oss_config[] = {
    MOE_KEYS(8, 1e-5), {"swiglu_limit", "swiglu_limit", 7}, {0}};

/* ---- Tensors ---- */

#define FROM_LAYER "model.layers.%u."
#define MAYBE(to, from, rows, cols) OPTIONAL(to, FROM_LAYER from ".weight", rows, cols)

static const TensorRule mixtral_tensors[] = {
    LLAMA_EMBEDDING,
    LLAMA_NORMS,
    LLAMA_ATTENTION,
    LINEAR("router", FROM_LAYER "block_sparse_moe.gate", N_EXPERTS, N_DIM),
    LINEAR("experts.%u.w_gate", FROM_LAYER "block_sparse_moe.experts.%u.w1", N_EXPERT_FFN, N_DIM),
    LINEAR("experts.%u.w_up", FROM_LAYER "block_sparse_moe.experts.%u.w3", N_EXPERT_FFN, N_DIM),
    LINEAR("experts.%u.w_down", FROM_LAYER "block_sparse_moe.experts.%u.w2", N_DIM, N_EXPERT_FFN),
    LLAMA_END,
    {0},
};

/* A layer has either one feed-forward or a router and experts. All are optional here; opening the
 * converted model fails when any is missing. */
#define DENSE_OR_EXPERTS                                                                           \
    MAYBE("w_gate", "mlp.gate_proj", N_FFN, N_DIM), MAYBE("w_up", "mlp.up_proj", N_FFN, N_DIM),    \
        MAYBE("w_down", "mlp.down_proj", N_DIM, N_FFN),                                            \
        MAYBE("router", "mlp.gate", N_EXPERTS, N_DIM),                                             \
        MAYBE("experts.%u.w_gate", "mlp.experts.%u.gate_proj", N_EXPERT_FFN, N_DIM),               \
        MAYBE("experts.%u.w_up", "mlp.experts.%u.up_proj", N_EXPERT_FFN, N_DIM),                   \
        MAYBE("experts.%u.w_down", "mlp.experts.%u.down_proj", N_DIM, N_EXPERT_FFN)

static const TensorRule qwen2_tensors[] = {
    LLAMA_EMBEDDING,
    LLAMA_NORMS,
    LLAMA_ATTENTION,
    DENSE_OR_EXPERTS,
    MAYBE("shared.w_gate", "mlp.shared_expert.gate_proj", N_SHARED_FFN, N_DIM),
    MAYBE("shared.w_up", "mlp.shared_expert.up_proj", N_SHARED_FFN, N_DIM),
    MAYBE("shared.w_down", "mlp.shared_expert.down_proj", N_DIM, N_SHARED_FFN),
    {"shared.router",
     FROM_LAYER "mlp.shared_expert_gate.weight",
     N_ONE,
     N_DIM,
     RULE_OPTIONAL | RULE_MATRIX,
     {0},
     {0}},
    LLAMA_END,
    {0},
};
static const TensorRule qwen3_tensors[] = {
    LLAMA_EMBEDDING,
    LLAMA_NORMS,
    LLAMA_ATTENTION,
    NORM_OF("q_norm", FROM_LAYER "self_attn.q_norm", N_HEAD),
    NORM_OF("k_norm", FROM_LAYER "self_attn.k_norm", N_HEAD),
    DENSE_OR_EXPERTS,
    LLAMA_END,
    {0},
};
static const TensorRule olmoe_tensors[] = {
    LLAMA_EMBEDDING,
    LLAMA_NORMS,
    LLAMA_ATTENTION,
    NORM_OF("q_norm", FROM_LAYER "self_attn.q_norm", N_Q),
    NORM_OF("k_norm", FROM_LAYER "self_attn.k_norm", N_KV),
    DENSE_OR_EXPERTS,
    LLAMA_END,
    {0},
};

/* The experts' matrices are stacked: gate and up of all experts in one tensor, down in another. */
#define STACKED(to, from, rows, cols, flags, ...)                                                  \
    { to, FROM_LAYER from, rows, cols, flags, __VA_ARGS__ }

static const TensorRule granitemoe_tensors[] = {
    LLAMA_EMBEDDING,
    LLAMA_NORMS,
    LLAMA_ATTENTION,
    LINEAR("router", FROM_LAYER "block_sparse_moe.router.layer", N_EXPERTS, N_DIM),
    STACKED("experts.%u.w_gate", "block_sparse_moe.input_linear.weight", N_EXPERT_FFN, N_DIM, 0,
            {0}, {N_EXPERT_FFN, N_EXPERT_FFN}),
    STACKED("experts.%u.w_up", "block_sparse_moe.input_linear.weight", N_EXPERT_FFN, N_DIM, 0,
            {N_EXPERT_FFN}, {N_EXPERT_FFN, N_EXPERT_FFN}),
    STACKED("experts.%u.w_down", "block_sparse_moe.output_linear.weight", N_DIM, N_EXPERT_FFN, 0,
            {0}, {0}),
    LLAMA_END,
    {0},
};

/* GPT-OSS stores them as inputs x outputs, rows of gate and up alternating. */
#define GATE_UP(to, from, cols, flags)                                                             \
    STACKED(to, from, N_EXPERT_FFN, cols, flags, {0}, {N_EXPERT_FFN, N_EXPERT_FFN})
#define GATE_UP_BIAS(to, from, flags)                                                              \
    STACKED(to, from, N_ONE, N_EXPERT_FFN, flags, {0}, {N_EXPERT_FFN, N_EXPERT_FFN})
static const TensorRule gpt_oss_tensors[] = {
    LLAMA_EMBEDDING,
    LLAMA_NORMS,
    LLAMA_ATTENTION,
    {"sinks", FROM_LAYER "self_attn.sinks", N_ONE, N_HEADS, 0, {0}, {0}},
    LINEAR("router", FROM_LAYER "mlp.router", N_EXPERTS, N_DIM),
    GATE_UP("experts.%u.w_gate", "mlp.experts.gate_up_proj", N_DIM, RULE_TRANSPOSED | RULE_EVEN),
    GATE_UP("experts.%u.w_up", "mlp.experts.gate_up_proj", N_DIM, RULE_TRANSPOSED | RULE_ODD),
    GATE_UP_BIAS("experts.%u.w_gate.bias", "mlp.experts.gate_up_proj_bias", RULE_EVEN),
    GATE_UP_BIAS("experts.%u.w_up.bias", "mlp.experts.gate_up_proj_bias", RULE_ODD),
    STACKED("experts.%u.w_down", "mlp.experts.down_proj", N_DIM, N_EXPERT_FFN, RULE_TRANSPOSED, {0},
            {0}),
    STACKED("experts.%u.w_down.bias", "mlp.experts.down_proj_bias", N_ONE, N_DIM, 0, {0}, {0}),
    LLAMA_END,
    {0},
};

/* ---- Fields that no key gives, and keys that a rule cannot describe ---- */

static void chosen_preset(Config *config) {
    config->router = ROUTER_SOFTMAX_CHOSEN;
    config->rope_theta = 1e6f;
}

static Status window_finish(const json_t *json, Config *config, Error *error) {
    return family_windows(json, config, 0, 0, 0, error);
}

/* With norm_topk_prob the weights of the chosen experts add up to 1, which is the softmax over the
 * chosen. */
static Status normalized_shares(const json_t *json, Config *config, Error *error) {
    if (json_flag(json, "norm_topk_prob", false)) config->router = ROUTER_SOFTMAX_CHOSEN;
    return family_refuse(json, "use_sliding_window", false, error);
}

static void qwen3_preset(Config *config) {
    config->qk_norm = QK_NORM_HEAD;
}

static void olmoe_preset(Config *config) {
    config->qk_norm = QK_NORM_ALL;
}

static void granitemoe_preset(Config *config) {
    config->router = ROUTER_SOFTMAX_CHOSEN;
}

static void phimoe_preset(Config *config) {
    config->norm = NORM_LAYER;
    config->router = ROUTER_SPARSE_MIXER;
    config->rope_theta = 1e6f;
}

static void gpt_oss_preset(Config *config) {
    config->router = ROUTER_SOFTMAX_CHOSEN;
    config->rope_theta = 150000.0f;
}

static Status gpt_oss_finish(const json_t *json, Config *config, Error *error) {
    config->activation = ACTIVATION_GELU_QUICK;
    return family_windows(json, config, 128, 0, 2, error);
}

const Family families_experts[] = {
    {"mixtral", mixtral_config, mixtral_tensors, chosen_preset, window_finish, .bos_id = 1,
     .eos_id = 2},
    {"qwen2_moe", qwen_config, qwen2_tensors, .finish = normalized_shares, .bos_id = -1,
     .eos_id = -1},
    {"qwen3_moe", qwen_config, qwen3_tensors, qwen3_preset, normalized_shares, .bos_id = -1,
     .eos_id = -1},
    {"olmoe", olmoe_config, olmoe_tensors, olmoe_preset, normalized_shares, .bos_id = -1,
     .eos_id = 50279},
    {"granitemoe", granitemoe_config, granitemoe_tensors, granitemoe_preset, family_divide_logits,
     .bos_id = 1, .eos_id = 2},
    {"phimoe", phimoe_config, mixtral_tensors, phimoe_preset, window_finish, .bos_id = 1,
     .eos_id = 2},
    {"gpt_oss", gpt_oss_config, gpt_oss_tensors, gpt_oss_preset, gpt_oss_finish, .bos_id = -1,
     .eos_id = 200002},
    {0},
};
