/* MiMo V2 Flash: values narrower than keys, sinks, a RoPE of their own for windows. */
#include "families/shared.h"

static FamilyFinish mimo_v2_flash_finish;

const Family families_mimo_v2_flash[] = {
    {
        .model_type = "mimo_v2_flash",
        .set = SET({"rope_theta", 5e6}, {"router", ROUTER_SIGMOID_SCORES}),
        .keys = KEYS(
            SIZE_KEYS(152576, 4096, 16384, 48, 64), KV_HEADS(4), HEAD_DIM(192), CONTEXT(131072),
            {"rms_norm_eps", "norm_eps", 1e-5}, {"hidden_act", "activation", ACTIVATION_SILU},
            {"v_head_dim", "value_dim", 128},
            {"n_routed_experts|num_local_experts", "n_experts", 256},
            {"num_experts_per_tok", "n_experts_used", 8},
            {"moe_intermediate_size", "expert_ffn_dim", 2048}, {"n_group", "router_groups", 1},
            {"topk_group", "router_groups_used", 1}, {"norm_topk_prob", "router_normalize", 1}),
        .biases = BIASES({QKV, "attention_bias", false}),
        .tensors =
            (const TensorRule[]){
                EMBEDDING("model.embed_tokens"),
                LLAMA_NORMS,
                LINEAR("wq", ".self_attn.q_proj", "n_heads * head_dim", "dim"),
                LINEAR("wk", ".self_attn.k_proj", "n_kv_heads * head_dim", "dim"),
                LINEAR("wv", ".self_attn.v_proj", "n_kv_heads * value_dim", "dim"),
                LINEAR("wo", ".self_attn.o_proj", "dim", "n_heads * value_dim"),
                VECTOR("sinks", ".self_attn.attention_sink_bias", "n_heads", .optional = true),
                DENSE_OR_EXPERTS,
                CORRECTION(".mlp.gate.e_score_correction_bias"),
                LLAMA_END,
                {0},
            },
        .rope = {.theta = "rope_parameters.rope_theta",
                 .part = "rope_parameters.partial_rotary_factor",
                 .part_absent = 0.334,
                 .local_theta = 10000,
                 .local_theta_key = "rope_parameters.rope_theta"},
        .bos_id = 1,
        .eos_id = -1,
        .finish = mimo_v2_flash_finish,
        .gguf =
            (const GgufFamily[]){
                {
                    .architecture = "mimo2",
                    .required = "attention.sliding_window attention.sliding_window_pattern",
                    .set = SET({"router", ROUTER_SIGMOID_SCORES}, {"router_normalize", 1}),
                    /* Values are narrower than keys, and scaled before they are stored. */
                    .keys = GGUF_KEYS({"attention.value_scale", "value_scale"},
                                      {"attention.value_length", "value_dim"}),
                    .tensors =
                        (const TensorRule[]){
                            EMBEDDING("token_embd"),
                            NORM("attention_norm", ".attn_norm"),
                            LINEAR("wq", ".attn_q", "n_heads * head_dim", "dim"),
                            LINEAR("wk", ".attn_k", "n_kv_heads * head_dim", "dim"),
                            LINEAR("wv", ".attn_v", "n_kv_heads * value_dim", "dim"),
                            LINEAR("wo", ".attn_output", "dim", "n_heads * value_dim"),
                            VECTOR("sinks", ".attn_sinks.weight", "n_heads", .optional = true),
                            NORM("ffn_norm", ".ffn_norm"),
                            GGUF_ROUTED,
                            GGUF_END,
                            {0},
                        },
                    .full_every = 6,
                    .local_theta = 10000,
                },
                {0},
            },
    },
    {0},
};

/* Layers with windows have twice the key/value heads and RoPE of their own. Without layer_types the
 * first layer and every 6th have none. Without a partial_rotary_factor transformers rotates a third
 * of a head, or all of it for a rope_type other than the default: refused. */
static Status mimo_v2_flash_finish(const json_t *json, Config *config, Error *error) {
    const json_t *entry;
    const char *name;
    json_object_foreach((json_t *)json_value(json, "rope_parameters"), name, entry) {
        const char *type = json_string_value(json_value(entry, "rope_type"));
        if (type && strcmp(type, "default") != 0 && !json_value(entry, "partial_rotary_factor"))
            return error_set(error,
                             "config.json: rope_parameters.%s has rope_type '%s' without a "
                             "partial_rotary_factor",
                             name, type);
    }
    double before = json_number(json, "sliding_window_size", 0);
    if (family_windows(json, json_value(json, "layer_types"), config, 129, 1, 6, error) !=
        STATUS_OK)
        return STATUS_FAILED;
    if (!(before >= 0 && before < 1 << 28))
        return error_set(error, "config.json: sliding_window_size is %g", before);
    for (uint32_t i = 0; i < config->n_layers; i++) {
        bool slides = config->window[i] > 0;
        if (slides && before > 0) config->window[i] = (uint32_t)before + 1;
        config->rope_table[i] = slides ? 1 : 0;
        config->layer_n_kv_heads[i] = slides ? 2 * config->n_kv_heads : 0;
    }
    config->router.scale = (float)json_number(json, "routed_scaling_factor", 1);
    const json_t *scale = json_object_get(json, "attention_value_scale");
    if (scale && !json_is_null(scale) && !json_is_number(scale))
        return error_set(error, "config.json: attention_value_scale is not a number");
    config->value_scale = 0.707f;
    if (scale) config->value_scale = json_is_null(scale) ? 1.0f : (float)json_number_value(scale);
    return STATUS_OK;
}
