/* Mistral Large 4: latent attention with indexers of the layer's input. */
#include "families/shared.h"

static FamilyFinish mistral_large4_finish;

const Family families_mistral_large4[] = {
    {
        .model_type = "mistral_large4_text",
        .set = SET({"rope_pairing", ROPE_INTERLEAVED}, {"router", ROUTER_SOFTMAX_SCORES},
                   {"router_normalize", 1}, {"latent_norm_eps", 1e-6}, {"index_interleaved", 1},
                   {"whole_unrotated", 1}, {"router_group_pairs", 1}, {"router_groups_zero", 1}),
        .keys = KEYS(
            SIZE_KEYS(204800, 6144, 24576, 72, 64), {"kv_lora_rank", "latent_dim", 512},
            {"qk_nope_head_dim", "head_dim", 64}, {"qk_rope_head_dim", "rotary_dim", 64},
            {"v_head_dim", "value_dim", 128}, CONTEXT(1048576), {"rms_norm_eps", "norm_eps", 1e-5},
            {"hidden_act", "activation", ACTIVATION_SILU},
            {"num_experts|n_routed_experts|num_local_experts", "n_experts", 128},
            {"num_experts_per_tok", "n_experts_used", 4},
            {"moe_intermediate_size", "expert_ffn_dim", 6144}, {"n_group", "router_groups", 1},
            {"topk_group", "router_groups_used", 1}, {"routed_scaling_factor", "router_scale", 1},
            {"final_logit_softcapping", "logit_softcap", 30}, {"index_topk", "index_topk", 2048},
            {"index_head_dim", "index_dim", 128}, {"index_n_heads", "index_heads", 32}),
        .biases = BIASES({" wkv_a wo ", "attention_bias", false},
                         {" indexer.k_norm indexer.q_norm ", NULL, true}),
        .tensors =
            (const TensorRule[]){
                EMBEDDING("model.tok_embeddings"),
                NORM("attention_norm", ".attention_norm"),
                NORM("ffn_norm", ".ffn_norm"),
                LINEAR("wq", ".attention.wq", "n_heads * head_dim", "dim"),
                VECTOR("q_scale", ".attention.ssmax_scaling.s", "n_heads", .optional = true),
                VECTOR("q_offset", ".attention.ssmax_scaling.b", "n_heads", .optional = true),
                LINEAR("wkv_a", ".attention.wkv_a_with_mqa", "latent_dim + rotary_dim", "dim",
                       .own_keys = true),
                VECTOR("kv_norm", ".attention.kv_a_norm.weight", "latent_dim", .own_keys = true),
                HEADS_OF_LATENT(".attention.wkv_b.weight"),
                LINEAR("wo", ".attention.wo", "dim", "n_heads * value_dim"),
                MATRIX("indexer.wq", ".attention.indexer.wq_b.weight", "index_heads * index_dim",
                       "dim", .optional = true),
                MATRIX("indexer.wk", ".attention.indexer.wk.weight", "index_dim", "dim",
                       .optional = true),
                NORM("indexer.q_norm", ".attention.indexer.q_input_norm", .optional = true),
                NORM("indexer.k_norm", ".attention.indexer.k_norm", "index_dim", .optional = true),
                MATRIX("indexer.weights", ".attention.indexer.weights_proj.weight", "index_heads",
                       "dim", .optional = true),
                VECTOR("indexer.q_scale", ".attention.indexer.ssmax_scaling.s", "index_heads",
                       .optional = true),
                VECTOR("indexer.q_offset", ".attention.indexer.ssmax_scaling.b", "index_heads",
                       .optional = true),
                MATRIX("w_gate", ".feed_forward.w1.weight", "ffn_dim", "dim", .optional = true),
                MATRIX("w_up", ".feed_forward.w3.weight", "ffn_dim", "dim", .optional = true),
                MATRIX("w_down", ".feed_forward.w2.weight", "dim", "ffn_dim", .optional = true),
                MATRIX("router", ".gate.weight", "n_experts", "dim", .optional = true),
                SOME_W123_EXPERTS(".experts."),
                MATRIX("shared.w_gate", ".shared_experts.w1.weight", "shared_ffn_dim", "dim",
                       .optional = true),
                MATRIX("shared.w_up", ".shared_experts.w3.weight", "shared_ffn_dim", "dim",
                       .optional = true),
                MATRIX("shared.w_down", ".shared_experts.w2.weight", "dim", "shared_ffn_dim",
                       .optional = true),
                NORM("final_norm", "model.norm"),
                OUTPUT("output"),
                {0},
            },
        .rope = {.absent = "{\"rope_type\": \"yarn\", \"rope_theta\": 10000.0, \"factor\": 2048.0, "
                           "\"original_max_position_embeddings\": 512, \"beta_fast\": 32.0, "
                           "\"beta_slow\": 1.0, \"attention_factor\": 1.0}",
                 .learned = "model.lerope.alpha"},
        .bos_id = 1,
        .eos_id = 2,
        .steps = STEPS(STEP("rope_layers", "listed"), STEP("shared_width", "n_shared_experts 1")),
        .finish = mistral_large4_finish,
    },
    {0},
};

#define MISTRAL_LARGE4_ROPE                                                                        \
    {                                                                                              \
        .absent = "{\"rope_type\": \"yarn\", \"rope_theta\": 10000.0, \"factor\": 2048.0, "        \
                  "\"original_max_position_embeddings\": 512, \"beta_fast\": 32.0, "               \
                  "\"beta_slow\": 1.0, \"attention_factor\": 1.0}",                                \
        .learned = "model.lerope.alpha"                                                            \
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
    config->latent.norm_eps = config->norm_eps;
    if (family_refuse_zero(json, "final_logit_softcapping", error) != STATUS_OK ||
        family_indexers(json, config, error) != STATUS_OK)
        return STATUS_FAILED;
    if (share_latents(json, config, error) != STATUS_OK) return STATUS_FAILED;
    return family_latent_heads(json, &rope, config, error);
}
