#include "formats/containers/source_blocks.h"

#include <stdlib.h>
#include <string.h>

#include "base/numbers.h"
#include "formats/containers/source_place.h"

/* ---- Scales that stand elsewhere ---- */

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
            memcpy(&scale, scales + b * SOURCE_BLOCK / t->scales.group * sizeof scale,
                   sizeof scale);
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

/* ---- Ternary matrices ---- */

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
        source_place_rows(t, first + i, 1, &stored_row);
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

/* ---- Rows and columns ---- */

Status source_blocks_as_stored(const Source *source, const SourceTensor *t, size_t first, size_t n,
                               void *out, Error *error) {
    size_t data_bytes, scale_bytes, row_bytes, stored_row;
    source_place_bytes(t, 1, t->cols, &data_bytes, &scale_bytes);
    stored_bytes(t->stored, t->cols, &row_bytes);
    if (t->ternary_scale != 0.0f) return read_ternary(source, t, first, n, out, error);
    for (size_t done = 0; done < n;) {
        size_t run = source_place_rows(t, first + done, n - done, &stored_row);
        if (read_rows(source, t, stored_row, run, data_bytes, scale_bytes, row_bytes,
                      (uint8_t *)out + done * row_bytes, error) != STATUS_OK)
            return error_prefix(error, "tensor '%s'", t->name);
        done += run;
    }
    return STATUS_OK;
}

Status source_blocks_order_columns(const SourceTensor *t, size_t block, size_t block_bytes,
                                   size_t n, void *rows, Error *error) {
    size_t row_bytes = t->cols / block * block_bytes;
    char *stored = t->columns.groups ? malloc(row_bytes + 1) : NULL;
    if (!t->columns.groups) return STATUS_OK;
    if (!stored) return error_set(error, "tensor '%s': no memory", t->name);
    for (size_t r = 0; r < n; r++) {
        char *row = (char *)rows + r * row_bytes;
        memcpy(stored, row, row_bytes);
        for (size_t c = 0, run; c < t->cols; c += run) {
            run = t->cols - c;
            size_t from = source_place_tiled(&t->columns, c, &run);
            memcpy(row + c / block * block_bytes, stored + from / block * block_bytes,
                   run / block * block_bytes);
        }
    }
    free(stored);
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
    if (source_blocks_as_stored(source, t, first, n, out, error) != STATUS_OK) return STATUS_FAILED;
    return source_blocks_order_columns(t, info->block, info->block_bytes, n, out, error);
}
