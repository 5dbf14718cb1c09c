/* Mistral and Ministral: llamas with windows; Ministral 3 scales queries by position. */
#include "families/shared.h"

static FamilyFinish mistral_finish;
static FamilyFinish ministral_finish;
static FamilyFinish ministral3_finish;

static const TensorRule llama_tensors[] = {
    EMBEDDING("model.embed_tokens"), LLAMA_NORMS, LLAMA_ATTENTION, LLAMA_FFN, LLAMA_END, {0},
};

const Family families_mistral[] = {
    {
        .model_type = "mistral",
        .keys =
            KEYS(SIZE_KEYS(32000, 4096, 14336, 32, 32), KV_HEADS(8), HEAD_DIM(0), CONTEXT(131072),
                 {"rms_norm_eps", "norm_eps", 1e-6}, {"hidden_act", "activation", ACTIVATION_SILU}),
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
        .finish = mistral_finish,
    },
    {
        .model_type = "ministral",
        .keys =
            KEYS(SIZE_KEYS(32000, 4096, 14336, 32, 32), KV_HEADS(8), HEAD_DIM(0), CONTEXT(131072),
                 {"rms_norm_eps", "norm_eps", 1e-6}, {"hidden_act", "activation", ACTIVATION_SILU}),
        .tensors = llama_tensors,
        .bos_id = 1,
        .eos_id = 2,
        .finish = ministral_finish,
    },
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
        .finish = ministral3_finish,
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

static Status mistral_finish(const json_t *json, Config *config, Error *error) {
    return family_windows(json, json_value(json, "layer_types"), config, 4096, 0, 0, error);
}

static Status ministral_finish(const json_t *json, Config *config, Error *error) {
    return family_windows(json, json_value(json, "layer_types"), config, 4096, 0, 0, error);
}

/* Ministral 3's RoPE where config.json has no parameters. */
#define MINISTRAL3_ROPE                                                                            \
    {                                                                                              \
        .absent = "{\"type\": \"yarn\", \"rope_theta\": 1000000.0, \"factor\": 16.0, "             \
                  "\"original_max_position_embeddings\": 16384, \"beta_fast\": 32.0, "             \
                  "\"beta_slow\": 1.0, \"mscale_all_dim\": 1.0, \"mscale\": 1.0, "                 \
                  "\"llama_4_scaling_beta\": 0.1}"                                                 \
    }

static Status ministral3_finish(const json_t *json, Config *config, Error *error) {
    const RopeKeys rope = MINISTRAL3_ROPE;
    if (family_windows(json, NULL, config, 0, 0, 0, error) != STATUS_OK ||
        family_query_scaling(json, &rope, config, error) != STATUS_OK)
        return STATUS_FAILED;
    return STATUS_OK;
}
