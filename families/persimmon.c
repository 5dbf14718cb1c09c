/* Persimmon: fused q, k, v, norms of heads, a ReLU that is squared. */
#include "families/shared.h"

const Family families_persimmon[] = {
    {
        .model_type = "persimmon",
        .set = SET({"norm", NORM_LAYER}, {"gated", 0}),
        .keys = KEYS(SIZE_KEYS(262144, 4096, 16384, 36, 64), CONTEXT(16384),
                     {"layer_norm_eps", "norm_eps", 1e-5},
                     {"hidden_act", "activation", ACTIVATION_RELU2}),
        .biases = BIASES({QKVO UP_DOWN, NULL, true}),
        .tensors =
            (const TensorRule[]){
                EMBEDDING("model.embed_tokens"),
                LLAMA_NORMS,
                LINEAR("wq wk wv", ".self_attn.query_key_value",
                       "n_heads * head_dim + n_kv_heads * head_dim + n_kv_heads * head_dim", "dim",
                       .by = "n_kv_heads"),
                LINEAR("wo", ".self_attn.dense", "dim", "n_heads * head_dim"),
                NORM("q_norm", ".self_attn.q_layernorm", "head_dim", .optional = true),
                NORM("k_norm", ".self_attn.k_layernorm", "head_dim", .optional = true),
                LINEAR("w_up", ".mlp.dense_h_to_4h", "ffn_dim", "dim"),
                LINEAR("w_down", ".mlp.dense_4h_to_h", "dim", "ffn_dim"),
                NORM("final_norm", "model.final_layernorm"),
                OUTPUT("lm_head"),
                {0},
            },
        .rope = {.part = "partial_rotary_factor", .part_absent = 0.5},
        .bos_id = 1,
        .eos_id = 2,
        .steps = STEPS(STEP("set", "qk_norm head", .when = "qk_layernorm", .absent = true)),
    },
    {0},
};
