#include "formats/containers/source.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

/* ---- Files ---- */

Status source_add_file(Source *source, const char *path, Error *error) {
    if (!array_reserve(&source->files, &source->files_capacity, source->n_files + 1,
                       sizeof *source->files))
        return error_set(error, "%s: no memory", path);
    if (input_open(&source->files[source->n_files], path, error) != STATUS_OK) return STATUS_FAILED;
    source->n_files++;
    return STATUS_OK;
}

const InputFile *source_file(const Source *source, const char *name) {
    for (size_t i = 0; i < source->n_files; i++) {
        const char *slash = strrchr(source->files[i].path, '/');
        if (strcmp(slash ? slash + 1 : source->files[i].path, name) == 0) return &source->files[i];
    }
    return NULL;
}

Status source_check_unchanged(const Source *source, Error *error) {
    const InputFile *const given[] = {&source->tokenizer_file, &source->family_file};
    Status status = STATUS_OK;
    for (size_t i = 0; status == STATUS_OK && i < source->n_files; i++)
        status = input_check_unchanged(&source->files[i], error);
    for (size_t i = 0; status == STATUS_OK && i < sizeof given / sizeof *given; i++)
        if (given[i]->path) status = input_check_unchanged(given[i], error);
    return status;
}

/* Closes the files and frees what the readers have filled in. */
void source_close(Source *source) {
    if (!source) return;
    for (size_t i = 0; i < source->n_files; i++) input_close(&source->files[i]);
    for (size_t i = 0; i < source->n_tensors; i++) {
        free((void *)source->tensors[i].values);
        free((void *)source->tensors[i].sums);
        free(source->tensors[i].row_scales);
    }
    if (source->tokenizer.bytes) tokenizer_blob_free(&source->tokenizer);
    input_close(&source->tokenizer_file);
    input_close(&source->family_file);
    free(source->family);
    metadata_free(&source->metadata);
    free(source->chat_template);
    free(source->tensors);
    free(source->shared_names);
    free(source->files);
    free((void *)source->path);
    free(source);
}

const char source_text_alone[] =
    "the model's parts for images or sound are left out: it reads text alone";

void source_add_note(Source *source, const char *note) {
    if (source->n_notes < SOURCE_MAX_NOTES) source->notes[source->n_notes++] = note;
}

Status source_set_template(Source *source, const char *text, size_t bytes, Error *error) {
    source->chat_template = malloc(bytes + 1);
    if (!source->chat_template) return error_set(error, "%s: no memory", source->path);
    memcpy(source->chat_template, text, bytes);
    source->chat_template[bytes] = '\0';
    source->chat_template_bytes = bytes;
    return STATUS_OK;
}

/* ---- The table of tensors ---- */

SourceTensor *source_add(Source *source, Error *error, const char *name, ...) {
    if (!array_reserve(&source->tensors, &source->tensors_capacity, source->n_tensors + 1,
                       sizeof *source->tensors)) {
        error_set(error, "%s: no memory", source->path);
        return NULL;
    }
    SourceTensor *tensor = &source->tensors[source->n_tensors];
    *tensor = (SourceTensor){0};
    va_list arguments;
    va_start(arguments, name);
    int length = vsnprintf(tensor->name, sizeof tensor->name, name, arguments);
    va_end(arguments);
    if (length < 0 || (size_t)length >= sizeof tensor->name) {
        error_set(error, "%s: a tensor's name is too long", source->path);
        return NULL;
    }
    source->n_tensors++;
    return tensor;
}

Status source_add_values(Source *source, const char *name, size_t rows, size_t cols, float *values,
                         Error *error) {
    if (!values) return error_set(error, "%s: no memory", source->path);
    SourceTensor *tensor = source_add(source, error, "%s", name);
    if (!tensor) {
        free(values);
        return STATUS_FAILED;
    }
    tensor->is_vector = true;
    tensor->rows = rows;
    tensor->cols = cols;
    tensor->values = values;
    return STATUS_OK;
}

/* Renumbers the tensors of layers for n_layers, and lists the names of those that are shared, with
 * their indices. */
