/* CodeGen: GPT-J with q, v and k fused in that order, in four groups of heads. */
#include "families/shared.h"

static Status codegen_finish(const json_t *json, Config *config, Error *error) {
    (void)json;
    if (config->n_heads % 4 == 0) return STATUS_OK;
    return error_set(error, "config.json: n_head is %u, but q, k and v lie in four groups of heads",
                     config->n_heads);
}

const FamilyHook families_codegen[] = {
    {"codegen", .finish = codegen_finish},
    {0},
};
