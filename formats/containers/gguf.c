#include "formats/containers/gguf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/family/extents.h"

static const size_t value_bytes[GGUF_TYPES] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

/* Types of tensors by their number in the file (ggml_type). STORED_TYPES: known by name, but not
 * readable. Numbers below 43 without a name were withdrawn; those above are ik_llama.cpp's, which
 * llama.cpp does not use. */
static const struct {
    const char *name;
    StoredType type;
} tensor_types[] = {
    [0] = {"F32", STORED_F32},           [1] = {"F16", STORED_F16},
    [2] = {"Q4_0", STORED_Q4_0},         [3] = {"Q4_1", STORED_Q4_1},
    [6] = {"Q5_0", STORED_Q5_0},         [7] = {"Q5_1", STORED_Q5_1},
    [8] = {"Q8_0", STORED_Q8_0},         [9] = {"Q8_1", STORED_TYPES},
    [10] = {"Q2_K", STORED_Q2_K},        [11] = {"Q3_K", STORED_Q3_K},
    [12] = {"Q4_K", STORED_Q4_K},        [13] = {"Q5_K", STORED_Q5_K},
    [14] = {"Q6_K", STORED_Q6_K},        [15] = {"Q8_K", STORED_TYPES},
    [16] = {"IQ2_XXS", STORED_IQ2_XXS},  [17] = {"IQ2_XS", STORED_IQ2_XS},
    [18] = {"IQ3_XXS", STORED_IQ3_XXS},  [19] = {"IQ1_S", STORED_IQ1_S},
    [20] = {"IQ4_NL", STORED_IQ4_NL},    [21] = {"IQ3_S", STORED_IQ3_S},
    [22] = {"IQ2_S", STORED_IQ2_S},      [23] = {"IQ4_XS", STORED_IQ4_XS},
    [24] = {"I8", STORED_TYPES},         [25] = {"I16", STORED_TYPES},
    [26] = {"I32", STORED_TYPES},        [27] = {"I64", STORED_TYPES},
    [28] = {"F64", STORED_TYPES},        [29] = {"IQ1_M", STORED_IQ1_M},
    [30] = {"BF16", STORED_BF16},        [34] = {"TQ1_0", STORED_TQ1_0},
    [35] = {"TQ2_0", STORED_TQ2_0},      [39] = {"MXFP4", STORED_MXFP4},
    [40] = {"NVFP4", STORED_NVFP4},      [41] = {"Q1_0", STORED_Q1_0},
    [42] = {"Q2_0", STORED_Q2_0},        [137] = {"IQ2_K", STORED_IQ2_K},
    [138] = {"IQ3_K", STORED_IQ3_K},     [139] = {"IQ4_K", STORED_IQ4_K},
    [140] = {"IQ5_K", STORED_IQ5_K},     [141] = {"IQ6_K", STORED_IQ6_K},
    [144] = {"IQ4_KS", STORED_IQ4_KS},   [145] = {"IQ2_KS", STORED_IQ2_KS},
    [146] = {"IQ4_KSS", STORED_IQ4_KSS}, [152] = {"IQ5_KS", STORED_IQ5_KS},
    [156] = {"IQ3_KS", STORED_IQ3_KS},   [157] = {"IQ2_KL", STORED_IQ2_KL},
};

/* Types of other programs, whose numbers llama.cpp does not use (ik_llama.cpp's ggml.h of August
 * 2026; bitnet.cpp's has 36 and 38). They are refused, with what to take instead. */
typedef enum ForeignKind { FOREIGN_IK, FOREIGN_REPACKED, FOREIGN_BITNET } ForeignKind;

