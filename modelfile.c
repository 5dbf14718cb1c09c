#include "modelfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/mapped.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the file's structures are mapped");
_Static_assert(sizeof(FileHeader) == 32 && sizeof(FileSection) == 32 && sizeof(FileTensor) == 128 &&
                   sizeof(MetaHeader) == 8,
               "the file's structures have no padding");

enum { MAX_SECTIONS = 64, MAX_TENSORS = 1 << 20 };

struct ModelFile {
    char *path;
    int fd;
    const uint8_t *map;
    size_t bytes;
    const FileSection *sections; /* in the mapping */
    size_t n_sections;
    const FileTensor *tensors; /* in the mapping */
    size_t n_tensors;
    uint32_t *by_name; /* [n_tensors], indices sorted by name */
    MetaEntry *entries;
    size_t n_entries;
    Config config;
};

/* ---- Opening and mapping ---- */

static Status open_regular(ModelFile *file, Error *error) {
    /* O_NONBLOCK: a named pipe must be an error, not a wait for its writer. */
    if (file->fd < 0) file->fd = open(file->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file->fd < 0) return error_set(error, "%s: %s", file->path, strerror(errno));
    struct stat info;
    if (fstat(file->fd, &info) != 0) return error_set(error, "%s: %s", file->path, strerror(errno));
    if (S_ISDIR(info.st_mode)) return error_set(error, "%s: is a directory", file->path);
    if (!S_ISREG(info.st_mode)) return error_set(error, "%s: not a regular file", file->path);
    if (info.st_size == 0) return error_set(error, "%s: empty file", file->path);
    file->bytes = (size_t)info.st_size;
    void *map = mmap(NULL, file->bytes, PROT_READ, MAP_SHARED, file->fd, 0);
    if (map == MAP_FAILED)
        return error_set(error, "%s: cannot map: %s", file->path, strerror(errno));
    file->map = map;
    mapped_remember(map, file->bytes, file->path);
    return STATUS_OK;
}

static Status check_header(ModelFile *file, Error *error) {
    const FileHeader *header = (const FileHeader *)file->map;
    size_t magic_bytes = file->bytes < 8 ? file->bytes : 8;
    if (memcmp(file->map, MODELFILE_MAGIC, magic_bytes) != 0)
        return error_set(error, "%s: not a model.bin (it does not begin with '%s')", file->path,
                         MODELFILE_MAGIC);
    if (file->bytes < sizeof *header)
        return error_set(error, "%s: cut off: %zu bytes do not hold a header", file->path,
                         file->bytes);
    if (header->version != MODELFILE_VERSION)
        return error_set(error, "%s: version %u of the format, but this program reads version %d",
                         file->path, header->version, MODELFILE_VERSION);
    if (header->file_bytes != file->bytes)
        return error_set(error, "%s: %s: %zu bytes, but its header says %llu", file->path,
                         file->bytes < header->file_bytes ? "cut off" : "too long", file->bytes,
                         (unsigned long long)header->file_bytes);
    if (header->n_sections > MAX_SECTIONS)
        return error_set(error, "%s: %u sections, more than %d", file->path, header->n_sections,
                         MAX_SECTIONS);
    size_t table_bytes = header->n_sections * sizeof(FileSection);
    if (file->bytes < sizeof *header + table_bytes)
        return error_set(error, "%s: cut off inside its section table", file->path);
    FileHeader unsigned_header = *header;
    unsigned_header.checksum = 0;
    uint8_t signed_bytes[sizeof(FileHeader) + MAX_SECTIONS * sizeof(FileSection)];
    memcpy(signed_bytes, &unsigned_header, sizeof unsigned_header);
    memcpy(signed_bytes + sizeof unsigned_header, header + 1, table_bytes);
    if (XXH3_64bits(signed_bytes, sizeof unsigned_header + table_bytes) != header->checksum)
        return error_set(error, "%s: damaged: the header's checksum is wrong", file->path);
    file->sections = (const FileSection *)(header + 1);
    file->n_sections = header->n_sections;
    return STATUS_OK;
}

