/* Phi 3.5 MoE: layer norms, two experts chosen by a sparse mixer. */
#include "families/shared.h"

const Family families_phimoe[] = {
    {
        .model_type = "phimoe",
        .set = SET({"norm", NORM_LAYER}, {"rope_theta", 1e6}, {"router", ROUTER_SPARSE_MIXER}),
        .keys = KEYS(
            SIZE_KEYS(32064, 4096, 6400, 32, 32), KV_HEADS(8), HEAD_DIM(0), CONTEXT(131072),
            {"rms_norm_eps", "norm_eps", 1e-5}, {"hidden_act", "activation", ACTIVATION_SILU},
            {"num_local_experts", "n_experts", 16}, {"num_experts_per_tok", "n_experts_used", 2},
            {"intermediate_size", "expert_ffn_dim", 6400},
            {"router_jitter_noise", "router_jitter", 0.01}),
        .biases = BIASES({QKVO, "attention_bias", false}, {" output ", "lm_head_bias", false}),
        .tensors =
            (const TensorRule[]){
                EMBEDDING("model.embed_tokens"),
                LLAMA_NORMS,
                LLAMA_ATTENTION,
                LINEAR("router", ".block_sparse_moe.gate", "n_experts", "dim"),
                LINEAR("experts.%u.w_gate", ".block_sparse_moe.experts.%u.w1", "expert_ffn_dim",
                       "dim"),
                LINEAR("experts.%u.w_up", ".block_sparse_moe.experts.%u.w3", "expert_ffn_dim",
                       "dim"),
                LINEAR("experts.%u.w_down", ".block_sparse_moe.experts.%u.w2", "dim",
                       "expert_ffn_dim"),
                LLAMA_END,
                {0},
            },
        .rope = {.has_mscales = true},
        .bos_id = 1,
        .eos_id = 2,
        /* The sparse mixer always takes two experts, whatever num_experts_per_tok says. */
        .steps = STEPS(STEP("windows", "0 unlisted"), STEP("set", "n_experts_used 2")),
        .gguf =
            (const GgufFamily[]){
                {
                    .architecture = "phimoe",
                    .set = SET({"norm", NORM_LAYER}, {"router", ROUTER_SPARSE_MIXER},
                               {"router_jitter", 0.01}),
                    .tensors =
                        (const TensorRule[]){
                            EMBEDDING("token_embd"),
                            GGUF_ATTENTION,
                            NORM("ffn_norm", ".ffn_norm"),
                            GGUF_EXPERTS,
                            GGUF_END,
                            {0},
                        },
                    .full_every = 1,
                },
                {0},
            },
    },
    {0},
};
