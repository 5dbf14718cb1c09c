#include "formats/containers/source.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/numbers.h"
#include "formats/stored/panel_rows.h"
#include "formats/containers/random_values.h"
#include "formats/stored/stored.h"
#include "formats/stored/stored_k.h"

/* Weights of one block of MXFP4 or Q4_0 whose scales are stored separately. */
enum { BLOCK = 32 };

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

/* Each stored layer becomes `sharers` consecutive ones with the same weights. shared_names lists
 * the tensors of the stored layers in their order, so that `at` follows i. */
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

/* The bytes that `rows` rows of the stored tensor take in its file: *data of blocks (or of codes
 * alone) at t->offset, and *scales that stand elsewhere. False: too many to count. */
static bool stored_size(const SourceTensor *t, size_t rows, size_t cols, size_t *data,
                        size_t *scales) {
    *scales = 0;
    if (!stored_file_bytes(t->stored, cols, cols, data)) return false;
    if (t->scales.present) {
        bool is_q4 = t->stored == STORED_Q4_0;
        if (is_q4 && (t->scales.group == 0 || cols % t->scales.group != 0)) return false;
        *scales = is_q4 ? cols / t->scales.group * sizeof(uint16_t) : cols / BLOCK;
        *data = cols / 2;
    }
    return size_mul(*data, rows, data) && size_mul(*scales, rows, scales);
}

static bool lies_inside(const InputFile *file, uint64_t offset, size_t bytes) {
    uint64_t end;
    return !__builtin_add_overflow(offset, bytes, &end) && end <= file->bytes;
}

/* Whether the scales of all blocks lie inside their file. */
static bool blocks_are_in_file(const Source *source, const SourceTensor *t) {
    const BlockScales *b = &t->blocks;
    size_t rows, bytes;
    if (!b->present) return true;
    if (b->rows == 0 || b->cols == 0 || b->per_row == 0 || t->stored_rows == 0 ||
        !size_add(b->first, t->stored_rows, &rows) || (t->stored_cols - 1) / b->cols >= b->per_row)
        return false;
    rows = (rows - 1) / b->rows + 1;
    return size_mul(rows, b->per_row, &bytes) &&
           size_mul(bytes, stored_type_info(b->type)->block_bytes, &bytes) &&
           lies_inside(&source->files[b->file], b->offset, bytes);
}

/* Whether the whole stored tensor lies inside its file (and its scales inside theirs). */
static bool is_in_file(const Source *source, const SourceTensor *t) {
    size_t bytes, scale_bytes, elements, group_bytes = 0;
    if (t->ternary_scale != 0.0f)
        return t->stored_rows % 4 == 0 && size_mul(t->stored_rows / 4, t->stored_cols, &bytes) &&
               stored_bytes(t->stored, t->stored_cols, &elements) &&
               lies_inside(&source->files[t->file], t->offset, bytes);
    if (!stored_size(t, t->stored_rows, t->stored_cols, &bytes, &scale_bytes) ||
        !blocks_are_in_file(source, t))
        return false;
    /* llama2.c's float32 scales follow the codes. */
    if (t->group && (!size_mul(t->stored_rows, t->stored_cols, &elements) ||
                     !size_mul(elements / t->group, sizeof(float), &group_bytes)))
        return false;
    if (!size_add(bytes, group_bytes, &bytes)) return false;
    return lies_inside(&source->files[t->file], t->offset, bytes) &&
           (!t->scales.present ||
            lies_inside(&source->files[t->scales.file], t->scales.offset, scale_bytes));
}

/* One past the last stored row that row `rows` - 1 of the tensor maps to (whole chunks counted). */
static size_t end_of_rows(const RowMap *map, size_t rows) {
    if (map->chunk == 0) return map->first + rows;
    return map->first + (rows - 1) / map->chunk * map->stride + map->chunk;
}

