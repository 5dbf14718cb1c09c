/* GPT-OSS: stacked experts in 4 bits, sinks, windows in every second layer. */
#include "families/shared.h"

const Family families_gpt_oss[] = {
    /* The gate is QuickGELU, which has this alpha. */
    {
        .model_type = "gpt_oss",
        .set = SET({"rope_theta", 150000}, {"router", ROUTER_SOFTMAX_CHOSEN}),
        .keys = KEYS(
            SIZE_KEYS(201088, 2880, 2880, 36, 64), KV_HEADS(8), HEAD_DIM(64), CONTEXT(131072),
            {"rms_norm_eps", "norm_eps", 1e-5}, {"hidden_act", "activation", ACTIVATION_SILU},
            {"num_local_experts|num_experts", "n_experts", 128},
            {"num_experts_per_tok", "n_experts_used", 4},
            {"intermediate_size", "expert_ffn_dim", 2880}, {"swiglu_limit", "swiglu_limit", 7}),
        .fixed = FIXED({"swiglu_alpha", "1.702"}),
        .biases = BIASES({QKVO, "attention_bias", true}, {" router ", NULL, true}),
        .tensors =
            (const TensorRule[]){
                EMBEDDING("model.embed_tokens"),
                LLAMA_NORMS,
                LLAMA_ATTENTION,
                VECTOR("sinks", ".self_attn.sinks", "n_heads"),
                LINEAR("router", ".mlp.router", "n_experts", "dim"),
                MATRIX("experts.%u.w_gate experts.%u.w_up", ".mlp.experts.gate_up_proj",
                       "expert_ffn_dim + expert_ffn_dim", "dim", .by = "expert_ffn_dim",
                       .turned = TURNED_ALWAYS),
                VECTOR("experts.%u.w_gate.bias experts.%u.w_up.bias",
                       ".mlp.experts.gate_up_proj_bias", "expert_ffn_dim + expert_ffn_dim",
                       .by = "expert_ffn_dim"),
                MATRIX("experts.%u.w_down", ".mlp.experts.down_proj", "dim", "expert_ffn_dim",
                       .turned = TURNED_ALWAYS),
                VECTOR("experts.%u.w_down.bias", ".mlp.experts.down_proj_bias", "dim"),
                LLAMA_END,
                {0},
            },
        .rope =
            {.absent =
                 "{\"rope_type\": \"yarn\", \"factor\": 32.0, \"beta_fast\": 32.0, \"beta_slow\": "
                 "1.0, \"truncate\": false, \"original_max_position_embeddings\": 4096}"},
        .bos_id = -1,
        .eos_id = -1,
        .steps = STEPS(STEP("set", "activation gelu_quick"), STEP("windows", "128 every 2")),
        .gguf =
            (const GgufFamily[]){
                {
                    .architecture = "gpt-oss",
                    .set = SET({"router", ROUTER_SOFTMAX_CHOSEN},
                               {"activation", ACTIVATION_GELU_QUICK}, {"swiglu_limit", 7.0}),
                    .tensors =
                        (const TensorRule[]){
                            EMBEDDING("token_embd"),
                            GGUF_ATTENTION,
                            VECTOR("sinks", ".attn_sinks.weight", "n_heads"),
                            NORM("ffn_norm", ".post_attention_norm"),
                            GGUF_EXPERTS,
                            GGUF_END,
                            {0},
                        },
                    .full_every = 2,
                    .yarn_keeps_ends = true,
                },
                {0},
            },
    },
    {0},
};