static const struct {
    uint16_t number;
    ForeignKind kind;
    const char *name;
} foreign_types[] = {
    {36, FOREIGN_BITNET, "I2_S"},
    {38, FOREIGN_BITNET, "TL1"},
    {133, FOREIGN_IK, "Q6_0"},
    {134, FOREIGN_BITNET, "IQ1_BN"},
    {135, FOREIGN_BITNET, "IQ2_BN"},
    {151, FOREIGN_IK, "Q8_KV"},
    {153, FOREIGN_IK, "IQ2_KT"},
    {154, FOREIGN_IK, "IQ3_KT"},
    {155, FOREIGN_IK, "IQ4_KT"},
    {158, FOREIGN_IK, "IQ1_KT"},
    {202, FOREIGN_REPACKED, "Q4_0_R8"},
    {206, FOREIGN_REPACKED, "Q5_0_R4"},
    {208, FOREIGN_REPACKED, "Q8_0_R8"},
    {210, FOREIGN_REPACKED, "Q2_K_R4"},
    {211, FOREIGN_REPACKED, "Q3_K_R4"},
    {212, FOREIGN_REPACKED, "Q4_K_R4"},
    {213, FOREIGN_REPACKED, "Q5_K_R4"},
    {214, FOREIGN_REPACKED, "Q6_K_R4"},
    {216, FOREIGN_REPACKED, "IQ2_XXS_R4"},
    {217, FOREIGN_REPACKED, "IQ2_XS_R4"},
    {218, FOREIGN_REPACKED, "IQ3_XXS_R4"},
    {219, FOREIGN_REPACKED, "IQ1_S_R4"},
    {220, FOREIGN_REPACKED, "IQ4_NL_R4"},
    {221, FOREIGN_REPACKED, "IQ3_S_R4"},
    {222, FOREIGN_REPACKED, "IQ2_S_R4"},
    {223, FOREIGN_REPACKED, "IQ4_XS_R8"},
    {229, FOREIGN_REPACKED, "IQ1_M_R4"},
    {230, FOREIGN_REPACKED, "BF16_R16"},
    {233, FOREIGN_REPACKED, "Q6_0_R4"},
    {335, FOREIGN_REPACKED, "IQ2_BN_R4"},
    {337, FOREIGN_REPACKED, "IQ2_K_R4"},
    {338, FOREIGN_REPACKED, "IQ3_K_R4"},
    {339, FOREIGN_REPACKED, "IQ4_K_R4"},
    {340, FOREIGN_REPACKED, "IQ5_K_R4"},
    {344, FOREIGN_REPACKED, "IQ4_KS_R4"},
    {352, FOREIGN_REPACKED, "IQ5_KS_R4"},
    {353, FOREIGN_REPACKED, "MXFP4_R8"},
    {397, FOREIGN_REPACKED, "Q8_K_R16"},
    {398, FOREIGN_REPACKED, "Q8_KV_R8"},
    {399, FOREIGN_REPACKED, "Q8_K_R8"},
};

static const char *const foreign_instead[] = {
    [FOREIGN_IK] = "a file of other types (Q4_K_M, IQ4_XS, IQ4_KS ...), or the safetensors",
    [FOREIGN_REPACKED] = "the file that ik_llama.cpp repacked into this one",
    [FOREIGN_BITNET] = "a file of TQ2_0 or TQ1_0, or the safetensors",
};

/* ---- Reading forward ---- */

typedef struct Cursor {
    const uint8_t *at, *end;
    bool failed; /* the file ended, or a length was impossible */
} Cursor;

/* Returns the next bytes and moves past them; NULL, and c->failed: the file is shorter. */
static const uint8_t *read_bytes(Cursor *c, uint64_t bytes) {
    if (c->failed || bytes > (uint64_t)(c->end - c->at)) {
        c->failed = true;
        return NULL;
    }
    const uint8_t *at = c->at;
    c->at += bytes;
    return at;
}

static uint32_t read_u32(Cursor *c) {
    uint32_t value = 0;
    const uint8_t *at = read_bytes(c, sizeof value);
    if (at) memcpy(&value, at, sizeof value);
    return value;
}

static uint64_t read_u64(Cursor *c) {
    uint64_t value = 0;
    const uint8_t *at = read_bytes(c, sizeof value);
    if (at) memcpy(&value, at, sizeof value);
    return value;
}

