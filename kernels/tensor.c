#include "kernels/tensor.h"

#include <string.h>

#include "base/numbers.h"
#include "kernels/records.h"

static const TensorTypeInfo types[TENSOR_TYPES] = {
    [TENSOR_VECTOR] = {"vector", 16, 0, false}, [TENSOR_F32] = {"f32", 1, 0, false},
    [TENSOR_F16] = {"f16", 2, 0, false},        [TENSOR_BF16] = {"bf16", 2, 0, false},
    [TENSOR_Q8] = {"q8", 4, 32, false},         [TENSOR_Q8_64] = {"q8_64", 4, 64, false},
    [TENSOR_Q4] = {"q4", 8, 32, false},         [TENSOR_Q4_MIN] = {"q4_min", 8, 32, true},
    [TENSOR_Q8_MIN] = {"q8_min", 4, 32, true},  [TENSOR_Q4_K] = {"q4_k", 8, 32, true},
    [TENSOR_Q5_K] = {"q5_k", 8, 32, true},      [TENSOR_Q6_K] = {"q6_k", 8, 16, false},
    [TENSOR_Q4_NL] = {"q4_nl", 8, 32, false},   [TENSOR_MXFP4] = {"mxfp4", 8, 32, false},
};

const TensorTypeInfo *tensor_type_info(uint32_t type) {
    return type < TENSOR_TYPES ? &types[type] : NULL;
}

bool tensor_type_by_name(const char *name, TensorType *type) {
    for (uint32_t t = 0; t < TENSOR_TYPES; t++) {
        if (strcmp(types[t].name, name) != 0) continue;
        *type = (TensorType)t;
        return true;
    }
    return false;
}

static size_t padding_step(TensorType type) {
    return types[type].group ? types[type].group : types[type].line_inputs;
}

size_t tensor_padded_cols(TensorType type, size_t cols) {
    return round_up(cols, padding_step(type));
}

size_t tensor_lines_bytes(TensorType type, size_t cols) {
    if (is_record_type(type))
        return records_bytes(type, tensor_padded_cols(type, cols) / types[type].group);
    return tensor_padded_cols(type, cols) / types[type].line_inputs * LINE_BYTES;
}

size_t tensor_scales_bytes(TensorType type, size_t cols) {
    if (!types[type].group || is_record_type(type)) return 0;
    size_t groups = tensor_padded_cols(type, cols) / types[type].group;
    return round_up(groups * PANEL_ROWS * sizeof(uint16_t), LINE_BYTES);
}

bool tensor_panel_bytes(TensorType type, size_t cols, size_t *bytes) {
    /* No type takes more than 64 bytes of lines, scales and minima for each padded input, and
     * padding adds fewer than 64 inputs, a record's header no more: past this bound the sums
     * below cannot overflow. */
    size_t bound;
    if (!size_add(cols, 64, &bound) || !size_mul(bound, 2 * LINE_BYTES, &bound)) return false;
    size_t parts = types[type].has_min ? 2 : 1;
    *bytes = tensor_lines_bytes(type, cols) + parts * tensor_scales_bytes(type, cols);
    return true;
}

bool tensor_matrix_bytes(TensorType type, size_t rows, size_t cols, size_t *bytes) {
    size_t panel;
    if (!tensor_panel_bytes(type, cols, &panel)) return false;
    size_t panels = rows / PANEL_ROWS + (rows % PANEL_ROWS != 0);
    return size_mul(panel, panels, bytes);
}

const uint16_t *matrix_scales(const Matrix *w, size_t panel) {
    return (const uint16_t *)(matrix_panel(w, panel) + tensor_lines_bytes(w->type, w->cols));
}

const uint16_t *matrix_minima(const Matrix *w, size_t panel) {
    return matrix_scales(w, panel) + tensor_scales_bytes(w->type, w->cols) / sizeof(uint16_t);
}

static void float_row(const Matrix *w, const uint8_t *panel, size_t r, float *out) {
    const uint16_t *half = (const uint16_t *)panel;
    for (size_t k = 0; k < w->cols; k++) {
        if (w->type == TENSOR_F32) {
            out[k] = ((const float *)panel)[PANEL_ROWS * k + r];
        } else if (w->type == TENSOR_F16) {
            out[k] = half_to_float(half[PANEL_ROWS * k + r]);
        } else {
            out[k] = bfloat_to_float(half[k / 2 * 2 * PANEL_ROWS + 2 * r + k % 2]);
        }
    }
}

/* Where input k of row r lies in the lines of an 8-bit and of a 4-bit panel. */
static size_t place_8(size_t k, size_t r) {
    return k / 4 * LINE_BYTES + 4 * r + k % 4;
}
static size_t place_4(size_t k, size_t r) {
    return k / 8 * LINE_BYTES + 4 * r + k % 4;
}
static unsigned shift_4(size_t k) {
    return k % 8 < 4 ? 0 : 4;
}

static int code_at(TensorType type, const uint8_t *panel, size_t k, size_t r) {
    switch (type) {
    case TENSOR_Q4:
        return (panel[place_4(k, r)] >> shift_4(k) & 15) - 8;
    case TENSOR_Q4_MIN:
        return panel[place_4(k, r)] >> shift_4(k) & 15;
    case TENSOR_Q8_MIN:
        return panel[place_8(k, r)];
    default:
        return (int8_t)panel[place_8(k, r)];
    }
}