static const char *section_name(uint32_t kind) {
    static const char *const names[SECTION_KINDS] = {[SECTION_METADATA] = "metadata",
                                                     [SECTION_TENSORS] = "tensors",
                                                     [SECTION_TOKENIZER] = "tokenizer",
                                                     [SECTION_TEMPLATE] = "template",
                                                     [SECTION_DATA] = "data"};
    return kind < SECTION_KINDS && names[kind] ? names[kind] : "unknown";
}

static const FileSection *find_section(const ModelFile *file, uint32_t kind) {
    for (size_t i = 0; i < file->n_sections; i++)
        if (file->sections[i].kind == kind) return &file->sections[i];
    return NULL;
}

static Status check_sections(ModelFile *file, Error *error) {
    for (size_t i = 0; i < file->n_sections; i++) {
        const FileSection *s = &file->sections[i];
        uint64_t end;
        if (__builtin_add_overflow(s->offset, s->bytes, &end) || end > file->bytes)
            return error_set(error,
                             "%s: section '%s': needs %llu bytes at offset %llu, but the file ends "
                             "at %zu",
                             file->path, section_name(s->kind), (unsigned long long)s->bytes,
                             (unsigned long long)s->offset, file->bytes);
        if (s->offset % MODELFILE_ALIGNMENT != 0)
            return error_set(error, "%s: section '%s': offset %llu is no multiple of %d",
                             file->path, section_name(s->kind), (unsigned long long)s->offset,
                             MODELFILE_ALIGNMENT);
        if (find_section(file, s->kind) != s)
            return error_set(error, "%s: two sections '%s'", file->path, section_name(s->kind));
    }
    static const uint32_t required[] = {SECTION_METADATA, SECTION_TENSORS, SECTION_DATA};
    for (size_t i = 0; i < sizeof required / sizeof *required; i++) {
        const FileSection *s = find_section(file, required[i]);
        if (!s)
            return error_set(error, "%s: section '%s' is missing", file->path,
                             section_name(required[i]));
        /* These two are small and everything depends on them; --verify checks the others. */
        if (s->kind != SECTION_DATA &&
            XXH3_64bits(file->map + s->offset, (size_t)s->bytes) != s->checksum)
            return error_set(error, "%s: damaged: the checksum of section '%s' is wrong",
                             file->path, section_name(s->kind));
    }
    return STATUS_OK;
}

/* ---- Metadata ---- */

static size_t element_bytes(uint16_t type) {
    return type == META_BOOL || type == META_TEXT ? 1 : 8;
}

/* The entry at *at, which moves past it. Every addition below stays far under SIZE_MAX: counts
 * are 32 bits wide. */
static bool next_entry(const uint8_t *bytes, size_t size, size_t *at, MetaEntry *entry) {
    MetaHeader header;
    if (size - *at < sizeof header) return false;
    memcpy(&header, bytes + *at, sizeof header);
    if (header.type == 0 || header.type >= META_TYPES || header.key_bytes == 0) return false;
    size_t key_end = sizeof header + header.key_bytes;
    size_t values_at = round_up(key_end, 8);
    size_t end = round_up(values_at + (size_t)header.count * element_bytes(header.type), 8);
    if (end > size - *at) return false;
    *entry = (MetaEntry){.key = (const char *)bytes + *at + sizeof header,
                         .key_bytes = header.key_bytes,
                         .type = header.type,
                         .count = header.count,
                         .values = bytes + *at + values_at};
    *at += end;
    return true;
}

static Status read_metadata(ModelFile *file, Error *error) {
    size_t size, n = 0;
    const uint8_t *bytes = modelfile_section(file, SECTION_METADATA, &size);
    MetaEntry entry;
    for (size_t at = 0; at < size; n++)
        if (!next_entry(bytes, size, &at, &entry))
            return error_set(error, "%s: metadata: entry %zu is damaged", file->path, n);
    file->entries = malloc((n ? n : 1) * sizeof *file->entries);
    if (!file->entries) return error_set(error, "%s: no memory", file->path);
    for (size_t at = 0; at < size; file->n_entries++)
        next_entry(bytes, size, &at, &file->entries[file->n_entries]);
    return STATUS_OK;
}

