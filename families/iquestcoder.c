/* IQuest Coder: a llama whose queries, keys and values are clipped. */
#include "families/shared.h"

const Family families_iquestcoder[] = {
    {
        .model_type = "iquestcoder",
        .keys =
            KEYS(SIZE_KEYS(76800, 5120, 27648, 80, 40), KV_HEADS(8), HEAD_DIM(128), CONTEXT(131072),
                 {"rms_norm_eps", "norm_eps", 1e-5}, {"hidden_act", "activation", ACTIVATION_SILU}),
        .fixed = FIXED({"clip_qkv", "null"}, {"use_sliding_window", "false"}),
        .biases = BIASES({QKVO, "attention_bias", false}, {GATED, "mlp_bias", false}),
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
