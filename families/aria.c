/* The text half of Aria: a llama with stacked experts. */
#include "families/shared.h"

const Family families_aria[] = {
    /* The experts' activation is SiLU, whatever that of the shared one is. */
    {
        .model_type = "aria_text",
        .set = SET({"router", ROUTER_SOFTMAX_CHOSEN}),
        .keys =
            KEYS(SIZE_KEYS(32000, 4096, 4096, 32, 32), KV_HEADS(0), HEAD_DIM(0), CONTEXT(2048),
                 {"rms_norm_eps", "norm_eps", 1e-6}, {"hidden_act", "activation", ACTIVATION_SILU},
                 {"moe_num_experts", "n_experts", 8}, {"moe_topk", "n_experts_used", 2},
                 {"intermediate_size", "expert_ffn_dim", 4096}),
        .fixed = FIXED({"hidden_act", "\"silu\""}),
        .biases = BIASES({QKVO, "attention_bias", false},
                         {" shared.w_up shared.w_down shared.w_gate ", "mlp_bias", false}),
        .tensors =
            (const TensorRule[]){
                EMBEDDING("model.embed_tokens"),
                LLAMA_NORMS,
                LLAMA_ATTENTION,
                LINEAR("router", ".mlp.router", "n_experts", "dim"),
                MATRIX("experts.%u.w_gate experts.%u.w_up", ".mlp.experts.fc1.weight",
                       "expert_ffn_dim + expert_ffn_dim", "dim", .turned = TURNED_ALWAYS),
                MATRIX("experts.%u.w_down", ".mlp.experts.fc2.weight", "dim", "expert_ffn_dim",
                       .turned = TURNED_ALWAYS),
                SHARED_EXPERT(".mlp.shared_experts."),
                LLAMA_END,
                {0},
            },
        .bos_id = 1,
        .eos_id = 2,
        .steps = STEPS(STEP("shared_width", "moe_num_shared_experts 2")),
    },
    {0},
};