static size_t renumber_layers(Source *source, uint32_t sharers,
                              char (*names)[MODELFILE_NAME_BYTES]) {
    size_t n = 0;
    for (size_t i = 0; i < source->n_tensors; i++) {
        SourceTensor *t = &source->tensors[i];
        char rest[MODELFILE_NAME_BYTES], *end;
        if (strncmp(t->name, "layers.", 7) != 0) continue;
        unsigned long layer = strtoul(t->name + 7, &end, 10);
        memcpy(rest, end, strlen(end) + 1);
        snprintf(t->name, sizeof t->name, "layers.%u%.40s", (uint32_t)layer * sharers, rest);
        memcpy(names[n++], t->name, sizeof *names);
    }
    return n;
}

/* Each stored layer becomes `sharers` consecutive ones with the same weights. Both shared_names and
 * the loop go through the stored layers' tensors in the same order, so `at` only moves forward. */
Status source_share_layers(Source *source, uint32_t n_layers, Error *error) {
    uint32_t stored = source->config.n_layers, sharers = stored ? n_layers / stored : 0;
    if (stored == n_layers) return STATUS_OK;
    if (n_layers > CONFIG_MAX_LAYERS || sharers < 1 || n_layers % stored != 0)
        return error_set(error, "%s: %u layers cannot share the weights of %u", source->path,
                         n_layers, stored);
    source->shared_names = calloc(source->n_tensors + 1, sizeof *source->shared_names);
    if (!source->shared_names) return error_set(error, "%s: no memory", source->path);
    size_t n = renumber_layers(source, sharers, source->shared_names),
           n_tensors = source->n_tensors;
    Status status = STATUS_OK;
    for (size_t i = 0, at = 0; status == STATUS_OK && i < n_tensors && at < n; i++) {
        const SourceTensor first = source->tensors[i];
        const char *shares = source->shared_names[at];
        if (strcmp(first.name, shares) != 0) continue;
        char *rest;
        unsigned long layer = strtoul(first.name + 7, &rest, 10);
        for (uint32_t k = 1; status == STATUS_OK && k < sharers; k++) {
            char name[MODELFILE_NAME_BYTES];
            snprintf(name, sizeof name, "layers.%u%.40s", (uint32_t)layer + k, rest);
            status = source_add_shared(source, name, shares, first.rows, first.cols, error);
            if (status == STATUS_OK)
                source->tensors[source->n_tensors - 1].is_vector = first.is_vector;
        }
        at++;
    }
    source->config.n_layers = n_layers;
    return status;
}

/* Adds the tensor that layer `layer` shares with the earlier one `names`, of another layer. */
static Status repeat_tensor(Source *source, const char *shares, uint32_t layer, const char *rest,
                            Error *error) {
    const SourceTensor *first = NULL;
    for (size_t i = 0; !first && i < source->n_tensors; i++)
        if (strcmp(source->tensors[i].name, shares) == 0) first = &source->tensors[i];
    if (!first) return error_set(error, "%s: tensor '%s' is missing", source->path, shares);
    bool is_vector = first->is_vector;
    char name[MODELFILE_NAME_BYTES];
    snprintf(name, sizeof name, "layers.%u%.40s", layer, rest);
    if (source_add_shared(source, name, shares, first->rows, first->cols, error) != STATUS_OK)
        return STATUS_FAILED;
    source->tensors[source->n_tensors - 1].is_vector = is_vector;
    return STATUS_OK;
}

Status source_repeat_layers(Source *source, const uint32_t *like, Error *error) {
    size_t n = source->n_tensors;
    source->shared_names = calloc(n + 1, sizeof *source->shared_names);
    if (!source->shared_names) return error_set(error, "%s: no memory", source->path);
    for (size_t i = 0; i < n; i++)
        memcpy(source->shared_names[i], source->tensors[i].name, sizeof *source->shared_names);
    for (size_t i = 0; i < n; i++) {
        const char *shares = source->shared_names[i];
        char *rest;
        if (strncmp(shares, "layers.", 7) != 0) continue;
        unsigned long layer = strtoul(shares + 7, &rest, 10);
        for (uint32_t l = 0; l < source->config.n_layers; l++)
            if (like[l] == layer && l != layer &&
                repeat_tensor(source, shares, l, rest, error) != STATUS_OK)
                return STATUS_FAILED;
    }
    return STATUS_OK;
}

Status source_add_shared(Source *source, const char *name, const char *shares, size_t rows,
                         size_t cols, Error *error) {
    SourceTensor *tensor = source_add(source, error, "%s", name);
    if (!tensor) return STATUS_FAILED;
    tensor->shares = shares;
    tensor->rows = rows;
    tensor->cols = cols;
    return STATUS_OK;
}
