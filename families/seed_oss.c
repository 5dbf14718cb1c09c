/* Seed-OSS: a llama with biases. */
#include "families/shared.h"

const Family families_seed_oss[] = {
    {
        .model_type = "seed_oss",
        .keys = KEYS(SIZE_KEYS(155136, 4096, 27648, 64, 80), KV_HEADS(8), HEAD_DIM(128),
                     CONTEXT(524288), {"rms_norm_eps", "norm_eps", 1e-6},
                     {"hidden_act", "activation", ACTIVATION_SILU}),
        .biases = BIASES({QKV, "attention_bias", true}, {" wo ", "attention_out_bias", false},
                         {GATED, "mlp_bias", false}),
        .tensors =
            (const TensorRule[]){
                EMBEDDING("model.embed_tokens"),
                LLAMA_NORMS,
                LLAMA_ATTENTION,
                LLAMA_FFN,
                LLAMA_END,
                {0},
            },
        .bos_id = 0,
        .eos_id = 2,
        .gguf =
            (const GgufFamily[]){
                {
                    .architecture = "seed_oss",
                    .tensors =
                        (const TensorRule[]){
                            EMBEDDING("token_embd"),
                            GGUF_ATTENTION,
                            NORM("ffn_norm", ".post_attention_norm"),
                            GGUF_FFN,
                            GGUF_END,
                            {0},
                        },
                },
                {0},
            },
    },
    {0},
};
