/* Mixtures of experts. */
#include "formats/expert_rules.h"
#include "formats/json.h"

/* ---- Keys ---- */

static const ConfigRule mixtral_config[] = {
    SIZE_KEYS(32000, 4096, 14336, 32, 32),
    MOE_KEYS(8, 0, 131072, 1e-5),
    EXPERT_KEYS(BOTH_NAMES, 8, 2, "intermediate_size", 14336),
    {0},
};
static const ConfigRule qwen2_config[] = {
    SIZE_KEYS(151936, 2048, 5632, 24, 16),
    MOE_KEYS(16, 0, 32768, 1e-6),
    EXPERT_KEYS("num_experts", 60, 4, "moe_intermediate_size", 1408),
    {"shared_expert_intermediate_size", "shared_ffn_dim", 5632},
    {0},
};
static const ConfigRule qwen3_config[] = {
    SIZE_KEYS(151936, 2048, 6144, 24, 32),
    MOE_KEYS(4, 0, 32768, 1e-6),
    EXPERT_KEYS(BOTH_NAMES, 128, 8, "moe_intermediate_size", 768),
    {0},
};
static const ConfigRule olmoe_config[] = {
    SIZE_KEYS(50304, 2048, 2048, 16, 16),
    MOE_KEYS(0, 0, 4096, 1e-5),
    EXPERT_KEYS(BOTH_NAMES, 64, 8, "intermediate_size", 2048),
    {"clip_qkv", "qkv_clip", 0},
    {0},
};
static const ConfigRule phimoe_config[] = {
    SIZE_KEYS(32064, 4096, 6400, 32, 32),
    MOE_KEYS(8, 0, 131072, 1e-5),
    EXPERT_KEYS("num_local_experts", 16, 2, "intermediate_size", 6400),
    {"router_jitter_noise", "router_jitter", 0.01},
    {0},
};
static const ConfigRule granitemoe_config[] = {
    SIZE_KEYS(32000, 4096, 11008, 32, 32),
    MOE_KEYS(0, 0, 2048, 1e-6),
    EXPERT_KEYS("num_local_experts", 8, 2, "intermediate_size", 11008),
    GRANITE_KEYS,
    {0},
};
static const ConfigRule gpt_oss_config[] = {
    SIZE_KEYS(201088, 2880, 2880, 36, 64),
    MOE_KEYS(8, 64, 131072, 1e-5),
    EXPERT_KEYS(BOTH_NAMES, 128, 4, "intermediate_size", 2880),
    {"swiglu_limit", "swiglu_limit", 7},
    {0},
};
/* The gate is QuickGELU, which has this alpha. */
static const FixedKey gpt_oss_fixed[] = {{"swiglu_alpha", "1.702"}, {0}};

/* ---- Biases ---- */

static const BiasRule attention_biases[] = {{QKVO, "attention_bias", false}, {0}};
static const BiasRule qwen2_biases[] = {{QKV, "qkv_bias", true}, {0}};
static const BiasRule phimoe_biases[] = {
    {QKVO, "attention_bias", false}, {" output ", "lm_head_bias", false}, {0}};
static const BiasRule gpt_oss_biases[] = {
    {QKVO, "attention_bias", true}, {" router ", NULL, true}, {0}};

/* ---- Tensors ---- */

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
    return family_windows(json, NULL, config, 0, 0, 0, error);
}

/* With norm_topk_prob the weights of the chosen experts add up to 1, which is the softmax over the
 * chosen. */
static void normalize_shares(const json_t *json, Config *config) {
    if (json_flag(json, "norm_topk_prob", false)) config->router = ROUTER_SOFTMAX_CHOSEN;
}

/* With use_sliding_window every 2nd layer has a window, up to max_window_layers. */
static Status qwen2_finish(const json_t *json, Config *config, Error *error) {
    normalize_shares(json, config);
    if (!json_flag(json, "use_sliding_window", false)) return family_no_windows(json, error);
    const json_t *types = json_value(json, "layer_types");
    double end = json_number(json, "max_window_layers", 28);
    if (family_windows(json, types, config, 4096, 0, 2, error) != STATUS_OK) return STATUS_FAILED;
    for (uint32_t i = 0; !types && i < config->n_layers; i++)
        if (i >= end) config->window[i] = 0;
    return STATUS_OK;
}

static Status qwen3_finish(const json_t *json, Config *config, Error *error) {
    normalize_shares(json, config);
    if (!json_flag(json, "use_sliding_window", false)) return STATUS_OK;
    return family_windows(json, NULL, config, 4096, 0, 0, error);
}

static Status olmoe_finish(const json_t *json, Config *config, Error *error) {
    normalize_shares(json, config);
    return family_refuse_zero(json, "clip_qkv", error);
}

/* The sparse mixer always takes two experts, whatever num_experts_per_tok says. */
static Status phimoe_finish(const json_t *json, Config *config, Error *error) {
    config->n_experts_used = 2;
    return window_finish(json, config, error);
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
    return family_windows(json, json_value(json, "layer_types"), config, 128, 0, 2, error);
}

/* GPT-OSS's RoPE where config.json has no parameters. */
#define GPT_OSS_ROPE                                                                               \
    "{\"rope_type\": \"yarn\", \"factor\": 32.0, \"beta_fast\": 32.0, \"beta_slow\": 1.0, "        \
    "\"truncate\": false, \"original_max_position_embeddings\": 4096}"

const Family families_experts[] = {
    {"mixtral", mixtral_config, mixtral_tensors, chosen_preset, window_finish, .bos_id = 1,
     .eos_id = 2},
    {"qwen2_moe", qwen2_config, qwen2_tensors, .finish = qwen2_finish, .biases = qwen2_biases,
     .bos_id = -1, .eos_id = -1},
    {"qwen3_moe", qwen3_config, qwen3_tensors, qwen3_preset, qwen3_finish,
     .biases = attention_biases, .bos_id = -1, .eos_id = -1},
    {"olmoe", olmoe_config, olmoe_tensors, olmoe_preset, olmoe_finish, .biases = attention_biases,
     .bos_id = -1, .eos_id = 50279},
    {"granitemoe", granitemoe_config, granitemoe_tensors, granitemoe_preset, family_granite,
     .biases = attention_biases, .bos_id = 1, .eos_id = 2},
    {"phimoe", phimoe_config, mixtral_tensors, phimoe_preset, phimoe_finish,
     .biases = phimoe_biases, .rope = {.has_mscales = true}, .bos_id = 1, .eos_id = 2},
    {"gpt_oss", gpt_oss_config, gpt_oss_tensors, gpt_oss_preset, gpt_oss_finish,
     .biases = gpt_oss_biases, .fixed = gpt_oss_fixed, .rope = {.absent = GPT_OSS_ROPE},
     .bos_id = -1, .eos_id = -1},
    {0},
};
