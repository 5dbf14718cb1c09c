/* InternLM 2 and 3: llamas, the first with names of its own. */
#include "families/shared.h"

static Status internlm3_finish(const json_t *json, Config *config, Error *error) {
    (void)config;
    bool attention = json_flag(json, "qkv_bias", false) || json_flag(json, "attention_bias", false);
    if (attention == (json_flag(json, "bias", false) || json_flag(json, "mlp_bias", false)))
        return STATUS_OK;
    return error_set(error, "config.json: qkv_bias is not bias, which this program cannot compute");
}

const FamilyHook families_internlm[] = {
    {"internlm3", .finish = internlm3_finish},
    {0},
};
