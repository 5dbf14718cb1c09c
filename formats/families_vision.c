/* The text half of models that also read images or sound. Their other tensors are left out, and
 * the positions of M-RoPE are plain positions, because its three are equal in a text. */
#include "formats/expert_rules.h"
#include "formats/family_rules.h"
#include "formats/json.h"

/* ---- Keys ---- */

/* The heads are as wide as hidden_size allows: these classes read no head_dim. */
#define NARROW_KEYS(kv_heads, positions, eps)                                                      \
    KV_HEADS(kv_heads), CONTEXT(positions), {"rms_norm_eps", "norm_eps", eps}, {                   \
        "hidden_act", "activation", ACTIVATION_SILU                                                \
    }
static const ConfigRule qwen2_config[] = {
    SIZE_KEYS(152064, 8192, 29568, 80, 64), NARROW_KEYS(8, 32768, 1e-5), {0}};
static const ConfigRule qwen2_omni_config[] = {
    SIZE_KEYS(152064, 3584, 18944, 28, 28), NARROW_KEYS(4, 32768, 1e-6), {0}};
static const ConfigRule paddleocr_config[] = {
    SIZE_KEYS(103424, 1024, 3072, 18, 16), LLAMA_KEYS(2, 128, 131072, "rms_norm_eps", 1e-5), {0}};
static const ConfigRule qwen3_config[] = {
    SIZE_KEYS(151936, 4096, 22016, 32, 32), LLAMA_KEYS(32, 128, 128000, "rms_norm_eps", 1e-6), {0}};
static const ConfigRule glm4v_config[] = {
    SIZE_KEYS(151552, 4096, 13696, 40, 32), NARROW_KEYS(2, 32768, 1e-5), {0}};
static const ConfigRule phi4_config[] = {
    SIZE_KEYS(200064, 3072, 8192, 32, 32), LLAMA_KEYS(8, 0, 131072, "rms_norm_eps", 1e-5), {0}};

/* The first files have other names beside or for two sizes, which count before the usual ones. */
static const ConfigRule hunyuan_config[] = {
    {"org_vocab_size|vocab_size", "vocab_size", 290943},
    {"hidden_size", "dim", 4096},
    {"intermediate_size", "ffn_dim", 11008},
    {"num_hidden_layers", "n_layers", 32},
    {"num_attention_heads", "n_heads", 32},
    {"attention_head_dim|head_dim", "head_dim", 0},
    KV_HEADS(0),
    CONTEXT(2048),
    {"rms_norm_eps", "norm_eps", 1e-5},
    {"hidden_act", "activation", ACTIVATION_SILU},
    {0},
};
static const ConfigRule aria_config[] = {
    SIZE_KEYS(32000, 4096, 4096, 32, 32),          LLAMA_KEYS(0, 0, 2048, "rms_norm_eps", 1e-6),
    {"moe_num_experts", "n_experts", 8},           {"moe_topk", "n_experts_used", 2},
    {"intermediate_size", "expert_ffn_dim", 4096}, {0},
};

static const ConfigRule muse_config[] = {
    SIZE_KEYS(202048, 6656, 19968, 52, 32),
    KV_HEADS(2),
    HEAD_DIM(128),
    CONTEXT(131072),
    {"rms_norm_eps", "norm_eps", 1e-5},
    {"post_norm_eps", "post_norm_eps", 1e-8},
    {"hidden_activation", "activation", ACTIVATION_SILU},
    {"output_multiplier", "logit_scale", 0.19611613513818404},
    {"final_logit_softcapping", "logit_softcap", 20},
    {0},
};

/* ---- Biases ---- */

static const BiasRule qkv_biases[] = {{QKV, NULL, true}, {0}};
static const BiasRule paddleocr_biases[] = {{QKVO GATED, "use_bias", false}, {0}};
static const BiasRule attention_biases[] = {{QKVO, "attention_bias", false}, {0}};

static const BiasRule aria_biases[] = {
    {QKVO, "attention_bias", false},
    {" shared.w_up shared.w_down shared.w_gate ", "mlp_bias", false},
    {0}};

/* The experts' activation is SiLU, whatever that of the shared one is. */
static const FixedKey aria_fixed[] = {{"hidden_act", "\"silu\""}, {0}};

/* ---- Tensors ---- */

static const TensorRule llama_tensors[] = {LLAMA_EMBEDDING, LLAMA_NORMS, LLAMA_ATTENTION,
                                           LLAMA_FFN,       LLAMA_END,   {0}};
static const TensorRule qwen3_tensors[] = {
    LLAMA_EMBEDDING, LLAMA_NORMS, LLAMA_ATTENTION, QK_NORMS(N_HEAD, N_HEAD), LLAMA_FFN,
    LLAMA_END,       {0}};
