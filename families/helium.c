/* Helium: a llama with interleaved RoPE. */
#include "families/shared.h"

const Family families_helium[] = {
    {
        .model_type = "helium",
        .set = SET({"rope_pairing", ROPE_INTERLEAVED}, {"rope_theta", 100000}),
        .keys =
            KEYS(SIZE_KEYS(48000, 2560, 7040, 24, 20), KV_HEADS(20), HEAD_DIM(128), CONTEXT(4096),
                 {"rms_norm_eps", "norm_eps", 1e-8}, {"hidden_act", "activation", ACTIVATION_SILU}),
        .biases = BIASES({QKV, "attention_bias", false}, {GATED, "mlp_bias", false}),
        .tensors =
            (const TensorRule[]){
                EMBEDDING("model.embed_tokens"),
                LLAMA_NORMS,
                LLAMA_ATTENTION,
                LLAMA_FFN,
                LLAMA_END,
                {0},
            },
        .bos_id = 1,
        .eos_id = 2,
    },
    {0},
};
