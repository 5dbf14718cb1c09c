/* How the integer kernels go through a product: one panel by one block of rows at a time.
 *
 * A kernel file writes the block kernels, one for each type and number of rows, around the
 * registers of its instruction set; what is the same for all of them stands here. */
#ifndef BLOCKS_H
#define BLOCKS_H

#include "kernels/activations.h"
#include "kernels/internal.h"

/* Panel p of w (of a stream kernel: STREAM_PANELS panels from p on) by the `rows` rows of a packed
 * block: out[row * stride + i], i < outputs. */
typedef void BlockKernel(const Matrix *w, size_t p, size_t rows, const uint8_t *block, float *out,
                         size_t stride, size_t outputs);

/* Panels that few rows stream side by side, where an instruction set has registers for that:
 * more of the memory's banks work, and an activation is loaded once for all of them. */
enum { STREAM_PANELS = 4 };

/* The kernels of one type. */
typedef struct BlockKernels {
    size_t block_rows; /* that block takes at most */
    BlockKernel *block;
    size_t stream_rows; /* that stream takes at most; 0: there is none */
    BlockKernel *stream;
} BlockKernels;

/* Those of the types of records.h, in the files NAME_records.c. */
#if defined(__x86_64__)
extern const BlockKernels record_kernels_avx2[TENSOR_TYPES], record_kernels_avx512[TENSOR_TYPES];
#elif defined(__aarch64__)
extern const BlockKernels record_kernels_neon[TENSOR_TYPES];
#endif

/* Panels that stay in the second-level cache while all blocks pass over them. */
enum { RESIDENT_BYTES = 256 * 1024 };

static inline void multiply_blocks(const BlockKernels *kernels, const Product *product,
                                   const uint8_t *input, size_t n_rows, size_t begin, size_t end) {
    const Matrix *w = product->w;
    size_t group = tensor_type_info(w->type)->group;
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

static inline size_t blocks_bytes(size_t group, size_t n_rows, size_t n_inputs) {
    return n_rows * activation_groups(group, n_inputs) * activation_bytes(group);
}

/* ---- properties of the types, known to the compiler where the type is ---- */

static inline bool is_signed_8(TensorType type) {
    return type == TENSOR_Q8 || type == TENSOR_Q8_64;
}

static inline bool is_4_bit(TensorType type) {
    return type == TENSOR_Q4 || type == TENSOR_Q4_MIN;
}

static inline bool has_minima(TensorType type) {
    return type == TENSOR_Q4_MIN || type == TENSOR_Q8_MIN;
}

static inline size_t group_of(TensorType type) {
    return type == TENSOR_Q8_64 ? 64 : 32;
}

/* Bytes of lines that a group takes. */
static inline size_t group_bytes(TensorType type) {
    return group_of(type) * (is_4_bit(type) ? 8 : 16);
}

/* ---- fetching ahead, for one row to stream its panels at the speed of the memory ---- */

/* Groups, what streamed fastest on Zen 4: of one panel some 4 KB of 8-bit and 6 KB of 4-bit
 * lines; of several together less each. */
static inline size_t groups_ahead(TensorType type, size_t panels) {
    if (panels > 1) return is_4_bit(type) ? 4 : 3;
    return is_4_bit(type) ? 24 : 8;
}

/* Starts to load the scales of the group that comes groups_ahead after g (in the next panels
 * after these ones' last) and returns where its lines are, of the first panel. */
static inline __attribute__((always_inline)) const uint8_t *fetch_ahead(
    TensorType type, size_t panels, size_t panel_bytes, const uint8_t *panel,
    const uint16_t *scales, const uint16_t *minima, size_t g, size_t groups) {
    size_t ahead = g + groups_ahead(type, panels), turn = 0;
    if (ahead >= groups) ahead -= groups, turn = panels * panel_bytes;
    const uint16_t *ahead_scales = scales + turn / 2 + ahead * PANEL_ROWS;
    for (size_t j = 0; j < panels; j++, ahead_scales += panel_bytes / 2) {
        __builtin_prefetch(ahead_scales);
        if (has_minima(type)) __builtin_prefetch(minima - scales + ahead_scales);
    }
    return panel + turn + ahead * group_bytes(type);
}

#endif