static TokenizerString read_string(Cursor *c) {
    uint64_t length = read_u64(c);
    const uint8_t *bytes = read_bytes(c, length);
    return (TokenizerString){bytes ? (const char *)bytes : "", bytes ? (size_t)length : 0};
}

/* Reads a key and its type, and steps over its value, scalar or array, whose bytes begin at
 * value->values. Sets c->failed where the file is cut off or the type is unknown. */
static void read_value(Cursor *c, GgufValue *value) {
    value->start = c->at;
    value->key = read_string(c);
    value->type = read_u32(c);
    value->count = 1;
    if (value->type == GGUF_ARRAY) {
        value->is_array = true;
        value->type = read_u32(c);
        value->count = read_u64(c);
    }
    value->values = c->at;
    if (value->type >= GGUF_TYPES || value->type == GGUF_ARRAY) {
        c->failed = true;
    } else if (value->type == GGUF_STRING) {
        for (uint64_t i = 0; i < value->count && !c->failed; i++) read_string(c);
    } else {
        uint64_t bytes;
        if (__builtin_mul_overflow(value->count, value_bytes[value->type], &bytes))
            c->failed = true;
        else
            read_bytes(c, bytes);
    }
    value->end = c->at;
}

/* Reads one entry of the tensor list (name, dimensions, type, offset) into the table. A type that
 * this program cannot read becomes STORED_TYPES and keeps its name for messages. */
static Status read_tensor(Cursor *c, const InputFile *file, size_t index, RawTable *table,
                          Error *error) {
    TokenizerString name = read_string(c);
    if (c->failed)
        return error_set(error, "%s: cut off, or damaged, in its tensor list", file->path);
    RawTensor *raw = raw_table_add(table, name.bytes, name.length);
    if (!raw) return error_set(error, "%s: no memory", file->path);
    raw->n_dims = read_u32(c);
    if (raw->n_dims > RAW_MAX_DIMS)
        return error_set(error, "%s: tensor '%.100s' has %u dimensions", file->path, raw->name,
                         raw->n_dims);
    /* GGUF writes the innermost dimension first. */
    for (uint32_t i = raw->n_dims; i-- > 0;) raw->dims[i] = read_u64(c);
    uint32_t type = read_u32(c);
    raw->offset = read_u64(c);
    raw->file = index;
    raw->type = STORED_TYPES;
    const char *type_name = NULL;
    if (type < sizeof tensor_types / sizeof *tensor_types) type_name = tensor_types[type].name;
    if (type_name) raw->type = tensor_types[type].type;
    for (size_t i = 0; i < sizeof foreign_types / sizeof *foreign_types; i++) {
        if (foreign_types[i].number != type) continue;
        type_name = foreign_types[i].name;
        raw->instead = foreign_instead[foreign_types[i].kind];
    }
    if (type_name) {
        strncpy(raw->type_name, type_name, sizeof raw->type_name - 1);
    } else {
        __builtin_snprintf(raw->type_name, sizeof raw->type_name, "number %u", type & 0xFFFF);
    }
    if (c->failed)
        return error_set(error, "%s: cut off, or damaged, in its tensor list", file->path);
    return STATUS_OK;
}

/* Sets the size in bytes of a tensor whose type is not for weights: whole numbers, which a family
 * reads itself, have a size, and other types get 0. Returns whether they can be counted. */
static bool whole_bytes(const RawTensor *raw, uint64_t elements, size_t *bytes) {
    size_t width = strcmp(raw->type_name, "I32") == 0   ? 4
                   : strcmp(raw->type_name, "I64") == 0 ? 8
                                                        : 0;
    return !__builtin_mul_overflow(elements, width, bytes);
}

