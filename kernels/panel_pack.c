#include "kernels/panel_pack.h"

#include <string.h>

#include "base/numbers.h"
#include "kernels/bfloat.h"
#include "kernels/superblocks.h"

uint16_t panel_float_to_bfloat(float x) {
    return bfloat_round(x);
}

/* Transposes values[16][groups] into one part of a panel, [groups][16]. */
static void pack_scales(uint16_t *part, const uint16_t *values, size_t groups) {
    for (size_t r = 0; r < PANEL_ROWS; r++)
        for (size_t g = 0; g < groups; g++) part[g * PANEL_ROWS + r] = values[r * groups + g];
}

static uint32_t load_word(const void *p) {
    uint32_t word;
    memcpy(&word, p, sizeof word);
    return word;
}

/* Writes the lines one after another. A line has a 32-bit word for each of the 16 rows, which holds
 * 4 codes of 8 bits or 8 codes of 4 bits. */
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

/* Pads a part of a panel with zeros, from `used` to `bytes`. */
static void pad(void *part, size_t used, size_t bytes) {
    memset((uint8_t *)part + used, 0, bytes - used);
}

void panel_pack_codes(TensorType type, size_t cols, const uint8_t *codes, const uint16_t *scales,
                      const uint16_t *minima, uint8_t *panel) {
    size_t padded = tensor_padded_cols(type, cols), groups = padded / type_group(type);
    size_t lines_bytes = tensor_lines_bytes(type, cols);
    size_t scales_bytes = type_scales_bytes(type, cols);
    size_t scales_used = groups * PANEL_ROWS * sizeof(uint16_t);
    pack_lines(weight_types[type].line_inputs, codes, padded, (uint32_t *)panel);
    uint16_t *part = (uint16_t *)(panel + lines_bytes);
    pack_scales(part, scales, groups);
    pad(part, scales_used, scales_bytes);
    if (!type_has_minima(type)) return;
    part = (uint16_t *)(panel + lines_bytes + scales_bytes);
    pack_scales(part, minima, groups);
    pad(part, scales_used, scales_bytes);
}

/* Inputs packed at once: few enough for their lines to stay in the first-level cache while the 16
 * rows are read. */
enum { PACK_INPUTS = 64 };

/* Writes inputs from ... to - 1 of row r. */
static void pack_floats(TensorType type, const float *row, size_t from, size_t to, size_t r,
                        uint8_t *panel) {
    float *wide = (float *)panel;
    uint16_t *half = (uint16_t *)panel;
    if (type == TENSOR_F32) {
        for (size_t k = from; k < to; k++) wide[PANEL_ROWS * k + r] = row[k];
    } else if (type == TENSOR_F16) {
        for (size_t k = from; k < to; k++) half[PANEL_ROWS * k + r] = numbers_float_to_half(row[k]);
    } else {
        const bool floored = type == TENSOR_BF16_ACT;
        for (size_t k = from; k < to; k++)
            half[k / 2 * 2 * PANEL_ROWS + 2 * r + k % 2] =
                floored ? bfloat_round_floored(row[k]) : bfloat_round(row[k]);
    }
}

void panel_pack_floats(TensorType type, size_t cols, const float *x, uint8_t *panel) {
    for (size_t from = 0; from < cols; from += PACK_INPUTS) {
        size_t to = cols - from < PACK_INPUTS ? cols : from + PACK_INPUTS;
        for (size_t r = 0; r < PANEL_ROWS; r++) pack_floats(type, x + r * cols, from, to, r, panel);
    }
    if (tensor_padded_cols(type, cols) == cols) return;
    /* Padding: with an odd number of inputs, the last line of a 16-bit type has one. */
    size_t k = cols;
    uint16_t *half = (uint16_t *)panel;
    for (size_t r = 0; r < PANEL_ROWS; r++) {
        if (type == TENSOR_F16) half[PANEL_ROWS * k + r] = 0;
        if (type_is_bfloat(type)) half[k / 2 * 2 * PANEL_ROWS + 2 * r + 1] = 0;
    }
}

