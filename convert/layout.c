#include "convert/layout.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

/* ---- Tensors ---- */

/* Fills in the directory entry of tensor i; *at is the offset of the next data. */
static Status add_tensor(Layout *layout, size_t i, TensorType type, uint64_t *at, Error *error) {
    const SourceTensor *from = &layout->source->tensors[i];
    FileTensor *to = &layout->tensors[i];
    memcpy(to->name, from->name, sizeof to->name);
    to->count = 1;
    /* A slice of a longer vector is read as rows of one element; the file has it as one row. */
    bool is_column = from->is_vector && from->cols == 1;
    to->rows = is_column ? 1 : from->rows;
    to->cols = is_column ? from->rows : from->cols;
    if (from->shares) {
        for (size_t k = 0; k < i; k++) {
            if (strcmp(layout->tensors[k].name, from->shares) != 0) continue;
            *to = layout->tensors[k];
            memcpy(to->name, from->name, sizeof to->name);
            return STATUS_OK;
        }
        return error_set(error, "tensor '%s' shares '%s', which does not exist", from->name,
                         from->shares);
    }
    to->type = type;
    size_t bytes;
    bool fits =
        to->type == TENSOR_VECTOR
            ? size_mul(from->rows, from->cols, &bytes) && size_mul(bytes, sizeof(float), &bytes)
            : tensor_matrix_bytes((TensorType)to->type, from->rows, from->cols, &bytes);
    to->offset = *at;
    to->bytes = fits ? bytes : 0;
    if (!fits || __builtin_add_overflow(*at, bytes, at) || *at > (uint64_t)INT64_MAX - 64)
        return error_set(error, "tensor '%s' is too large", from->name);
    *at = round_up(*at, MODELFILE_ALIGNMENT);
    return STATUS_OK;
}

/* ---- Sections ---- */

static uint64_t place_section(Layout *layout, SectionKind kind, uint64_t bytes, uint64_t at) {
    layout->sections[layout->n_sections++] =
        (FileSection){.kind = kind, .offset = at, .bytes = bytes};
    return round_up(at + bytes, MODELFILE_ALIGNMENT);
}

/* Places the small sections first, then the tensors one after another, and counts the bytes. */
Status layout_make(Layout *layout, const Source *source, const TensorPlan *tensors, Error *error) {
    *layout = (Layout){.source = source};
    metadata_add_config(&layout->metadata, &source->config);
    metadata_append(&layout->metadata, &source->metadata);
    layout->tensors = calloc(source->n_tensors + 1, sizeof *layout->tensors);
    if (!layout->tensors || layout->metadata.failed) return error_set(error, "no memory");

    uint32_t n_sections = 3 + (source->tokenizer.size > 0) + (source->chat_template != NULL);
    uint64_t at = round_up(sizeof(FileHeader) + n_sections * sizeof(FileSection), 64);
    at = place_section(layout, SECTION_METADATA, layout->metadata.length, at);
    at = place_section(layout, SECTION_TENSORS, source->n_tensors * sizeof(FileTensor), at);
    if (source->tokenizer.size)
        at = place_section(layout, SECTION_TOKENIZER, source->tokenizer.size, at);
    if (source->chat_template)
        at = place_section(layout, SECTION_TEMPLATE, source->chat_template_bytes, at);
    layout->data_offset = at;
    for (size_t i = 0; i < source->n_tensors; i++)
        if (add_tensor(layout, i, tensors[i].type, &at, error) != STATUS_OK) return STATUS_FAILED;
    layout->file_bytes = at;
    place_section(layout, SECTION_DATA, at - layout->data_offset, layout->data_offset);
    return STATUS_OK;
}

void layout_free(Layout *layout) {
    free(layout->tensors);
    metadata_free(&layout->metadata);
    *layout = (Layout){0};
}

/* ---- Writing ---- */

Status layout_write_at(int fd, const void *data, size_t bytes, uint64_t offset, Error *error) {
    for (size_t done = 0; done < bytes;) {
        ssize_t n = pwrite(fd, (const char *)data + done, bytes - done, (off_t)(offset + done));
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return error_set(error, "cannot write: %s", strerror(n ? errno : ENOSPC));
        done += (size_t)n;
    }
    return STATUS_OK;
}

static const void *section_bytes(const Layout *layout, uint32_t kind) {
    switch (kind) {
    case SECTION_METADATA:
        return layout->metadata.bytes;
    case SECTION_TENSORS:
        return layout->tensors;
    case SECTION_TOKENIZER:
        return layout->source->tokenizer.bytes;
    default:
        return layout->source->chat_template;
    }
}

/* Writes the small sections, the size of the file, and last the header with the checksums. */
Status layout_write(Layout *layout, uint64_t data_checksum, int fd, Error *error) {
    struct {
        FileHeader header;
        FileSection sections[SECTION_KINDS];
    } head = {0};
    for (uint32_t i = 0; i < layout->n_sections; i++) {
        FileSection *section = &layout->sections[i];
        if (section->kind == SECTION_DATA) {
            section->checksum = data_checksum;
        } else {
            const void *bytes = section_bytes(layout, section->kind);
            section->checksum = XXH3_64bits(bytes, section->bytes);
            if (layout_write_at(fd, bytes, section->bytes, section->offset, error) != STATUS_OK)
                return STATUS_FAILED;
        }
        head.sections[i] = *section;
    }
    memcpy(head.header.magic, MODELFILE_MAGIC, sizeof head.header.magic);
    head.header.version = MODELFILE_VERSION;
    head.header.n_sections = layout->n_sections;
    head.header.file_bytes = layout->file_bytes;
    size_t bytes = sizeof head.header + layout->n_sections * sizeof *head.sections;
    head.header.checksum = XXH3_64bits(&head, bytes);
    if (ftruncate(fd, (off_t)layout->file_bytes) != 0)
        return error_set(error, "cannot write: %s", strerror(errno));
    return layout_write_at(fd, &head, bytes, 0, error);
}
