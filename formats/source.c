#include "formats/source.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "formats/mxfp4_join.h"
#include "formats/random.h"
#include "formats/readers.h"
#include "tokenizer.h"

/* ---- Opening ---- */

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

/* Formats that people may hand over, known by their first bytes, that cannot be read. */
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

/* A llama2.c checkpoint of the legacy kind has no magic: seven small numbers. */
static bool legacy_header(const InputFile *file) {
    int32_t h[7];
    if (file->bytes < sizeof h) return false;
    memcpy(h, file->map, sizeof h);
    for (int i = 0; i < 7; i++) {
        int64_t value = i == 5 ? llabs((long long)h[i]) : h[i];
        if (value < 1 || value > (i == 5 || i == 6 ? 1 << 24 : 1 << 20)) return false;
    }
    return h[2] <= CONFIG_MAX_LAYERS && h[3] <= 4096 && h[4] <= h[3];
}

static Status detect_file(const InputFile *file, SourceKind *kind, Error *error) {
    *kind = SOURCE_UNKNOWN;
    if (starts_with(file, MODELFILE_MAGIC, 8)) {
        *kind = SOURCE_MODELFILE;
    } else if (starts_with(file, "GGUF", 4)) {
        *kind = SOURCE_GGUF;
    } else if (starts_with(file, "24ka", 4) || legacy_header(file)) {
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

Status source_add_file(Source *source, const char *path, Error *error) {
    InputFile *files = realloc(source->files, (source->n_files + 1) * sizeof *files);
    if (!files) return error_set(error, "%s: no memory", path);
    source->files = files;
    if (input_open(&files[source->n_files], path, error) != STATUS_OK) return STATUS_FAILED;
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
    source->tokenizer_file.fd = -1;
    source->path = strdup(path);
    Status status = source->path ? STATUS_OK : error_set(error, "%s: no memory", path);
    if (status == STATUS_OK) status = source_detect(path, &source->kind, error);
    if (status == STATUS_OK && source->kind == SOURCE_MODELFILE)
        status = error_set(error, "%s: is a model.bin already", path);
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

void source_close(Source *source) {
    if (!source) return;
    if (source->format_free) source->format_free(source->format);
    for (size_t i = 0; i < source->n_files; i++) input_close(&source->files[i]);
    for (size_t i = 0; i < source->n_tensors; i++) free((void *)source->tensors[i].values);
    if (source->tokenizer.bytes) tokenizer_blob_free(&source->tokenizer);
    input_close(&source->tokenizer_file);
    metadata_free(&source->metadata);
    free(source->chat_template);
    free(source->tensors);
    free(source->files);
    free((void *)source->path);
    free(source);
}

/* ---- Parsing ---- */

SourceTensor *source_add(Source *source, Error *error, const char *name, ...) {
    if (source->n_tensors == source->tensors_capacity) {
        size_t capacity = source->tensors_capacity * 2 + 64;
        SourceTensor *larger = realloc(source->tensors, capacity * sizeof *larger);
        if (!larger) {
            error_set(error, "%s: no memory", source->path);
            return NULL;
        }
        source->tensors = larger;
        source->tensors_capacity = capacity;
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

const SourceTensor *source_find(const Source *source, const char *name) {
    for (size_t i = 0; i < source->n_tensors; i++)
        if (strcmp(source->tensors[i].name, name) == 0) return &source->tensors[i];
    return NULL;
}

/* As stored_bytes, of what stands at t->offset; `scales` of what stands apart. */
static bool bytes_of(const SourceTensor *t, size_t n, size_t *bytes, size_t *scales) {
    *scales = 0;
    if (!stored_bytes(t->stored, n, bytes)) return false;
    if (t->scales.are) {
        *scales = n / 32;
        *bytes -= *scales;
    }
    return true;
}

/* Every tensor that the reader described lies inside its file, and its parts inside it. */
static Status check_tensor(const Source *source, const SourceTensor *t, Error *error) {
    if (t->values || t->shares || t->stored == STORED_RANDOM) return STATUS_OK;
    size_t elements, bytes, scales;
    const InputFile *file = &source->files[t->file];
    uint64_t end, scales_end;
    if (!size_mul(t->stored_rows, t->stored_cols, &elements) ||
        !bytes_of(t, t->stored_cols, &bytes, &scales) || !size_mul(bytes, t->stored_rows, &bytes) ||
        !size_mul(scales, t->stored_rows, &scales) ||
        (t->group && !size_add(bytes, elements / t->group * sizeof(float), &bytes)) ||
        __builtin_add_overflow(t->offset, bytes, &end) || end > file->bytes ||
        (t->scales.are && (__builtin_add_overflow(t->scales.offset, scales, &scales_end) ||
                           scales_end > source->files[t->scales.file].bytes)))
        return error_set(error,
                         "%s: tensor '%s': %zu x %zu values of %s at offset %llu do not "
                         "fit into the file of %llu bytes",
                         file->path, t->name, t->stored_rows, t->stored_cols,
                         stored_type_info(t->stored)->name, (unsigned long long)t->offset,
                         (unsigned long long)file->bytes);
    size_t last = t->rows - 1;
    size_t end_row = t->map.chunk
                         ? t->map.first + last / t->map.chunk * t->map.stride + t->map.chunk
                         : t->map.first + t->rows;
    size_t have_rows = t->transposed ? t->stored_cols : t->stored_rows;
    size_t have_cols = t->transposed ? t->stored_rows : t->stored_cols;
    if (t->rows == 0 || end_row > have_rows || t->cols != have_cols)
        return error_set(error, "%s: tensor '%s': %zu x %zu, but the file holds %zu x %zu",
                         file->path, t->name, t->rows, t->cols, have_rows, have_cols);
    return STATUS_OK;
}

/* The tokenizer knows best what begins a text; it must not know more ids than the model, but for
 * tokens that somebody added. */
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

static void add_origin(Source *source) {
    static const char *const formats[] = {"",     "model.bin", "huggingface",
                                          "gguf", "llama2.c",  "random"};
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

/* A file can hold a matrix twice: alone, and as a part of a fused one. */
static Status check_names(const Source *source, Error *error) {
    size_t n = source->n_tensors;
    const SourceTensor **sorted = calloc(n + 1, sizeof *sorted);
    Status status = STATUS_OK;
    if (!sorted) return error_set(error, "%s: no memory", source->path);
    for (size_t i = 0; i < n; i++) sorted[i] = &source->tensors[i];
    qsort(sorted, n, sizeof *sorted, by_name);
    for (size_t i = 1; i < n && status == STATUS_OK; i++)
        if (strcmp(sorted[i - 1]->name, sorted[i]->name) == 0)
            status =
                error_set(error, "%s: its tensors give '%s' twice", source->path, sorted[i]->name);
    free(sorted);
    return status;
}

Status source_parse(Source *source, Error *error) {
    source->config = config_default();
    Status status = STATUS_FAILED;
    switch (source->kind) {
    case SOURCE_LLAMA2C:
        status = llama2c_parse(source, error);
        break;
    case SOURCE_HUGGINGFACE:
        status = huggingface_parse(source, error);
        break;
    case SOURCE_GGUF:
        status = gguf_parse(source, error);
        break;
    case SOURCE_RANDOM:
        status = random_parse(source, source->path + strlen("random:"), error);
        break;
    default:
        return error_set(error, "%s: nothing to convert", source->path);
    }
    if (status != STATUS_OK) return status;
    if (config_validate(&source->config, error) != STATUS_OK)
        return error_prefix(error, "%s", source->path);
    for (size_t i = 0; i < source->n_tensors; i++)
        if (check_tensor(source, &source->tensors[i], error) != STATUS_OK) return STATUS_FAILED;
    if (check_names(source, error) != STATUS_OK) return STATUS_FAILED;
    if (source->tokenizer_file.path) {
        if (source->tokenizer.bytes) tokenizer_blob_free(&source->tokenizer);
        source->tokenizer = (TokenizerBlob){0};
        if (tokenizer_from_file(&source->tokenizer_file, source->config.vocab_size,
                                &source->tokenizer, error) != STATUS_OK)
            return STATUS_FAILED;
    }
    if (check_tokenizer(source, error) != STATUS_OK) return STATUS_FAILED;
    add_origin(source);
    if (source->metadata.failed) return error_set(error, "%s: no memory", source->path);
    return STATUS_OK;
}

/* ---- Reading ---- */

/* Rows from canonical row r on that stand one behind another in the file, at most n. */
static size_t contiguous(const SourceTensor *t, size_t r, size_t n, size_t *stored_row) {
    if (!t->map.chunk) {
        *stored_row = t->map.first + r;
        return n;
    }
    *stored_row = t->map.first + r / t->map.chunk * t->map.stride + r % t->map.chunk;
    size_t left = t->map.chunk - r % t->map.chunk;
    return n < left ? n : left;
}

/* n stored rows from `row` on, to `out`: each of row_bytes there, of which scale_bytes are apart.
 */
static Status read_rows(const Source *source, const SourceTensor *t, size_t row, size_t n,
                        size_t row_bytes, size_t scale_bytes, uint8_t *out, Error *error) {
    const InputFile *file = &source->files[t->file];
    size_t codes = n * (row_bytes - scale_bytes);
    uint8_t *codes_at = out + n * scale_bytes;
    if (input_read(file, t->offset + (uint64_t)row * (row_bytes - scale_bytes), codes_at, codes,
                   error) != STATUS_OK)
        return STATUS_FAILED;
    if (!scale_bytes) return STATUS_OK;
    uint8_t *scales = malloc(n * scale_bytes);
    if (!scales) return error_set(error, "%s: no memory", file->path);
    Status status =
        input_read(&source->files[t->scales.file], t->scales.offset + (uint64_t)row * scale_bytes,
                   scales, n * scale_bytes, error);
    if (status == STATUS_OK) mxfp4_blocks(codes_at, scales, n * scale_bytes, out);
    free(scales);
    return status;
}

Status source_read_blocks(const Source *source, const SourceTensor *t, size_t first, size_t n,
                          void *out, Error *error) {
    size_t row_bytes, scale_bytes, stored_row;
    bytes_of(t, t->cols, &row_bytes, &scale_bytes);
    row_bytes += scale_bytes;
    for (size_t done = 0; done < n;) {
        size_t run = contiguous(t, first + done, n - done, &stored_row);
        if (read_rows(source, t, stored_row, run, row_bytes, scale_bytes,
                      (uint8_t *)out + done * row_bytes, error) != STATUS_OK)
            return error_prefix(error, "tensor '%s'", t->name);
        done += run;
    }
    return STATUS_OK;
}

/* Stored as inputs x outputs: element (r, c) stands in row c. Such matrices are small, and read
 * through the mapping. */
static void read_transposed(const Source *source, const SourceTensor *t, size_t first, size_t n,
                            float *out) {
    size_t element = stored_type_info(t->stored)->block_bytes, stored_row;
    const uint8_t *base = source->files[t->file].map + t->offset;
    for (size_t i = 0; i < n; i++) {
        contiguous(t, first + i, 1, &stored_row);
        for (size_t c = 0; c < t->cols; c++)
            stored_to_floats(t->stored, base + (c * t->stored_cols + stored_row) * element, 1,
                             out + i * t->cols + c);
    }
}

static Status read_llama2c(const Source *source, const SourceTensor *t, size_t first, size_t n,
                           float *out, Error *error) {
    const InputFile *file = &source->files[t->file];
    uint64_t begin = (uint64_t)first * t->cols, end = begin + (uint64_t)n * t->cols;
    uint64_t scales_at = t->offset + (uint64_t)t->stored_rows * t->stored_cols;
    uint64_t first_group = begin / t->group;
    size_t n_groups = (size_t)((end + t->group - 1) / t->group - first_group);
    float *scales = malloc(n_groups * sizeof *scales);
    int8_t *codes = malloc((size_t)(end - begin));
    Status status = STATUS_OK;
    if (!scales || !codes) status = error_set(error, "%s: no memory", file->path);
    if (status == STATUS_OK)
        status = input_read(file, t->offset + begin, codes, (size_t)(end - begin), error);
    if (status == STATUS_OK)
        status = input_read(file, scales_at + first_group * sizeof *scales, scales,
                            n_groups * sizeof *scales, error);
    if (status == STATUS_OK)
        for (uint64_t i = begin; i < end; i++)
            out[i - begin] = (float)codes[i - begin] * scales[i / t->group - first_group];
    free(scales);
    free(codes);
    return status;
}

/* The stored bytes go to the end of `out`, where they fit because no stored type is wider than
 * float32, and are widened towards its beginning, a few at a time by way of a small buffer. */
static Status read_plain(const Source *source, const SourceTensor *t, size_t first, size_t n,
                         float *out, Error *error) {
    size_t row_bytes, block = stored_type_info(t->stored)->block;
    size_t block_bytes = stored_type_info(t->stored)->block_bytes;
    stored_bytes(t->stored, t->cols, &row_bytes);
    const char *raw = (char *)(out + n * t->cols) - n * row_bytes;
    if (source_read_blocks(source, t, first, n, (char *)raw, error) != STATUS_OK)
        return STATUS_FAILED;
    if (t->stored == STORED_F32) return STATUS_OK;
    uint64_t buffer[128];
    size_t step = sizeof buffer / block_bytes * block, total = n * t->cols;
    for (size_t i = 0; i < total; i += step) {
        size_t now = total - i < step ? total - i : step;
        memcpy(buffer, raw + i / block * block_bytes, now / block * block_bytes);
        stored_to_floats(t->stored, buffer, now, out + i);
    }
    return STATUS_OK;
}

Status source_read_floats(const Source *source, const SourceTensor *t, size_t first, size_t n,
                          float *out, Error *error) {
    Status status = STATUS_OK;
    if (t->values) {
        memcpy(out, t->values + first * t->cols, n * t->cols * sizeof *out);
    } else if (t->stored == STORED_RANDOM) {
        random_values(t, (uint64_t)first * t->cols, n * t->cols, out);
    } else if (t->stored == STORED_LLAMA2C_Q8) {
        status = read_llama2c(source, t, first, n, out, error);
    } else if (t->transposed) {
        read_transposed(source, t, first, n, out);
    } else {
        status = read_plain(source, t, first, n, out, error);
    }
    if (status == STATUS_OK && t->add != 0.0f)
        for (size_t i = 0; i < n * t->cols; i++) out[i] += t->add;
    return status;
}
