/* GGUF containers (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md), versions 2 and 3:
 * reads and checks the key/value pairs and the list of tensors. Nothing is copied; all texts and
 * arrays lie in the file's mapping. */
#ifndef FORMATS_GGUF_H
#define FORMATS_GGUF_H

#include "formats/rules.h"

typedef struct GgufValue {
    TokenizerString key;
    uint32_t type; /* of the value, or of an array's elements */
    bool is_array;
    uint64_t count;             /* 1 for a scalar */
    const uint8_t *values;      /* unaligned; texts: each a uint64 length and its bytes */
    const uint8_t *start, *end; /* the whole pair, key and type included */
} GgufValue;

/* Types of values by their number in the file. */
enum {
    GGUF_UINT8,
    GGUF_INT8,
    GGUF_UINT16,
    GGUF_INT16,
    GGUF_UINT32,
    GGUF_INT32,
    GGUF_FLOAT32,
    GGUF_BOOL,
    GGUF_STRING,
    GGUF_ARRAY,
    GGUF_UINT64,
    GGUF_INT64,
    GGUF_FLOAT64,
    GGUF_TYPES
};

typedef struct Gguf {
    const InputFile *file;
    GgufValue *values; /* owned */
    size_t n_values;
    uint64_t n_tensors;
} Gguf;

/* Reads the header of one file and adds its tensors to the table; `index` is the file's index in
 * Source.files. Free with gguf_free, also after a failure. */
Status gguf_read(Gguf *gguf, const InputFile *file, size_t index, RawTable *table, Error *error);
void gguf_free(Gguf *gguf);

/* The number (ggml_type) of a type in the file; false: GGUF has no such type. */
bool gguf_type_number(StoredType type, uint32_t *number);
/* The same by the name of a type, which may be one that no weights have: I32. */
bool gguf_type_named(const char *name, uint32_t *number);

const GgufValue *gguf_find(const Gguf *gguf, const char *key); /* NULL: none */

/* Read a scalar; false when the key is absent or its value is of another kind. gguf_uint and
 * gguf_float take any of GGUF's number types whose value they can hold. gguf_element reads one
 * number of an array (or a scalar, index 0), gguf_whole a whole number, also one above 2^53; false
 * where there is none. */
bool gguf_uint(const Gguf *gguf, const char *key, uint64_t *value);
bool gguf_float(const Gguf *gguf, const char *key, double *value);
bool gguf_bool(const Gguf *gguf, const char *key, bool *value);
bool gguf_text(const Gguf *gguf, const char *key, TokenizerString *value);
bool gguf_element(const GgufValue *value, uint64_t index, double *number);
bool gguf_whole(const GgufValue *value, uint64_t index, uint64_t *number);

/* Reads an array of texts into malloc'ed *texts; NULL and *n 0 when the key is absent. */
Status gguf_texts(const Gguf *gguf, const char *key, TokenizerString **texts, size_t *n,
                  Error *error);

#endif
