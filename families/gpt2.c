/* GPT-1, GPT-2 and StarCoder (GPT BigCode): learned positions, layer norms, no gate. */
#include "families/shared.h"

static Status openai_gpt_finish(const json_t *json, Config *config, Error *error) {
    /* GPT-1's "gelu" means the tanh approximation. */
    if (config->activation == ACTIVATION_GELU) config->activation = ACTIVATION_GELU_TANH;
    (void)json, (void)error;
    return STATUS_OK;
}

const FamilyHook families_gpt2[] = {
    {"openai_gpt", .finish = openai_gpt_finish},
    {0},
};