Status source_check_tensor(const Source *source, const SourceTensor *t, Error *error) {
    if (t->values || t->shares || t->stored == STORED_RANDOM || t->stored == STORED_PANELS)
        return STATUS_OK;
    const InputFile *file = &source->files[t->file];
    if (!is_in_file(source, t))
        return error_set(error,
                         "%s: tensor '%s': %zu x %zu values of %s at offset %llu do not "
                         "fit into the file of %llu bytes",
                         file->path, t->name, t->stored_rows, t->stored_cols,
                         stored_type_info(t->stored)->name, (unsigned long long)t->offset,
                         (unsigned long long)file->bytes);
    if (t->transposed && stored_type_info(t->stored)->row_scale)
        return error_set(error,
                         "%s: tensor '%s': %s has a scale for each row, but its rows are inputs",
                         file->path, t->name, stored_type_info(t->stored)->name);
    size_t have_rows = t->transposed ? t->stored_cols : t->stored_rows;
    size_t have_cols = t->transposed ? t->stored_rows : t->stored_cols;
    if (t->rows == 0 || end_of_rows(&t->map, t->rows) > have_rows || t->cols != have_cols)
        return error_set(error, "%s: tensor '%s': %zu x %zu, but the file holds %zu x %zu",
                         file->path, t->name, t->rows, t->cols, have_rows, have_cols);
    return STATUS_OK;
}

/* ---- Reading ---- */

/* The stored place of element i; *run becomes the number of elements from there on that are read
 * one after another, if it is larger. */
static size_t tiled_place(const HeadTiles *tiles, size_t i, size_t *run) {
    if (i < tiles->first) {
        if (*run > tiles->first - i) *run = tiles->first - i;
        return i;
    }
    size_t at = (i - tiles->first) % tiles->width, head = (i - tiles->first) / tiles->width;
    size_t group = head % tiles->groups, of_group = head / tiles->groups;
    if (*run > tiles->width - at) *run = tiles->width - at;
    return tiles->first + (group * tiles->per_group + of_group) * tiles->width + at;
}

/* Brings the columns of n rows, which have been read as they are stored, into the tensor's order.
 * A block of `block` columns is block_bytes long. */
static Status order_columns(const SourceTensor *t, size_t block, size_t block_bytes, size_t n,
                            void *rows, Error *error) {
    size_t row_bytes = t->cols / block * block_bytes;
    char *stored = t->columns.groups ? malloc(row_bytes + 1) : NULL;
    if (!t->columns.groups) return STATUS_OK;
    if (!stored) return error_set(error, "tensor '%s': no memory", t->name);
    for (size_t r = 0; r < n; r++) {
        char *row = (char *)rows + r * row_bytes;
        memcpy(stored, row, row_bytes);
        for (size_t c = 0, run; c < t->cols; c += run) {
            run = t->cols - c;
            size_t from = tiled_place(&t->columns, c, &run);
            memcpy(row + c / block * block_bytes, stored + from / block * block_bytes,
                   run / block * block_bytes);
        }
    }
    free(stored);
    return STATUS_OK;
}

/* How many of the n rows from row r on lie one after another in the file; *stored_row is the
 * stored row of the first. */
static size_t contiguous_rows(const SourceTensor *t, size_t r, size_t n, size_t *stored_row) {
    const RowMap *map = &t->map;
    if (map->head > 0) {
        size_t at = r % map->head, half = map->head / 2;
        *stored_row = r - at + (at < half ? 2 * at : 2 * (at - half) + 1);
        return 1;
    }
    if (map->tiles.groups > 0) {
        *stored_row = map->first + tiled_place(&map->tiles, r, &n);
        return n;
    }
    if (map->chunk == 0) {
        *stored_row = map->first + r;
        return n;
    }
    *stored_row = map->first + r / map->chunk * map->stride + r % map->chunk;
    size_t left = map->chunk - r % map->chunk;
    return n < left ? n : left;
}

size_t source_stored_row(const SourceTensor *tensor, size_t row) {
    size_t stored_row;
    contiguous_rows(tensor, row, 1, &stored_row);
    return stored_row;
}

/* Rearranges a block of 32 codes of 4 bits: byte i of codes[16] holds elements 2i and 2i + 1 (low
 * nibble first), byte i of out[16] elements i and i + 16, as GGUF has them. */
