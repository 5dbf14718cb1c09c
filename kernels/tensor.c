#include "kernels/tensor.h"

#include "base/numbers.h"

/* ---- Panels of lines: the float types and the plain codes ---- */

/* The code in a byte: of 8 bits, or of 4 in either half. */
static int32_t code_in(const TensorTypeInfo *info, uint8_t byte, bool upper) {
    if (info->bits == 4) return upper ? byte >> 4 : byte & 15;
    return info->is_signed ? (int8_t)byte : byte;
}

static void read_codes(TensorType type, size_t cols, const uint8_t *panel, size_t g, size_t r,
                       WeightGroup *group) {
    const TensorTypeInfo *info = &weight_types[type];
    const uint16_t *scales = (const uint16_t *)(panel + type_lines_bytes(type, cols));
    const uint16_t *minima = scales + type_scales_bytes(type, cols) / sizeof *scales;
    group->scale = numbers_half_to_float(scales[g * PANEL_ROWS + r]);
    group->minimum = info->has_min ? numbers_half_to_float(minima[g * PANEL_ROWS + r]) : 0.0f;
    /* A line has 4 bytes of each row: 4 inputs, or 8, the last 4 in the upper halves.
     */
    const uint8_t *line = panel + g * info->group / info->line_inputs * LINE_BYTES + 4 * r;
    for (size_t i = 0; i < info->group; line += LINE_BYTES)
        for (size_t k = 0; k < info->line_inputs; k++)
            group->codes[i++] = code_in(info, line[k % 4], k >= 4) - info->zero;
}

static const PanelReader line_reader = {type_lines_bytes, read_codes};

/* ---- All families ---- */

static const PanelReader *const readers[PANEL_FAMILIES] = {
    [FAMILY_NONE] = &line_reader,
    [FAMILY_FLOATS] = &line_reader,
    [FAMILY_CODES] = &line_reader,
    [FAMILY_SUPERBLOCKS] =
        &superblock_reader, /* without functions in the core build (core/core_absent.c) */
};

static const PanelReader *reader_of(TensorType type) {
    return readers[weight_types[type].family];
}

const TensorTypeInfo *tensor_type_info(uint32_t type) {
    return type < TENSOR_TYPES ? &weight_types[type] : NULL;
}

bool tensor_type_is_built(TensorType type) {
    return reader_of(type)->group != NULL;
}

size_t tensor_lines_bytes(TensorType type, size_t cols) {
    return reader_of(type)->lines_bytes(type, cols);
}

bool tensor_panel_bytes(TensorType type, size_t cols, size_t *bytes) {
    /* No type takes more than 64 bytes of lines, scales and minima for each padded input, and
     * padding adds fewer than 64 inputs, a superblock's header no more: within this bound the sums
     * below cannot overflow. */
    size_t bound;
    if (!size_add(cols, 64, &bound) || !size_mul(bound, 2 * LINE_BYTES, &bound)) return false;
    size_t parts = type_has_minima(type) ? 2 : 1;
    *bytes = tensor_lines_bytes(type, cols) + parts * type_scales_bytes(type, cols);
    return true;
}

bool tensor_matrix_bytes(TensorType type, size_t rows, size_t cols, size_t *bytes) {
    size_t panel;
    if (!tensor_panel_bytes(type, cols, &panel)) return false;
    size_t panels = rows / PANEL_ROWS + (rows % PANEL_ROWS != 0);
    return size_mul(panel, panels, bytes);
}

/* ---- Weights ---- */

float matrix_float(const Matrix *w, size_t row, size_t k) {
    const uint8_t *panel = matrix_panel(w, row / PANEL_ROWS);
    const uint16_t *half = (const uint16_t *)panel;
    size_t r = row % PANEL_ROWS;
    switch (w->type) {
    case TENSOR_F16:
        return numbers_half_to_float(half[PANEL_ROWS * k + r]);
    case TENSOR_BF16:
    case TENSOR_BF16_ACT:
        return bfloat_to_float(half[k / 2 * 2 * PANEL_ROWS + 2 * r + k % 2]);
    default:
        return ((const float *)panel)[PANEL_ROWS * k + r];
    }
}

void matrix_group(const Matrix *w, size_t row, size_t g, WeightGroup *group) {
    reader_of(w->type)->group(w->type, w->cols, matrix_panel(w, row / PANEL_ROWS), g,
                              row % PANEL_ROWS, group);
}

void matrix_row(const Matrix *w, size_t row, float *out) {
    size_t n = type_group(w->type);
    if (!n) {
        for (size_t k = 0; k < w->cols; k++) out[k] = matrix_float(w, row, k);
        return;
    }
    for (size_t first = 0; first < w->cols; first += n) {
        WeightGroup group;
        matrix_group(w, row, first / n, &group);
        for (size_t i = 0; i < n && first + i < w->cols; i++) {
            float value = group.scale * (float)group.codes[i];
            out[first + i] = type_has_minima(w->type) ? value - group.minimum : value;
        }
    }
}