static const TensorRule glm4v_tensors[] = {
    LLAMA_EMBEDDING,
    LLAMA_NORMS,
    LLAMA_ATTENTION,
    NORM("post_attention_norm", FROM_LAYER "post_self_attn_layernorm"),
    FUSED_GATE_UP(FROM_LAYER "mlp.gate_up_proj"),
    LINEAR("w_down", FROM_LAYER "mlp.down_proj", N_DIM, N_FFN),
    NORM("post_ffn_norm", FROM_LAYER "post_mlp_layernorm"),
    LLAMA_END,
    {0},
};
/* `base` stands between a matrix's name and ".weight": where adapters for images and sound lie
 * beside it, the matrix that a text uses is called base_layer. */
#define PHI4(base)                                                                                 \
    {                                                                                              \
        LLAMA_EMBEDDING, LLAMA_NORMS, FUSED_QKV(FROM_LAYER "self_attn.qkv_proj" base, 0),          \
            LINEAR("wo", FROM_LAYER "self_attn.o_proj" base, N_DIM, N_Q),                          \
            FUSED_GATE_UP(FROM_LAYER "mlp.gate_up_proj" base),                                     \
            LINEAR("w_down", FROM_LAYER "mlp.down_proj" base, N_DIM, N_FFN), LLAMA_END, {          \
            0                                                                                      \
        }                                                                                          \
    }
static const TensorRule phi4_tensors[] = PHI4(""), phi4mm_tensors[] = PHI4(".base_layer");

static const TensorRule hunyuan_tensors[] = {
    LLAMA_EMBEDDING, LLAMA_NORMS, LLAMA_ATTENTION, HUNYUAN_NORMS, LLAMA_FFN, LLAMA_END, {0}};
static const TensorRule aria_tensors[] = {
    LLAMA_EMBEDDING,
    LLAMA_NORMS,
    LLAMA_ATTENTION,
    LINEAR("router", FROM_LAYER "mlp.router", N_EXPERTS, N_DIM),
    STACKED_EXPERTS("mlp.experts.fc1.weight", "mlp.experts.fc2.weight", RULE_TRANSPOSED),
    SHARED("mlp.shared_experts."),
    LLAMA_END,
    {0},
};

static const TensorRule muse_tensors[] = {
    LLAMA_EMBEDDING,
    NORM_PLUS_ONE("attention_norm", FROM_LAYER "input_layernorm", N_DIM),
    LLAMA_ATTENTION,
    {"attention_gate", FROM_LAYER "self_attn.gate_proj.weight", N_OUT, N_DIM, 0, {0}, {0}},
    NORM_PLUS_ONE("post_attention_norm", FROM_LAYER "post_attention_layernorm", N_DIM),
    NORM_PLUS_ONE("ffn_norm", FROM_LAYER "pre_feedforward_layernorm", N_DIM),
    LLAMA_FFN,
    NORM_PLUS_ONE("post_ffn_norm", FROM_LAYER "post_feedforward_layernorm", N_DIM),
    LLAMA_END,
    {0},
};

/* ---- Fields that no key gives, and keys that a rule cannot describe ---- */

static void qwen2_preset(Config *config) {
    config->rope_theta = 1e6f;
}

static Status qwen2_finish(const json_t *json, Config *config, Error *error) {
    if (!json_flag(json, "use_sliding_window", false)) return family_no_windows(json, error);
    double first = json_number(json, "max_window_layers", 80);
    return family_windows(json, json_value(json, "layer_types"), config, 4096,
                          first > 0 ? (uint32_t)fmin(first, 1e6) : 0, 0, error);
}

/* As in Qwen 2.5 VL, but for the absent values. */
static Status qwen2_omni_finish(const json_t *json, Config *config, Error *error) {
    if (!json_flag(json, "use_sliding_window", false)) return family_no_windows(json, error);
    double first = json_number(json, "max_window_layers", 28);
    return family_windows(json, json_value(json, "layer_types"), config, 32768,
                          first > 0 ? (uint32_t)fmin(first, 1e6) : 0, 0, error);
}

static void paddleocr_preset(Config *config) {
    config->rope_theta = 500000.0f;
}

static void qwen3_preset(Config *config) {
    config->qk_norm = QK_NORM_HEAD;
    config->rope_theta = 500000.0f;
}

static void glm4v_preset(Config *config) {
    config->norm_place = NORM_AROUND;
    config->rope_pairing = ROPE_INTERLEAVED;
}

static void hunyuan_preset(Config *config) {
    config->qk_norm = QK_NORM_HEAD;
    config->qk_norm_after_rope = true;
}

static void aria_preset(Config *config) {
    config->router = ROUTER_SOFTMAX_CHOSEN;
}

static Status aria_finish(const json_t *json, Config *config, Error *error) {
    return family_shared_width(json, "moe_num_shared_experts", 2, config, error);
}

