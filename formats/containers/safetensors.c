#include "formats/containers/safetensors.h"

#include <string.h>

#include "formats/family/extents.h"
#include "json/json_object.h"
#include "json/json_reader.h"

/* The format's own limit. */
static const uint64_t MOST_HEADER_BYTES = 100000000;

static const struct {
    const char *name;
    StoredType type;
    size_t bytes;
} dtypes[] = {
    {"F32", STORED_F32, 4},         {"F16", STORED_F16, 2},         {"BF16", STORED_BF16, 2},
    {"F64", STORED_TYPES, 8},       {"I64", STORED_TYPES, 8},       {"I32", STORED_TYPES, 4},
    {"I16", STORED_TYPES, 2},       {"I8", STORED_TYPES, 1},        {"U8", STORED_TYPES, 1},
    {"BOOL", STORED_TYPES, 1},      {"U16", STORED_TYPES, 2},       {"U32", STORED_TYPES, 4},
    {"U64", STORED_TYPES, 8},       {"F8_E4M3", STORED_F8_E4M3, 1}, {"F8_E5M2", STORED_TYPES, 1},
    {"F8_E8M0", STORED_F8_E8M0, 1},
};

/* Reads a whole number that is not negative. */
static bool json_size(const json_t *value, uint64_t *out) {
    if (!json_is_integer(value) || json_integer_value(value) < 0) return false;
    *out = (uint64_t)json_integer_value(value);
    return true;
}

static void read_dtype(RawTensor *raw, const char *name, size_t *bytes) {
    raw->type = STORED_TYPES;
    *bytes = 0;
    strncpy(raw->type_name, name, sizeof raw->type_name - 1);
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        if (strcmp(dtypes[i].name, name) != 0) continue;
        raw->type = dtypes[i].type;
        *bytes = dtypes[i].bytes;
    }
}

/* Adds the tensor that one member of the header describes; `data` is where the tensors begin. */
static Status read_tensor(const InputFile *file, size_t index, uint64_t data, const char *name,
                          const json_t *entry, RawTable *table, Error *error) {
    const char *dtype = json_text(entry, "dtype");
    const json_t *shape = json_value(entry, "shape"), *offsets = json_value(entry, "data_offsets");
    uint64_t begin, end, elements = 1, bytes;
    if (!dtype || !json_is_array(shape) || !json_is_array(offsets) ||
        !json_size(json_array_get(offsets, 0), &begin) ||
        !json_size(json_array_get(offsets, 1), &end))
        return error_set(error, "%s: header: tensor '%.100s' is not described properly", file->path,
                         name);
    if (begin > end || end > file->bytes - data)
        return error_set(error,
                         "%s: tensor '%.100s': needs bytes %llu to %llu of the data, but "
                         "the file holds %llu",
                         file->path, name, (unsigned long long)begin, (unsigned long long)end,
                         (unsigned long long)(file->bytes - data));
    RawTensor *raw = raw_table_add(table, name, strlen(name));
    if (!raw) return error_set(error, "%s: no memory", file->path);
    size_t element_bytes;
    read_dtype(raw, dtype, &element_bytes);
    raw->file = index;
    raw->offset = data + begin;
    raw->bytes = end - begin;
    size_t n_dims = json_array_size(shape);
    bool fits = true;
    for (size_t i = 0; i < n_dims; i++) {
        uint64_t size;
        fits = fits && json_size(json_array_get(shape, i), &size) &&
               !__builtin_mul_overflow(elements, size, &elements);
        if (fits && i < RAW_MAX_DIMS) raw->dims[i] = size;
    }
    /* No tensor of a language model has more dimensions: 0 keeps it in the table but fits no rule.
     */
    raw->n_dims = n_dims > RAW_MAX_DIMS ? 0 : (uint32_t)n_dims;
    if (!fits || (element_bytes && (__builtin_mul_overflow(elements, element_bytes, &bytes) ||
                                    bytes != end - begin)))
        return error_set(error, "%s: tensor '%.100s': %llu bytes do not fit its shape and type %s",
                         file->path, name, (unsigned long long)(end - begin), raw->type_name);
    return STATUS_OK;
}

/* Adds the tensors that safetensors.torch.save_model left out because another has the same memory:
 * its metadata maps their names to the one that it kept, as its load_model reads them. */
static Status read_shared(const InputFile *file, size_t index, uint64_t data, const json_t *header,
                          RawTable *table, Error *error) {
    const char *name;
    json_t *value;
    json_object_foreach(json_object_get(header, "__metadata__"), name, value) {
        const char *kept = json_string_value(value);
        const json_t *entry = kept ? json_object_get(header, kept) : NULL;
        if (!json_object_get(entry, "data_offsets") || json_object_get(header, name)) continue;
        if (read_tensor(file, index, data, name, entry, table, error) != STATUS_OK)
            return STATUS_FAILED;
        table->items[table->n - 1].used = true; /* what nobody asks for is there already */
    }
    return STATUS_OK;
}

Status safetensors_read(const InputFile *file, size_t index, RawTable *table, Error *error) {
    uint64_t header_bytes;
    if (file->bytes < sizeof header_bytes)
        return error_set(error, "%s: cut off: %llu bytes do not hold a header", file->path,
                         (unsigned long long)file->bytes);
    if (memcmp(file->map, "version ", 8) == 0)
        return error_set(error,
                         "%s: not the file but git-lfs's pointer to it: run git lfs pull in its "
                         "directory",
                         file->path);
    memcpy(&header_bytes, file->map, sizeof header_bytes);
    if (header_bytes > file->bytes - sizeof header_bytes || header_bytes > MOST_HEADER_BYTES)
        return error_set(error,
                         "%s: not a safetensors file, or cut off: the header has %llu bytes, "
                         "the file %llu",
                         file->path, (unsigned long long)header_bytes,
                         (unsigned long long)file->bytes);
    /* Without JSON_ALLOW_NUL: no name of a tensor or type may end early for some readers. */
    json_error_t where;
    json_t *header = json_reader_load((const char *)file->map + sizeof header_bytes,
                                      (size_t)header_bytes, JSON_REJECT_DUPLICATES, &where);
    if (!header)
        return error_set(error, "%s: header: line %d: %s", file->path, where.line, where.text);
    if (!json_is_object(header)) {
        json_decref(header);
        return error_set(error, "%s: header: not a JSON object", file->path);
    }
    size_t first = table->n;
    uint64_t data = header_bytes + sizeof header_bytes;
    Status status = STATUS_OK;
    const char *name;
    json_t *entry;
    json_object_foreach(header, name, entry) {
        if (strcmp(name, "__metadata__") == 0) continue;
        status = read_tensor(file, index, data, name, entry, table, error);
        if (status != STATUS_OK) break;
    }
    if (status == STATUS_OK) status = extents_check(table, first, file, true, data, error);
    if (status == STATUS_OK) status = read_shared(file, index, data, header, table, error);
    json_decref(header);
    return status;
}
