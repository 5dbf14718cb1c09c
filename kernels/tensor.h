/* Tensors as a model.bin holds them: vectors, and matrices in panels.
 *
 * A matrix of `rows` outputs by `cols` inputs is cut into panels of 16 rows; the last panel
 * is filled up with rows of zeros. A panel is a run of 64-byte lines; one line holds the same
 * run of inputs of each of the 16 rows, so that one vector register is 16 outputs wide:
 *
 *     type    inputs a line   place of input i (of the line) of row r
 *     f32     1               float  [r]
 *     f16     2               half   [16 * i + r]          (two half lines, one an input)
 *     bf16    2               bfloat [2 * r + i]
 *     q8      4               int8   [4 * r + i]
 *     q4      8               byte   [4 * r + i % 4], low nibble for i < 4, high for i >= 4
 *
 * After the lines of a quantized panel come its scales, f16, [group][16 rows], and, for the
 * types with minima, the minima in the same form; each of the three parts is filled up to a
 * multiple of 64 bytes. Inputs are filled up with zeros to a whole group (or line). The value
 * of a code q is  scale * q  (q8),  scale * (q - 8)  (q4),  scale * q - minimum  (with minima,
 * q unsigned). The panels of types with scales inside scales are runs of records: records.h.
 * docs/format.md is the specification. */
#ifndef TENSOR_H
#define TENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum { PANEL_ROWS = 16, LINE_BYTES = 64 };

/* The numbers are part of the file format: never change one, append only. */
typedef enum TensorType {
    TENSOR_VECTOR = 0, /* float32 in plain order: norms, biases, tables */
    TENSOR_F32 = 1,
    TENSOR_F16 = 2,
    TENSOR_BF16 = 3,
    TENSOR_Q8 = 4,     /* int8 codes, a scale for each 32 inputs of a row */
    TENSOR_Q8_64 = 5,  /* the same, for each 64 inputs */
    TENSOR_Q4 = 6,     /* 4-bit codes, a scale for each 32 inputs */
    TENSOR_Q4_MIN = 7, /* 4-bit codes, a scale and a minimum for each 32 inputs */
    TENSOR_Q8_MIN = 8, /* uint8 codes, a scale and a minimum for each 32 inputs */
    /* The types of records.h: scales inside scales, and numbers of a table. */
    TENSOR_Q4_K = 9,   /* 4-bit codes; for each 32 inputs 6-bit parts of f16 scale and minimum */
    TENSOR_Q5_K = 10,  /* the same with 5-bit codes */
    TENSOR_Q6_K = 11,  /* 6-bit codes; for each 16 inputs an int8 part of an f16 scale */
    TENSOR_Q4_NL = 12, /* 16 uneven levels, an f16 scale for each 32 inputs */
    TENSOR_MXFP4 = 13, /* 4-bit floats, a power of two for each 32 inputs */
    TENSOR_TYPES
} TensorType;

typedef struct TensorTypeInfo {
    const char *name;     /* "q8" */
    uint32_t line_inputs; /* inputs of each row in one 64-byte line */
    uint32_t group;       /* inputs that share a scale; 0 for types without scales */
    bool has_min;
} TensorTypeInfo;

/* NULL for a number that is no type. */
const TensorTypeInfo *tensor_type_info(uint32_t type);

/* The type called `name` ("f32", "q8", ...); false when there is none. */
bool tensor_type_by_name(const char *name, TensorType *type);

typedef struct Matrix {
    TensorType type;
    size_t rows;         /* outputs */
    size_t cols;         /* inputs */
    size_t panel_bytes;  /* distance from one panel to the next */
    const uint8_t *data; /* [panels] of panel_bytes, 64-byte aligned; borrowed */
} Matrix;

/* `cols` filled up to whole groups and lines. */
size_t tensor_padded_cols(TensorType type, size_t cols);

/* Parts of a panel, in bytes: the lines, then the scales, then the minima (0 where none). Not for
 * the types of records.h, whose panels are tensor_lines_bytes as a whole. */
size_t tensor_lines_bytes(TensorType type, size_t cols);
size_t tensor_scales_bytes(TensorType type, size_t cols);

/* Bytes of one panel and of a whole matrix; false when the size does not fit in size_t. */
bool tensor_panel_bytes(TensorType type, size_t cols, size_t *bytes);
bool tensor_matrix_bytes(TensorType type, size_t rows, size_t cols, size_t *bytes);

static inline size_t matrix_panels(const Matrix *w) {
    return (w->rows + PANEL_ROWS - 1) / PANEL_ROWS;
}

static inline const uint8_t *matrix_panel(const Matrix *w, size_t panel) {
    return w->data + panel * w->panel_bytes;
}

/* Scales (and minima) of a panel: f16 bits, [groups][16]. */
const uint16_t *matrix_scales(const Matrix *w, size_t panel);
const uint16_t *matrix_minima(const Matrix *w, size_t panel);

/* Writes row `row` as float32, out[cols]: the embedding look-up, and the oracle of tests. */
void matrix_row(const Matrix *w, size_t row, float *out);

/* The codes, scales and minima of 16 rows, as quantizers and importers make them, become a
 * panel. codes[16][padded cols]: int8 for q8, 0..15 for q4 (8 is zero) and q4_min, uint8 for
 * q8_min; scales and minima[16][groups], f16 bits. Rows past the matrix's end must be zeros
 * (codes 8 for q4). `panel` has tensor_panel_bytes and is overwritten whole. */
void panel_pack_codes(TensorType type, size_t cols, const uint8_t *codes, const uint16_t *scales,
                      const uint16_t *minima, uint8_t *panel);

/* The same for the float types: x[16][cols], already exact in the type (rounded to nearest
 * even by the caller's choice of x, or here when it is not). */
void panel_pack_floats(TensorType type, size_t cols, const float *x, uint8_t *panel);

#endif