static void record_row(const Matrix *w, const uint8_t *panel, size_t r, float *out) {
    size_t group = types[w->type].group;
    for (size_t first = 0, g = 0; first < w->cols; first += group, g++) {
        size_t end = first + group < w->cols ? first + group : w->cols;
        float scale = record_scale(w->type, panel, g, r);
        float minimum = record_minimum(w->type, panel, g, r);
        for (size_t k = first; k < end; k++) {
            float value = scale * (float)record_code(w->type, panel, k, r);
            out[k] = types[w->type].has_min ? value - minimum : value;
        }
    }
}

void matrix_row(const Matrix *w, size_t row, float *out) {
    size_t p = row / PANEL_ROWS, r = row % PANEL_ROWS, group = types[w->type].group;
    const uint8_t *panel = matrix_panel(w, p);
    if (!group) {
        float_row(w, panel, r, out);
        return;
    }
    if (is_record_type(w->type)) {
        record_row(w, panel, r, out);
        return;
    }
    const uint16_t *scales = matrix_scales(w, p), *minima = matrix_minima(w, p);
    for (size_t first = 0, g = 0; first < w->cols; first += group, g++) {
        size_t end = first + group < w->cols ? first + group : w->cols;
        float scale = half_to_float(scales[g * PANEL_ROWS + r]);
        float minimum = types[w->type].has_min ? half_to_float(minima[g * PANEL_ROWS + r]) : 0.0f;
        for (size_t k = first; k < end; k++) {
            float value = scale * (float)code_at(w->type, panel, k, r);
            out[k] = types[w->type].has_min ? value - minimum : value;
        }
    }
}

/* One part of a panel, [groups][16], out of values[16][groups]. */
static void pack_scales(uint16_t *part, const uint16_t *values, size_t groups) {
    for (size_t r = 0; r < PANEL_ROWS; r++)
        for (size_t g = 0; g < groups; g++) part[g * PANEL_ROWS + r] = values[r * groups + g];
}

/* A line is 16 words, one a row; a word holds 4 codes of 8 bits or 8 of 4. Lines are written
 * whole, one behind another, out of 16 rows that are read forward. */
static uint32_t load_word(const void *p) {
    uint32_t word;
    memcpy(&word, p, sizeof word);
    return word;
}

static void pack_lines(size_t line_inputs, const uint8_t *codes, size_t padded, uint32_t *lines) {
    for (size_t k = 0; k < padded; k += line_inputs, lines += PANEL_ROWS) {
        const uint8_t *at = codes + k;
        if (line_inputs == 4) {
            for (size_t r = 0; r < PANEL_ROWS; r++) lines[r] = load_word(at + r * padded);
        } else {
            for (size_t r = 0; r < PANEL_ROWS; r++)
                lines[r] = (load_word(at + r * padded) & 0x0F0F0F0Fu) |
                           (load_word(at + r * padded + 4) & 0x0F0F0F0Fu) << 4;
        }
    }
}

/* Fills up a part of a panel with zeros, from `used` to `bytes`. */
static void fill_up(void *part, size_t used, size_t bytes) {
    memset((uint8_t *)part + used, 0, bytes - used);
}

void panel_pack_codes(TensorType type, size_t cols, const uint8_t *codes, const uint16_t *scales,
                      const uint16_t *minima, uint8_t *panel) {
    size_t padded = tensor_padded_cols(type, cols), groups = padded / types[type].group;
    size_t lines_bytes = tensor_lines_bytes(type, cols);
    size_t scales_bytes = tensor_scales_bytes(type, cols);
    size_t scales_used = groups * PANEL_ROWS * sizeof(uint16_t);
    pack_lines(types[type].line_inputs, codes, padded, (uint32_t *)panel);
    uint16_t *part = (uint16_t *)(panel + lines_bytes);
    pack_scales(part, scales, groups);
    fill_up(part, scales_used, scales_bytes);
    if (!types[type].has_min) return;
    part = (uint16_t *)(panel + lines_bytes + scales_bytes);
    pack_scales(part, minima, groups);
    fill_up(part, scales_used, scales_bytes);
}

/* Inputs are taken a few lines at a time, so that the lines stay in the nearest cache while the
 * 16 rows are read. */
enum { PACK_INPUTS = 64 };

static void pack_floats(TensorType type, const float *row, size_t from, size_t to, size_t r,
                        uint8_t *panel) {
    float *wide = (float *)panel;
    uint16_t *half = (uint16_t *)panel;
    if (type == TENSOR_F32) {
        for (size_t k = from; k < to; k++) wide[PANEL_ROWS * k + r] = row[k];
    } else if (type == TENSOR_F16) {
        for (size_t k = from; k < to; k++) half[PANEL_ROWS * k + r] = float_to_half(row[k]);
    } else {
        for (size_t k = from; k < to; k++)
            half[k / 2 * 2 * PANEL_ROWS + 2 * r + k % 2] = float_to_bfloat(row[k]);
    }
}

void panel_pack_floats(TensorType type, size_t cols, const float *x, uint8_t *panel) {
    for (size_t from = 0; from < cols; from += PACK_INPUTS) {
        size_t to = cols - from < PACK_INPUTS ? cols : from + PACK_INPUTS;
        for (size_t r = 0; r < PANEL_ROWS; r++) pack_floats(type, x + r * cols, from, to, r, panel);
    }
    if (tensor_padded_cols(type, cols) == cols) return;
    /* The last line of a 16-bit type may hold one input only. */
    size_t k = cols;
    uint16_t *half = (uint16_t *)panel;
    for (size_t r = 0; r < PANEL_ROWS; r++) {
        if (type == TENSOR_F16) half[PANEL_ROWS * k + r] = 0;
        if (type == TENSOR_BF16) half[k / 2 * 2 * PANEL_ROWS + 2 * r + 1] = 0;
    }
}
