/* Families most of whose layers keep a state instead of keys and values: gated DeltaNet, Mamba,
 * short convolutions. */
#include <stdio.h>
#include <string.h>

#include "formats/expert_rules.h"
#include "formats/json.h"

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

/* ---- Tensors ---- */

/* One tensor that only some layers have; opening the converted model fails when one is missing. */
#define SOME(to, from, rows, cols, flags, ...)                                                     \
    { to, FROM_LAYER from, rows, cols, RULE_OPTIONAL | (flags), __VA_ARGS__ }
#define SOME_MATRIX(to, from, rows, cols) SOME(to, from ".weight", rows, cols, 0, {0}, {0})
#define SOME_VECTOR(to, from, n) SOME(to, from, N_ONE, n, 0, {0}, {0})

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
#define DELTA_REST                                                                                 \
    SOME_MATRIX("delta.out", "linear_attn.out_proj", N_DIM, N_STATE_OUT),                          \
        SOME("delta.convolution", "linear_attn.conv1d.weight", N_STATE_TAPS, N_STATE_MIXED,        \
             RULE_VECTOR | RULE_TRANSPOSED, {0}, {0}),                                             \
        SOME("delta.decay", "linear_attn.A_log", N_ONE, N_STATE_HEADS, RULE_MINUS_EXP, {0}, {0}),  \
        SOME_VECTOR("delta.step_bias", "linear_attn.dt_bias", N_STATE_HEADS),                      \
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
        DELTA_REST
#define QWEN_PART(to, rows, ...)                                                                   \
    SOME(to, "linear_attn.in_proj_qkv.weight", rows, N_DIM, 0, __VA_ARGS__, {N_STATE_MIXED})
#define QWEN_DELTA                                                                                 \
    QWEN_PART("delta.q", N_STATE_KEYS, {N_NONE}),                                                  \
        QWEN_PART("delta.k", N_STATE_KEYS, {N_STATE_KEYS}),                                        \
        SOME("delta.v", "linear_attn.in_proj_qkv.weight", N_STATE_OUT, N_DIM, 0,                   \
             {N_STATE_KEYS, N_STATE_KEYS}, {N_STATE_MIXED}),                                       \
        SOME_MATRIX("delta.z", "linear_attn.in_proj_z", N_STATE_OUT, N_DIM),                       \
        SOME_MATRIX("delta.b", "linear_attn.in_proj_b", N_STATE_HEADS, N_DIM),                     \
        SOME_MATRIX("delta.a", "linear_attn.in_proj_a", N_STATE_HEADS, N_DIM), DELTA_REST
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

/* ---- Fields that no key gives, and keys that a rule cannot describe ---- */

/* What a name in layer_types means. */
typedef struct KindName {
    const char *name;
    LayerKindNumber kind;
} KindName;

/* Sets layer_kind from layer_types. */
static Status read_kinds(const json_t *types, const KindName *names, Config *config, Error *error) {
    if (json_array_size(types) < config->n_layers)
        return error_set(error, "config.json: layer_types is not a list of %u layers",
                         config->n_layers);
    for (uint32_t l = 0; l < config->n_layers; l++) {
        const char *type = json_string_value(json_array_get(types, l));
        const KindName *name = names;
        while (name->name && !(type && strcmp(type, name->name) == 0)) name++;
        if (!name->name)
            return error_set(error, "config.json: layer type '%.40s' is not known",
                             type ? type : "(no text)");
        config->layer_kind[l] = name->kind;
    }
    return STATUS_OK;
}

static void qwen_preset(Config *config) {
    config->qk_norm = QK_NORM_HEAD;
}

/* Without layer_types every full_attention_interval-th layer attends. */
static Status qwen3_5_finish(const json_t *json, Config *config, Error *error) {
    static const KindName names[] = {
        {"linear_attention", LAYER_DELTA}, {"full_attention", LAYER_ATTENTION}, {0}};
    const json_t *types = json_value(json, "layer_types");
    if (types) return read_kinds(types, names, config, error);
    double interval = json_number(json, "full_attention_interval", 4);
    if (!(interval >= 1 && interval <= 1e6))
        return error_set(error, "config.json: full_attention_interval is %g", interval);
    for (uint32_t l = 0; l < config->n_layers; l++)
        config->layer_kind[l] = (l + 1) % (uint32_t)interval ? LAYER_DELTA : LAYER_ATTENTION;
    return STATUS_OK;
}

static Status qwen3_next_finish(const json_t *json, Config *config, Error *error) {
    if (json_flag(json, "norm_topk_prob", true)) config->router = ROUTER_SOFTMAX_CHOSEN;
    return qwen3_5_finish(json, config, error);
}

static void qwen3_5_moe_preset(Config *config) {
    config->router = ROUTER_SOFTMAX_CHOSEN;
    qwen_preset(config);
}

#define QUARTER                                                                                    \
    { .part = "partial_rotary_factor", .part_absent = 0.25 }

const Family families_state[] = {
    {"qwen3_next", qwen3_next_config, qwen3_next_tensors, qwen_preset, qwen3_next_finish,
     .fixed = qwen_fixed, .rope = QUARTER, .bos_id = -1, .eos_id = -1},
    {"qwen3_5_text", qwen3_5_config, qwen3_5_tensors, qwen_preset, qwen3_5_finish,
     .fixed = qwen_fixed, .rope = QUARTER, .bos_id = -1, .eos_id = -1},
    {"qwen3_5_moe_text", qwen3_5_moe_config, qwen3_5_moe_tensors, qwen3_5_moe_preset,
     qwen3_5_finish, .fixed = qwen_fixed, .rope = QUARTER, .bos_id = -1, .eos_id = -1},
    {0},
};
