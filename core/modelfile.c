#include "core/modelfile.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/array.h"
#include "base/mapped.h"
#include "core/config_fields.h"

_Static_assert(
    __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
    "model.bin is little-endian and mapped as it is: a big-endian machine cannot run it");
_Static_assert(sizeof(FileHeader) == 32 && sizeof(FileSection) == 32 && sizeof(FileTensor) == 128 &&
                   sizeof(MetaHeader) == 8,
               "the file's structures have no padding");

enum { MAX_SECTIONS = 64, MAX_TENSORS = 1 << 20 };

struct ModelFile {
    char *path;
    int fd;
    bool mapped; /* map is the file's own pages, not a copy */
    const uint8_t *map;
    size_t bytes;
    const FileSection *sections; /* in the mapping */
    size_t n_sections;
    const FileTensor *tensors; /* in the mapping, or `replaced` */
    size_t n_tensors;
    FileTensor *replaced;       /* [n_tensors], a copy that modelfile_replace changes; or NULL */
    const uint8_t **data;       /* [n_tensors], with `replaced`: where each tensor's data are */
    const FileTensor **by_name; /* [n_tensors], sorted by name */
    MetaEntry *entries;
    size_t n_entries;
    Config config;
};

/* The functions below leave the path out of their Errors; modelfile_open puts it in front. */

/* ---- Opening and mapping ---- */

/* How the file's bytes come into memory: map_file or copy_file. Each is named by one function
 * alone, so that a linker leaves the other out (WebAssembly has no mprotect). */
typedef Status TakeFile(ModelFile *file, Error *error);

static Status take_mapping(ModelFile *file, void *map, Error *error) {
    if (map == MAP_FAILED) return error_set(error, "cannot map: %s", strerror(errno));
    file->map = map;
    return STATUS_OK;
}

static Status map_file(ModelFile *file, Error *error) {
    void *map = mmap(NULL, file->bytes, PROT_READ, MAP_SHARED, file->fd, 0);
    Status status = take_mapping(file, map, error);
    file->mapped = status == STATUS_OK;
    if (file->mapped) mapped_remember(map, file->bytes, file->path);
    return status;
}

