/* How the integer kernels go through a product: one panel by one block of rows at a time.
 *
 * A kernel file has a block kernel for each type and number of rows, written around the registers
 * of its instruction set. This header has the steps that all of them share. */
#ifndef BLOCK_KERNELS_H
#define BLOCK_KERNELS_H

#include "kernels/activations.h"
#include "kernels/float.h"
#include "kernels/row_blocks.h"

/* ---- Packed blocks ---- */

static inline size_t blocks_bytes(size_t group, size_t n_rows, size_t n_inputs) {
    return n_rows * activation_groups(group, n_inputs) * activation_bytes(group);
}

/* quantize_row with the group's size known to the compiler. */
static inline void quantize_row_by_group(size_t group, const float *x, size_t n_inputs, size_t row,
                                         size_t rows, uint8_t *block) {
    if (group == 32) {
        quantize_row(32, x, n_inputs, row, rows, block);
    } else if (group == 16) {
        quantize_row(16, x, n_inputs, row, rows, block);
    } else {
        quantize_row(64, x, n_inputs, row, rows, block);
    }
}

/* Packs one row of x[n_rows][n_inputs] into `input`, where all blocks follow each other. */
static inline void pack_activation_row(size_t group, const float *x, size_t n_rows, size_t n_inputs,
                                       size_t row, size_t max_rows, void *input) {
    size_t blocks = block_count(n_rows, max_rows);
    size_t b = row * blocks / n_rows;
    while (block_start(n_rows, blocks, b + 1) <= row) b++;
    while (block_start(n_rows, blocks, b) > row) b--;
    size_t start = block_start(n_rows, blocks, b);
    size_t rows = block_start(n_rows, blocks, b + 1) - start;
    uint8_t *block = (uint8_t *)input + blocks_bytes(group, start, n_inputs);
    quantize_row_by_group(group, x + row * n_inputs, n_inputs, row - start, rows, block);
}

/* ---- Kernels of one panel by one block ---- */

/* Multiplies panel p of w (for a stream kernel: STREAM_PANELS panels from p on) by the `rows` rows
 * of a packed block, into out[row * stride + i], i < outputs. */
typedef void BlockKernel(const Matrix *w, size_t p, size_t rows, const uint8_t *block, float *out,
                         size_t stride, size_t outputs);

/* Panels that a stream kernel reads side by side, for few rows: more of the memory's banks are
 * busy, and an activation is loaded once for all panels. */
enum { STREAM_PANELS = 4 };

/* Multiplies panels [begin, end) by all rows of the packed input, with the working memory of
 * Kernels. */
typedef void ManyKernel(const Product *product, const uint8_t *input, size_t n_rows, size_t begin,
                        size_t end, void *scratch);

/* The kernels of one type. */
typedef struct BlockKernels {
    size_t block_rows; /* most rows that `block` takes */
    BlockKernel *block;
    size_t stream_rows; /* most rows that `stream` takes; 0: there is no stream kernel */
    BlockKernel *stream;
    size_t many_rows; /* fewest rows that `many` takes instead; 0: there is none */
    ManyKernel *many;
} BlockKernels;

/* The block kernels of the superblock types, in the files NAME_superblocks.c. */
#define DECLARE_SUPERBLOCKS(name, lanes)                                                           \
    extern const BlockKernels superblock_kernels_##lanes[TENSOR_TYPES];
EACH_ISA(DECLARE_SUPERBLOCKS)
#undef DECLARE_SUPERBLOCKS

/* Panels that stay in the second-level cache while all blocks pass over them. */
enum { RESIDENT_BYTES = 256 * 1024 };

/* Multiplies panels [begin, end) by all rows of the packed input. */
static inline void multiply_blocks(const BlockKernels *kernels, const Product *product,
                                   const uint8_t *input, size_t n_rows, size_t begin, size_t end) {
    const Matrix *w = product->w;
    size_t group = type_group(w->type);
    size_t blocks = block_count(n_rows, kernels->block_rows);
    size_t row_bytes = activation_groups(group, w->cols) * activation_bytes(group);
    size_t step = round_up(RESIDENT_BYTES / w->panel_bytes + 1, STREAM_PANELS);
    for (size_t first = begin; first < end; first += step) {
        size_t last = end - first < step ? end : first + step;
        for (size_t b = 0; b < blocks; b++) {
            size_t start = block_start(n_rows, blocks, b);
            size_t rows = block_start(n_rows, blocks, b + 1) - start;
            for (size_t p = first, panels; p < last; p += panels) {
                bool streams = rows <= kernels->stream_rows && last - p >= STREAM_PANELS;
                size_t outputs = w->rows - p * PANEL_ROWS;
                panels = streams ? STREAM_PANELS : 1;
                if (outputs > panels * PANEL_ROWS) outputs = panels * PANEL_ROWS;
                (streams ? kernels->stream
                         : kernels->block)(w, p, rows, input + start * row_bytes,
                                           product->out + start * product->stride + p * PANEL_ROWS,
                                           product->stride, outputs);
            }
        }
    }
}

static inline bool is_unsigned_8(TensorType type) {
    return weight_types[type].bits == 8 && !weight_types[type].is_signed;
}

/* Bytes of the lines of a group, for types of FAMILY_CODES. */
static inline size_t group_bytes(TensorType type) {
    return type_group(type) / weight_types[type].line_inputs * LINE_BYTES;
}

/* ---- Prefetching, so that one row of activations is multiplied at the memory's speed ---- */

/* How many groups ahead to prefetch; measured fastest on Zen 4. For one panel these are about 4 KB
 * of 8-bit and 6 KB of 4-bit lines; for several panels at once less of each. */
static inline size_t prefetch_groups(TensorType type, size_t panels) {
    if (panels > 1) return type_is_4_bit(type) ? 4 : 3;
    return type_is_4_bit(type) ? 24 : 8;
}

/* Prefetches the scales of the group that is prefetch_groups after group g (past the panels' end:
 * of the panels that follow), and returns the address of its lines in the first panel, for the
 * caller to prefetch. */
static inline __attribute__((always_inline)) const uint8_t *prefetch_scales(
    TensorType type, size_t panels, size_t panel_bytes, const uint8_t *panel,
    const uint16_t *scales, const uint16_t *minima, size_t g, size_t groups) {
    size_t next = g + prefetch_groups(type, panels), turn = 0;
    if (next >= groups) next -= groups, turn = panels * panel_bytes;
    const uint16_t *next_scales = scales + turn / 2 + next * PANEL_ROWS;
    for (size_t j = 0; j < panels; j++, next_scales += panel_bytes / 2) {
        __builtin_prefetch(next_scales);
        if (type_has_minima(type)) __builtin_prefetch(minima - scales + next_scales);
    }
    return panel + turn + next * group_bytes(type);
}

#endif