static void join_nibbles(const uint8_t *codes, uint8_t *out) {
    for (size_t i = 0; i < 16; i++) {
        int low = codes[i / 2] >> (i % 2 ? 4 : 0) & 15;
        int high = codes[8 + i / 2] >> (i % 2 ? 4 : 0) & 15;
        out[i] = (uint8_t)(low | high << 4);
    }
}

/* A scale of 16 bits as the float16 of GGUF's blocks. False: float16 cannot hold it. */
static bool scale_as_half(StoredType type, uint16_t scale, uint16_t *half) {
    float value = type == STORED_BF16 ? bfloat_to_float(scale) : numbers_half_to_float(scale);
    *half = numbers_float_to_half(value);
    return numbers_half_to_float(*half) == value;
}

/* Joins codes with scales that were stored separately to n of GGUF's blocks, in which the scale
 * comes first. `codes` may be the last n * 16 bytes of `out`. False: a scale does not fit. */
static bool join_blocks(const SourceTensor *t, const uint8_t *codes, const uint8_t *scales,
                        size_t n, uint8_t *out) {
    size_t block_bytes = stored_type_info(t->stored)->block_bytes, first = block_bytes - 16;
    for (size_t b = 0; b < n; b++, codes += 16, out += block_bytes) {
        uint8_t pairs[16];
        uint16_t scale;
        memcpy(pairs, codes, sizeof pairs); /* `out` may overwrite them */
        if (t->stored == STORED_Q4_0) {
            memcpy(&scale, scales + b * BLOCK / t->scales.group * sizeof scale, sizeof scale);
            if (!scale_as_half(t->scales.type, scale, &scale)) return false;
            memcpy(out, &scale, sizeof scale);
        } else {
            out[0] = scales[b];
        }
        join_nibbles(pairs, out + first);
    }
    return true;
}

/* Puts the scale of each of n rows before each of its blocks. The rows end where the result ends,
 * so no block is overwritten before it is moved. */
static void spread_scales(const StoredTypeInfo *info, size_t n, size_t data_bytes,
                          const uint8_t *rows, uint8_t *out) {
    const size_t scale_bytes = info->row_scale, bytes = info->block_bytes - scale_bytes;
    for (size_t r = 0; r < n; r++, rows += data_bytes) {
        uint8_t scale[8];
        memcpy(scale, rows, scale_bytes);
        for (size_t at = scale_bytes; at < data_bytes; at += bytes, out += info->block_bytes) {
            memmove(out + scale_bytes, rows + at, bytes);
            memcpy(out, scale, scale_bytes);
        }
    }
}

/* Reads n stored rows from `row` on as blocks into `out`; a row is data_bytes in the tensor's own
 * file and scale_bytes elsewhere, and row_bytes as blocks. */
static Status read_rows(const Source *source, const SourceTensor *t, size_t row, size_t n,
                        size_t data_bytes, size_t scale_bytes, size_t row_bytes, uint8_t *out,
                        Error *error) {
    const InputFile *file = &source->files[t->file];
    uint8_t *data = out + n * (row_bytes - data_bytes);
    if (input_read(file, t->offset + (uint64_t)row * data_bytes, data, n * data_bytes, error) !=
        STATUS_OK)
        return STATUS_FAILED;
    if (stored_type_info(t->stored)->row_scale)
        spread_scales(stored_type_info(t->stored), n, data_bytes, data, out);
    if (!scale_bytes) return STATUS_OK;
    uint8_t *scales = malloc(n * scale_bytes);
    if (!scales) return error_set(error, "%s: no memory", file->path);
    Status status =
        input_read(&source->files[t->scales.file], t->scales.offset + (uint64_t)row * scale_bytes,
                   scales, n * scale_bytes, error);
    if (status == STATUS_OK && !join_blocks(t, data, scales, n * data_bytes / 16, out))
        status = error_set(error, "%s: a scale is not finite, or 16 bits do not hold it",
                           source->files[t->scales.file].path);
    free(scales);
    return status;
}

/* Writes a row of weights, from the 2 bits at `shift` of each byte, as GGUF's blocks: 64 bytes, in
 * which byte 32 i + j has weights 128 i + j, + 32, + 64 and + 96 from its lowest bits on, and the
 * scale in 16 bits. */
