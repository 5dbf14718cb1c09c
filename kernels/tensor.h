/* Tensors as a model.bin holds them: vectors, and matrices in panels.
 *
 * A matrix of `rows` outputs by `cols` inputs is cut into panels of 16 rows; rows of zeros fill
 * up the last panel. A panel is a run of 64-byte lines. One line holds the same run of inputs
 * of each of the 16 rows, so that one vector register is 16 outputs wide:
 *
 *     type    inputs a line   position of input i (of the line) of row r
 *     f32     1               float  [r]
 *     f16     2               half   [16 * i + r]          (two half lines, one an input)
 *     bf16    2               bfloat [2 * r + i]           (bf16_act as well)
 *     q8      4               int8   [4 * r + i]
 *     q4      8               byte   [4 * r + i % 4], low nibble for i < 4, high for i >= 4
 *
 * After the lines of a quantized panel come its scales, f16, [group][16 rows], and, for the
 * types with minima, the minima in the same form. Padding makes each of the three parts a
 * multiple of 64 bytes, and zeros pad the inputs to a whole group (or line). The value of a code q
 * is  scale * q  (q8),  scale * (q - 8)  (q4),  scale * q - minimum  (with minima, q unsigned).
 * The panels of types with scales inside scales are runs of superblocks instead: superblocks.h.
 * docs/format.md is the specification; panel_pack.h makes panels. */
#ifndef TENSOR_H
#define TENSOR_H

#include "base/status.h"
#include "kernels/weight_types.h"

/* Returns the properties of a type; NULL for a number that is not a type. */
const TensorTypeInfo *tensor_type_info(uint32_t type);

/* False for a type that this build knows by name only: the core has no superblock types. */
bool tensor_type_is_built(TensorType type);

typedef struct Matrix {
    TensorType type;
    size_t rows;         /* outputs */
    size_t cols;         /* inputs */
    size_t panel_bytes;  /* distance from one panel to the next */
    const uint8_t *data; /* [panels] of panel_bytes, 64-byte aligned; borrowed */
} Matrix;

/* Bytes of a panel's lines, after which come scales and minima (type_scales_bytes). A panel of
 * superblocks counts as lines as a whole. */
size_t tensor_lines_bytes(TensorType type, size_t cols);

/* Bytes of one panel and of a whole matrix; false when the size does not fit in size_t. */
bool tensor_panel_bytes(TensorType type, size_t cols, size_t *bytes);
bool tensor_matrix_bytes(TensorType type, size_t rows, size_t cols, size_t *bytes);

static inline size_t matrix_panels(const Matrix *w) {
    return (w->rows + PANEL_ROWS - 1) / PANEL_ROWS;
}

/* Outputs of panel p: 16, or fewer in the last panel. */
static inline size_t matrix_panel_outputs(const Matrix *w, size_t p) {
    size_t left = w->rows - p * PANEL_ROWS;
    return left < PANEL_ROWS ? left : PANEL_ROWS;
}

static inline const uint8_t *matrix_panel(const Matrix *w, size_t panel) {
    return w->data + panel * w->panel_bytes;
}

/* Weight k of row `row`, for the float types. */
float matrix_float(const Matrix *w, size_t row, size_t k);

/* Reads group g of a row of a quantized type. */
void matrix_group(const Matrix *w, size_t row, size_t g, WeightGroup *group);

/* Writes row `row` as float32, out[cols]: the embedding look-up, and the oracle of tests. */
void matrix_row(const Matrix *w, size_t row, float *out);

#endif
