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

Status state_linear_sizes(const json_t *json, double heads, Config *config, Error *error) {
    const json_t *linear = json_value(json, "linear_attn_config");
    const struct {
        const char *inner, *outer;
        double absent;
        uint32_t *out;
    } sizes[] = {{"head_dim", "linear_head_dim", 128, &config->state_key_dim},
                 {"num_heads", "linear_num_heads", heads, &config->state_heads},
                 {"short_conv_kernel_size", "linear_conv_kernel_dim", 4, &config->state_kernel}};
    for (size_t i = 0; i < 3; i++) {
        bool is_inner = json_value(linear, sizes[i].inner) != NULL;
        if (state_read_whole(is_inner ? linear : json, is_inner ? sizes[i].inner : sizes[i].outer,
                             sizes[i].absent, sizes[i].out, error) != STATUS_OK)
            return STATUS_FAILED;
    }
    config->state_value_dim = config->state_key_dim;
    config->state_key_heads = config->state_heads;
    return STATUS_OK;
}
