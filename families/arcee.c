/* Arcee: a llama without a gate, whose feed-forward squares a ReLU. */
#include "families/shared.h"

const Family families_arcee[] = {
    {
        .model_type = "arcee",
        .set = SET({"gated", 0}),
        .keys = KEYS(SIZE_KEYS(32000, 2560, 18432, 32, 32), KV_HEADS(0), HEAD_DIM(0), CONTEXT(4096),
                     {"rms_norm_eps", "norm_eps", 1e-5},
                     {"hidden_act", "activation", ACTIVATION_RELU2}),
        .biases = BIASES({QKVO, "attention_bias", false}, {UP_DOWN, "mlp_bias", false}),
        .tensors =
            (const TensorRule[]){
                EMBEDDING("model.embed_tokens"),
                LLAMA_NORMS,
                LLAMA_ATTENTION,
                LINEAR("w_up", ".mlp.up_proj", "ffn_dim", "dim"),
                LINEAR("w_down", ".mlp.down_proj", "dim", "ffn_dim"),
                LLAMA_END,
                {0},
            },
        .bos_id = 128000,
        .eos_id = 128001,
        .gguf =
            (const GgufFamily[]){
                {
                    .architecture = "arcee",
                    .pairing = ROPE_INTERLEAVED,
                    .set = SET({"gated", 0}, {"activation", ACTIVATION_RELU2}),
                    .tensors =
                        (const TensorRule[]){
                            EMBEDDING("token_embd"),
                            GGUF_ATTENTION,
                            GGUF_SOME_QK_HEAD_NORMS,
                            NORM("ffn_norm", ".ffn_norm"),
                            GGUF_UNGATED_FFN,
                            GGUF_END,
                            {0},
                        },
                },
                {0},
            },
    },
    {0},
};
