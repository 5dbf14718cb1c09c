/* Products of the quantized types with Arm's 8-bit matrix multiplication (i8mm).
 *
 * smmla multiplies two outputs by two rows of activations over eight inputs. Zipping two
 * neighbouring lines puts eight inputs of an output side by side. Rows of activations are
 * multiplied in pairs; the last of an odd number of rows is paired with itself. A single row, the
 * types of superblocks.h and the float types are left to neon.c. */
#include "kernels/neon_steps.h"

enum { PAIRS = BLOCK_ROWS / 2 };

/* Eight inputs of each of the rows 2 i and 2 i + 1; the last row twice, where it has no other. */
INLINE int8x16_t load_pair(size_t rows, size_t i, const int8_t *codes, size_t group) {
    const int8_t *first = codes + 2 * i * group;
    return vcombine_s8(vld1_s8(first), vld1_s8(2 * i + 1 < rows ? first + group : first));
}

/* Adds the products of eight inputs of four outputs, `low` and `high`, with a pair of rows. */
INLINE void add_pair(int32x4_t *dot, int8x16_t low, int8x16_t high, int8x16_t x) {
    dot[0] = vmmlaq_s32(dot[0], low, x);
    IN_ORDER(dot[0]);
    dot[1] = vmmlaq_s32(dot[1], high, x);
    IN_ORDER(dot[1]);
}

INLINE void multiply_block(TensorType type, const Matrix *w, size_t p, size_t rows,
                           const uint8_t *block, float *out, size_t stride, size_t outputs) {
    const size_t group = type_group(type), pairs = (rows + 1) / 2;
    const uint8_t *panel = matrix_panel(w, p);
    const uint16_t *scales = matrix_scales(type, w, p), *minima = matrix_minima(type, w, p);
    const size_t groups = activation_groups(group, w->cols), panel_bytes = w->panel_bytes;
    float32x4_t acc[BLOCK_ROWS][QUARTERS];
    start_sums(rows, acc);
    for (size_t g = 0; g < groups; g++, block += rows * activation_bytes(group)) {
        const float *x_scales = (const float *)block, *x_sums = x_scales + rows;
        const int32_t *offsets = (const int32_t *)block + 2 * rows;
        const int8_t *codes = (const int8_t *)block + ACTIVATION_HEADER * rows;
        const uint8_t *lines = panel + g * group_bytes(type);
        const uint8_t *next =
            prefetch_scales(type, 1, panel_bytes, panel, scales, minima, g, groups);
        for (size_t i = 0; i < group_bytes(type); i += LINE_BYTES) __builtin_prefetch(next + i);
        /* dot[..][0]: outputs 0 and 1 of the quarter by both rows, dot[..][1]: outputs 2 and 3 */
        int32x4_t dot[PAIRS][QUARTERS][2];
        UNROLL
        for (size_t q = 0; q < QUARTERS; q++) {
            dot[0][q][0] = dot[0][q][1] = vdupq_n_s32(0);
            if (pairs > 1) dot[1][q][0] = dot[1][q][1] = vdupq_n_s32(0);
        }
        UNROLL
        for (size_t j = 0; j < group / 4; j += 2) {
            int8x16_t x[PAIRS];
            x[0] = load_pair(rows, 0, codes + 4 * j, group);
            if (pairs > 1) x[1] = load_pair(rows, 1, codes + 4 * j, group);
            UNROLL
            for (size_t q = 0; q < QUARTERS; q++) {
                int32x4_t even = vreinterpretq_s32_s8(load_weights(type, lines, j, q));
                int32x4_t odd = vreinterpretq_s32_s8(load_weights(type, lines, j + 1, q));
                int8x16_t low = vreinterpretq_s8_s32(vzip1q_s32(even, odd));
                int8x16_t high = vreinterpretq_s8_s32(vzip2q_s32(even, odd));
                add_pair(dot[0][q], low, high, x[0]);
                if (pairs > 1) add_pair(dot[1][q], low, high, x[1]);
            }
        }
        int32x4_t own[BLOCK_ROWS][QUARTERS];
        UNROLL
        for (size_t q = 0; q < QUARTERS; q++) {
#define STEP(r)                                                                                    \
    own[r][q] = (r) % 2 ? vuzp2q_s32(dot[(r) / 2][q][0], dot[(r) / 2][q][1])                       \
                        : vuzp1q_s32(dot[(r) / 2][q][0], dot[(r) / 2][q][1])
            EACH_ROW(rows, STEP);
#undef STEP
        }
        add_scaled(type, rows, own, offsets, x_scales, x_sums, scales + g * PANEL_ROWS,
                   minima + g * PANEL_ROWS, acc);
    }
    store_rows(rows, acc, out, stride, outputs);
}

EACH_CODE_TYPE(BLOCK_KERNEL)

static const BlockKernels block_kernels[TENSOR_TYPES] = {EACH_CODE_TYPE(BLOCK_ENTRY)};

/* The packed form is the same as that of kernels_neon: blocks of BLOCK_ROWS rows. */
static size_t input_bytes(size_t group, size_t n_rows, size_t n_inputs) {
    return kernels_neon.input_bytes(group, n_rows, n_inputs);
}

static size_t pack_tasks(size_t group, size_t n_rows) {
    return kernels_neon.pack_tasks(group, n_rows);
}

static void pack(size_t group, const float *x, size_t n_rows, size_t n_inputs, size_t task,
                 void *input) {
    kernels_neon.pack(group, x, n_rows, n_inputs, task, input);
}

static void multiply(const Product *product, const void *input, size_t n_rows, size_t begin,
                     size_t end, void *scratch) {
    const BlockKernels *kernels = &block_kernels[product->w->type];
    if (kernels->block && n_rows > 1) {
        multiply_blocks(kernels, product, input, n_rows, begin, end);
    } else {
        kernels_neon.multiply(product, input, n_rows, begin, end, scratch);
    }
}

INLINE int32x4_t spin_step(int32x4_t sum, int8x16_t a) {
    return vmmlaq_s32(sum, a, a);
}

/* Kernels.spin: runs multiply-adds on registers alone, to measure the peak. */
static double spin(TensorType type, size_t rounds) {
    return type_group(type) ? spin_sums(spin_step, 32, rounds) : kernels_neon.spin(type, rounds);
}

const Kernels kernels_neon_i8mm = {
    .name = "neon_i8mm",
    .stripe = 4,
    .scratch_bytes = SCRATCH_BYTES,
    .input_bytes = input_bytes,
    .pack_tasks = pack_tasks,
    .pack = pack,
    .multiply = multiply,
    .spin = spin,
};