static const MetaEntry *find_entry(const ModelFile *file, const char *key) {
    size_t bytes = strlen(key);
    for (size_t i = 0; i < file->n_entries; i++)
        if (file->entries[i].key_bytes == bytes && memcmp(file->entries[i].key, key, bytes) == 0)
            return &file->entries[i];
    return NULL;
}

size_t modelfile_n_meta(const ModelFile *file) {
    return file->n_entries;
}

MetaEntry modelfile_meta(const ModelFile *file, size_t i) {
    return file->entries[i];
}

static bool entry_uint(const MetaEntry *entry, size_t index, uint64_t *value) {
    if (!entry || index >= entry->count) return false;
    if (entry->type == META_BOOL) {
        *value = ((const uint8_t *)entry->values)[index] != 0;
        return true;
    }
    *value = entry->type == META_TEXT ? 0 : ((const uint64_t *)entry->values)[index];
    return entry->type == META_UINT || (entry->type == META_INT && (int64_t)*value >= 0);
}

bool modelfile_meta_uint(const ModelFile *file, const char *key, size_t index, uint64_t *value) {
    return entry_uint(find_entry(file, key), index, value);
}

bool modelfile_meta_float(const ModelFile *file, const char *key, size_t index, double *value) {
    return modelfile_entry_float(find_entry(file, key), index, value);
}

bool modelfile_entry_float(const MetaEntry *entry, size_t index, double *value) {
    if (!entry || index >= entry->count || entry->type == META_TEXT) return false;
    if (entry->type == META_FLOAT) {
        *value = ((const double *)entry->values)[index];
    } else if (entry->type == META_INT) {
        *value = (double)((const int64_t *)entry->values)[index];
    } else {
        uint64_t whole;
        if (!entry_uint(entry, index, &whole)) return false;
        *value = (double)whole;
    }
    return true;
}

bool modelfile_meta_text(const ModelFile *file, const char *key, const char **text, size_t *bytes) {
    const MetaEntry *entry = find_entry(file, key);
    if (!entry || entry->type != META_TEXT) return false;
    *text = entry->values;
    *bytes = entry->count;
    return true;
}

/* ---- Config ---- */

static bool read_enum(const ConfigField *field, const MetaEntry *entry, unsigned *value) {
    if (entry->type != META_TEXT) return false;
    for (unsigned i = 0; field->names[i]; i++) {
        if (strlen(field->names[i]) == entry->count &&
            memcmp(field->names[i], entry->values, entry->count) == 0) {
            *value = i;
            return true;
        }
    }
    return false;
}

static bool read_int(const MetaEntry *entry, int32_t *value) {
    if (entry->type != META_INT) return false;
    int64_t whole = *(const int64_t *)entry->values;
    *value = (int32_t)whole;
    return *value == whole;
}

/* An array of at most `capacity` numbers of 32 bits. */
static bool read_list(const MetaEntry *entry, uint32_t *values, size_t capacity) {
    if (entry->type != META_UINT || entry->count > capacity) return false;
    for (size_t i = 0; i < entry->count; i++) {
        uint64_t value = ((const uint64_t *)entry->values)[i];
        if (value > UINT32_MAX) return false;
        values[i] = (uint32_t)value;
    }
    return true;
}

/* Stores the entry's value in the field; false when it is of the wrong type or size. */
static bool read_field(Config *config, const ConfigField *field, const MetaEntry *entry) {
    void *out = (char *)config + field->offset;
    uint64_t whole = 0;
    bool scalar = entry->count == 1;
    switch (field->kind) {
    case FIELD_UINT:
        if (!scalar || !entry_uint(entry, 0, &whole) || whole > UINT32_MAX) return false;
        *(uint32_t *)out = (uint32_t)whole;
        return true;
    case FIELD_INT:
        return scalar && read_int(entry, out);
    case FIELD_FLOAT:
        if (!scalar || entry->type != META_FLOAT) return false;
        *(float *)out = (float)*(const double *)entry->values;
        return true;
    case FIELD_BOOL:
        if (!scalar || entry->type != META_BOOL) return false;
        *(bool *)out = *(const uint8_t *)entry->values != 0;
        return true;
    case FIELD_ENUM:
        return read_enum(field, entry, out);
    case FIELD_TEXT:
        if (entry->type != META_TEXT || entry->count >= field->capacity) return false;
        memset(out, 0, field->capacity);
        memcpy(out, entry->values, entry->count);
        return true;
    case FIELD_PER_LAYER:
        return read_list(entry, out, CONFIG_MAX_LAYERS);
    case FIELD_LIST:
        *(uint32_t *)((char *)config + field->count_offset) = (uint32_t)entry->count;
        return read_list(entry, out, field->capacity);
    }
    return false;
}

