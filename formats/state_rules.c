#include "formats/state_rules.h"

#include <string.h>

#include "formats/json.h"

Status state_read_kinds(const json_t *types, const KindName *names, Config *config, Error *error) {
    if (json_array_size(types) < config->n_layers)
        return error_set(error, "config.json: layer_types is not a list of %u layers",
                         config->n_layers);
    for (uint32_t l = 0; l < config->n_layers; l++) {
        const char *type = json_string_value(json_array_get(types, l));
        const KindName *name = names;
        while (name->name && !(type && strcmp(type, name->name) == 0)) name++;
        if (!name->name)
            return error_set(error, "config.json: layer type '%.40s' is not known",
                             type ? type : "(no text)");
        config->layer_kind[l] = name->kind;
    }
    return STATUS_OK;
}

Status state_read_whole(const json_t *json, const char *key, double absent, uint32_t *out,
                        Error *error) {
    double value = json_number(json, key, absent);
    if (!(value >= 1 && value <= 1 << 24 && value == floor(value)))
        return error_set(error, "config.json: %s is %g", key, value);
    *out = (uint32_t)value;
    return STATUS_OK;
}
