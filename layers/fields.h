/* What core/config.c needs to know of a kind of layers; see core/layer_kind.h. */
#ifndef LAYERS_FIELDS_H
#define LAYERS_FIELDS_H

#include <stddef.h>

#include "core/config.h"

typedef struct LayerFields {
    /* Checks the fields that a layer of this kind reads; the Error names the field. */
    Status (*validate)(const Config *config, uint32_t layer, Error *error);
    /* Multiply-adds of the layer's matrix products for one row. */
    double (*work)(const Config *config, uint32_t layer);
} LayerFields;

/* Keys that model.bin holds one after another, under the name of what they are for. A row that is
 * added to a table moves no row of another; layer_config.c has the tables in their order. */
typedef struct FieldTable {
    const ConfigField *rows;
    size_t n;
} FieldTable;

#define FIELD_TABLE(...)                                                                           \
    {                                                                                              \
        (const ConfigField[]){__VA_ARGS__},                                                        \
            sizeof((const ConfigField[]){__VA_ARGS__}) / sizeof(ConfigField)                       \
    }

/* A row of a mechanism's table (latent_keys and so on): the key in model.bin, the field of Config,
 * and its limits. KEY_FLOAT may be negative, KEY_AMOUNT may not. */
#define KEY(key, field, kind_, ...)                                                                \
    { .name = key, .kind = kind_, .offset = offsetof(Config, field), __VA_ARGS__ }
#define KEY_UINT(key, field, most_) KEY(key, field, FIELD_UINT, .most = most_)
#define KEY_FLOAT(key, field) KEY(key, field, FIELD_FLOAT, .not_negative = false)
#define KEY_AMOUNT(key, field) KEY(key, field, FIELD_FLOAT, .not_negative = true)
#define KEY_BOOL(key, field) KEY(key, field, FIELD_BOOL, .least = 0)
#define KEY_ENUM(key, field, ...)                                                                  \
    KEY(key, field, FIELD_ENUM, .names = (const char *const[]){__VA_ARGS__, NULL})

#endif