static void pack_tq2(const uint8_t *bytes, int shift, float scale, size_t n, uint8_t *out) {
    uint16_t half = numbers_float_to_half(scale);
    for (size_t block = 0; block < n / 256; block++, bytes += 256, out += 66) {
        memset(out, 0, 64);
        for (size_t i = 0; i < 256; i++)
            out[i / 128 * 32 + i % 32] |= (uint8_t)((bytes[i] >> shift & 3) << 2 * (i % 128 / 32));
        memcpy(out + 64, &half, sizeof half);
    }
}

/* Reads n rows of a ternary matrix, as float32 or as blocks of TQ2_0. Four rows lie in one row of
 * bytes, 2 bits each: row r in byte row r % packed_rows, at bits 2 * (r / packed_rows). */
static Status read_ternary(const Source *source, const SourceTensor *t, size_t first, size_t n,
                           uint8_t *out, Error *error) {
    size_t packed_rows = t->stored_rows / 4, row_bytes, stored_row;
    uint8_t *bytes = malloc(t->cols);
    if (!bytes || !stored_bytes(t->stored, t->cols, &row_bytes)) {
        free(bytes);
        return error_set(error, "%s: no memory", source->path);
    }
    Status status = STATUS_OK;
    for (size_t i = 0; status == STATUS_OK && i < n; i++, out += row_bytes) {
        contiguous_rows(t, first + i, 1, &stored_row);
        int shift = 2 * (int)(stored_row / packed_rows);
        status = input_read(&source->files[t->file],
                            t->offset + (uint64_t)(stored_row % packed_rows) * t->cols, bytes,
                            t->cols, error);
        if (t->stored == STORED_TQ2_0) pack_tq2(bytes, shift, t->ternary_scale, t->cols, out);
        for (size_t c = 0; t->stored == STORED_F32 && c < t->cols; c++) {
            float value = (float)((bytes[c] >> shift & 3) - 1) * t->ternary_scale;
            memcpy(out + c * sizeof value, &value, sizeof value);
        }
    }
    free(bytes);
    return status;
}

/* Reads rows as blocks, with the columns in the order in which they are stored. */
static Status read_blocks(const Source *source, const SourceTensor *t, size_t first, size_t n,
                          void *out, Error *error) {
    size_t data_bytes, scale_bytes, row_bytes, stored_row;
    stored_size(t, 1, t->cols, &data_bytes, &scale_bytes);
    stored_bytes(t->stored, t->cols, &row_bytes);
    if (t->ternary_scale != 0.0f) return read_ternary(source, t, first, n, out, error);
    for (size_t done = 0; done < n;) {
        size_t run = contiguous_rows(t, first + done, n - done, &stored_row);
        if (read_rows(source, t, stored_row, run, data_bytes, scale_bytes, row_bytes,
                      (uint8_t *)out + done * row_bytes, error) != STATUS_OK)
            return error_prefix(error, "tensor '%s'", t->name);
        done += run;
    }
    return STATUS_OK;
}

bool source_has_blocks(const SourceTensor *t) {
    size_t block = stored_type_info(t->stored)->block;
    bool cuts = t->columns.groups && (t->columns.first % block || t->columns.width % block);
    return !t->transposed && !cuts && !t->row_scales;
}

Status source_read_blocks(const Source *source, const SourceTensor *t, size_t first, size_t n,
                          void *out, Error *error) {
    const StoredTypeInfo *info = stored_type_info(t->stored);
    if (read_blocks(source, t, first, n, out, error) != STATUS_OK) return STATUS_FAILED;
    return order_columns(t, info->block, info->block_bytes, n, out, error);
}

/* Reads rows of a matrix that is stored as inputs x outputs, where element (r, c) is in stored row
 * c. Such matrices are small, so they are read through the mapping, a block at a time. */
