#include "formats/containers/metadata.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "core/config_fields.h"

void metadata_free(Metadata *metadata) {
    free(metadata->bytes);
    *metadata = (Metadata){0};
}

/* Appends `bytes` zeros and returns where they begin; NULL when memory is short. */
static uint8_t *grow(Metadata *m, size_t bytes) {
    if (m->failed || !array_reserve(&m->bytes, &m->capacity, m->length + bytes, 1)) {
        m->failed = true;
        return NULL;
    }
    uint8_t *at = m->bytes + m->length;
    memset(at, 0, bytes);
    m->length += bytes;
    return at;
}

static void metadata_add(Metadata *m, const char *key, MetaType type, const void *values,
                         uint32_t count, size_t element_bytes) {
    size_t key_bytes = strlen(key);
    if (key_bytes > UINT16_MAX) key_bytes = UINT16_MAX;
    size_t head = round_up(sizeof(MetaHeader) + key_bytes, 8);
    uint8_t *at = grow(m, head + round_up(count * element_bytes, 8));
    if (!at) return;
    MetaHeader header = {(uint16_t)key_bytes, (uint16_t)type, count};
    memcpy(at, &header, sizeof header);
    memcpy(at + sizeof header, key, key_bytes);
    if (count) memcpy(at + head, values, count * element_bytes);
}

void metadata_add_uint(Metadata *metadata, const char *key, const uint64_t *values, uint32_t n) {
    metadata_add(metadata, key, META_UINT, values, n, sizeof *values);
}

void metadata_add_int(Metadata *metadata, const char *key, int64_t value) {
    metadata_add(metadata, key, META_INT, &value, 1, sizeof value);
}

void metadata_add_float(Metadata *metadata, const char *key, double value) {
    metadata_add(metadata, key, META_FLOAT, &value, 1, sizeof value);
}

void metadata_add_bool(Metadata *metadata, const char *key, bool value) {
    metadata_add(metadata, key, META_BOOL, &(uint8_t){value}, 1, 1);
}

void metadata_add_text(Metadata *metadata, const char *key, const char *text, size_t bytes) {
    metadata_add(metadata, key, META_TEXT, text, bytes > UINT32_MAX ? UINT32_MAX : (uint32_t)bytes,
                 1);
}

/* The bytes of an element of each type. */
static size_t element_bytes_of(MetaType type) {
    return type == META_TEXT || type == META_BOOL ? 1 : 8;
}

bool metadata_has(const Metadata *metadata, const char *key) {
    size_t n = strlen(key);
    for (size_t at = 0; at < metadata->length;) {
        MetaHeader header;
        memcpy(&header, metadata->bytes + at, sizeof header);
        const uint8_t *name = metadata->bytes + at + sizeof header;
        if (header.key_bytes == n && memcmp(name, key, n) == 0) return true;
        at += round_up(sizeof header + header.key_bytes, 8) +
              round_up(header.count * element_bytes_of((MetaType)header.type), 8);
    }
    return false;
}

void metadata_append(Metadata *metadata, const Metadata *more) {
    metadata->failed = metadata->failed || more->failed;
    uint8_t *at = more->length ? grow(metadata, more->length) : NULL;
    if (at) memcpy(at, more->bytes, more->length);
}

static void add_list(Metadata *metadata, const char *key, const uint32_t *values, uint32_t n) {
    uint64_t wide[CONFIG_MAX_LAYERS];
    for (uint32_t i = 0; i < n; i++) wide[i] = values[i];
    metadata_add_uint(metadata, key, wide, n);
}

static bool is_zero(const uint32_t *values, uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        if (values[i] != 0) return false;
    return true;
}

void metadata_add_config(Metadata *metadata, const Config *config) {
    const ConfigField *field;
    uint32_t n_layers = config->n_layers + config->mtp.n_layers;
    if (n_layers > CONFIG_MAX_LAYERS) n_layers = CONFIG_MAX_LAYERS;
    for (size_t i = 0; (field = config_field(i)); i++) {
        const void *value = (const char *)config + field->offset;
        switch (field->kind) {
        case FIELD_UINT:
            add_list(metadata, field->name, value, 1);
            break;
        case FIELD_INT:
            metadata_add_int(metadata, field->name, *(const int32_t *)value);
            break;
        case FIELD_FLOAT:
            metadata_add_float(metadata, field->name, *(const float *)value);
            break;
        case FIELD_BOOL:
            metadata_add_bool(metadata, field->name, *(const bool *)value);
            break;
        case FIELD_ENUM: {
            const char *name = field->names[*(const unsigned *)value];
            metadata_add_text(metadata, field->name, name, strlen(name));
            break;
        }
        case FIELD_TEXT:
            metadata_add_text(metadata, field->name, value, strlen(value));
            break;
        case FIELD_PER_LAYER:
            if (is_zero(value, n_layers)) break;
            add_list(metadata, field->name, value, n_layers);
            break;
        case FIELD_LIST:
            add_list(metadata, field->name, value,
                     *(const uint32_t *)((const char *)config + field->count_offset));
            break;
        }
    }
}
