/* Meta's CWM: a llama with windows. */
#include "families/shared.h"

static FamilyFinish cwm_finish;

const Family families_cwm[] = {
    {
        .model_type = "cwm",
        .set = SET({"rope_theta", 1e6}),
        .keys = KEYS(SIZE_KEYS(128256, 6144, 21504, 64, 48), KV_HEADS(8), HEAD_DIM(128),
                     CONTEXT(131072), {"rms_norm_eps", "norm_eps", 1e-5},
                     {"hidden_act", "activation", ACTIVATION_SILU}),
        .biases = BIASES({GATED, "mlp_bias", false}),
        .tensors =
            (const TensorRule[]){
                EMBEDDING("model.embed_tokens"),
                LLAMA_NORMS,
                LLAMA_ATTENTION,
                LLAMA_FFN,
                LLAMA_END,
                {0},
            },
        .rope = {.absent = "{\"rope_type\": \"llama3\", \"rope_theta\": 1000000.0, \"factor\": "
                           "16.0, \"original_max_position_embeddings\": 8192, \"low_freq_factor\": "
                           "1.0, \"high_freq_factor\": 4.0}"},
        .bos_id = 128000,
        .eos_id = 128001,
        .more_eos_ids = {128008, 128009},
        .finish = cwm_finish,
    },
    {0},
};

/* The first layer and every fourth from there have full attention, unless a list says which. */
static Status cwm_finish(const json_t *json, Config *config, Error *error) {
    const json_t *types = json_value(json, "layer_types");
    if (family_windows(json, types, config, 8192, 0, 0, error) != STATUS_OK) return STATUS_FAILED;
    for (uint32_t i = 0; !types && i < config->n_layers; i += 4) config->window[i] = 0;
    return STATUS_OK;
}