static void read_transposed(const Source *source, const SourceTensor *t, size_t first, size_t n,
                            float *out) {
    enum { WIDEST_BLOCK = 256 };
    const StoredTypeInfo *info = stored_type_info(t->stored);
    size_t block = info->block, stored_row;
    const uint8_t *base = source->files[t->file].map + t->offset;
    for (size_t i = 0, now; i < n; i += now) {
        now = contiguous_rows(t, first + i, n - i, &stored_row);
        size_t in_block = stored_row % block;
        if (now > block - in_block) now = block - in_block;
        for (size_t c = 0; c < t->cols; c++) {
            float values[WIDEST_BLOCK];
            size_t at = c * (t->stored_cols / block) + stored_row / block;
            stored_to_floats(t->stored, base + at * info->block_bytes, block, values);
            for (size_t k = 0; k < now; k++) out[(i + k) * t->cols + c] = values[in_block + k];
        }
    }
}

/* Reads rows of llama2.c's version 2: int8 codes of the whole tensor, then a float32 scale for each
 * group of elements, counted through the whole tensor. */
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

/* Whether the factor beside an NVFP4 matrix is multiplied in where its blocks are widened. */
static bool has_factor(const SourceTensor *t) {
    return t->stored == STORED_NVFP4 && t->blocks.present && !t->transposed;
}

/* Reads the stored rows into the end of `out` (no stored type is wider than float32, so they fit)
 * and widens them from there to its beginning, a few blocks at a time through a small buffer. */
static Status read_plain(const Source *source, const SourceTensor *t, size_t first, size_t n,
                         float *out, Error *error) {
    size_t row_bytes, block = stored_type_info(t->stored)->block;
    size_t block_bytes = stored_type_info(t->stored)->block_bytes;
    float factor = 1.0f;
    stored_bytes(t->stored, t->cols, &row_bytes);
    if (has_factor(t) && source_read_scale(source, t, &factor, error) != STATUS_OK)
        return STATUS_FAILED;
    const char *raw = (char *)(out + n * t->cols) - n * row_bytes;
    if (read_blocks(source, t, first, n, (char *)raw, error) != STATUS_OK) return STATUS_FAILED;
    if (t->stored == STORED_F32) return STATUS_OK;
    uint64_t buffer[128];
    size_t step = sizeof buffer / block_bytes * block, total = n * t->cols;
    for (size_t i = 0; i < total; i += step) {
        size_t now = total - i < step ? total - i : step;
        memcpy(buffer, raw + i / block * block_bytes, now / block * block_bytes);
        if (has_factor(t)) {
            stored_k_nvfp4_to_floats((const uint8_t *)buffer, now, factor, out + i);
        } else {
            stored_to_floats(t->stored, buffer, now, out + i);
        }
    }
    return STATUS_OK;
}

/* Reads n rows of the matrix of scales, from the row that holds those of stored row `row`.
 * malloc'ed; NULL with an Error after a failure. */
static float *read_scales(const Source *source, const BlockScales *b, size_t row, size_t n,
                          Error *error) {
    const InputFile *file = &source->files[b->file];
    size_t bytes = stored_type_info(b->type)->block_bytes, count = n * b->per_row;
    size_t at = (b->first + row) / b->rows * b->per_row;
    float *out = malloc((count + 1) * sizeof *out);
    if (!out) {
        error_set(error, "%s: no memory", file->path);
        return NULL;
    }
    char *raw = (char *)(out + count) - count * bytes;
    if (input_read(file, b->offset + (uint64_t)at * bytes, raw, count * bytes, error) !=
        STATUS_OK) {
        free(out);
        return NULL;
    }
    for (size_t i = 0; i < count; i++) {
        uint32_t one;
        memcpy(&one, raw + i * bytes, bytes);
        stored_to_floats(b->type, &one, 1, out + i);
    }
    return out;
}

Status source_read_scale(const Source *source, const SourceTensor *t, float *scale, Error *error) {
    /* A tensor that is read while the source is parsed was not checked yet. */
    if (!blocks_are_in_file(source, t))
        return error_set(error, "%s: tensor '%s': its scales have another shape",
                         source->files[t->file].path, t->name);
    float *scales = read_scales(source, &t->blocks, 0, 1, error);
    if (!scales) return error_prefix(error, "tensor '%s'", t->name);
    *scale = scales[0];
    free(scales);
    return STATUS_OK;
}