/* Copies the file into memory that is then as read-only as a mapped file. */
static Status copy_file(ModelFile *file, Error *error) {
    uint8_t *to =
        mmap(NULL, file->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (take_mapping(file, to, error) != STATUS_OK) return STATUS_FAILED;
    for (size_t at = 0; at < file->bytes;) {
        ssize_t n = pread(file->fd, to + at, file->bytes - at, (off_t)at);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return error_set(error, "cannot be read: %s", strerror(errno));
        if (n == 0) return error_set(error, "became shorter while it was read");
        at += (size_t)n;
    }
    mprotect(to, file->bytes, PROT_READ);
    return STATUS_OK;
}

static Status check_file(ModelFile *file, Error *error) {
    /* O_NONBLOCK: a named pipe is an error at once, instead of a wait for its writer. */
    if (file->fd < 0) file->fd = open(file->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat info;
    if (file->fd < 0 || fstat(file->fd, &info) != 0) return error_set(error, "%s", strerror(errno));
    if (S_ISDIR(info.st_mode)) return error_set(error, "is a directory");
    if (!S_ISREG(info.st_mode)) return error_set(error, "not a regular file");
    if (info.st_size == 0) return error_set(error, "empty file");
    file->bytes = (size_t)info.st_size;
    return STATUS_OK;
}

/* The header's checksum covers the header, with the checksum's own field taken as zero, and the
 * section table. */
static uint64_t header_checksum(const FileHeader *header) {
    uint8_t covered[sizeof *header + MAX_SECTIONS * sizeof(FileSection)];
    size_t bytes = sizeof *header + header->n_sections * sizeof(FileSection);
    memcpy(covered, header, bytes);
    memset(covered + offsetof(FileHeader, checksum), 0, sizeof header->checksum);
    return XXH3_64bits(covered, bytes);
}

/* Checks the header's magic, version, size and checksum, and finds the section table after it. */
static Status check_header(ModelFile *file, Error *error) {
    const FileHeader *header = (const FileHeader *)file->map;
    size_t magic_bytes = file->bytes < 8 ? file->bytes : 8;
    if (memcmp(file->map, MODELFILE_MAGIC, magic_bytes) != 0)
        return error_set(error, "not a model.bin (it does not begin with '%s')", MODELFILE_MAGIC);
    if (file->bytes < sizeof *header)
        return error_set(error, "cut off: %zu bytes do not hold a header", file->bytes);
    if (header->version != MODELFILE_VERSION)
        return error_set(error, "version %u of the format, but this program reads version %d",
                         header->version, MODELFILE_VERSION);
    if (header->file_bytes != file->bytes)
        return error_set(error, "%s: %zu bytes, but its header says %" PRIu64,
                         file->bytes < header->file_bytes ? "cut off" : "too long", file->bytes,
                         header->file_bytes);
    if (header->n_sections > MAX_SECTIONS)
        return error_set(error, "%u sections, more than %d", header->n_sections, MAX_SECTIONS);
    if (file->bytes < sizeof *header + header->n_sections * sizeof(FileSection))
        return error_set(error, "cut off inside its section table");
    if (header_checksum(header) != header->checksum)
        return error_set(error, "damaged: the header's checksum is wrong");
    file->sections = (const FileSection *)(header + 1);
    file->n_sections = header->n_sections;
    return STATUS_OK;
}

/* ---- Sections ---- */

const char *modelfile_section_name(uint32_t kind) {
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

const void *modelfile_section(const ModelFile *file, SectionKind kind, size_t *bytes) {
    const FileSection *section = find_section(file, kind);
    *bytes = section ? (size_t)section->bytes : 0;
    return section ? file->map + section->offset : NULL;
}

/* Checks that `bytes` at `offset` lie aligned between first and end, where `whole` ends. */
static Status check_place(const char *what, const char *name, uint64_t offset, uint64_t bytes,
                          uint64_t first, uint64_t end, const char *whole, Error *error) {
    uint64_t own_end;
    if (__builtin_add_overflow(offset, bytes, &own_end) || offset < first || own_end > end)
        return error_set(
            error, "%s '%s': needs %" PRIu64 " bytes at offset %" PRIu64 ", but the %s at %" PRIu64,
            what, name, bytes, offset, whole, end);
    if (offset % MODELFILE_ALIGNMENT != 0)
        return error_set(error, "%s '%s': offset %" PRIu64 " is no multiple of %d", what, name,
                         offset, MODELFILE_ALIGNMENT);
    return STATUS_OK;
}

/* Checks that each section lies inside the file, that none comes twice and no required one is
 * missing, and the checksums of metadata and directory. */
static Status check_sections(ModelFile *file, Error *error) {
    for (size_t i = 0; i < file->n_sections; i++) {
        const FileSection *s = &file->sections[i];
        const char *name = modelfile_section_name(s->kind);
        if (check_place("section", name, s->offset, s->bytes, 0, file->bytes, "file ends", error) !=
            STATUS_OK)
            return STATUS_FAILED;
        if (find_section(file, s->kind) != s) return error_set(error, "two sections '%s'", name);
    }
    static const uint32_t required[] = {SECTION_METADATA, SECTION_TENSORS, SECTION_DATA};
    for (size_t i = 0; i < sizeof required / sizeof *required; i++) {
        const FileSection *s = find_section(file, required[i]);
        const char *name = modelfile_section_name(required[i]);
        if (!s) return error_set(error, "section '%s' is missing", name);
        /* Metadata and directory are small and everything depends on them. The checksums of the
         * other sections are checked by --verify. */
        if (s->kind != SECTION_DATA &&
            XXH3_64bits(file->map + s->offset, (size_t)s->bytes) != s->checksum)
            return error_set(error, "damaged: the checksum of section '%s' is wrong", name);
    }
    return STATUS_OK;
}

/* ---- Metadata ---- */

static size_t element_bytes(uint16_t type) {
    return type == META_BOOL || type == META_TEXT ? 1 : 8;
}

/* Reads the entry at *at and moves *at past it; false when the entry is damaged. The additions
 * stay far below SIZE_MAX, because counts have 32 bits. */
static bool next_entry(const uint8_t *bytes, size_t size, size_t *at, MetaEntry *entry) {
    MetaHeader header;
    if (size - *at < sizeof header) return false;
    memcpy(&header, bytes + *at, sizeof header);
    if (header.type == 0 || header.type >= META_TYPES || header.key_bytes == 0) return false;
    size_t values_at = round_up(sizeof header + header.key_bytes, 8);
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
    size_t size, capacity = 0;
    const uint8_t *bytes = modelfile_section(file, SECTION_METADATA, &size);
    for (size_t at = 0; at < size; file->n_entries++) {
        if (!array_reserve(&file->entries, &capacity, file->n_entries + 1, sizeof *file->entries))
            return error_set(error, "no memory");
        if (!next_entry(bytes, size, &at, &file->entries[file->n_entries]))
            return error_set(error, "metadata: entry %zu is damaged", file->n_entries);
    }
    return STATUS_OK;
}

const MetaEntry *modelfile_meta(const ModelFile *file, size_t i) {
    return i < file->n_entries ? &file->entries[i] : NULL;
}

static const MetaEntry *find_entry(const ModelFile *file, const char *key) {
    size_t bytes = strlen(key);
    for (size_t i = 0; i < file->n_entries; i++)
        if (file->entries[i].key_bytes == bytes && memcmp(file->entries[i].key, key, bytes) == 0)
            return &file->entries[i];
    return NULL;
}

static bool entry_uint(const MetaEntry *entry, size_t index, uint64_t *value) {
    if (!entry || index >= entry->count || entry->type == META_TEXT) return false;
    *value = entry->type == META_BOOL ? ((const uint8_t *)entry->values)[index] != 0
                                      : ((const uint64_t *)entry->values)[index];
    return entry->type != META_FLOAT && (entry->type != META_INT || (int64_t)*value >= 0);
}

bool modelfile_entry_float(const MetaEntry *entry, size_t index, double *value) {
    uint64_t whole;
    if (!entry || index >= entry->count || entry->type == META_TEXT) return false;
    if (entry->type == META_FLOAT) {
        *value = ((const double *)entry->values)[index];
    } else if (entry->type == META_INT) {
        *value = (double)((const int64_t *)entry->values)[index];
    } else {
        entry_uint(entry, index, &whole);
        *value = (double)whole;
    }
    return true;
}

bool modelfile_meta_uint(const ModelFile *file, const char *key, size_t index, uint64_t *value) {
    return entry_uint(find_entry(file, key), index, value);
}

bool modelfile_meta_float(const ModelFile *file, const char *key, size_t index, double *value) {
    return modelfile_entry_float(find_entry(file, key), index, value);
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
    for (*value = 0; entry->type == META_TEXT && field->names[*value]; ++*value)
        if (strlen(field->names[*value]) == entry->count &&
            memcmp(field->names[*value], entry->values, entry->count) == 0)
            return true;
    return false;
}

/* Reads all elements of the entry, at most `capacity`, as numbers of 32 bits. */
static bool read_uints(const MetaEntry *entry, uint32_t *values, size_t capacity) {
    uint64_t whole;
    if (entry->count > capacity) return false;
    for (size_t i = 0; i < entry->count; i++) {
        if (!entry_uint(entry, i, &whole) || whole > UINT32_MAX) return false;
        values[i] = (uint32_t)whole;
    }
    return true;
}

/* Stores the entry's value in the field; false when its type or size is wrong. */
static bool read_field(Config *config, const ConfigField *field, const MetaEntry *entry) {
    void *out = (char *)config + field->offset;
    bool is_scalar = entry->count == 1;
    int64_t whole;
    switch (field->kind) {
    case FIELD_UINT:
        return is_scalar && read_uints(entry, out, 1);
    case FIELD_INT:
        if (!is_scalar || entry->type != META_INT) return false;
        memcpy(&whole, entry->values, sizeof whole);
        *(int32_t *)out = (int32_t)whole;
        return whole == (int32_t)whole;
    case FIELD_FLOAT:
        if (!is_scalar || entry->type != META_FLOAT) return false;
        *(float *)out = (float)*(const double *)entry->values;
        return true;
    case FIELD_BOOL:
        if (!is_scalar || entry->type != META_BOOL) return false;
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
        return entry->type == META_UINT && read_uints(entry, out, CONFIG_MAX_LAYERS);
    case FIELD_LIST:
        *(uint32_t *)((char *)config + field->count_offset) = (uint32_t)entry->count;
        return entry->type == META_UINT && read_uints(entry, out, field->capacity);
    }
    return false;
}

static Status read_config(ModelFile *file, Error *error) {
    file->config = config_default();
    const ConfigField *field;
    for (size_t i = 0; (field = config_field(i)); i++) {
        const MetaEntry *entry = find_entry(file, field->name);
        if (entry && !read_field(&file->config, field, entry))
            return error_set(error, "metadata: '%s' has a value that it cannot have", field->name);
    }
    if (config_validate(&file->config, error) != STATUS_OK) return error_prefix(error, "metadata");
    return STATUS_OK;
}

/* ---- The directory ---- */

/* The bytes that the tensor's type and shape need; false when the shape is impossible. */
static bool tensor_bytes(const FileTensor *t, size_t *bytes) {
    if (t->rows == 0 || t->cols == 0 || t->count == 0) return false;
    if (t->type == TENSOR_VECTOR)
        return t->count == 1 && size_mul(t->rows, t->cols, bytes) &&
               size_mul(*bytes, sizeof(float), bytes);
    return tensor_matrix_bytes((TensorType)t->type, t->rows, t->cols, bytes) &&
           size_mul(*bytes, t->count, bytes);
}

static Status check_tensor(const ModelFile *file, const FileTensor *t, Error *error) {
    const FileSection *data = find_section(file, SECTION_DATA);
    size_t bytes;
    if (t->name[0] == '\0' || !memchr(t->name, '\0', sizeof t->name))
        return error_set(error, "tensor %zu has no proper name", (size_t)(t - file->tensors));
    if (!tensor_type_info(t->type))
        return error_set(error, "tensor '%s': unknown type %u", t->name, t->type);
    if (!tensor_type_is_built((TensorType)t->type))
        return error_set(error, "tensor '%s': this build has no kernels for the type '%s'", t->name,
                         tensor_type_info(t->type)->name);
    if (!tensor_bytes(t, &bytes) || bytes != t->bytes)
        return error_set(error,
                         "tensor '%s': %" PRIu64 " bytes do not fit its shape %u x %" PRIu64
                         " x %" PRIu64,
                         t->name, t->bytes, t->count, t->rows, t->cols);
    return check_place("tensor", t->name, t->offset, t->bytes, data->offset,
                       data->offset + data->bytes, "data end", error);
}

static int compare_names(const void *a, const void *b) {
    const FileTensor *const *first = a, *const *second = b;
    return strcmp((*first)->name, (*second)->name);
}

static int compare_with_name(const void *name, const void *entry) {
    const FileTensor *const *tensor = entry;
    return strcmp(name, (*tensor)->name);
}

static Status read_directory(ModelFile *file, Error *error) {
    size_t bytes;
    file->tensors = modelfile_section(file, SECTION_TENSORS, &bytes);
    file->n_tensors = bytes / sizeof(FileTensor);
    if (bytes % sizeof(FileTensor) != 0 || file->n_tensors > MAX_TENSORS)
        return error_set(error, "the tensor directory has %zu bytes", bytes);
    file->by_name = malloc((file->n_tensors + 1) * sizeof *file->by_name);
    if (!file->by_name) return error_set(error, "no memory");
    for (size_t i = 0; i < file->n_tensors; i++) {
        if (check_tensor(file, &file->tensors[i], error) != STATUS_OK) return STATUS_FAILED;
        file->by_name[i] = &file->tensors[i];
    }
    qsort(file->by_name, file->n_tensors, sizeof *file->by_name, compare_names);
    for (size_t i = 1; i < file->n_tensors; i++)
        if (compare_names(&file->by_name[i - 1], &file->by_name[i]) == 0)
            return error_set(error, "two tensors '%s'", file->by_name[i]->name);
    return STATUS_OK;
}

size_t modelfile_n_tensors(const ModelFile *file) {
    return file->n_tensors;
}

const FileTensor *modelfile_tensor(const ModelFile *file, size_t i) {
    return &file->tensors[i];
}

const FileTensor *modelfile_find(const ModelFile *file, const char *name) {
    const FileTensor **found =
        bsearch(name, file->by_name, file->n_tensors, sizeof *file->by_name, compare_with_name);
    return found ? *found : NULL;
}

static const uint8_t *tensor_data(const ModelFile *file, const FileTensor *tensor) {
    return file->replaced ? file->data[tensor - file->replaced] : file->map + tensor->offset;
}

const void *modelfile_data(const ModelFile *file, const FileTensor *tensor) {
    return tensor_data(file, tensor);
}

Matrix modelfile_matrix(const ModelFile *file, const FileTensor *tensor, size_t index) {
    Matrix m = {.type = (TensorType)tensor->type,
                .rows = (size_t)tensor->rows,
                .cols = (size_t)tensor->cols};
    tensor_panel_bytes(m.type, m.cols, &m.panel_bytes);
    m.data = tensor_data(file, tensor) + index * (tensor->bytes / tensor->count);
    return m;
}

/* Moves the directory out of the mapping, so that it can be changed. */
static Status copy_directory(ModelFile *file, Error *error) {
    FileTensor *copy = malloc((file->n_tensors + 1) * sizeof *copy);
    file->data = malloc((file->n_tensors + 1) * sizeof *file->data);
    if (!copy || !file->data) {
        free(copy);
        free(file->data);
        file->data = NULL;
        return error_set(error, "%s: no memory for its directory", file->path);
    }
    for (size_t i = 0; i < file->n_tensors; i++) {
        copy[i] = file->tensors[i];
        file->data[i] = file->map + copy[i].offset;
        file->by_name[i] = copy + (file->by_name[i] - file->tensors);
    }
    file->tensors = file->replaced = copy;
    return STATUS_OK;
}

Status modelfile_replace(ModelFile *file, size_t i, const ModelFile *from, size_t k, Error *error) {
    if (!file->replaced && copy_directory(file, error) != STATUS_OK) return STATUS_FAILED;
    FileTensor *to = &file->replaced[i];
    const FileTensor *by = &from->tensors[k];
    bool are_vectors = to->type == TENSOR_VECTOR && by->type == TENSOR_VECTOR;
    bool are_matrices = to->type != TENSOR_VECTOR && by->type != TENSOR_VECTOR;
    if (to->rows != by->rows || to->cols != by->cols || to->count != by->count ||
        !(are_vectors || are_matrices))
        return error_set(error, "%s: tensor '%s' has another shape than '%s' of %s", file->path,
                         to->name, by->name, from->path);
    to->type = by->type;
    to->bytes = by->bytes;
    file->data[i] = tensor_data(from, by);
    return STATUS_OK;
}

void modelfile_restore(ModelFile *file) {
    size_t bytes;
    const FileTensor *own = modelfile_section(file, SECTION_TENSORS, &bytes);
    for (size_t i = 0; file->replaced && i < file->n_tensors; i++) {
        file->replaced[i] = own[i];
        file->data[i] = file->map + own[i].offset;
    }
}

/* ---- The whole file ---- */

/* Opens a model.bin and checks all of it but the weights. fd: the open file, which is closed with
 * *out; below 0: `path` is opened. `take` brings the bytes into memory. */
static Status open_file(ModelFile **out, const char *path, int fd, TakeFile *take, Error *error) {
    *out = NULL;
    ModelFile *file = calloc(1, sizeof *file);
    if (!file) {
        if (fd >= 0) close(fd);
        return error_set(error, "%s: no memory", path);
    }
    file->fd = fd;
    file->path = strdup(path);
    Status status = file->path ? STATUS_OK : error_set(error, "no memory");
    if (status == STATUS_OK) status = check_file(file, error);
    if (status == STATUS_OK) status = take(file, error);
    if (status == STATUS_OK) status = check_header(file, error);
    if (status == STATUS_OK) status = check_sections(file, error);
    if (status == STATUS_OK) status = read_metadata(file, error);
    if (status == STATUS_OK) status = read_config(file, error);
    if (status == STATUS_OK) status = read_directory(file, error);
    if (status != STATUS_OK) {
        modelfile_close(file);
        return error_prefix(error, "%s", path);
    }
    /* Where the file system has huge pages, a fault then reads and maps 2 MiB instead of 64 KiB;
     * elsewhere it reads 4 MiB ahead. Not for a mixture, which reads only the experts it uses. */
    if (file->config.experts.count == 0) madvise((void *)file->map, file->bytes, MADV_HUGEPAGE);
    *out = file;
    return STATUS_OK;
}

Status modelfile_open(ModelFile **out, const char *path, int fd, Error *error) {
    return open_file(out, path, fd, map_file, error);
}

Status modelfile_read(ModelFile **out, const char *path, int fd, Error *error) {
    return open_file(out, path, fd, copy_file, error);
}

void modelfile_close(ModelFile *file) {
    if (!file) return;
    if (file->map) {
        mapped_forget(file->map);
        munmap((void *)file->map, file->bytes);
    }
    if (file->fd >= 0) close(file->fd);
    free(file->replaced);
    free(file->data);
    free(file->by_name);
    free(file->entries);
    free(file->path);
    free(file);
}

int modelfile_mapped_fd(const ModelFile *file) {
    return file->mapped ? file->fd : -1;
}

const char *modelfile_path(const ModelFile *file) {
    return file->path;
}

size_t modelfile_bytes(const ModelFile *file) {
    return file->bytes;
}

const FileHeader *modelfile_header(const ModelFile *file) {
    return (const FileHeader *)file->map;
}

uint64_t modelfile_checksum(const ModelFile *file) {
    return modelfile_header(file)->checksum;
}

Config *modelfile_config_to_change(ModelFile *file) {
    return &file->config;
}

const Config *modelfile_config(const ModelFile *file) {
    return &file->config;
}
