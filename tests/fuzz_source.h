/* Builds a Source for the fuzz targets of the readers: its files are bytes in memory. */
#ifndef FUZZ_SOURCE_H
#define FUZZ_SOURCE_H

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "convert/convert.h"
#include "families/reading/source_open.h"
#include "modes/inspect/modelfile_verify.h"
#include "core/modelfile.h"

/* Returns the descriptor of a memory file with these bytes, or -1. */
static inline int fuzz_memory_file(const void *data, size_t size) {
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (fd >= 0 && write(fd, data, size) != (ssize_t)size) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static inline bool fuzz_add_file(Source *source, const char *path, const void *data, size_t size) {
    Error error;
    InputFile *files = realloc(source->files, (source->n_files + 1) * sizeof *files);
    if (!files) return false;
    source->files = files;
    int fd = fuzz_memory_file(data, size);
    if (fd < 0 || input_adopt(&files[source->n_files], path, fd, &error) != STATUS_OK) return false;
    source->n_files++;
    return true;
}

/* Fills tensor data with bytes that give values neither all zero nor huge, in every type. */
static inline void fuzz_fill(uint8_t *bytes, size_t n) {
    for (size_t i = 0; i < n; i++) bytes[i] = (uint8_t)(i * 37 % 61);
}

static inline Source *fuzz_source(SourceKind kind, const char *path) {
    Source *source = calloc(1, sizeof *source);
    if (!source) abort();
    source->kind = kind;
    source->path = strdup(path);
    source->tokenizer_file.fd = source->family_file.fd = -1;
    return source;
}

/* Returns true when converting the tensors takes little time. Several tensors may share the same
 * few bytes, so the input's size is not a limit. q4m searches for the best scales, so its limit is
 * lower. */
static inline bool fuzz_is_small(const Source *source, const char *type) {
    size_t n = 0;
    for (size_t i = 0; i < source->n_tensors; i++)
        n += source->tensors[i].rows * source->tensors[i].cols;
    return n < (type && strcmp(type, "q4m") == 0 ? 1 << 14 : 1 << 18);
}

/* Parses and converts the source, then closes it. A successful conversion must open and verify. */
static inline void fuzz_convert(Source *source, const char *type) {
    Error error = {{0}};
    ConvertOptions options = {.n_threads = 1, .type = type};
    if (source_parse(source, &error) == STATUS_OK && fuzz_is_small(source, type)) {
        int fd = memfd_create("fuzz", MFD_CLOEXEC);
        if (fd >= 0 && convert_parsed(source, &options, fd, &error) == STATUS_OK) {
            ModelFile *file;
            if (modelfile_open(&file, "converted", fd, &error) != STATUS_OK) abort();
            if (modelfile_verify(file, NULL, NULL, &error) != STATUS_OK) abort();
            modelfile_close(file);
        } else if (fd >= 0) {
            close(fd);
        }
    }
    source_close(source);
}

#endif
