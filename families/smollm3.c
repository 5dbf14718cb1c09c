/* SmolLM3: a llama some of whose layers have no RoPE. */
#include "families/shared.h"

static FamilyFinish smollm3_finish;
static GgufFinish gguf_smollm3_finish;

const Family families_smollm3[] = {
    {
        .model_type = "smollm3",
        .set = SET({"rope_theta", 2e6}),
        .keys =
            KEYS(SIZE_KEYS(128256, 2048, 11008, 36, 16), KV_HEADS(4), HEAD_DIM(0), CONTEXT(32768),
                 {"rms_norm_eps", "norm_eps", 1e-6}, {"hidden_act", "activation", ACTIVATION_SILU}),
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
        .tied = true,
        .bos_id = 128000,
        .eos_id = 128001,
        .steps = STEPS(STEP("rope_layers", "listed")),
        .finish = smollm3_finish,
        .gguf =
            (const GgufFamily[]){
                {
                    .architecture = "smollm3",
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
                    .finish = gguf_smollm3_finish,
                },
                {0},
            },
    },
    {0},
};

/* The layers with windows are those that layer_types names, whatever use_sliding_window says;
 * without layer_types those without RoPE. */
static Status smollm3_finish(const json_t *json, Config *config, Error *error) {
    const json_t *types = json_value(json, "layer_types");
    if (!types && !json_flag(json, "use_sliding_window", false)) return STATUS_OK;
    if (family_windows(json, types, config, 0, 0, 0, error) != STATUS_OK) return STATUS_FAILED;
    for (uint32_t i = 0; !types && i < config->n_layers; i++)
        if (config->rope_table[i] == 0) config->window[i] = 0;
    return STATUS_OK;
}

static Status gguf_smollm3_finish(const GgufModel *m, Config *c) {
    (void)m;
    for (uint32_t i = 0; i < CONFIG_MAX_LAYERS; i++) c->rope_table[i] = (i + 1) % 4 ? 0 : 2;
    return STATUS_OK;
}
