/* Llama 1 to 3, and what is stored in its names. */
#include "families/shared.h"

static const ConfigRule llama_config[] = {
    SIZE_KEYS(32000, 4096, 11008, 32, 32),
    KV_HEADS(0),
    HEAD_DIM(0),
    CONTEXT(2048),
    {"rms_norm_eps", "norm_eps", 1e-6},
    {"hidden_act", "activation", ACTIVATION_SILU},
    {0},
};

static const BiasRule llama_biases[] = {
    {QKVO, "attention_bias", false},
    {GATED, "mlp_bias", false},
    {0},
};

static const TensorRule llama_tensors[] = {
    EMBEDDING("model.embed_tokens"), LLAMA_NORMS, LLAMA_ATTENTION, LLAMA_FFN, LLAMA_END, {0},
};

const Family families_llama[] = {
    {
        .model_type = "llama",
        .keys = llama_config,
        .biases = llama_biases,
        .tensors = llama_tensors,
        .bos_id = 1,
        .eos_id = 2,
        .gguf =
            (const GgufFamily[]){
                {
                    .architecture = "llama",
                    .pairing = ROPE_INTERLEAVED,
                    .tensors =
                        (const TensorRule[]){
                            EMBEDDING("token_embd"),
                            GGUF_ATTENTION,
                            NORM("ffn_norm", ".ffn_norm"),
                            GGUF_FFN,
                            GGUF_END,
                            {0},
                        },
                    .full_every = 1,
                },
                {0},
            },
    },
    {
        .model_type = "llama_sinusoidal",
        .set = SET({"position", POSITION_SINUSOIDAL}),
        .keys = llama_config,
        .biases = llama_biases,
        .tensors = llama_tensors,
        .bos_id = 1,
        .eos_id = 2,
        .steps = STEPS(STEP("scale_embeddings")),
    },
    {0},
};
