/* StarCoder 2: layer norms, biases, windows, no gate. */
#include "families/shared.h"

const Family families_starcoder2[] = {
    {
        .model_type = "starcoder2",
        .set = SET({"norm", NORM_LAYER}, {"gated", 0}),
        .keys = KEYS(SIZE_KEYS(49152, 3072, 12288, 30, 24), KV_HEADS(2), CONTEXT(4096),
                     {"norm_epsilon", "norm_eps", 1e-5},
                     {"hidden_act", "activation", ACTIVATION_GELU_TANH}),
        .biases = BIASES({QKVO UP_DOWN, "use_bias", true}),
        .tensors =
            (const TensorRule[]){
                EMBEDDING("model.embed_tokens"),
                LLAMA_NORMS,
                LLAMA_ATTENTION,
                LINEAR("w_up", ".mlp.c_fc", "ffn_dim", "dim"),
                LINEAR("w_down", ".mlp.c_proj", "dim", "ffn_dim"),
                LLAMA_END,
                {0},
            },
        .tied = true,
        .bos_id = 50256,
        .eos_id = 50256,
        .steps = STEPS(STEP("windows", "0 unlisted")),
        .gguf =
            (const GgufFamily[]){
                {
                    .architecture = "starcoder2",
                    .set = SET({"norm", NORM_LAYER}, {"gated", 0},
                               {"activation", ACTIVATION_GELU_TANH}),
                    .tensors =
                        (const TensorRule[]){
                            EMBEDDING("token_embd"),
                            GGUF_ATTENTION,
                            NORM("ffn_norm", ".ffn_norm"),
                            GGUF_UNGATED_FFN,
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
