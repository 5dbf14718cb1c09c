/* Families with latent attention (layers/latent.h): DeepSeek V2 and V3, and what follows them. */
#include <string.h>

#include "formats/expert_rules.h"
#include "formats/json.h"

/* ---- Keys ---- */

/* The widths of the latents and of a head's parts; head_dim is completed by latent_finish. */
#define LATENT_KEYS(kv, q, rest, rotated, value)                                                   \
    {"kv_lora_rank", "latent_dim", kv}, {"q_lora_rank", "latent_q_dim", q},                        \
        {"qk_nope_head_dim", "head_dim", rest}, {"qk_rope_head_dim", "rotary_dim", rotated}, {     \
        "v_head_dim", "value_dim", value                                                           \
    }
#define REST_KEYS(positions, epsilon)                                                              \
    CONTEXT(positions), {"rms_norm_eps", "norm_eps", epsilon}, {                                   \
        "hidden_act", "activation", ACTIVATION_SILU                                                \
    }

static const ConfigRule deepseek_v2_config[] = {
    SIZE_KEYS(102400, 4096, 11008, 32, 32),
    LATENT_KEYS(512, 1536, 128, 64, 128),
    REST_KEYS(2048, 1e-6),
    EXPERT_KEYS("n_routed_experts|num_experts", 64, REQUIRED, "moe_intermediate_size", 1407),
    {"n_group", "router_groups", 0},
    {"topk_group", "router_groups_used", 0},
    {"routed_scaling_factor", "router_scale", 1},
    {0},
};
static const ConfigRule deepseek_v3_config[] = {
    SIZE_KEYS(129280, 7168, 18432, 61, 128),
    LATENT_KEYS(512, 1536, 128, 64, 128),
    REST_KEYS(4096, 1e-6),
    EXPERT_KEYS(ROUTED_EXPERTS, 256, 8, "moe_intermediate_size", 2048),
    {"n_group", "router_groups", 8},
    {"topk_group", "router_groups_used", 4},
    {"norm_topk_prob", "router_normalize", 1},
    {"routed_scaling_factor", "router_scale", 2.5},
    {0},
};
static const ConfigRule glm4_moe_lite_config[] = {
    SIZE_KEYS(154880, 2048, 10240, 47, 20),
    LATENT_KEYS(512, 768, 192, 64, 256),
    REST_KEYS(202752, 1e-5),
    EXPERT_KEYS(ROUTED_EXPERTS, 64, 4, "moe_intermediate_size", 1536),
    GROUP_KEYS(1, 1.8),
    {0},
};
static const ConfigRule mistral4_config[] = {
    SIZE_KEYS(131072, 4096, 12288, 36, 32),
    LATENT_KEYS(256, 1024, 64, 64, 128),
    REST_KEYS(1048576, 1e-6),
    EXPERT_KEYS(ROUTED_EXPERTS, 128, 4, "moe_intermediate_size", 2048),
    GROUP_KEYS(1, 1),
    {0},
};
/* Its RoPE where config.json has no parameters. */
#define MISTRAL4_ROPE                                                                              \
    {                                                                                              \
        .absent = "{\"type\": \"yarn\", \"factor\": 128.0, \"beta_fast\": 32.0, "                  \
                  "\"beta_slow\": 1.0, \"original_max_position_embeddings\": 8192, "               \
                  "\"mscale\": 1.0, \"mscale_all_dim\": 1.0, \"llama_4_scaling_beta\": 0.1}"       \
    }
static const ConfigRule youtu_config[] = {
    SIZE_KEYS(128256, 2048, 6144, 32, 16),
    LATENT_KEYS(512, 1536, 128, 64, 128),
    REST_KEYS(131072, 1e-6),
    {0},
};
static const ConfigRule minicpm3_config[] = {
    SIZE_KEYS(73448, 2560, 6400, 62, 40),
    LATENT_KEYS(256, 768, 64, 32, 0),
    REST_KEYS(32768, 1e-5),
    {"scale_emb", "embedding_scale", 12},
    {0},
};

/* ---- Biases ---- */

#define LATENT_BIASES                                                                              \
    { " wq_a wkv_a wo ", "attention_bias", false }
static const BiasRule attention_biases[] = {LATENT_BIASES, {0}};
static const BiasRule all_biases[] = {LATENT_BIASES, {DENSE_AND_SHARED, "mlp_bias", false}, {0}};