/* Multiplies rows, as read by source_read_floats, with the scales of their blocks. */
static Status apply_scales(const Source *source, const SourceTensor *t, size_t first, size_t n,
                           float *out, Error *error) {
    const BlockScales *b = &t->blocks;
    /* A transposed row needs the scales of all stored rows. */
    size_t end = t->transposed ? b->first + t->stored_rows - 1 : 0, have = SIZE_MAX, stored_row;
    float *scales = NULL;
    /* A tensor that is read while the source is parsed was not checked yet. */
    if (!blocks_are_in_file(source, t))
        return error_set(error, "%s: tensor '%s': its scales have another shape",
                         source->files[t->file].path, t->name);
    for (size_t i = 0; i < n; i++, out += t->cols) {
        contiguous_rows(t, first + i, 1, &stored_row);
        size_t from = t->transposed ? 0 : stored_row, row = (b->first + from) / b->rows;
        if (row != have) {
            free(scales);
            size_t rows = t->transposed ? end / b->rows - row + 1 : 1;
            scales = read_scales(source, b, from, rows, error);
            if (!scales) return error_prefix(error, "tensor '%s'", t->name);
            have = row;
        }
        for (size_t c = 0; c < t->cols; c++) {
            size_t at = c / b->cols;
            if (t->transposed)
                at = ((b->first + c) / b->rows - have) * b->per_row + stored_row / b->cols;
            out[c] *= scales[at];
        }
    }
    free(scales);
    return STATUS_OK;
}

static float minus_exp(float x) {
    if (!(x < 89.0f)) return x >= 89.0f ? -INFINITY : NAN;
    return -(float)numbers_power(2.71828182845904523536, (double)x);
}

/* Adds scale * rows * cols to rows [first, first + n). The products of an element are summed up in
 * the order of the rank. */
static Status add_sum(const SourceSum *sum, const SourceTensor *t, size_t first, size_t n,
                      float *out, Error *error) {
    float *row = malloc(t->cols * sizeof *row);
    if (!row) return error_set(error, "tensor '%s': no memory", t->name);
    for (size_t r = 0; r < n; r++) {
        const float *factor = sum->rows + (first + r) * sum->rank;
        memset(row, 0, t->cols * sizeof *row);
        for (size_t k = 0; k < sum->rank; k++)
            for (size_t c = 0; c < t->cols; c++) row[c] += factor[k] * sum->cols[k * t->cols + c];
        for (size_t c = 0; c < t->cols; c++) out[r * t->cols + c] += sum->scale * row[c];
    }
    free(row);
    return STATUS_OK;
}

Status source_read_floats(const Source *source, const SourceTensor *t, size_t first, size_t n,
                          float *out, Error *error) {
    Status status = STATUS_OK;
    if (t->values) {
        memcpy(out, t->values + first * t->cols, n * t->cols * sizeof *out);
    } else if (t->stored == STORED_RANDOM) {
        random_values(t->name, t->center, t->spread, (uint64_t)first * t->cols, n * t->cols, out);
    } else if (t->stored == STORED_PANELS) {
        status = panel_rows_read(&source->files[t->file], t->offset, t->panels, t->cols, first, n,
                                 out, error);
    } else if (t->stored == STORED_LLAMA2C_Q8) {
        status = read_llama2c(source, t, first, n, out, error);
    } else if (t->transposed) {
        read_transposed(source, t, first, n, out);
    } else {
        status = read_plain(source, t, first, n, out, error);
    }
    if (status == STATUS_OK && t->blocks.present && !has_factor(t))
        status = apply_scales(source, t, first, n, out, error);
    if (status == STATUS_OK) status = order_columns(t, 1, sizeof *out, n, out, error);
    if (status == STATUS_OK && t->add != 0.0f)
        for (size_t i = 0; i < n * t->cols; i++) out[i] += t->add;
    for (size_t i = 0; status == STATUS_OK && t->minus_exp && i < n * t->cols; i++)
        out[i] = minus_exp(out[i]);
    for (size_t i = 0; status == STATUS_OK && t->row_scales && i < n * t->cols; i++)
        out[i] *= t->row_scales[first + i / t->cols];
    for (size_t i = 0; status == STATUS_OK && i < t->n_sums; i++)
        status = add_sum(&t->sums[i], t, first, n, out, error);
    return status;
}
