/* Mixtral: a llama with experts. */
#include "families/shared.h"

const Family families_mixtral[] = {
    {
        .model_type = "mixtral",
        .set = SET({"rope_theta", 1e6}, {"router", ROUTER_SOFTMAX_CHOSEN}),
        .keys =
            KEYS(SIZE_KEYS(32000, 4096, 14336, 32, 32), KV_HEADS(8), HEAD_DIM(0), CONTEXT(131072),
                 {"rms_norm_eps", "norm_eps", 1e-5}, {"hidden_act", "activation", ACTIVATION_SILU},
                 {"num_local_experts|num_experts", "n_experts", 8},
                 {"num_experts_per_tok", "n_experts_used", 2},
                 {"intermediate_size", "expert_ffn_dim", 14336}),
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
        .bos_id = 1,
        .eos_id = 2,
        .steps = STEPS(STEP("windows", "0 unlisted")),
        .gguf =
            (const GgufFamily[]){
                {
                    .architecture = "llama",
                    .needs_tensor = "blk.0.ffn_gate_inp.weight",
                    .pairing = ROPE_INTERLEAVED,
                    .set = SET({"router", ROUTER_SOFTMAX_CHOSEN}),
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
