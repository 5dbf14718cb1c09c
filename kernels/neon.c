/* Products of the quantized types with NEON's dot product instructions (Armv8.2 and later).
 *
 * sdot adds four products of signed bytes to each of four sums. Its second factor, four inputs of
 * one row, comes from a lane of a register that holds 16 inputs, so a line takes 16 instructions
 * for four rows. */
#include "kernels/neon_steps.h"

INLINE void multiply_block(TensorType type, const Matrix *w, size_t p, size_t rows,
                           const uint8_t *block, float *out, size_t stride, size_t outputs) {
    const size_t group = type_group(type);
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
        int32x4_t dot[BLOCK_ROWS][QUARTERS];
        int8x16_t x[BLOCK_ROWS];
#define STEP(r) dot[r][0] = dot[r][1] = dot[r][2] = dot[r][3] = vdupq_n_s32(0)
        EACH_ROW(rows, STEP);
#undef STEP
        UNROLL
        for (size_t j = 0; j < group / 4; j++) {
#define STEP(r)                                                                                    \
    if (j % 4 == 0) x[r] = vld1q_s8(codes + (r)*group + 4 * j)
            EACH_ROW(rows, STEP);
#undef STEP
            UNROLL
            for (size_t q = 0; q < QUARTERS; q++) {
                int8x16_t weights = load_weights(type, lines, j, q);
#define STEP(r)                                                                                    \
    do {                                                                                           \
        dot[r][q] = dot_lane(dot[r][q], weights, x[r], j % 4);                                     \
        IN_ORDER(dot[r][q]);                                                                       \
    } while (0)
                EACH_ROW(rows, STEP);
#undef STEP
            }
        }
        add_scaled(type, rows, dot, offsets, x_scales, x_sums, scales + g * PANEL_ROWS,
                   minima + g * PANEL_ROWS, acc);
    }
    store_rows(rows, acc, out, stride, outputs);
}

EACH_CODE_TYPE(BLOCK_KERNEL)

static const BlockKernels block_kernels[TENSOR_TYPES] = {EACH_CODE_TYPE(BLOCK_ENTRY)};

#define FLOAT_KERNELS float_neon
#define SUPERBLOCK_KERNELS superblock_kernels_neon
#include "kernels/block_table.h"

INLINE int32x4_t spin_step(int32x4_t sum, int8x16_t a) {
    return vdotq_s32(sum, a, a);
}

/* Kernels.spin: runs multiply-adds on registers alone, to measure the peak. */
static double spin(TensorType type, size_t rounds) {
    return type_group(type) ? spin_sums(spin_step, 16, rounds) : float_neon.spin(rounds);
}

const Kernels kernels_neon = {
    .name = "neon",
    .stripe = 4,
    .scratch_bytes = SCRATCH_BYTES,
    .input_bytes = input_bytes,
    .pack_tasks = pack_tasks,
    .pack = pack,
    .multiply = multiply,
    .spin = spin,
};
