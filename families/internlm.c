/* InternLM 2 and 3: llamas, the first with names of its own. */
#include "families/shared.h"

static FamilyFinish internlm3_finish;

const Family families_internlm[] = {
    /* InternLM 3's class knows each switch by two names. */
    {
        .model_type = "internlm3",
        .keys =
            KEYS(SIZE_KEYS(128512, 4096, 10240, 48, 32), KV_HEADS(2), HEAD_DIM(128), CONTEXT(32768),
                 {"rms_norm_eps", "norm_eps", 1e-5}, {"hidden_act", "activation", ACTIVATION_SILU}),
        .biases = BIASES({QKVO, "qkv_bias", false}, {QKVO, "attention_bias", false},
                         {GATED, "bias", false}, {GATED, "mlp_bias", false}),
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
        .finish = internlm3_finish,
    },
    {0},
};

static Status internlm3_finish(const json_t *json, Config *config, Error *error) {
    (void)config;
    bool attention = json_flag(json, "qkv_bias", false) || json_flag(json, "attention_bias", false);
    if (attention == (json_flag(json, "bias", false) || json_flag(json, "mlp_bias", false)))
        return STATUS_OK;
    return error_set(error, "config.json: qkv_bias is not bias, which this program cannot compute");
}
