#include "formats/containers/source_floats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/numbers.h"
#include "formats/containers/random_values.h"
#include "formats/containers/source_blocks.h"
#include "formats/containers/source_place.h"
#include "formats/stored/stored.h"
#include "formats/stored/stored_k.h"

/* ---- Panels of a model.bin (kernels/tensor.h) ---- */

/* Reads rows [first, first + n) of a matrix whose panels begin at `offset`: out[n][cols]. */
static Status read_panel_rows(const InputFile *file, uint64_t offset, TensorType type, size_t cols,
                              size_t first, size_t n, float *out, Error *error) {
    size_t panel_bytes;
    if (!tensor_panel_bytes(type, cols, &panel_bytes))
        return error_set(error, "%s: a panel is too large", file->path);
    uint8_t *panel = aligned_alloc(64, round_up(panel_bytes, 64));
    if (!panel) return error_set(error, "no memory for a panel");
    const Matrix matrix = {
        .type = type, .rows = PANEL_ROWS, .cols = cols, .panel_bytes = panel_bytes, .data = panel};
    Status status = STATUS_OK;
    for (size_t i = 0; status == STATUS_OK && i < n; i++) {
        size_t row = first + i;
        if (i == 0 || row % PANEL_ROWS == 0)
            status = input_read(file, offset + row / PANEL_ROWS * panel_bytes, panel, panel_bytes,
                                error);
        if (status == STATUS_OK) matrix_row(&matrix, row % PANEL_ROWS, out + i * cols);
    }
    free(panel);
    return status;
}

/* ---- Scales of blocks ---- */

/* Whether the factor beside an NVFP4 matrix is multiplied in where its blocks are widened. */
static bool has_factor(const SourceTensor *t) {
    return t->stored == STORED_NVFP4 && t->blocks.present && !t->transposed;
}

/* Reads n rows of the matrix of scales, from the row that holds the scales of stored row `row`.
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
    if (!source_place_has_scales(source, t))
        return error_set(error, "%s: tensor '%s': its scales have another shape",
                         source->files[t->file].path, t->name);
    float *scales = read_scales(source, &t->blocks, 0, 1, error);
    if (!scales) return error_prefix(error, "tensor '%s'", t->name);
    *scale = scales[0];
    free(scales);
    return STATUS_OK;
}

/* ---- Where rows come from ---- */

static Status read_values(const Source *source, const SourceTensor *t, size_t first, size_t n,
                          float *out, Error *error) {
    (void)source, (void)error;
    memcpy(out, t->values + first * t->cols, n * t->cols * sizeof *out);
    return STATUS_OK;
}

static Status read_random(const Source *source, const SourceTensor *t, size_t first, size_t n,
                          float *out, Error *error) {
    (void)source, (void)error;
    random_values(t->name, t->center, t->spread, (uint64_t)first * t->cols, n * t->cols, out);
    return STATUS_OK;
}

