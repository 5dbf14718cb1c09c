/* Falcon 7B, 40B and 180B, and Falcon RW with ALiBi. */
#include "families/shared.h"

static Status falcon_finish(const json_t *json, Config *config, Error *error) {
    bool is_new = json_flag(json, "new_decoder_architecture", false);
    if (!is_new) config->n_kv_heads = json_switch(json, "multi_query", true) ? 1 : config->n_heads;
    config->parallel_block = is_new || json_switch(json, "parallel_attn", true);
    if (json_flag(json, "alibi", false)) config->position = POSITION_ALIBI;
    (void)error;
    return STATUS_OK;
}

const FamilyHook families_falcon[] = {
    {"falcon", .finish = falcon_finish},
    {0},
};
