#include "formats/model_bin.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "config_fields.h"
#include "formats/tokenizer_import.h"

/* ---- Tensors ----------------------------------------------------------------------------------
 */

/* The name of an earlier tensor with the same data, in the mapping of the source; NULL: none. */
static const char *shared_with(const ModelFile *file, const FileTensor *names, size_t i) {
    const FileTensor *t = modelfile_tensor(file, i);
    for (size_t k = 0; k < i; k++) {
        const FileTensor *other = modelfile_tensor(file, k);
        if (other->offset == t->offset && other->type == t->type && other->rows == t->rows &&
            other->cols == t->cols)
            return names[k].name;
    }
    return NULL;
}

static Status add_tensor(Source *source, const ModelFile *file, const FileTensor *names, size_t i,
                         Error *error) {
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
    to->shares = shared_with(file, names, i);
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
        if (is_config_field(entry)) continue;
        bool one = entry->count == 1 || entry->type == META_UINT || entry->type == META_TEXT;
        if (entry->key_bytes >= sizeof key || memchr(entry->key, '\0', entry->key_bytes) || !one)
            return error_set(error, "%s: metadata '%.*s' has a form that is not written",
                             source->path, entry->key_bytes < 80 ? (int)entry->key_bytes : 80,
                             entry->key);
        memcpy(key, entry->key, entry->key_bytes);
        key[entry->key_bytes] = '\0';
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
    const FileTensor *names = directory_of(source, file);
    Status status = copy_metadata(source, file, error);
    if (status == STATUS_OK) status = copy_sections(source, file, error);
    for (size_t i = 0; status == STATUS_OK && i < modelfile_n_tensors(file); i++)
        status = add_tensor(source, file, names, i, error);
    modelfile_close(file);
    return status;
}
