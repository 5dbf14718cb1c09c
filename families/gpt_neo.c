/* GPT-Neo: every second layer has a window, scores are not scaled. */
#include "families/shared.h"

/* Sets the windows from attention_types: [[["global", "local"], 12]] means that pair of layers, 12
 * times. */
static Status gpt_neo_finish(const json_t *json, Config *config, Error *error) {
    const json_t *types = json_value(json, "attention_types");
    double window = json_number(json, "window_size", 256);
    uint32_t layer = 0;
    if (!(window >= 1 && window < 1 << 28))
        return error_set(error, "config.json: window_size is %g", window);
    for (size_t i = 0; i < json_array_size(types); i++) {
        const json_t *kinds = json_array_get(json_array_get(types, i), 0);
        json_int_t times = json_integer_value(json_array_get(json_array_get(types, i), 1));
        size_t n = json_array_size(kinds);
        for (json_int_t k = 0; k < times && n > 0 && layer < config->n_layers; k++) {
            for (size_t at = 0; at < n && layer < config->n_layers; at++) {
                const char *kind = json_string_value(json_array_get(kinds, at));
                if (!kind || (strcmp(kind, "global") != 0 && strcmp(kind, "local") != 0))
                    return error_set(error, "config.json: attention type '%.40s' is not known",
                                     kind ? kind : "(no text)");
                config->window[layer++] = strcmp(kind, "local") == 0 ? (uint32_t)window : 0;
            }
        }
    }
    if (layer != config->n_layers)
        return error_set(error, "config.json: attention_types is not for %u layers",
                         config->n_layers);
    return STATUS_OK;
}

const FamilyHook families_gpt_neo[] = {
    {"gpt_neo", .finish = gpt_neo_finish},
    {0},
};
