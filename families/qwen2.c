/* Qwen 2 MoE; qwen2.family has the dense models. */
#include "families/shared.h"

static FamilyFinish qwen2_finish;

const Family families_qwen2[] = {
    {
        .model_type = "qwen2_moe",
        .keys =
            KEYS(SIZE_KEYS(151936, 2048, 5632, 24, 16), KV_HEADS(16), HEAD_DIM(0), CONTEXT(32768),
                 {"rms_norm_eps", "norm_eps", 1e-6}, {"hidden_act", "activation", ACTIVATION_SILU},
                 {"num_experts", "n_experts", 60}, {"num_experts_per_tok", "n_experts_used", 4},
                 {"moe_intermediate_size", "expert_ffn_dim", 1408},
                 {"shared_expert_intermediate_size", "shared_ffn_dim", 5632}),
        .biases = BIASES({QKV, "qkv_bias", true}),
        .tensors =
            (const TensorRule[]){
                EMBEDDING("model.embed_tokens"),
                LLAMA_NORMS,
                LLAMA_ATTENTION,
                DENSE_OR_EXPERTS,
                SHARED_WEIGHTS(".mlp.shared_expert."),
                MATRIX("shared.router", ".mlp.shared_expert_gate.weight", "1", "dim",
                       .optional = true),
                LLAMA_END,
                {0},
            },
        .bos_id = -1,
        .eos_id = -1,
        .steps = STEPS(STEP("set", "router softmax_chosen", .when = "norm_topk_prob")),
        .finish = qwen2_finish,
        .gguf =
            (const GgufFamily[]){
                {
                    .architecture = "qwen2moe",
                    .tensors =
                        (const TensorRule[]){
                            EMBEDDING("token_embd"),
                            GGUF_ATTENTION,
                            NORM("ffn_norm", ".ffn_norm"),
                            GGUF_EXPERTS,
                            GGUF_SHARED_EXPERT,
                            GGUF_END,
                            {0},
                        },
                },
                {0},
            },
    },
    {0},
};

/* Without layer_types, use_sliding_window gives a window to the layers 0, 2, 4 ... below
 * max_window_layers (configuration_qwen2_moe.py). */
static Status qwen2_finish(const json_t *json, Config *config, Error *error) {
    if (!json_flag(json, "use_sliding_window", false)) return family_no_windows(json, error);
    const json_t *types = json_value(json, "layer_types");
    double end = json_number(json, "max_window_layers", 28);
    if (family_windows(json, types, config, 4096, 0, 2, error) != STATUS_OK) return STATUS_FAILED;
    for (uint32_t i = 0; !types && i < config->n_layers; i++)
        if (i >= end) config->window[i] = 0;
    return STATUS_OK;
}
