#include "formats/containers/model_bin.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "core/config_fields.h"
#include "formats/family/mtp_names.h"
#include "formats/tokenizers/tokenizer_import.h"

/* ---- Tensors ----------------------------------------------------------------------------------
 */

/* Orders tensors by what they hold; those that hold the same by their places in the directory. */
static int compare_data(const void *a, const void *b) {
    const FileTensor *x = *(const FileTensor *const *)a, *y = *(const FileTensor *const *)b;
    if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
    if (x->type != y->type) return x->type < y->type ? -1 : 1;
    if (x->rows != y->rows) return x->rows < y->rows ? -1 : 1;
    if (x->cols != y->cols) return x->cols < y->cols ? -1 : 1;
    return x < y ? -1 : x > y;
}

static bool same_data(const FileTensor *x, const FileTensor *y) {
    return x->offset == y->offset && x->type == y->type && x->rows == y->rows && x->cols == y->cols;
}

static bool is_left_out(const Source *source, size_t i) {
    return source->no_mtp && mtp_is_tensor(&source->config, source->tensors[i].name);
}

/* Lets each tensor share the first one with the same data. names: the directory in the source's
 * mapping, which lists the same tensors as the source. */
static Status find_shared(Source *source, const FileTensor *names, Error *error) {
    size_t n = 0;
    const FileTensor **order = malloc((source->n_tensors + 1) * sizeof *order);
    if (!order) return error_set(error, "%s: no memory", source->path);
    for (size_t i = 0; i < source->n_tensors; i++)
        if (!is_left_out(source, i)) order[n++] = &names[i];
    qsort(order, n, sizeof *order, compare_data);
    for (size_t i = 1, first = 0; i < n; i++) {
        if (!same_data(order[first], order[i])) {
            first = i;
        } else {
            source->tensors[order[i] - names].shares = order[first]->name;
        }
    }
    free(order);
    return STATUS_OK;
}

/* Leaves out prediction layers where the source is to lose them. */
static void leave_out(Source *source) {
    size_t kept = 0;
    for (size_t i = 0; i < source->n_tensors; i++)
        if (!is_left_out(source, i)) source->tensors[kept++] = source->tensors[i];
    source->n_tensors = kept;
    if (source->no_mtp) source->config.mtp.n_layers = 0;
}

static Status add_tensor(Source *source, const ModelFile *file, size_t i, Error *error) {
    const FileTensor *from = modelfile_tensor(file, i);
    if (from->rows == 0 || from->cols == 0)
        return error_set(error, "%s: tensor '%s' is empty", source->path, from->name);
    if (from->count != 1)
        return error_set(error,
                         "%s: tensor '%s' is a stack of %u matrices, which only a model.bin of "
                         "another program has",
                         source->path, from->name, from->count);
    SourceTensor *to = source_add(source, error, "%s", from->name);
    if (!to) return STATUS_FAILED;
    to->is_vector = from->type == TENSOR_VECTOR;
    to->rows = to->stored_rows = (size_t)from->rows;
    to->cols = to->stored_cols = (size_t)from->cols;
    to->stored = to->is_vector ? STORED_F32 : STORED_PANELS;
    to->panels = (TensorType)from->type;
    to->offset = from->offset;
    return STATUS_OK;
}

/* The directory of tensors in the source's own mapping, which outlives `file`. */
static const FileTensor *directory_of(const Source *source, const ModelFile *file) {
    const FileHeader *header = modelfile_header(file);
    const FileSection *sections = (const void *)(header + 1);
    for (uint32_t i = 0; i < header->n_sections; i++)
        if (sections[i].kind == SECTION_TENSORS)
            return (const void *)(source->files[0].map + sections[i].offset);
    return NULL;
}

/* ---- The rest ---------------------------------------------------------------------------------
 */

static bool is_config_field(const MetaEntry *entry) {
    const ConfigField *field;
    for (size_t i = 0; (field = config_field(i)); i++)
        if (strlen(field->name) == entry->key_bytes &&
            memcmp(field->name, entry->key, entry->key_bytes) == 0)
            return true;
    return false;
}

/* The table of the types that were chosen for this file: it says nothing about the next one. */
static bool is_type_table(const MetaEntry *entry) {
    static const char key[] = METADATA_TYPE_TABLE;
    return entry->key_bytes == strlen(key) && memcmp(key, entry->key, entry->key_bytes) == 0;
}

static void add_entry(Metadata *metadata, const MetaEntry *entry, const char *key) {
    switch (entry->type) {
    case META_UINT:
        metadata_add_uint(metadata, key, entry->values, (uint32_t)entry->count);
        break;
    case META_INT:
        metadata_add_int(metadata, key, *(const int64_t *)entry->values);
        break;
    case META_FLOAT:
        metadata_add_float(metadata, key, *(const double *)entry->values);
        break;
    case META_BOOL:
        metadata_add_bool(metadata, key, *(const uint8_t *)entry->values != 0);
        break;
    default:
        metadata_add_text(metadata, key, entry->values, entry->count);
    }
}

/* Copies what the metadata holds beside Config's fields. */
static Status copy_metadata(Source *source, const ModelFile *file, Error *error) {
    const MetaEntry *entry;
    for (size_t i = 0; (entry = modelfile_meta(file, i)); i++) {
        char key[256];
        if (is_config_field(entry) || is_type_table(entry)) continue;
        bool one = entry->count == 1 || entry->type == META_UINT || entry->type == META_TEXT;
        if (entry->key_bytes >= sizeof key || memchr(entry->key, '\0', entry->key_bytes) || !one)
            return error_set(error, "%s: metadata '%.*s' has a form that is not written",
                             source->path, entry->key_bytes < 80 ? (int)entry->key_bytes : 80,
                             entry->key);
        memcpy(key, entry->key, entry->key_bytes);
        key[entry->key_bytes] = '\0';
        if (strcmp(key, "source.format") == 0 && entry->type == META_TEXT &&
            entry->count < sizeof source->origin)
            memcpy(source->origin, entry->values, entry->count);
        add_entry(&source->metadata, entry, key);
    }
    return STATUS_OK;
}

static Status copy_sections(Source *source, const ModelFile *file, Error *error) {
    size_t bytes;
    const void *section = modelfile_section(file, SECTION_TOKENIZER, &bytes);
    if (section) {
        source->tokenizer.bytes = malloc(bytes);
        if (!source->tokenizer.bytes) return error_set(error, "%s: no memory", source->path);
        memcpy(source->tokenizer.bytes, section, bytes);
        source->tokenizer.size = bytes;
    }
    section = modelfile_section(file, SECTION_TEMPLATE, &bytes);
    return section ? source_set_template(source, section, bytes, error) : STATUS_OK;
}

Status model_bin_parse(Source *source, Error *error) {
    ModelFile *file;
    int fd = fcntl(source->files[0].fd, F_DUPFD_CLOEXEC, 0);
    if (fd < 0) return error_set(error, "%s: %s", source->path, strerror(errno));
    if (modelfile_open(&file, source->path, fd, error) != STATUS_OK) return STATUS_FAILED;
    source->config = *modelfile_config(file);
    Status status = copy_metadata(source, file, error);
    if (status == STATUS_OK) status = copy_sections(source, file, error);
    for (size_t i = 0; status == STATUS_OK && i < modelfile_n_tensors(file); i++)
        status = add_tensor(source, file, i, error);
    if (status == STATUS_OK) status = find_shared(source, directory_of(source, file), error);
    if (status == STATUS_OK) leave_out(source);
    modelfile_close(file);
    return status;
}