static int compare_keys(const void *a, const void *b) {
    const GgufValue *x = *(const GgufValue *const *)a, *y = *(const GgufValue *const *)b;
    size_t n = x->key.length < y->key.length ? x->key.length : y->key.length;
    int order = memcmp(x->key.bytes, y->key.bytes, n);
    return order ? order : (x->key.length > y->key.length) - (x->key.length < y->key.length);
}

/* Fills by_key. Refuses a key given twice: which of both values counts differs from program to
 * program. */
static Status sort_keys(Gguf *gguf, Error *error) {
    GgufValue **sorted = gguf->by_key = malloc((gguf->n_values + 1) * sizeof *sorted);
    if (!sorted) return error_set(error, "%s: no memory", gguf->file->path);
    for (size_t i = 0; i < gguf->n_values; i++) sorted[i] = &gguf->values[i];
    qsort(sorted, gguf->n_values, sizeof *sorted, compare_keys);
    for (size_t i = 1; i < gguf->n_values; i++)
        if (compare_keys(&sorted[i - 1], &sorted[i]) == 0)
            return error_set(error, "%s: the key '%.*s' is there twice", gguf->file->path,
                             sorted[i]->key.length < 100 ? (int)sorted[i]->key.length : 100,
                             sorted[i]->key.bytes);
    return STATUS_OK;
}

/* Turns the tensors' offsets, which count from the end of the header, into offsets in the file, and
 * checks that each tensor lies inside it. */
static Status resolve_offsets(const Gguf *gguf, const Cursor *c, RawTable *table, size_t first,
                              Error *error) {
    uint64_t alignment = 32, used = (uint64_t)(c->at - gguf->file->map);
    gguf_uint(gguf, "general.alignment", UINT64_MAX, &alignment);
    if (gguf_check_types(gguf, error) != STATUS_OK) return STATUS_FAILED;
    if (alignment == 0 || alignment > 1 << 20 || (alignment & (alignment - 1)) != 0)
        return error_set(error, "%s: general.alignment is %llu", gguf->file->path,
                         (unsigned long long)alignment);
    uint64_t data = (used + alignment - 1) & ~(alignment - 1);
    for (size_t i = first; i < table->n; i++) {
        RawTensor *raw = &table->items[i];
        uint64_t elements = 1, end;
        size_t bytes = 0;
        for (uint32_t k = 0; k < raw->n_dims; k++)
            if (__builtin_mul_overflow(elements, raw->dims[k], &elements)) elements = UINT64_MAX;
        const uint64_t cols = raw->n_dims ? raw->dims[raw->n_dims - 1] : 1;
        bool fits = raw->type == STORED_TYPES
                        ? whole_bytes(raw, elements, &bytes)
                        : stored_file_bytes(raw->type, elements, cols, &bytes);
        if (raw->offset % alignment != 0)
            return error_set(error,
                             "%s: tensor '%.100s': its offset %llu is not a multiple of "
                             "general.alignment %llu",
                             gguf->file->path, raw->name, (unsigned long long)raw->offset,
                             (unsigned long long)alignment);
        fits = fits && !__builtin_add_overflow(raw->offset, data, &raw->offset);
        raw->bytes = bytes;
        if (!fits || __builtin_add_overflow(raw->offset, bytes, &end) || end > gguf->file->bytes)
            return error_set(error,
                             "%s: tensor '%.100s': its %llu values of %s do not lie inside "
                             "the file of %llu bytes",
                             gguf->file->path, raw->name, (unsigned long long)elements,
                             raw->type_name, (unsigned long long)gguf->file->bytes);
    }
    return extents_check(table, first, gguf->file, false, used, error);
}