/* ---- Tensors ---- */

/* The matrix that makes keys and values of the latent holds for each head first the key's rows. */
#define KV_B FROM_LAYER "self_attn.kv_b_proj.weight"
#define LATENT_ATTENTION                                                                           \
    MAYBE("wq", "self_attn.q_proj", N_Q, N_DIM),                                                   \
        MAYBE_LINEAR("wq_a", "self_attn.q_a_proj", N_LATENT_Q, N_DIM),                             \
        MAYBE("q_norm", "self_attn.q_a_layernorm", N_ONE, N_LATENT_Q),                             \
        MAYBE("wq_b", "self_attn.q_b_proj", N_Q, N_LATENT_Q),                                      \
        LINEAR("wkv_a", FROM_LAYER "self_attn.kv_a_proj_with_mqa", N_LATENT_KV, N_DIM),            \
        {"kv_norm", FROM_LAYER "self_attn.kv_a_layernorm.weight", N_ONE, N_LATENT, 0, {0}, {0}},   \
        {"k_b.%u",         KV_B, N_LATENT, N_REST, RULE_HEADS | RULE_TRANSPOSED, {N_NONE},         \
         {N_REST, N_VALUE}},                                                                       \
        {"v_b.%u", KV_B, N_VALUE, N_LATENT, RULE_HEADS, {N_REST}, {N_REST, N_VALUE}},              \
        LINEAR("wo", FROM_LAYER "self_attn.o_proj", N_DIM, N_OUT)

/* Files of Mistral 4 stack the experts: gate and up of all in one tensor, down in another. */
#define STACKED_EXPERTS                                                                            \
    {"experts.%u.w_gate",                                                                          \
     FROM_LAYER "mlp.experts.gate_up_proj",                                                        \
     N_EXPERT_FFN,                                                                                 \
     N_DIM,                                                                                        \
     RULE_OPTIONAL,                                                                                \
     {0},                                                                                          \
     {N_EXPERT_FFN, N_EXPERT_FFN}},                                                                \
        {"experts.%u.w_up",                                                                        \
         FROM_LAYER "mlp.experts.gate_up_proj",                                                    \
         N_EXPERT_FFN,                                                                             \
         N_DIM,                                                                                    \
         RULE_OPTIONAL,                                                                            \
         {N_EXPERT_FFN},                                                                           \
         {N_EXPERT_FFN, N_EXPERT_FFN}},                                                            \
        OPTIONAL("experts.%u.w_down", FROM_LAYER "mlp.experts.down_proj", N_DIM, N_EXPERT_FFN)

static const TensorRule experts_tensors[] = {
    LLAMA_EMBEDDING,
    LLAMA_NORMS,
    LATENT_ATTENTION,
    DENSE_OR_EXPERTS,
    STACKED_EXPERTS,
    DENSE_BIASES,
    CORRECTION("mlp.gate.e_score_correction_bias"),
    SHARED("mlp.shared_experts."),
    LLAMA_END,
    {0},
};
static const TensorRule dense_tensors[] = {
    LLAMA_EMBEDDING, LLAMA_NORMS, LATENT_ATTENTION, LLAMA_FFN, LLAMA_END, {0},
};

/* ---- Fields that no key gives, and keys that a rule cannot describe ---- */

static void latent_preset(Config *config) {
    config->latent_norm_eps = 1e-6f; /* whatever rms_norm_eps says */
    config->rope_pairing = ROPE_INTERLEAVED;
    config->router = ROUTER_SIGMOID_SCORES;
}

static void deepseek_v2_preset(Config *config) {
    latent_preset(config);
    config->router = ROUTER_SOFTMAX_SCORES;
}

static void mistral4_preset(Config *config) {
    deepseek_v2_preset(config);
    config->router_group_pairs = true;
}

static void minicpm3_preset(Config *config) {
    latent_preset(config);
    config->rope_pairing = ROPE_HALVES;
}