static Status read_config(ModelFile *file, Error *error) {
    file->config = config_default();
    const ConfigField *field;
    for (size_t i = 0; (field = config_field(i)); i++) {
        const MetaEntry *entry = find_entry(file, field->name);
        if (entry && !read_field(&file->config, field, entry))
            return error_set(error, "%s: metadata: '%s' has a value that it cannot have",
                             file->path, field->name);
    }
    if (config_validate(&file->config, error) != STATUS_OK)
        return error_prefix(error, "%s: metadata", file->path);
    return STATUS_OK;
}

/* ---- The directory ---- */

static Status check_tensor(const ModelFile *file, const FileSection *data, const FileTensor *t,
                           Error *error) {
    const char *path = file->path;
    if (t->name[0] == '\0' || !memchr(t->name, '\0', sizeof t->name))
        return error_set(error, "%s: tensor %zu has no proper name", path,
                         (size_t)(t - file->tensors));
    if (!tensor_type_info(t->type))
        return error_set(error, "%s: tensor '%s': unknown type %u", path, t->name, t->type);
    size_t bytes;
    bool fits = t->rows > 0 && t->cols > 0 && t->count > 0;
    if (t->type == TENSOR_VECTOR) {
        fits = fits && t->count == 1 && size_mul(t->rows, t->cols, &bytes) &&
               size_mul(bytes, sizeof(float), &bytes);
    } else {
        fits = fits && tensor_matrix_bytes((TensorType)t->type, t->rows, t->cols, &bytes) &&
               size_mul(bytes, t->count, &bytes);
    }
    if (!fits || bytes != t->bytes)
        return error_set(error, "%s: tensor '%s': %llu bytes do not fit its shape %u x %llu x %llu",
                         path, t->name, (unsigned long long)t->bytes, t->count,
                         (unsigned long long)t->rows, (unsigned long long)t->cols);
    uint64_t end;
    if (__builtin_add_overflow(t->offset, t->bytes, &end) || t->offset < data->offset ||
        end > data->offset + data->bytes)
        return error_set(
            error, "%s: tensor '%s': needs %llu bytes at offset %llu, but the data end at %llu",
            path, t->name, (unsigned long long)t->bytes, (unsigned long long)t->offset,
            (unsigned long long)(data->offset + data->bytes));
    if (t->offset % MODELFILE_ALIGNMENT != 0)
        return error_set(error, "%s: tensor '%s': offset %llu is no multiple of %d", path, t->name,
                         (unsigned long long)t->offset, MODELFILE_ALIGNMENT);
    return STATUS_OK;
}

static int compare_names(const void *a, const void *b, void *context) {
    const FileTensor *tensors = context;
    return strcmp(tensors[*(const uint32_t *)a].name, tensors[*(const uint32_t *)b].name);
}

static Status read_directory(ModelFile *file, Error *error) {
    size_t bytes;
    const FileSection *data = find_section(file, SECTION_DATA);
    file->tensors = modelfile_section(file, SECTION_TENSORS, &bytes);
    file->n_tensors = bytes / sizeof(FileTensor);
    if (bytes % sizeof(FileTensor) != 0 || file->n_tensors > MAX_TENSORS)
        return error_set(error, "%s: the tensor directory has %zu bytes", file->path, bytes);
    for (size_t i = 0; i < file->n_tensors; i++)
        if (check_tensor(file, data, &file->tensors[i], error) != STATUS_OK) return STATUS_FAILED;
    file->by_name = malloc((file->n_tensors + 1) * sizeof *file->by_name);
    if (!file->by_name) return error_set(error, "%s: no memory", file->path);
    for (size_t i = 0; i < file->n_tensors; i++) file->by_name[i] = (uint32_t)i;
    qsort_r(file->by_name, file->n_tensors, sizeof *file->by_name, compare_names,
            (void *)file->tensors);
    for (size_t i = 1; i < file->n_tensors; i++) {
        const char *name = file->tensors[file->by_name[i]].name;
        if (strcmp(name, file->tensors[file->by_name[i - 1]].name) == 0)
            return error_set(error, "%s: two tensors '%s'", file->path, name);
    }
    return STATUS_OK;
}