Status gguf_read(Gguf *gguf, const InputFile *file, size_t index, RawTable *table, Error *error) {
    *gguf = (Gguf){.file = file};
    Cursor c = {file->map, file->map + file->bytes, false};
    const uint8_t *magic = read_bytes(&c, 4);
    if (!magic || memcmp(magic, "GGUF", 4) != 0)
        return error_set(error, "%s: not a GGUF file", file->path);
    uint32_t version = read_u32(&c);
    if (version && (version & 0xFFFF) == 0)
        return error_set(error, "%s: a big-endian GGUF file, which this program does not read",
                         file->path);
    if (!c.failed && version != 2 && version != 3)
        return error_set(error, "%s: version %u of GGUF, but this program reads 2 and 3",
                         file->path, version);
    gguf->n_tensors = read_u64(&c);
    uint64_t n_values = read_u64(&c);
    /* A pair takes at least 13 bytes and a tensor 24, so larger counts cannot be true. */
    uint64_t left = (uint64_t)(c.end - c.at);
    if (c.failed || n_values > left / 13 || gguf->n_tensors > left / 24)
        return error_set(error, "%s: cut off, or damaged, in its header", file->path);
    if (n_values > GGUF_MOST_KEYS)
        return error_set(error, "%s: has %llu keys, but this program reads at most %d", file->path,
                         (unsigned long long)n_values, GGUF_MOST_KEYS);
    gguf->values = calloc(n_values + 1, sizeof *gguf->values);
    if (!gguf->values) return error_set(error, "%s: no memory", file->path);
    for (; gguf->n_values < n_values; gguf->n_values++) {
        read_value(&c, &gguf->values[gguf->n_values]);
        if (c.failed)
            return error_set(error, "%s: cut off, or damaged, in its metadata", file->path);
    }
    if (sort_keys(gguf, error) != STATUS_OK) return STATUS_FAILED;
    size_t first = table->n;
    for (uint64_t i = 0; i < gguf->n_tensors; i++)
        if (read_tensor(&c, file, index, table, error) != STATUS_OK) return STATUS_FAILED;
    return resolve_offsets(gguf, &c, table, first, error);
}

void gguf_free(Gguf *gguf) {
    free(gguf->values);
    free(gguf->by_key);
    *gguf = (Gguf){0};
}

bool gguf_type_number(StoredType type, uint32_t *number) {
    for (uint32_t i = 0; i < sizeof tensor_types / sizeof *tensor_types; i++) {
        if (!tensor_types[i].name || tensor_types[i].type != type) continue;
        *number = i;
        return true;
    }
    return false;
}

bool gguf_type_named(const char *name, uint32_t *number) {
    for (uint32_t i = 0; i < sizeof tensor_types / sizeof *tensor_types; i++) {
        if (!tensor_types[i].name || strcmp(tensor_types[i].name, name) != 0) continue;
        *number = i;
        return true;
    }
    return false;
}

/* ---- Looking values up ---- */

/* Where by_key has the value of a key; NULL: nowhere. */
static GgufValue **place_of(const Gguf *gguf, const char *key) {
    const GgufValue wanted = {.key = {key, strlen(key)}}, *pointer = &wanted;
    /* The keys are not sorted if the file is cut off in its metadata. */
    return gguf->by_key
               ? bsearch(&pointer, gguf->by_key, gguf->n_values, sizeof pointer, compare_keys)
               : NULL;
}

/* The value of a key, which is marked as looked up and which a reader may mark further. */
static GgufValue *find(const Gguf *gguf, const char *key) {
    GgufValue **place = place_of(gguf, key);
    if (!place) return NULL;
    (*place)->looked_up = true;
    return *place;
}

void gguf_rename(Gguf *gguf, const char *from, const char *to) {
    GgufValue **place = place_of(gguf, from);
    if (!place) return;
    (*place)->key = (TokenizerString){to, strlen(to)};
    /* All others are in order: the one moves to where it belongs. */
    for (; place > gguf->by_key && compare_keys(place - 1, place) > 0; place--) {
        GgufValue *value = place[-1];
        place[-1] = place[0], place[0] = value;
    }
    for (; place + 1 < gguf->by_key + gguf->n_values && compare_keys(place, place + 1) > 0;
         place++) {
        GgufValue *value = place[1];
        place[1] = place[0], place[0] = value;
    }
}

const GgufValue *gguf_find(const Gguf *gguf, const char *key) {
    return find(gguf, key);
}

