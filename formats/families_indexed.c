/* Families with latent attention whose indexers read the layer's input (layers/indexer.h). */
#include "formats/json.h"
#include "formats/latent_rules.h"

/* ---- Mistral Large 4 ---- */

static const ConfigRule mistral_large4_config[] = {
    SIZE_KEYS(204800, 6144, 24576, 72, 64),
    {"kv_lora_rank", "latent_dim", 512},
    {"qk_nope_head_dim", "head_dim", 64},
    {"qk_rope_head_dim", "rotary_dim", 64},
    {"v_head_dim", "value_dim", 128},
    REST_KEYS(1048576, 1e-5),
    EXPERT_KEYS(ANY_EXPERTS, 128, 4, "moe_intermediate_size", 6144),
    {"n_group", "router_groups", 1},
    {"topk_group", "router_groups_used", 1},
    {"routed_scaling_factor", "router_scale", 1},
    {"final_logit_softcapping", "logit_softcap", 30},
    INDEX_KEYS(32),
    {0},
};
#define MISTRAL_LARGE4_ROPE                                                                        \
    {                                                                                              \
        .absent = "{\"rope_type\": \"yarn\", \"rope_theta\": 10000.0, \"factor\": 2048.0, "        \
                  "\"original_max_position_embeddings\": 512, \"beta_fast\": 32.0, "               \
                  "\"beta_slow\": 1.0, \"attention_factor\": 1.0}",                                \
        .learned = "model.lerope.alpha"                                                            \
    }
static const BiasRule mistral_large4_biases[] = {
    {" wkv_a wo ", "attention_bias", false},
    {" indexer.k_norm indexer.q_norm ", NULL, true},
    {0},
};

/* The names of Mistral's own files, which transformers writes as well. */
#define MISTRAL_KV_B FROM_LAYER "attention.wkv_b.weight"
#define OWN_LATENT(to, from, rows, cols, flags)                                                    \
    {                                                                                              \
        to, FROM_LAYER "attention." from, rows, cols, RULE_OWN_KEYS | (flags), {0}, {              \
            0                                                                                      \
        }                                                                                          \
    }
#define SSMAX(to, at, n)                                                                           \
    OPTIONAL(to "q_scale", FROM_LAYER "attention." at "ssmax_scaling.s", N_ONE, n),                \
        OPTIONAL(to "q_offset", FROM_LAYER "attention." at "ssmax_scaling.b", N_ONE, n)
static const TensorRule mistral_large4_tensors[] = {
    EMBEDDING("model.tok_embeddings"),
    NORM("attention_norm", FROM_LAYER "attention_norm"),
    NORM("ffn_norm", FROM_LAYER "ffn_norm"),
    LINEAR("wq", FROM_LAYER "attention.wq", N_Q, N_DIM),
    SSMAX("", "", N_HEADS),
    OWN_LATENT("wkv_a", "wkv_a_with_mqa.weight", N_LATENT_KV, N_DIM, 0),
    OWN_LATENT("wkv_a.bias", "wkv_a_with_mqa.bias", N_ONE, N_LATENT_KV, RULE_OPTIONAL),
    OWN_LATENT("kv_norm", "kv_a_norm.weight", N_ONE, N_LATENT, 0),
    {"k_b.%u",
     MISTRAL_KV_B,
     N_LATENT,
     N_REST,
     RULE_HEADS | RULE_TRANSPOSED,
     {N_NONE},
     {N_REST, N_VALUE}},
    {"v_b.%u", MISTRAL_KV_B, N_VALUE, N_LATENT, RULE_HEADS, {N_REST}, {N_REST, N_VALUE}},
    LINEAR("wo", FROM_LAYER "attention.wo", N_DIM, N_OUT),
    MAYBE("indexer.wq", "attention.indexer.wq_b", N_INDEX_Q, N_DIM),
    MAYBE("indexer.wk", "attention.indexer.wk", N_INDEX, N_DIM),
    OPTIONAL_NORM("indexer.q_norm", FROM_LAYER "attention.indexer.q_input_norm", N_DIM),
    OPTIONAL_NORM("indexer.k_norm", FROM_LAYER "attention.indexer.k_norm", N_INDEX),
    {"indexer.weights",
     FROM_LAYER "attention.indexer.weights_proj.weight",
     N_INDEX_HEADS,
     N_DIM,
     RULE_OPTIONAL | RULE_MATRIX,
     {0},
     {0}},
    SSMAX("indexer.", "indexer.", N_INDEX_HEADS),
    MAYBE("w_gate", "feed_forward.w1", N_FFN, N_DIM),
    MAYBE("w_up", "feed_forward.w3", N_FFN, N_DIM),
    MAYBE("w_down", "feed_forward.w2", N_DIM, N_FFN),
    MAYBE("router", "gate", N_EXPERTS, N_DIM),
    MAYBE("experts.%u.w_gate", "experts.%u.w1", N_EXPERT_FFN, N_DIM),
    MAYBE("experts.%u.w_up", "experts.%u.w3", N_EXPERT_FFN, N_DIM),
    MAYBE("experts.%u.w_down", "experts.%u.w2", N_DIM, N_EXPERT_FFN),
    MAYBE("shared.w_gate", "shared_experts.w1", N_SHARED_FFN, N_DIM),
    MAYBE("shared.w_up", "shared_experts.w3", N_SHARED_FFN, N_DIM),
    MAYBE("shared.w_down", "shared_experts.w2", N_DIM, N_SHARED_FFN),
    NORM("final_norm", "model.norm"),
    OUTPUT("output"),
    {0},
};