/* Writes the 32-bit words of 16 rows as lines of one word a row, or (halves) each word as two lines
 * of 16 bits a row. A row is read a cache line at a time: rows are often a multiple of 4 KiB apart,
 * where a first-level cache has room for fewer lines than there are rows. */
static inline void transpose_words(const uint8_t *rows, size_t row_bytes, bool halves,
                                   uint8_t *panel) {
    enum { LINE = 64 };
    uint32_t *words = (uint32_t *)panel;
    uint16_t *half = (uint16_t *)panel;
    for (size_t from = 0; from < row_bytes; from += LINE) {
        size_t to = row_bytes - from < LINE ? row_bytes : from + LINE;
        for (size_t r = 0; r < PANEL_ROWS; r++)
            for (size_t at = from; at < to; at += sizeof *words) {
                uint32_t word = load_word(rows + r * row_bytes + at);
                size_t line = at / sizeof *words * PANEL_ROWS;
                if (!halves) words[line + r] = word;
                if (halves) half[2 * line + r] = (uint16_t)word;
                if (halves) half[2 * line + PANEL_ROWS + r] = (uint16_t)(word >> 16);
            }
    }
}

void panel_pack_numbers(TensorType type, size_t cols, const void *rows, uint8_t *panel) {
    if (type == TENSOR_F16) {
        transpose_words(rows, cols * sizeof(uint16_t), true, panel);
    } else {
        transpose_words(rows, cols * (type == TENSOR_F32 ? sizeof(float) : sizeof(uint16_t)), false,
                        panel);
    }
}

/* ---- Checking ---- */

/* The row of bfloat i of a panel: a line holds two inputs of each of the 16 rows. */
static size_t row_of_pair(size_t i) {
    return i % (2 * PANEL_ROWS) / 2;
}

/* Index of the first of n numbers that is infinite or NaN: the bits of its exponent are all ones. n
 * when there is none. A number is `step` elements of x apart from the next. */
static size_t first_bad(const uint16_t *x, size_t n, size_t step, uint16_t exponent) {
    unsigned bad = 0;
    for (size_t i = 0; i < n; i++) bad |= (x[step * i] & exponent) == exponent;
    size_t i = bad ? 0 : n;
    while (i < n && (x[step * i] & exponent) != exponent) i++;
    return i;
}

size_t panel_bad_row(const Matrix *w, size_t panel) {
    const uint8_t *data = matrix_panel(w, panel);
    const uint16_t *halves = (const uint16_t *)data;
    size_t lines = tensor_lines_bytes(w->type, w->cols), n = lines / sizeof *halves, bad;
    if (is_superblock_type(w->type)) return superblocks_bad_row(w->type, w->cols, data);
    switch (w->type) {
    case TENSOR_F32: /* the upper half of each float */
        n /= 2;
        bad = first_bad(halves + 1, n, 2, 0x7F80);
        break;
    case TENSOR_F16:
        bad = first_bad(halves, n, 1, 0x7C00);
        break;
    case TENSOR_BF16:
    case TENSOR_BF16_ACT:
        bad = first_bad(halves, n, 1, 0x7F80);
        return bad == n ? PANEL_ROWS : row_of_pair(bad);
    default: /* scales and minima are one run of f16 */
        n = (w->panel_bytes - lines) / sizeof *halves;
        bad = first_bad(halves + lines / sizeof *halves, n, 1, 0x7C00);
    }
    return bad == n ? PANEL_ROWS : bad % PANEL_ROWS;
}

size_t panel_low_row(const Matrix *w, size_t panel) {
    if (w->type != TENSOR_BF16_ACT) return PANEL_ROWS;
    const uint16_t *x = (const uint16_t *)matrix_panel(w, panel);
    size_t n = tensor_lines_bytes(w->type, w->cols) / sizeof *x, i = 0;
    if (!bfloat_any_low(x, n)) return PANEL_ROWS;
    while (!bfloat_any_low(x + i, 1)) i++;
    return row_of_pair(i);
}