/* Completes the widths of heads, and their scale: YaRN's mscale_all_dim multiplies scores. */
static Status complete_heads(const json_t *json, const RopeKeys *rope, Config *config,
                             Error *error) {
    double factor = 1.0;
    if (json_number(json, "qk_nope_head_dim", 1) < 1 || config->head_dim > 1 << 12 ||
        config->rotary_dim == 0 || config->rotary_dim > 1 << 12)
        return error_set(error,
                         "config.json: heads of qk_nope_head_dim %g and qk_rope_head_dim %u cannot "
                         "be computed",
                         json_number(json, "qk_nope_head_dim", config->head_dim),
                         config->rotary_dim);
    if (config->value_dim == 0 || config->latent_dim == 0)
        return error_set(error, "config.json: v_head_dim is %u, kv_lora_rank %u", config->value_dim,
                         config->latent_dim);
    if (rope_score_factor(rope, json, &factor, error) != STATUS_OK) return STATUS_FAILED;
    config->head_dim += config->rotary_dim;
    config->n_kv_heads = config->n_heads;
    config->attention_scale = (float)(1.0 / sqrt((double)config->head_dim) * factor);
    for (uint32_t i = 0; i < config->n_layers; i++) config->layer_kind[i] = LAYER_LATENT;
    return STATUS_OK;
}

static const RopeKeys plain_rope;

static Status deepseek_v2_finish(const json_t *json, Config *config, Error *error) {
    const char *method = json_text(json, "topk_method");
    if (!method || strcmp(method, "greedy") == 0) {
        config->router_groups = config->router_groups_used = 0;
    } else if (strcmp(method, "group_limited_greedy") != 0) {
        return error_set(error, "config.json: topk_method '%.40s' is not known", method);
    }
    if (family_shared_width(json, "n_shared_experts", 2, config, error) != STATUS_OK)
        return STATUS_FAILED;
    return complete_heads(json, &plain_rope, config, error);
}

static Status interleave_finish(const json_t *json, Config *config, Error *error) {
    if (!json_flag(json, "rope_interleave", true)) config->rope_pairing = ROPE_HALVES;
    return complete_heads(json, &plain_rope, config, error);
}

static Status deepseek_v3_finish(const json_t *json, Config *config, Error *error) {
    if (family_shared_width(json, "n_shared_experts", 1, config, error) != STATUS_OK)
        return STATUS_FAILED;
    return interleave_finish(json, config, error);
}

static Status mistral4_finish(const json_t *json, Config *config, Error *error) {
    static const RopeKeys rope = MISTRAL4_ROPE;
    if (!json_flag(json, "rope_interleave", true)) config->rope_pairing = ROPE_HALVES;
    if (family_shared_width(json, "n_shared_experts", 1, config, error) != STATUS_OK ||
        family_query_scaling(json, &rope, config, error) != STATUS_OK)
        return STATUS_FAILED;
    return complete_heads(json, &rope, config, error);
}

static Status minicpm3_finish(const json_t *json, Config *config, Error *error) {
    double layers = config->n_layers, width = config->dim;
    const json_t *depth = json_object_get(json, "scale_depth");
    double scale = json_number(json, "scale_depth", depth ? sqrt(layers) : 1.4);
    const json_t *base = json_object_get(json, "dim_model_base");
    double model_base = json_number(json, "dim_model_base", base ? width : 256);
    if (config->value_dim == 0) config->value_dim = config->dim / config->n_heads;
    config->residual_scale = (float)(scale / sqrt(layers));
    config->logit_scale = (float)(model_base / width);
    return complete_heads(json, &plain_rope, config, error);
}

const Family families_latent[] = {
    {"deepseek_v2", deepseek_v2_config, experts_tensors, deepseek_v2_preset, deepseek_v2_finish,
     .biases = all_biases, .bos_id = 1, .eos_id = 2},
    {"deepseek_v3", deepseek_v3_config, experts_tensors, latent_preset, deepseek_v3_finish,
     .biases = attention_biases, .bos_id = 0, .eos_id = 1},
    {"glm4_moe_lite", glm4_moe_lite_config, experts_tensors, latent_preset, deepseek_v3_finish,
     .biases = attention_biases, .bos_id = 0, .eos_id = 1},
    {"mistral4", mistral4_config, experts_tensors, mistral4_preset, mistral4_finish,
     .biases = attention_biases, .rope = MISTRAL4_ROPE, .bos_id = 1, .eos_id = 2},
    {"youtu", youtu_config, dense_tensors, latent_preset, interleave_finish,
     .biases = attention_biases, .tied = true, .bos_id = 128000, .eos_id = 128001},
    {"minicpm3", minicpm3_config, dense_tensors, minicpm3_preset, minicpm3_finish,
     .biases = all_biases, .tied = true, .bos_id = 1, .eos_id = 2},
    {0},
};
