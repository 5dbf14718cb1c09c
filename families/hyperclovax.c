/* HyperCLOVA X: a llama with multipliers and norms after its blocks. */
#include "families/shared.h"

static Status hyperclovax_finish(const json_t *json, Config *config, Error *error) {
    (void)error;
    config->attention_scale =
        (float)json_number(json, "attention_multiplier", (double)config->attention_scale);
    return STATUS_OK;
}

const FamilyHook families_hyperclovax[] = {
    {"hyperclovax", .finish = hyperclovax_finish},
    {0},
};