static bool is_whole(uint32_t type) {
    return type != GGUF_FLOAT32 && type != GGUF_FLOAT64 && type != GGUF_BOOL && type != GGUF_STRING;
}

/* Whether all elements are 0 or 1. */
static bool holds_switches(const GgufValue *value) {
    double number;
    for (uint64_t i = 0; gguf_element(value, i, &number); i++)
        if (number != 0.0 && number != 1.0) return false;
    return true;
}

static bool is_of_kind(const GgufValue *value, GgufKind kind) {
    switch (kind) {
    case GGUF_AS_WHOLE:
        return is_whole(value->type);
    case GGUF_AS_FLOAT:
        return value->type == GGUF_FLOAT32 || value->type == GGUF_FLOAT64;
    case GGUF_AS_NUMBER:
        return value->type != GGUF_BOOL && value->type != GGUF_STRING;
    case GGUF_AS_BOOL:
        return (value->type == GGUF_BOOL || is_whole(value->type)) && holds_switches(value);
    default:
        return value->type == GGUF_STRING;
    }
}

/* What each kind is called in messages. */
static const char *const kinds[] = {[GGUF_AS_WHOLE] = "a whole number",
                                    [GGUF_AS_FLOAT] = "a float",
                                    [GGUF_AS_NUMBER] = "a number",
                                    [GGUF_AS_BOOL] = "true or false",
                                    [GGUF_AS_TEXT] = "a text"};

static GgufValue *find_kind(const Gguf *gguf, const char *key, GgufKind kind) {
    GgufValue *found = find(gguf, key);
    if (!found || (found->is_array && found->count == 0) || is_of_kind(found, kind)) return found;
    found->wanted = kinds[kind];
    return NULL;
}

const GgufValue *gguf_find_kind(const Gguf *gguf, const char *key, GgufKind kind) {
    return find_kind(gguf, key, kind);
}

/* The same of a value that is not an array. */
static GgufValue *find_scalar(const Gguf *gguf, const char *key, GgufKind kind) {
    GgufValue *found = find_kind(gguf, key, kind);
    if (!found || !found->is_array) return found;
    found->wanted = kinds[kind];
    return NULL;
}

Status gguf_check_types(const Gguf *gguf, Error *error) {
    static const char *const types[GGUF_TYPES] = {
        [GGUF_UINT8] = "uint8",     [GGUF_INT8] = "int8",     [GGUF_UINT16] = "uint16",
        [GGUF_INT16] = "int16",     [GGUF_UINT32] = "uint32", [GGUF_INT32] = "int32",
        [GGUF_FLOAT32] = "float32", [GGUF_BOOL] = "bool",     [GGUF_STRING] = "text",
        [GGUF_ARRAY] = "array",     [GGUF_UINT64] = "uint64", [GGUF_INT64] = "int64",
        [GGUF_FLOAT64] = "float64"};
    for (size_t i = 0; i < gguf->n_values; i++) {
        const GgufValue *value = &gguf->values[i];
        char number[40] = "";
        double element;
        if (!value->wanted) continue;
        if (!value->is_array && gguf_element(value, 0, &element))
            snprintf(number, sizeof number, " %.9g", element);
        return error_set(error, "%s: the key '%.*s' is %s%s%s, but %s is wanted", gguf->file->path,
                         value->key.length < 100 ? (int)value->key.length : 100, value->key.bytes,
                         value->is_array ? "an array of " : "", types[value->type], number,
                         value->wanted);
    }
    return STATUS_OK;
}

/* Converts element `index` of a value to a double. Returns false where there is no such element,
 * and for texts. */