static void mistral_large4_preset(Config *config) {
    mistral4_preset(config);
    config->router_normalize = true;
    config->router_groups_zero = true;
    config->index_interleaved = true;
    config->whole_unrotated = true;
}

/* A layer whose entry in kv_source_layers is another layer reads the latents of the last layer
 * before it that any later layer names and that has RoPE if it has, as in transformers. */
static Status share_latents(const json_t *json, Config *config, Error *error) {
    const json_t *sources = json_value(json, "kv_source_layers");
    uint32_t last[2] = {UINT32_MAX, UINT32_MAX}; /* without RoPE, and with it */
    if (!sources) return STATUS_OK;
    if (json_array_size(sources) != config->n_layers)
        return error_set(error, "config.json: kv_source_layers is not a list of %u layers",
                         config->n_layers);
    for (uint32_t i = 0; i < config->n_layers; i++) {
        const json_t *source = json_array_get(sources, i);
        bool rotated = config->rope_table[i] == 0, named = false;
        if (!json_is_integer(source) || json_integer_value(source) < 0 ||
            json_integer_value(source) > i)
            return error_set(error, "config.json: kv_source_layers has no earlier layer for %u", i);
        if (json_integer_value(source) == i) {
            for (uint32_t k = i + 1; k < config->n_layers; k++)
                named = named || json_integer_value(json_array_get(sources, k)) == i;
            if (named) last[rotated] = i;
        } else if (last[rotated] == UINT32_MAX) {
            return error_set(error,
                             "config.json: kv_source_layers shares layer %d with layer %u, of "
                             "which only one has RoPE",
                             (int)json_integer_value(source), i);
        } else {
            config->kv_distance[i] = i - last[rotated];
        }
    }
    return STATUS_OK;
}

static Status mistral_large4_finish(const json_t *json, Config *config, Error *error) {
    static const RopeKeys rope = MISTRAL_LARGE4_ROPE;
    config->latent_norm_eps = config->norm_eps;
    if (family_refuse_zero(json, "final_logit_softcapping", error) != STATUS_OK ||
        family_no_rope_layers(json, config, error) != STATUS_OK ||
        share_latents(json, config, error) != STATUS_OK ||
        family_indexers(json, config, error) != STATUS_OK ||
        family_shared_width(json, "n_shared_experts", 1, config, error) != STATUS_OK)
        return STATUS_FAILED;
    return latent_heads(json, &rope, config, error);
}

const Family families_indexed[] = {
    {"mistral_large4_text", mistral_large4_config, mistral_large4_tensors, mistral_large4_preset,
     mistral_large4_finish, .biases = mistral_large4_biases, .rope = MISTRAL_LARGE4_ROPE,
     .bos_id = 1, .eos_id = 2},
    {0},
};
