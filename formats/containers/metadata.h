/* A growing list of typed key/value pairs: the metadata section of a model.bin in the making. */
#ifndef FORMATS_CONTAINERS_METADATA_H
#define FORMATS_CONTAINERS_METADATA_H

#include "core/modelfile.h"

#define METADATA_TYPE_TABLE "quantization.table" /* convert/type_table.h */

/* The bytes of the section as the file will have them. Zero-initialize; free with metadata_free.
 * When an allocation fails `failed` is set, and adding does nothing from then on. */
typedef struct Metadata {
    uint8_t *bytes;
    size_t length, capacity;
    bool failed;
} Metadata;

void metadata_free(Metadata *metadata);
void metadata_add_uint(Metadata *metadata, const char *key, const uint64_t *values, uint32_t n);
void metadata_add_int(Metadata *metadata, const char *key, int64_t value);
void metadata_add_float(Metadata *metadata, const char *key, double value);
void metadata_add_bool(Metadata *metadata, const char *key, bool value);
void metadata_add_text(Metadata *metadata, const char *key, const char *text, size_t bytes);

/* Whether a pair has this key. */
bool metadata_has(const Metadata *metadata, const char *key);

/* Adds every field of Config, by its table of fields. */
void metadata_add_config(Metadata *metadata, const Config *config);
/* Adds all pairs of `more`. */
void metadata_append(Metadata *metadata, const Metadata *more);

#endif
