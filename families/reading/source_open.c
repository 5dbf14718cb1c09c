#include "families/reading/source_open.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/config_fields.h"
#include "families/reading/gguf_reader.h"
#include "families/reading/huggingface.h"
#include "formats/containers/llama2c.h"
#include "formats/containers/model_bin.h"
#include "families/reading/random.h"
#include "formats/containers/source_place.h"
#include "formats/tokenizers/tokenizer_file.h"
#include "tokenizer.h"

/* ---- Telling formats apart ---- */

static bool exists(const char *directory, const char *name) {
    char path[4096];
    int length = snprintf(path, sizeof path, "%s/%s", directory, name);
    return length > 0 && (size_t)length < sizeof path && access(path, F_OK) == 0;
}

static Status detect_directory(const char *path, SourceKind *kind, Error *error) {
    *kind = SOURCE_HUGGINGFACE;
    if (exists(path, "config.json")) return STATUS_OK;
    *kind = SOURCE_UNKNOWN;
    if (exists(path, "params.json"))
        return error_set(error,
                         "%s: Meta's own checkpoint form (params.json) cannot be read; "
                         "use the Hugging Face form of the model",
                         path);
    return error_set(error, "%s: no model in this directory (config.json is missing)", path);
}

static bool starts_with(const InputFile *file, const char *magic, size_t bytes) {
    return file->bytes >= bytes && memcmp(file->map, magic, bytes) == 0;
}

/* Formats that cannot be read but that people may try, by their first bytes. */
static const struct {
    const char *magic;
    size_t bytes;
    const char *what;
} refused[] = {
    {"lmgg", 4, "a GGML file, older than GGUF; convert it with llama.cpp's tools"},
    {"fmgg", 4, "a GGMF file, older than GGUF; convert it with llama.cpp's tools"},
    {"tjgg", 4, "a GGJT file, older than GGUF; convert it with llama.cpp's tools"},
    {"FUGG", 4, "a GGUF file with its bytes swapped"},
    {"PK\3\4", 4, "a PyTorch pickle (zip), which could run code; use the safetensors form"},
    {"\x80\2", 2, "a Python pickle, which could run code; use the safetensors form"},
    {"\x89HDF", 4, "an HDF5 file; use the safetensors form of the model"},
    {"version https://git-lfs", 23, "not the file but git-lfs's pointer to it: run git lfs pull"},
};

/* Whether the file begins as a legacy llama2.c checkpoint does, which has no magic but seven small
 * numbers. */
static bool has_legacy_header(const InputFile *file) {
    int32_t h[7];
    if (file->bytes < sizeof h) return false;
    memcpy(h, file->map, sizeof h);
    for (int i = 0; i < 7; i++) {
        int64_t value = i == 5 ? llabs((long long)h[i]) : h[i];
        if (value < 1 || value > (i == 5 || i == 6 ? 1 << 24 : 1 << 20)) return false;
    }
    return h[2] <= CONFIG_MAX_LAYERS && h[3] <= 4096 && h[4] <= h[3];
}

/* Finds out the format of a file by its first bytes. For a format that cannot be read the error
 * says what the file is and what to use instead. */
static Status detect_file(const InputFile *file, SourceKind *kind, Error *error) {
    *kind = SOURCE_UNKNOWN;
    if (starts_with(file, MODELFILE_MAGIC, 8)) {
        *kind = SOURCE_MODELFILE;
    } else if (starts_with(file, "GGUF", 4)) {
        *kind = SOURCE_GGUF;
    } else if (starts_with(file, "24ka", 4) || has_legacy_header(file)) {
        *kind = SOURCE_LLAMA2C;
    }
    if (*kind != SOURCE_UNKNOWN) return STATUS_OK;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (starts_with(file, refused[i].magic, refused[i].bytes))
            return error_set(error, "%s: %s", file->path, refused[i].what);
    uint64_t header = 0;
    if (file->bytes > 8) memcpy(&header, file->map, 8);
    if (file->bytes > 8 && header < file->bytes && file->map[8] == '{')
        return error_set(error, "%s: a safetensors file alone says too little; give its directory",
                         file->path);
    return error_set(error, "%s: not a model in a format that this program reads", file->path);
}

