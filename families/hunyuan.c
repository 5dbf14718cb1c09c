/* Hunyuan's dense models and mixtures: norms of heads after RoPE; and Hy 3. */
#include "families/shared.h"

/* moe_topk is a number, or a list with the same number for each layer. */
static Status hunyuan_finish(const json_t *json, Config *config, Error *error) {
    const json_t *used = json_value(json, "moe_topk");
    if (!used) used = json_value(json, "num_experts_per_tok");
    double first = json_number_value(json_is_array(used) ? json_array_get(used, 0) : used);
    if (!used) first = 1;
    for (size_t i = 0; i < json_array_size(used); i++)
        if (json_number_value(json_array_get(used, i)) != first)
            return error_set(error, "config.json: moe_topk differs by layer, which this program "
                                    "cannot compute");
    if (!(first >= 1 && first <= CONFIG_MAX_EXPERTS && first == floor(first)))
        return error_set(error, "config.json: moe_topk is %g", first);
    config->experts.per_token = (uint32_t)first;
    return STATUS_OK;
}

const FamilyHook families_hunyuan[] = {
    {"hunyuan", .finish = hunyuan_finish},
    {0},
};
