/* GGUF containers (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md), versions 2 and 3:
 * reads and checks the key/value pairs and the list of tensors. Nothing is copied; all texts and
 * arrays lie in the file's mapping. */
#ifndef FORMATS_CONTAINERS_GGUF_H
#define FORMATS_CONTAINERS_GGUF_H

#include "formats/family/rules.h"

typedef struct GgufValue {
    TokenizerString key;
    uint32_t type; /* of the value, or of an array's elements */
    bool is_array;
    uint64_t count;             /* 1 for a scalar */
    const uint8_t *values;      /* unaligned; texts: each a uint64 length and its bytes */
    const uint8_t *start, *end; /* the whole pair, key and type included */
    const char *wanted; /* what a reader wanted of a value of another type; NULL: none did */
    bool looked_up;     /* some reader asked for the key */
} GgufValue;

/* What a reader takes a value, or the elements of an array, for. A whole number may have any
 * width; 0 and 1 count as true and false. */
typedef enum GgufKind {
    GGUF_AS_WHOLE,
    GGUF_AS_FLOAT,
    GGUF_AS_NUMBER, /* either of both */
    GGUF_AS_BOOL,
    GGUF_AS_TEXT
} GgufKind;

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

/* Files of models have some 50 keys. Readers may look at all of them for each architecture. */
enum { GGUF_MOST_KEYS = 1 << 16 };

typedef struct Gguf {
    const InputFile *file;
    GgufValue *values;  /* in the file's order; owned */
    GgufValue **by_key; /* the same, sorted by their keys; owned */
    size_t n_values;    /* at most GGUF_MOST_KEYS */
    uint64_t n_tensors;
} Gguf;

/* Reads the header of one file and adds its tensors to the table; `index` is the file's index in
 * Source.files. A key that stands there twice is refused. Free with gguf_free, also after a
 * failure. */
Status gguf_read(Gguf *gguf, const InputFile *file, size_t index, RawTable *table, Error *error);
void gguf_free(Gguf *gguf);

/* The number (ggml_type) of a type in the file; false: GGUF has no such type. */
bool gguf_type_number(StoredType type, uint32_t *number);
/* The same by the name of a type, which may be one that no weights have: I32. */
bool gguf_type_named(const char *name, uint32_t *number);

const GgufValue *gguf_find(const Gguf *gguf, const char *key); /* NULL: none */

/* Gives the value of `from`, if there is one, the key `to`, which no value may have and whose text
 * must outlive `gguf`. */
void gguf_rename(Gguf *gguf, const char *from, const char *to);

/* The value, or the array of values, that is of this kind; NULL: the key is absent or of another
 * type, which gguf_check_types then reports. Arrays are for readers that take both. */
const GgufValue *gguf_find_kind(const Gguf *gguf, const char *key, GgufKind kind);
/* Fails, naming key, type and what was wanted, where a value that was looked up has a type that its
 * reader does not take. A reader treats such a value as absent, so this must be asked once all keys
 * are read, also after another failure. */
Status gguf_check_types(const Gguf *gguf, Error *error);

/* Read a scalar; false when the key is absent or of another type (gguf_check_types). gguf_uint
 * takes whole numbers of any width from 0 to `most`; gguf_element reads one number of an array (or
 * a scalar, index 0), gguf_whole a whole number, also one above 2^53; false where there is none. */
bool gguf_uint(const Gguf *gguf, const char *key, uint64_t most, uint64_t *value);
bool gguf_float(const Gguf *gguf, const char *key, double *value);
bool gguf_bool(const Gguf *gguf, const char *key, bool *value);
bool gguf_text(const Gguf *gguf, const char *key, TokenizerString *value);
bool gguf_element(const GgufValue *value, uint64_t index, double *number);
bool gguf_whole(const GgufValue *value, uint64_t index, uint64_t *number);
/* The text of a value; false: it holds something else. */
bool gguf_value_text(const GgufValue *value, TokenizerString *text);

/* Reads an array of texts into malloc'ed *texts; NULL and *n 0 when the key is absent. */
Status gguf_texts(const Gguf *gguf, const char *key, TokenizerString **texts, size_t *n,
                  Error *error);

#endif