Status source_detect(const char *path, SourceKind *kind, Error *error) {
    *kind = SOURCE_UNKNOWN;
    if (strncmp(path, "random:", 7) == 0) {
        *kind = SOURCE_RANDOM;
        return STATUS_OK;
    }
    struct stat info;
    if (stat(path, &info) != 0) return error_set(error, "%s: %s", path, strerror(errno));
    if (S_ISDIR(info.st_mode)) return detect_directory(path, kind, error);
    InputFile file;
    if (input_open(&file, path, error) != STATUS_OK) return STATUS_FAILED;
    Status status = detect_file(&file, kind, error);
    input_close(&file);
    return status;
}

/* ---- Opening ---- */

static Status open_files(Source *source, Error *error) {
    if (source->kind == SOURCE_RANDOM) return STATUS_OK;
    if (source->kind == SOURCE_HUGGINGFACE) return huggingface_open(source, error);
    if (source_add_file(source, source->path, error) != STATUS_OK) return STATUS_FAILED;
    if (source->kind == SOURCE_GGUF) return gguf_open_splits(source, error);
    return STATUS_OK;
}

Status source_open(Source **out, const char *path, const char *tokenizer_path, Error *error) {
    *out = NULL;
    Source *source = calloc(1, sizeof *source);
    if (!source) return error_set(error, "%s: no memory", path);
    source->tokenizer_file.fd = source->family_file.fd = -1;
    source->path = strdup(path);
    Status status = source->path ? STATUS_OK : error_set(error, "%s: no memory", path);
    if (status == STATUS_OK) status = source_detect(path, &source->kind, error);
    if (status == STATUS_OK) status = open_files(source, error);
    if (status == STATUS_OK && tokenizer_path)
        status = input_open(&source->tokenizer_file, tokenizer_path, error);
    if (status != STATUS_OK) {
        source_close(source);
        return status;
    }
    *out = source;
    return STATUS_OK;
}

/* ---- Parsing ---- */

/* Takes the token that begins a text from the tokenizer and refuses a tokenizer with more ids than
 * the model has (tokens that were added later excepted, see tokenizer_fits). */
static Status check_tokenizer(Source *source, Error *error) {
    Tokenizer *tokenizer;
    if (!source->tokenizer.size) return STATUS_OK;
    if (tokenizer_open(&tokenizer, source->tokenizer.bytes, source->tokenizer.size, error) !=
        STATUS_OK)
        return error_prefix(error, "%s: tokenizer", source->path);
    size_t size = tokenizer_vocab_size(tokenizer);
    int32_t bos = tokenizer_bos(tokenizer);
    Config *c = &source->config;
    if (bos >= 0 && (uint32_t)bos < c->vocab_size) c->bos_id = bos;
    c->add_bos = tokenizer_adds_bos(tokenizer) && c->bos_id >= 0;
    bool fits = tokenizer_fits(tokenizer, c->vocab_size);
    tokenizer_close(tokenizer);
    if (fits) return STATUS_OK;
    return error_set(error, "%s: the tokenizer has %zu tokens, but the model %u",
                     source->tokenizer_file.path ? source->tokenizer_file.path : source->path, size,
                     c->vocab_size);
}

