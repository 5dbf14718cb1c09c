#include "formats/presets.h"

#include <stdlib.h>
#include <string.h>

#include "config_fields.h"

static Status apply(const Preset *preset, const ConfigField *field, Config *config, Error *error) {
    void *out = (char *)config + field->offset;
    switch (field->kind) {
    case FIELD_UINT:
        *(uint32_t *)out = (uint32_t)preset->value;
        return STATUS_OK;
    case FIELD_ENUM:
        *(unsigned *)out = (unsigned)preset->value;
        return STATUS_OK;
    case FIELD_FLOAT:
        *(float *)out = (float)preset->value;
        return STATUS_OK;
    case FIELD_BOOL:
        *(bool *)out = preset->value != 0.0;
        return STATUS_OK;
    default:
        return error_set(error, "field '%s' cannot be set", preset->field);
    }
}

static const ConfigField *find(const char *name) {
    const ConfigField *field;
    size_t i = 0;
    while ((field = config_field(i)) && strcmp(field->name, name) != 0) i++;
    return field;
}

Status preset_text(const char *name, const char *text, Config *config, Error *error) {
    const ConfigField *field = find(name);
    char *end;
    Preset preset = {.field = name, .value = strtod(text, &end)};
    if (!field) return error_set(error, "no field '%s'", name);
    bool known = field->kind != FIELD_ENUM && end != text && *end == '\0';
    for (size_t i = 0; field->kind == FIELD_ENUM && field->names[i]; i++) {
        if (strcmp(field->names[i], text) != 0) continue;
        preset.value = (double)i;
        known = true;
    }
    if (!known) return error_set(error, "field '%s' has no value '%s'", name, text);
    return apply(&preset, field, config, error);
}

Status preset_apply(const Preset *presets, Config *config, Error *error) {
    for (; presets && presets->field; presets++) {
        const ConfigField *field = find(presets->field);
        if (!field) return error_set(error, "no field '%s'", presets->field);
        if (apply(presets, field, config, error) != STATUS_OK) return STATUS_FAILED;
    }
    return STATUS_OK;
}
