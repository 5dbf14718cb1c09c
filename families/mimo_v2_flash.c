/* MiMo V2 Flash: values narrower than keys, sinks, a RoPE of their own for windows. */
#include "families/shared.h"

/* Sets windows, heads and RoPE of each layer. Layers with windows have twice the key/value heads
 * and RoPE of their own. Without layer_types the first layer and every 6th have none. Without a
 * partial_rotary_factor transformers rotates a third of a head, or all of it for a rope_type other
 * than the default: refused. */
static Status mimo_v2_flash_finish(const json_t *json, Config *config, Error *error) {
    const json_t *entry;
    const char *name;
    json_object_foreach((json_t *)json_value(json, "rope_parameters"), name, entry) {
        const char *type = json_string_value(json_value(entry, "rope_type"));
        if (type && strcmp(type, "default") != 0 && !json_value(entry, "partial_rotary_factor"))
            return error_set(error,
                             "config.json: rope_parameters.%s has rope_type '%s' without a "
                             "partial_rotary_factor",
                             name, type);
    }
    double before = json_number(json, "sliding_window_size", 0);
    if (family_windows(json, json_value(json, "layer_types"), config, 129, 1, 6, error) !=
        STATUS_OK)
        return STATUS_FAILED;
    if (!(before >= 0 && before < 1 << 28))
        return error_set(error, "config.json: sliding_window_size is %g", before);
    for (uint32_t i = 0; i < config->n_layers; i++) {
        bool slides = config->window[i] > 0;
        if (slides && before > 0) config->window[i] = (uint32_t)before + 1;
        config->rope_table[i] = slides ? 1 : 0;
        config->layer_n_kv_heads[i] = slides ? 2 * config->n_kv_heads : 0;
    }
    config->router.scale = (float)json_number(json, "routed_scaling_factor", 1);
    const json_t *scale = json_object_get(json, "attention_value_scale");
    if (scale && !json_is_null(scale) && !json_is_number(scale))
        return error_set(error, "config.json: attention_value_scale is not a number");
    config->value_scale = 0.707f;
    if (scale) config->value_scale = json_is_null(scale) ? 1.0f : (float)json_number_value(scale);
    return STATUS_OK;
}

const FamilyHook families_mimo_v2_flash[] = {
    {"mimo_v2_flash", .finish = mimo_v2_flash_finish},
    {0},
};
