/* Mistral and Ministral: llamas with windows; Ministral 3 scales queries by position. */
#include "families/shared.h"

static const TensorRule llama_tensors[] = {
    EMBEDDING("model.embed_tokens"), LLAMA_NORMS, LLAMA_ATTENTION, LLAMA_FFN, LLAMA_END, {0},
};

const Family families_mistral[] = {
    {
        .model_type = "ministral3",
        .keys = KEYS(SIZE_KEYS(131072, 4096, 14336, 34, 32), KV_HEADS(8), HEAD_DIM(128),
                     CONTEXT(262144), {"rms_norm_eps", "norm_eps", 1e-5},
                     {"hidden_act", "activation", ACTIVATION_SILU}),
        .tensors = llama_tensors,
        .rope =
            {.absent =
                 "{\"type\": \"yarn\", \"rope_theta\": 1000000.0, \"factor\": 16.0, "
                 "\"original_max_position_embeddings\": 16384, \"beta_fast\": 32.0, \"beta_slow\": "
                 "1.0, \"mscale_all_dim\": 1.0, \"mscale\": 1.0, \"llama_4_scaling_beta\": 0.1}"},
        .bos_id = 1,
        .eos_id = 2,
        .steps = STEPS(STEP("windows", "0 unlisted"), STEP("query_scaling")),
        .gguf =
            (const GgufFamily[]){
                {
                    .architecture = "mistral3",
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
                    .finish = gguf_mistral3_finish,
                },
                {0},
            },
    },
    {0},
};
