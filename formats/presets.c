#include "formats/presets.h"

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

Status preset_apply(const Preset *presets, Config *config, Error *error) {
    for (; presets && presets->field; presets++) {
        const ConfigField *field;
        size_t i = 0;
        while ((field = config_field(i)) && strcmp(field->name, presets->field) != 0) i++;
        if (!field) return error_set(error, "no field '%s'", presets->field);
        if (apply(presets, field, config, error) != STATUS_OK) return STATUS_FAILED;
    }
    return STATUS_OK;
}
