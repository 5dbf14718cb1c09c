/* EXAONE 3.5 (in GGUF files alone), EXAONE 4 and its mixture. */
#include "families/shared.h"

static FamilyFinish exaone4_finish;

const Family families_exaone[] = {
    {
        .model_type = "exaone4",
        .set = SET({"norm_place", NORM_OUTPUT}, {"qk_norm", QK_NORM_HEAD}),
        .keys =
            KEYS(SIZE_KEYS(102400, 4096, 16384, 32, 32), KV_HEADS(32), HEAD_DIM(0), CONTEXT(2048),
                 {"rms_norm_eps", "norm_eps", 1e-5}, {"hidden_act", "activation", ACTIVATION_SILU}),
        .tensors =
            (const TensorRule[]){
                EMBEDDING("model.embed_tokens"),
                OUTPUT_NORMS,
                LLAMA_ATTENTION,
                QK_HEAD_NORMS,
                LLAMA_FFN,
                LLAMA_END,
                {0},
            },
        .bos_id = 0,
        .eos_id = 2,
        .finish = exaone4_finish,
        .gguf =
            (const GgufFamily[]){
                {
                    .architecture = "exaone4",
                    .set = SET({"norm_place", NORM_OUTPUT}, {"qk_norm", QK_NORM_HEAD}),
                    .tensors =
                        (const TensorRule[]){
                            EMBEDDING("token_embd"),
                            GGUF_QKV,
                            GGUF_QK_HEAD_NORMS,
                            GGUF_FFN,
                            GGUF_OUTPUT_NORMS,
                            GGUF_END,
                            {0},
                        },
                    .full_every = 4,
                    .full_are_not_rotated = true,
                },
                {0},
            },
    },
    {
        .model_type = "exaone_moe",
        .set = SET({"qk_norm", QK_NORM_HEAD}, {"router", ROUTER_SIGMOID_SCORES}),
        .keys =
            KEYS(SIZE_KEYS(102400, 4096, 16384, 32, 32), KV_HEADS(32), HEAD_DIM(0), CONTEXT(2048),
                 {"rms_norm_eps", "norm_eps", 1e-5}, {"hidden_act", "activation", ACTIVATION_SILU},
                 {"num_experts", "n_experts", 64}, {"num_experts_per_tok", "n_experts_used", 8},
                 {"moe_intermediate_size", "expert_ffn_dim", 1024}, {"n_group", "router_groups", 1},
                 {"topk_group", "router_groups_used", 1}, {"norm_topk_prob", "router_normalize", 1},
                 {"routed_scaling_factor", "router_scale", 2.5}),
        .tensors =
            (const TensorRule[]){
                EMBEDDING("model.embed_tokens"),
                LLAMA_NORMS,
                LLAMA_ATTENTION,
                QK_HEAD_NORMS,
                DENSE_OR_EXPERTS,
                CORRECTION(".mlp.e_score_correction_bias"),
                SHARED_EXPERT(".mlp.shared_experts."),
                LLAMA_END,
                {0},
            },
        .bos_id = 1,
        .eos_id = 53,
        .steps = STEPS(STEP("shared_width", "num_shared_experts 1")),
        .finish = exaone4_finish,
        .gguf =
            (const GgufFamily[]){
                {
                    .architecture = "exaone-moe",
                    .required = "attention.sliding_window",
                    .set = SET({"qk_norm", QK_NORM_HEAD}, {"router", ROUTER_SIGMOID_SCORES},
                               {"router_normalize", 1}),
                    .tensors =
                        (const TensorRule[]){
                            EMBEDDING("token_embd"),
                            GGUF_ATTENTION,
                            GGUF_QK_HEAD_NORMS,
                            NORM("ffn_norm", ".ffn_norm"),
                            GGUF_ROUTED,
                            GGUF_END,
                            {0},
                        },
                    .full_every = 4,
                    .full_are_not_rotated = true,
                },
                {0},
            },
    },
    {0},
};

/* EXAONE 4: when some layers have windows, the layers without one have no RoPE. */
static Status exaone4_finish(const json_t *json, Config *config, Error *error) {
    const json_t *pattern = json_value(json, "sliding_window_pattern"); /* 4, or "LLLG" */
    double every = pattern ? json_is_string(pattern) ? (double)json_string_length(pattern)
                                                     : json_number_value(pattern)
                           : 4;
    if (!(every >= 0 && every < 1e6))
        return error_set(error, "config.json: sliding_window_pattern is %g", every);
    if (family_windows(json, json_value(json, "layer_types"), config, 4096, 0, (uint32_t)every,
                       error) != STATUS_OK)
        return STATUS_FAILED;
    const json_t *window = json_object_get(json, "sliding_window");
    for (uint32_t i = 0; i < config->n_layers; i++)
        config->rope_table[i] = config->window[i] == 0 && !json_is_null(window) ? 2 : 0;
    return STATUS_OK;
}
