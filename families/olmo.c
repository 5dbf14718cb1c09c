/* OLMo 1 to 3, OLMoE and FlexOlmo. */
#include "families/shared.h"

static FamilyFinish olmo3_finish;

const Family families_olmo[] = {
    {
        .model_type = "olmo3",
        .set = SET({"norm_place", NORM_OUTPUT}, {"rope_theta", 500000}, {"qk_norm", QK_NORM_ALL}),
        .keys =
            KEYS(SIZE_KEYS(50304, 4096, 11008, 32, 32), KV_HEADS(0), HEAD_DIM(0), CONTEXT(2048),
                 {"rms_norm_eps", "norm_eps", 1e-5}, {"hidden_act", "activation", ACTIVATION_SILU}),
        .biases = BIASES({QKVO, "attention_bias", false}),
        .tensors =
            (const TensorRule[]){
                EMBEDDING("model.embed_tokens"),
                OUTPUT_NORMS,
                LLAMA_ATTENTION,
                NORM("q_norm", ".self_attn.q_norm", "n_heads * head_dim"),
                NORM("k_norm", ".self_attn.k_norm", "n_kv_heads * head_dim"),
                LLAMA_FFN,
                LLAMA_END,
                {0},
            },
        .rope = {.local_theta = 500000, .local_theta_key = ""},
        .bos_id = -1,
        .eos_id = 50279,
        .finish = olmo3_finish,
    },
    {0},
};

static Status olmo3_finish(const json_t *json, Config *config, Error *error) {
    if (family_windows(json, json_value(json, "layer_types"), config, 4096, 0, 4, error) !=
        STATUS_OK)
        return STATUS_FAILED;
    const json_t *types = json_value(json, "layer_types");
    if (types) family_local_tables(types, config);
    for (uint32_t i = 0; !types && i < config->n_layers; i++)
        config->rope_table[i] = (i + 1) % 4 != 0 ? 1 : 0;
    return STATUS_OK;
}