static Status read_panels(const Source *source, const SourceTensor *t, size_t first, size_t n,
                          float *out, Error *error) {
    return read_panel_rows(&source->files[t->file], t->offset, t->panels, t->cols, first, n, out,
                           error);
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

/* Reads rows of a matrix that is stored as inputs x outputs, where element (r, c) is in stored row
 * c. Such matrices are small, so they are read through the mapping, a block at a time. */
static Status read_transposed(const Source *source, const SourceTensor *t, size_t first, size_t n,
                              float *out, Error *error) {
    enum { WIDEST_BLOCK = 256 };
    const StoredTypeInfo *info = stored_type_info(t->stored);
    size_t block = info->block, stored_row;
    (void)error;
    const uint8_t *base = source->files[t->file].map + t->offset;
    for (size_t i = 0, now; i < n; i += now) {
        now = source_place_rows(t, first + i, n - i, &stored_row);
        size_t in_block = stored_row % block;
        if (now > block - in_block) now = block - in_block;
        for (size_t c = 0; c < t->cols; c++) {
            float values[WIDEST_BLOCK];
            size_t at = c * (t->stored_cols / block) + stored_row / block;
            stored_to_floats(t->stored, base + at * info->block_bytes, block, values);
            for (size_t k = 0; k < now; k++) out[(i + k) * t->cols + c] = values[in_block + k];
        }
    }
    return STATUS_OK;
}

/* Reads the stored rows into the end of `out` (no stored type is wider than float32, so they fit)
 * and widens them from there to its beginning, a few blocks at a time through a small buffer. */
static Status read_stored(const Source *source, const SourceTensor *t, size_t first, size_t n,
                          float *out, Error *error) {
    size_t row_bytes, block = stored_type_info(t->stored)->block;
    size_t block_bytes = stored_type_info(t->stored)->block_bytes;
    float factor = 1.0f;
    stored_bytes(t->stored, t->cols, &row_bytes);
    if (has_factor(t) && source_read_scale(source, t, &factor, error) != STATUS_OK)
        return STATUS_FAILED;
    const char *raw = (char *)(out + n * t->cols) - n * row_bytes;
    if (source_blocks_as_stored(source, t, first, n, (char *)raw, error) != STATUS_OK)
        return STATUS_FAILED;
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

/* ---- Transformations of the floats ---- */

/* Multiplies rows, as read by source_read_floats, with the scales of their blocks. */
static Status multiply_scales(const Source *source, const SourceTensor *t, size_t first, size_t n,
                              float *out, Error *error) {
    const BlockScales *b = &t->blocks;
    /* A transposed row needs the scales of all stored rows. */
    size_t end = t->transposed ? b->first + t->stored_rows - 1 : 0, have = SIZE_MAX, stored_row;
    float *scales = NULL;
    /* A tensor that is read while the source is parsed was not checked yet. */
    if (!source_place_has_scales(source, t))
        return error_set(error, "%s: tensor '%s': its scales have another shape",
                         source->files[t->file].path, t->name);
    for (size_t i = 0; i < n; i++, out += t->cols) {
        source_place_rows(t, first + i, 1, &stored_row);
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

static Status order_columns(const Source *source, const SourceTensor *t, size_t first, size_t n,
                            float *out, Error *error) {
    (void)source, (void)first;
    return source_blocks_order_columns(t, 1, sizeof *out, n, out, error);
}

static Status add_constant(const Source *source, const SourceTensor *t, size_t first, size_t n,
                           float *out, Error *error) {
    (void)source, (void)first, (void)error;
    for (size_t i = 0; i < n * t->cols; i++) out[i] += t->add;
    return STATUS_OK;
}

static float minus_exp(float x) {
    if (!(x < 89.0f)) return x >= 89.0f ? -INFINITY : NAN;
    return -(float)numbers_power(2.71828182845904523536, (double)x);
}

static Status take_minus_exp(const Source *source, const SourceTensor *t, size_t first, size_t n,
                             float *out, Error *error) {
    (void)source, (void)first, (void)error;
    for (size_t i = 0; i < n * t->cols; i++) out[i] = minus_exp(out[i]);
    return STATUS_OK;
}

static Status scale_rows(const Source *source, const SourceTensor *t, size_t first, size_t n,
                         float *out, Error *error) {
    (void)source, (void)error;
    for (size_t i = 0; i < n * t->cols; i++) out[i] *= t->row_scales[first + i / t->cols];
    return STATUS_OK;
}

/* Adds scale * rows * cols to rows [first, first + n). The products of an element are summed up in
 * the order of the rank. */
static Status add_one_sum(const SourceSum *sum, const SourceTensor *t, size_t first, size_t n,
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

static Status add_sums(const Source *source, const SourceTensor *t, size_t first, size_t n,
                       float *out, Error *error) {
    Status status = STATUS_OK;
    (void)source;
    for (size_t i = 0; status == STATUS_OK && i < t->n_sums; i++)
        status = add_one_sum(&t->sums[i], t, first, n, out, error);
    return status;
}

/* ---- The reading of a tensor ---- */

static SourceStep *origin_of(const SourceTensor *t) {
    if (t->values) return read_values;
    if (t->stored == STORED_RANDOM) return read_random;
    if (t->stored == STORED_PANELS) return read_panels;
    if (t->stored == STORED_LLAMA2C_Q8) return read_llama2c;
    return t->transposed ? read_transposed : read_stored;
}

SourceReading source_reading(const SourceTensor *t) {
    SourceReading reading = {.origin = origin_of(t)};
    size_t n = 0;
    if (t->blocks.present && !has_factor(t)) reading.steps[n++] = multiply_scales;
    if (t->columns.groups) reading.steps[n++] = order_columns;
    if (t->add != 0.0f) reading.steps[n++] = add_constant;
    if (t->minus_exp) reading.steps[n++] = take_minus_exp;
    if (t->row_scales) reading.steps[n++] = scale_rows;
    if (t->n_sums > 0) reading.steps[n++] = add_sums;
    return reading;
}

Status source_reading_floats(const SourceReading *reading, const Source *source,
                             const SourceTensor *t, size_t first, size_t n, float *out,
                             Error *error) {
    Status status = reading->origin(source, t, first, n, out, error);
    for (SourceStep *const *step = reading->steps; status == STATUS_OK && *step; step++)
        status = (*step)(source, t, first, n, out, error);
    return status;
}

Status source_read_floats(const Source *source, const SourceTensor *t, size_t first, size_t n,
                          float *out, Error *error) {
    const SourceReading reading = source_reading(t);
    return source_reading_floats(&reading, source, t, first, n, out, error);
}
