/* Writing and checking panels, for converters; tensor.h has their layout and reads them. Panels of
 * superblocks are written by superblocks_pack (superblocks.h). */
#ifndef PANEL_PACK_H
#define PANEL_PACK_H

#include "kernels/tensor.h"

/* The bits of x as bfloat16, rounded to nearest even; NaN stays NaN. */
uint16_t panel_float_to_bfloat(float x);

/* Packs the codes, scales and minima of 16 rows into a panel. codes[16][padded cols] are int8 for
 * q8, 0..15 for q4 (where 8 means zero) and q4_min, uint8 for q8_min; scales and minima[16][groups]
 * are f16 bits. Rows past the matrix's end must be zeros (codes 8 for q4). `panel` has
 * tensor_panel_bytes, all of which are written. */
void panel_pack_codes(TensorType type, size_t cols, const uint8_t *codes, const uint16_t *scales,
                      const uint16_t *minima, uint8_t *panel);

/* Packs x[16][cols] into a panel of a float type, rounded to nearest even. */
void panel_pack_floats(TensorType type, size_t cols, const float *x, uint8_t *panel);

/* Packs rows[16][cols] that are numbers of the panel's own type, F32, F16 or BF16, for an even
 * number of columns: what panel_pack_floats does with their values, without converting them. */
void panel_pack_numbers(TensorType type, size_t cols, const void *rows, uint8_t *panel);

/* The first row of a panel that holds a weight, scale or minimum which is not finite; PANEL_ROWS
 * when there is none. */
size_t panel_bad_row(const Matrix *w, size_t panel);

/* The first row of a panel that holds a weight below the floor of its type, which is not 0: 2^-40
 * for bf16_act; PANEL_ROWS when there is none. */
size_t panel_low_row(const Matrix *w, size_t panel);

#endif