/* ---- The interface ---- */

Status modelfile_open(ModelFile **out, const char *path, int fd, Error *error) {
    *out = NULL;
    ModelFile *file = calloc(1, sizeof *file);
    if (!file) {
        if (fd >= 0) close(fd);
        return error_set(error, "%s: no memory", path);
    }
    file->fd = fd;
    file->path = strdup(path);
    Status status = file->path ? STATUS_OK : error_set(error, "%s: no memory", path);
    if (status == STATUS_OK) status = open_regular(file, error);
    if (status == STATUS_OK) status = check_header(file, error);
    if (status == STATUS_OK) status = check_sections(file, error);
    if (status == STATUS_OK) status = read_metadata(file, error);
    if (status == STATUS_OK) status = read_config(file, error);
    if (status == STATUS_OK) status = read_directory(file, error);
    if (status != STATUS_OK) {
        modelfile_close(file);
        return status;
    }
    /* Where the file system has huge pages, a fault then brings and maps 2 MiB instead of 64 KiB;
     * elsewhere it reads 4 MiB ahead. Of a mixture, only the experts that are used are wanted. */
    if (file->config.n_experts == 0) madvise((void *)file->map, file->bytes, MADV_HUGEPAGE);
    *out = file;
    return STATUS_OK;
}

void modelfile_close(ModelFile *file) {
    if (!file) return;
    if (file->map) {
        mapped_forget(file->map);
        munmap((void *)file->map, file->bytes);
    }
    if (file->fd >= 0) close(file->fd);
    free(file->by_name);
    free(file->entries);
    free(file->path);
    free(file);
}

const char *modelfile_path(const ModelFile *file) {
    return file->path;
}

size_t modelfile_bytes(const ModelFile *file) {
    return file->bytes;
}

uint64_t modelfile_checksum(const ModelFile *file) {
    return ((const FileHeader *)file->map)->checksum;
}

Config *modelfile_config_to_change(ModelFile *file) {
    return &file->config;
}

const Config *modelfile_config(const ModelFile *file) {
    return &file->config;
}

const void *modelfile_section(const ModelFile *file, SectionKind kind, size_t *bytes) {
    const FileSection *section = find_section(file, kind);
    *bytes = section ? (size_t)section->bytes : 0;
    return section ? file->map + section->offset : NULL;
}

size_t modelfile_n_sections(const ModelFile *file) {
    return file->n_sections;
}

const FileSection *modelfile_section_entry(const ModelFile *file, size_t i) {
    return &file->sections[i];
}

const char *modelfile_section_name(uint32_t kind) {
    return section_name(kind);
}

size_t modelfile_n_tensors(const ModelFile *file) {
    return file->n_tensors;
}

const FileTensor *modelfile_tensor(const ModelFile *file, size_t i) {
    return &file->tensors[i];
}

const FileTensor *modelfile_find(const ModelFile *file, const char *name) {
    size_t low = 0, high = file->n_tensors;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const FileTensor *tensor = &file->tensors[file->by_name[middle]];
        int order = strcmp(name, tensor->name);
        if (order == 0) return tensor;
        if (order < 0) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return NULL;
}

const void *modelfile_data(const ModelFile *file, const FileTensor *tensor) {
    return file->map + tensor->offset;
}

Matrix modelfile_matrix(const ModelFile *file, const FileTensor *tensor, size_t index) {
    Matrix m = {.type = (TensorType)tensor->type,
                .rows = (size_t)tensor->rows,
                .cols = (size_t)tensor->cols};
    tensor_panel_bytes(m.type, m.cols, &m.panel_bytes);
    m.data = file->map + tensor->offset + index * (tensor->bytes / tensor->count);
    return m;
}