bool gguf_element(const GgufValue *value, uint64_t index, double *number) {
    if (!value || index >= value->count || value->type == GGUF_STRING) return false;
    union {
        uint8_t u8;
        int8_t i8;
        uint16_t u16;
        int16_t i16;
        uint32_t u32;
        int32_t i32;
        float f32;
        uint64_t u64;
        int64_t i64;
        double f64;
    } v;
    size_t bytes = value_bytes[value->type];
    memcpy(&v, value->values + index * bytes, bytes);
    switch (value->type) {
    case GGUF_UINT8:
    case GGUF_BOOL:
        *number = v.u8;
        break;
    case GGUF_INT8:
        *number = v.i8;
        break;
    case GGUF_UINT16:
        *number = v.u16;
        break;
    case GGUF_INT16:
        *number = v.i16;
        break;
    case GGUF_UINT32:
        *number = v.u32;
        break;
    case GGUF_INT32:
        *number = v.i32;
        break;
    case GGUF_FLOAT32:
        *number = v.f32;
        break;
    case GGUF_UINT64:
        *number = (double)v.u64;
        break;
    case GGUF_INT64:
        *number = (double)v.i64;
        break;
    default:
        *number = v.f64;
        break;
    }
    return true;
}

bool gguf_whole(const GgufValue *value, uint64_t index, uint64_t *number) {
    double wide;
    if (!value || index >= value->count) return false;
    if (value->type == GGUF_UINT64 || value->type == GGUF_INT64) {
        memcpy(number, value->values + index * sizeof *number, sizeof *number);
        return value->type == GGUF_UINT64 || *number <= INT64_MAX;
    }
    if (!gguf_element(value, index, &wide) || !(wide >= 0.0 && wide <= UINT32_MAX)) return false;
    *number = (uint64_t)wide;
    return (double)*number == wide;
}

bool gguf_float(const Gguf *gguf, const char *key, double *value) {
    const GgufValue *found = find_scalar(gguf, key, GGUF_AS_FLOAT);
    return found && gguf_element(found, 0, value);
}

bool gguf_uint(const Gguf *gguf, const char *key, uint64_t most, uint64_t *value) {
    GgufValue *found = find_scalar(gguf, key, GGUF_AS_WHOLE);
    uint64_t number;
    if (!found) return false;
    if (!gguf_whole(found, 0, &number) || number > most) {
        found->wanted = "a whole number that is not negative and not too large";
        return false;
    }
    *value = number;
    return true;
}

bool gguf_bool(const Gguf *gguf, const char *key, bool *value) {
    const GgufValue *found = find_scalar(gguf, key, GGUF_AS_BOOL);
    double number;
    if (!found || !gguf_element(found, 0, &number)) return false;
    *value = number != 0.0;
    return true;
}

/* The text at *at, which moves past it. gguf_read has checked the lengths. */
static TokenizerString text_at(const uint8_t **at) {
    uint64_t length;
    memcpy(&length, *at, sizeof length);
    TokenizerString text = {(const char *)*at + sizeof length, (size_t)length};
    *at += sizeof length + length;
    return text;
}

bool gguf_value_text(const GgufValue *value, TokenizerString *text) {
    if (!value || value->is_array || value->type != GGUF_STRING) return false;
    const uint8_t *at = value->values;
    *text = text_at(&at);
    return true;
}

bool gguf_text(const Gguf *gguf, const char *key, TokenizerString *value) {
    return gguf_value_text(find_scalar(gguf, key, GGUF_AS_TEXT), value);
}

Status gguf_texts(const Gguf *gguf, const char *key, TokenizerString **texts, size_t *n,
                  Error *error) {
    *texts = NULL;
    *n = 0;
    const GgufValue *found = gguf_find(gguf, key);
    if (!found) return STATUS_OK;
    if (!found->is_array || found->type != GGUF_STRING)
        return error_set(error, "%s: %s is not an array of texts", gguf->file->path, key);
    *texts = malloc((found->count + 1) * sizeof **texts);
    if (!*texts) return error_set(error, "%s: no memory", gguf->file->path);
    const uint8_t *at = found->values;
    for (; *n < found->count; ++*n) (*texts)[*n] = text_at(&at);
    return STATUS_OK;
}
