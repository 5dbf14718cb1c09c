/* Mellum: Qwen 3 MoE with windows. */
#include "families/shared.h"

static FamilyFinish mellum_finish;

const Family families_mellum[] = {
    /* Norms of queries and keys, experts one by one: Mellum, Qwen 3 Omni. */
    {
        .model_type = "mellum",
        .set = SET({"rope_theta", 500000}, {"qk_norm", QK_NORM_HEAD}),
        .keys =
            KEYS(SIZE_KEYS(98304, 2304, 7168, 28, 32), KV_HEADS(4), HEAD_DIM(128), CONTEXT(131072),
                 {"rms_norm_eps", "norm_eps", 1e-6}, {"hidden_act", "activation", ACTIVATION_SILU},
                 {"num_local_experts|num_experts", "n_experts", 64},
                 {"num_experts_per_tok", "n_experts_used", 8},
                 {"moe_intermediate_size", "expert_ffn_dim", 896}),
        .biases = BIASES({QKVO, "attention_bias", false}),
        .tensors =
            (const TensorRule[]){
                EMBEDDING("model.embed_tokens"),
                LLAMA_NORMS,
                LLAMA_ATTENTION,
                QK_HEAD_NORMS,
                DENSE_OR_EXPERTS,
                LLAMA_END,
                {0},
            },
        .rope = {.part = "partial_rotary_factor",
                 .part_absent = 1,
                 .local_theta = 10000,
                 .local_theta_key = ""},
        .bos_id = -1,
        .eos_id = -1,
        .steps =
            STEPS(STEP("set", "router softmax_chosen", .when = "norm_topk_prob", .absent = true)),
        .finish = mellum_finish,
        .gguf =
            (const GgufFamily[]){
                {
                    .architecture = "mellum",
                    .set = SET({"router", ROUTER_SOFTMAX_CHOSEN}, {"qk_norm", QK_NORM_HEAD}),
                    .tensors =
                        (const TensorRule[]){
                            EMBEDDING("token_embd"),
                            GGUF_ATTENTION,
                            GGUF_QK_HEAD_NORMS,
                            NORM("ffn_norm", ".ffn_norm"),
                            GGUF_SOME_FFN,
                            GGUF_EXPERTS,
                            GGUF_END,
                            {0},
                        },
                    .full_every = 4,
                    .local_theta = -1,
                },
                {0},
            },
    },
    {0},
};

static Status mellum_finish(const json_t *json, Config *config, Error *error) {
    const json_t *types = json_value(json, "layer_types");
    if (!types) return STATUS_OK;
    if (family_windows(json, types, config, 1024, 0, 0, error) != STATUS_OK) return STATUS_FAILED;
    family_local_tables(types, config);
    return STATUS_OK;
}
