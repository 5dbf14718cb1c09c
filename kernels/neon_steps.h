/* The steps that the NEON kernel files share. Four registers hold a panel's 16 outputs.
 *
 * The 16 integer sums of four rows stay in registers; the 16 float sums lie in memory between
 * groups, one load and one store each, because all 32 registers would leave none for weights and
 * activations. */
#ifndef KERNELS_NEON_STEPS_H
#define KERNELS_NEON_STEPS_H

#include <arm_neon.h>

#include "kernels/four_rows.h"
#include "kernels/order.h"
#include "kernels/panel_scales.h"

#define INLINE static inline __attribute__((always_inline))

enum { BLOCK_ROWS = 4, QUARTERS = 4 };

/* STEP(r) for each row. `rows` is known to the compiler. (clang leaves a loop as it is.) */
#define EACH_ROW(rows, STEP)                                                                       \
    do {                                                                                           \
        STEP(0);                                                                                   \
        if ((rows) > 1) STEP(1);                                                                   \
        if ((rows) > 2) STEP(2);                                                                   \
        if ((rows) > 3) STEP(3);                                                                   \
    } while (0)

/* What to add to a row's dots, because load_weights lowers unsigned bytes by 128 and leaves 4-bit
 * codes above their values. */
INLINE int32_t correction(TensorType type, int32_t offset) {
    if (is_unsigned_8(type)) return -offset;
    return activation_offset(weight_types[type].zero, offset);
}

/* Inputs 4 j to 4 j + 3 of a group, for four outputs, as signed bytes. */
INLINE int8x16_t load_weights(TensorType type, const uint8_t *lines, size_t j, size_t quarter) {
    if (type_is_4_bit(type)) {
        uint8x16_t both = vld1q_u8(lines + j / 2 * LINE_BYTES + 16 * quarter);
        return vreinterpretq_s8_u8(j % 2 ? vshrq_n_u8(both, 4) : vandq_u8(both, vdupq_n_u8(15)));
    }
    uint8x16_t w = vld1q_u8(lines + j * LINE_BYTES + 16 * quarter);
    if (is_unsigned_8(type)) w = veorq_u8(w, vdupq_n_u8(0x80));
    return vreinterpretq_s8_u8(w);
}

/* Scales a group's dots and adds them to the float sums of a quarter of the panel's outputs;
 * `scales` and `minima` belong to that quarter. */
INLINE float32x4_t add_group(TensorType type, float32x4_t acc, int32x4_t dot, int32_t offset,
                             float x_scale, float x_sum, const uint16_t *scales,
                             const uint16_t *minima) {
    int32x4_t whole = vaddq_s32(dot, vdupq_n_s32(correction(type, offset)));
    float32x4_t scale = vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(scales)));
    acc = vfmaq_f32(acc, vcvtq_f32_s32(whole), vmulq_n_f32(scale, x_scale));
    if (!type_has_minima(type)) return acc;
    float32x4_t minimum = vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(minima)));
    return vfmsq_f32(acc, minimum, vdupq_n_f32(x_sum));
}

/* True where integer and float sums together need more than the 32 registers. */
INLINE bool sums_in_memory(size_t rows) {
    return rows > 2;
}

/* sdot with the four inputs in one lane of x, whose number must be constant. */
INLINE int32x4_t dot_lane(int32x4_t sum, int8x16_t w, int8x16_t x, size_t lane) {
    switch (lane) {
    case 0:
        return vdotq_laneq_s32(sum, w, x, 0);
    case 1:
        return vdotq_laneq_s32(sum, w, x, 1);
    case 2:
        return vdotq_laneq_s32(sum, w, x, 2);
    default:
        return vdotq_laneq_s32(sum, w, x, 3);
    }
}

/* Starts the float sums of `rows` rows by one panel. */
INLINE void start_sums(size_t rows, float32x4_t (*acc)[QUARTERS]) {
#define STEP(r) acc[r][0] = acc[r][1] = acc[r][2] = acc[r][3] = vdupq_n_f32(0.0f)
    EACH_ROW(rows, STEP);
#undef STEP
}

/* Adds the scaled sums of a group, dot[row][quarter], to the float sums. */
INLINE void add_scaled(TensorType type, size_t rows, const int32x4_t (*dot)[QUARTERS],
                       const int32_t *offsets, const float *x_scales, const float *x_sums,
                       const uint16_t *scales, const uint16_t *minima,
                       float32x4_t (*acc)[QUARTERS]) {
    UNROLL
    for (size_t q = 0; q < QUARTERS; q++) {
#define STEP(r)                                                                                    \
    do {                                                                                           \
        acc[r][q] = add_group(type, acc[r][q], dot[r][q], offsets[r], x_scales[r], x_sums[r],      \
                              scales + 4 * q, minima + 4 * q);                                     \
        if (sums_in_memory(rows)) IN_MEMORY(acc[r][q]);                                            \
    } while (0)
        EACH_ROW(rows, STEP);
#undef STEP
    }
}

/* Stores the float sums of `rows` rows by one panel; only the first `outputs` lie in the matrix. */
INLINE void store_rows(size_t rows, float32x4_t (*acc)[QUARTERS], float *out, size_t stride,
                       size_t outputs) {
    for (size_t r = 0; r < rows; r++) {
        float row[PANEL_ROWS];
        for (size_t q = 0; q < QUARTERS; q++) vst1q_f32(row + 4 * q, acc[r][q]);
        memcpy(out + r * stride, row, outputs * sizeof *row);
    }
}

/* Runs a product instruction on registers alone, for `bench`: `dot` adds `products` products to a
 * sum. Returns operations, two for each product. */
typedef int32x4_t SpinStep(int32x4_t sum, int8x16_t a);
INLINE double spin_sums(SpinStep *dot, size_t products, size_t rounds) {
    enum { SUMS = 16 };
    volatile int8_t zero = 0;
    int8x16_t a = vdupq_n_s8(zero);
    int32x4_t sums[SUMS];
#pragma GCC unroll 16
    for (size_t i = 0; i < SUMS; i++) sums[i] = vdupq_n_s32(zero + (int)i);
    for (size_t r = 0; r < rounds; r++)
#pragma GCC unroll 16
        for (size_t i = 0; i < SUMS; i++) sums[i] = dot(sums[i], a);
#pragma GCC unroll 16
    for (size_t i = 1; i < SUMS; i++) sums[0] = vaddq_s32(sums[0], sums[i]);
    zero = (int8_t)vaddvq_s32(sums[0]);
    return 2.0 * (double)products * SUMS * (double)rounds;
}

#endif