static Status phi4_finish(const json_t *json, Config *config, Error *error) {
    return family_windows(json, NULL, config, 0, 0, 0, error);
}

static void muse_preset(Config *config) {
    config->norm_place = NORM_AROUND;
    config->qk_norm = QK_NORM_HEAD;
}

/* Full layers without RoPE are every 4th, counted backward from the last, unless lists say which.
 */
static Status muse_finish(const json_t *json, Config *config, Error *error) {
    const json_t *thetas = json_value(json, "layer_rope_theta");
    json_t *types = json_incref((json_t *)json_value(json, "layer_types"));
    if (!types) {
        types = json_array();
        for (uint32_t i = 0; i < config->n_layers; i++)
            json_array_append_new(types,
                                  json_string((config->n_layers - 1 - i) % 4 ? "sliding_attention"
                                                                             : "full_attention"));
    }
    Status status = family_windows(json, types, config, 2048, 0, 0, error);
    json_decref(types);
    if (thetas && json_array_size(thetas) < config->n_layers)
        return error_set(error, "config.json: layer_rope_theta is not a list of %u layers",
                         config->n_layers);
    for (uint32_t i = 0; i < config->n_layers; i++) {
        bool rotated = thetas ? json_number_value(json_array_get(thetas, i)) != 0.0
                              : (config->n_layers - 1 - i) % 4 != 0;
        config->rope_table[i] = rotated ? 0 : 2;
    }
    config->attention_scale *= (float)json_number(json, "qk_scale_factor", 3.87);
    return status == STATUS_OK ? family_refuse_zero(json, "final_logit_softcapping", error)
                               : status;
}

/* Adds the norm of the embeddings, which has no weights. */
static Status muse_more(const RuleContext *c, const json_t *json, Error *error) {
    (void)json;
    return family_add_ones(c, "embedding_norm", c->source->config.dim, error);
}

#define PHI4_ROPE                                                                                  \
    {                                                                                              \
        .part = "partial_rotary_factor", .part_absent = 1, .original_context = 4096,               \
        .yarn_is_longrope = true                                                                   \
    }

const Family families_vision[] = {
    {"qwen2_vl_text", qwen2_config, llama_tensors, qwen2_preset, qwen2_finish, .biases = qkv_biases,
     .rope = {.has_sections = true}, .bos_id = 151643, .eos_id = 151645},
    {"qwen2_5_vl_text", qwen2_config, llama_tensors, qwen2_preset, qwen2_finish,
     .biases = qkv_biases, .rope = {.has_sections = true}, .bos_id = 151643, .eos_id = 151645},
    {"qwen2_5_omni_text", qwen2_omni_config, llama_tensors, qwen2_preset, qwen2_omni_finish,
     .biases = qkv_biases, .rope = {.has_sections = true}, .tied = true, .bos_id = -1,
     .eos_id = -1},
    {"paddleocr_vl_text", paddleocr_config, llama_tensors, paddleocr_preset,
     .biases = paddleocr_biases, .rope = {.has_sections = true}, .tied = true, .bos_id = 1,
     .eos_id = 2},
    {"qwen3_vl_text", qwen3_config, qwen3_tensors, qwen3_preset, .biases = attention_biases,
     .rope = {.has_sections = true}, .bos_id = -1, .eos_id = -1},
    {"glm4v_text", glm4v_config, glm4v_tensors, glm4v_preset, .biases = qkv_biases,
     .rope = {.part = "partial_rotary_factor", .part_absent = 1, .has_sections = true},
     .bos_id = -1, .eos_id = -1},
    {"hunyuan_vl_text", hunyuan_config, hunyuan_tensors, hunyuan_preset, .biases = attention_biases,
     .rope = {.has_alpha = true, .has_xdrope = true}, .tied = true, .bos_id = 1, .eos_id = 2},
    {"aria_text", aria_config, aria_tensors, aria_preset, aria_finish, .biases = aria_biases,
     .fixed = aria_fixed, .bos_id = 1, .eos_id = 2},
    {"muse_glimmer_text", muse_config, muse_tensors, muse_preset, muse_finish, .more = muse_more,
     .biases = attention_biases, .bos_id = 200000, .eos_id = 200001},
    {"phi4_multimodal", phi4_config, phi4_tensors, .finish = phi4_finish, .rope = PHI4_ROPE,
     .reads_text_alone = true, .bos_id = 199999, .eos_id = 199999, .more_eos_ids = {200020}},
    {"phi4mm", phi4_config, phi4mm_tensors, .finish = phi4_finish, .rope = PHI4_ROPE,
     .reads_text_alone = true, .bos_id = 199999, .eos_id = 199999, .more_eos_ids = {200020}},
    {0},
};
