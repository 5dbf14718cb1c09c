/* A growing list of typed key/value pairs: the metadata section of a model.bin in the making. */
#ifndef FORMATS_METADATA_H
#define FORMATS_METADATA_H

#include "modelfile.h"

/* The section's bytes as they will stand in the file. Zero-initialize; metadata_free. After a
 * failed allocation `failed` is set, and adding does nothing. */
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

/* Every field of Config, through its table. */
void metadata_add_config(Metadata *metadata, const Config *config);

#endif