/* Records in the metadata what the model was made from. A model.bin says it already. */
static void add_origin(Source *source) {
    if (source->kind == SOURCE_MODELFILE) return;
    static const char *const formats[] = {[SOURCE_UNKNOWN] = "",
                                          [SOURCE_MODELFILE] = "model.bin",
                                          [SOURCE_HUGGINGFACE] = "huggingface",
                                          [SOURCE_GGUF] = "gguf",
                                          [SOURCE_LLAMA2C] = "llama2.c",
                                          [SOURCE_RANDOM] = "random"};
    const char *format = formats[source->kind];
    metadata_add_text(&source->metadata, "source.format", format, strlen(format));
    const char *slash = strrchr(source->path, '/'), *name = source->path;
    if (slash && slash[1]) name = slash + 1;
    metadata_add_text(&source->metadata, "source.path", name, strlen(name));
    uint64_t parameters = 0;
    for (size_t i = 0; i < source->n_tensors; i++) {
        const SourceTensor *t = &source->tensors[i];
        if (!t->values && !t->shares) parameters += (uint64_t)t->rows * t->cols;
    }
    metadata_add_uint(&source->metadata, "source.parameters", &parameters, 1);
}

static int by_name(const void *a, const void *b) {
    return strcmp((*(SourceTensor *const *)a)->name, (*(SourceTensor *const *)b)->name);
}

/* Refuses two tensors of the same name: a file may hold a matrix both alone and as a part of a
 * fused one. */
static Status check_names(const Source *source, Error *error) {
    size_t n = source->n_tensors;
    const SourceTensor **sorted = calloc(n + 1, sizeof *sorted);
    Status status = STATUS_OK;
    if (!sorted) return error_set(error, "%s: no memory", source->path);
    for (size_t i = 0; i < n; i++) sorted[i] = &source->tensors[i];
    qsort(sorted, n, sizeof *sorted, by_name);
    for (size_t i = 1; i < n && status == STATUS_OK; i++)
        if (strcmp(sorted[i - 1]->name, sorted[i]->name) == 0)
            status = error_set(error, "%s: two of its tensors become '%s'", source->path,
                               sorted[i]->name);
    free(sorted);
    return status;
}

static Status parse_format(Source *source, Error *error) {
    switch (source->kind) {
    case SOURCE_MODELFILE:
        return model_bin_parse(source, error);
    case SOURCE_LLAMA2C:
        return llama2c_parse(source, error);
    case SOURCE_HUGGINGFACE:
        return huggingface_parse(source, error);
    case SOURCE_GGUF:
        return gguf_parse(source, error);
    case SOURCE_RANDOM:
        return random_parse(source, source->path + strlen("random:"), error);
    default:
        return error_set(error, "%s: nothing to convert", source->path);
    }
}

/* Replaces the source's tokenizer by the one that the user gave. */
static Status replace_tokenizer(Source *source, Error *error) {
    if (!source->tokenizer_file.path) return STATUS_OK;
    tokenizer_blob_free(&source->tokenizer);
    return tokenizer_from_file(&source->tokenizer_file, source->split_pattern,
                               source->config.vocab_size, &source->tokenizer, error);
}

Status source_parse(Source *source, Error *error) {
    source->config = config_default();
    if (parse_format(source, error) != STATUS_OK) return STATUS_FAILED;
    if (config_validate(&source->config, error) != STATUS_OK)
        return error_prefix(error, "%s", source->path);
    for (size_t i = 0; i < source->n_tensors; i++)
        if (source_check_tensor(source, &source->tensors[i], error) != STATUS_OK)
            return STATUS_FAILED;
    if (check_names(source, error) != STATUS_OK || replace_tokenizer(source, error) != STATUS_OK ||
        check_tokenizer(source, error) != STATUS_OK)
        return STATUS_FAILED;
    add_origin(source);
    if (source->metadata.failed) return error_set(error, "%s: no memory", source->path);
    return STATUS_OK;
}

Status source_print_draft(Source *source, FILE *out, Error *error) {
    if (source->kind == SOURCE_HUGGINGFACE) return huggingface_draft(source, out, error);
    return error_set(error, "%s: a page is drafted for directories of Hugging Face alone",
                     source->path);
}
