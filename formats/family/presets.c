#include "formats/family/presets.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/config_fields.h"

/* Sets one field of a Config to the preset's value, converted to the field's type. */
static Status presets_apply(const Preset *preset, const ConfigField *field, Config *config,
                            Error *error) {
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

static const ConfigField *find_field(const char *name) {
    const ConfigField *field;
    size_t i = 0;
    while ((field = config_field(i)) && strcmp(field->name, name) != 0) i++;
    return field;
}

/* Says that the field cannot have the value, and which it can have where they have names. */
static Status refuse_value(const ConfigField *field, const char *text, Error *error) {
    char names[200] = "";
    size_t n = 0;
    for (size_t i = 0; field->kind == FIELD_ENUM && field->names[i] && n < sizeof names; i++)
        n += (size_t)snprintf(names + n, sizeof names - n, "%s%s", i ? ", " : ": it has ",
                              field->names[i]);
    return error_set(error, "field '%s' has no value '%s'%s", field->name, text, names);
}

Status preset_value(const char *name, const char *text, double *value, Error *error) {
    const ConfigField *field = find_field(name);
    char *end;
    if (!field) return error_set(error, "no field '%s'", name);
    *value = strtod(text, &end);
    bool is_number = end != text && *end == '\0' && isfinite(*value), known = false;
    switch (field->kind) {
    case FIELD_UINT:
        known = is_number && *value >= 0 && *value <= UINT32_MAX && *value == floor(*value);
        break;
    case FIELD_FLOAT:
        known = is_number;
        break;
    case FIELD_BOOL:
        if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0) {
            *value = text[0] == 't';
            is_number = true;
        }
        known = is_number && (*value == 0 || *value == 1);
        break;
    case FIELD_ENUM:
        for (size_t i = 0; field->names[i] && !known; i++) {
            known = strcmp(field->names[i], text) == 0;
            *value = (double)i;
        }
        break;
    default:
        return error_set(error, "field '%s' cannot be set", name);
    }
    return known ? STATUS_OK : refuse_value(field, text, error);
}

bool preset_holds(const Preset *preset, const Config *config) {
    const ConfigField *field = find_field(preset->field);
    const void *at = (const char *)config + (field ? field->offset : 0);
    if (!field) return false;
    switch (field->kind) {
    case FIELD_UINT:
        return *(const uint32_t *)at == preset->value;
    case FIELD_ENUM:
        return *(const unsigned *)at == preset->value;
    case FIELD_FLOAT:
        return *(const float *)at == (float)preset->value;
    case FIELD_BOOL:
        return *(const bool *)at == (preset->value != 0.0);
    default:
        return false;
    }
}

Status preset_text(const char *name, const char *text, Config *config, Error *error) {
    Preset presets[] = {{.field = name}, {0}};
    if (preset_value(name, text, &presets[0].value, error) != STATUS_OK) return STATUS_FAILED;
    return preset_apply(presets, config, error);
}

Status preset_apply(const Preset *presets, Config *config, Error *error) {
    for (; presets && presets->field; presets++) {
        const ConfigField *field = find_field(presets->field);
        if (!field) return error_set(error, "no field '%s'", presets->field);
        if (presets_apply(presets, field, config, error) != STATUS_OK) return STATUS_FAILED;
    }
    return STATUS_OK;
}
