/* Lara Mini: gated DeltaNet beside windows, and a mixture in every layer. */
#include "families/shared.h"

/* Sets the kinds of layers, their windows and which rotate. Layers with full attention have no
 * RoPE. Without layer_types five kinds follow one another. */
static Status lara_mini_finish(const json_t *json, Config *config, Error *error) {
    static const KindName names[] = {{"linear_attention", LAYER_DELTA},
                                     {"full_attention", LAYER_ATTENTION},
                                     {"sliding_attention", LAYER_ATTENTION},
                                     {0}};
    const json_t *types = json_value(json, "layer_types");
    if (family_windows(json, NULL, config, 512, 0, 0, error) != STATUS_OK ||
        (types && family_state_read_kinds(types, names, config, error) != STATUS_OK))
        return STATUS_FAILED;
    for (uint32_t l = 0; l < config->n_layers; l++) {
        const char *name = json_string_value(json_array_get(types, l));
        bool slides =
            types ? name && strcmp(name, "sliding_attention") == 0 : l % 5 == 1 || l % 5 == 4;
        if (!types)
            config->layer_kind[l] = l % 5 == 0 || l % 5 == 2 ? LAYER_DELTA : LAYER_ATTENTION;
        if (!slides) config->window[l] = 0;
        config->rope_table[l] = slides ? 0 : 2; /* 2: not rotated */
    }
    return STATUS_OK;
}

const FamilyHook families_lara_mini[] = {
    {"lara_mini", .finish = lara_mini_finish},
    {0},
};
