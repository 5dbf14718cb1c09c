/* Youtu: dense latent attention. */
#include "families/shared.h"

const Family families_youtu[] = {
    {
        .model_type = "youtu",
        .set = SET({"rope_pairing", ROPE_INTERLEAVED}, {"router", ROUTER_SIGMOID_SCORES},
                   {"latent_norm_eps", 1e-6}),
        .keys = KEYS(SIZE_KEYS(128256, 2048, 6144, 32, 16), {"kv_lora_rank", "latent_dim", 512},
                     {"q_lora_rank", "latent_q_dim", 1536}, {"qk_nope_head_dim", "head_dim", 128},
                     {"qk_rope_head_dim", "rotary_dim", 64}, {"v_head_dim", "value_dim", 128},
                     CONTEXT(131072), {"rms_norm_eps", "norm_eps", 1e-6},
                     {"hidden_act", "activation", ACTIVATION_SILU}),
        .biases = BIASES({" wq_a wkv_a wo ", "attention_bias", false}),
        .tensors =
            (const TensorRule[]){
                EMBEDDING("model.embed_tokens"),
                LLAMA_NORMS,
                LATENT_ATTENTION,
                LLAMA_FFN,
                LLAMA_END,
                {0},
            },
        .tied = true,
        .bos_id = 128000,
        .eos_id = 128001,
        .steps =
            STEPS(STEP("set", "rope_pairing halves", .unless = "rope_interleave", .absent = true),
                  STEP("latent_heads")),
    },
    {0},
};
