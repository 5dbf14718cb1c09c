#include "session/config_text.h"

#include <stdio.h>

/* Writes an array as "0 x 12, 4096 x 12" where values repeat, else value by value. */
static int array_text(const uint32_t *values, size_t n, char *text, size_t size) {
    int length = 0;
    for (size_t i = 0; i < n;) {
        size_t run = 1;
        while (i + run < n && values[i + run] == values[i]) run++;
        size_t room = (size_t)length < size ? size - (size_t)length : 0;
        char *at = room ? text + length : NULL;
        const char *comma = i ? ", " : "";
        length += run > 1 ? snprintf(at, room, "%s%u x %zu", comma, values[i], run)
                          : snprintf(at, room, "%s%u", comma, values[i]);
        i += run;
    }
    return length;
}

int config_text(const Config *config, const ConfigField *field, char *text, size_t size) {
    const void *value = (const char *)config + field->offset;
    if (size) text[0] = '\0';
    switch (field->kind) {
    case FIELD_UINT:
        return snprintf(text, size, "%u", *(const uint32_t *)value);
    case FIELD_INT:
        return snprintf(text, size, "%d", *(const int32_t *)value);
    case FIELD_FLOAT:
        return snprintf(text, size, "%.9g", (double)*(const float *)value);
    case FIELD_BOOL:
        return snprintf(text, size, "%s", *(const bool *)value ? "yes" : "no");
    case FIELD_ENUM:
        return snprintf(text, size, "%s", field->names[*(const unsigned *)value]);
    case FIELD_TEXT:
        return snprintf(text, size, "%s", (const char *)value);
    case FIELD_PER_LAYER:
        return array_text(value, config->n_layers, text, size);
    case FIELD_LIST:
        return array_text(value, *(const uint32_t *)((const char *)config + field->count_offset),
                          text, size);
    }
    return 0;
}
