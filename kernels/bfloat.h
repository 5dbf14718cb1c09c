/* Rounding to bfloat16: of the weights of bf16 and bf16_act, and of the activations that bf16_act's
 * weights are multiplied by. */
#ifndef KERNELS_BFLOAT_H
#define KERNELS_BFLOAT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/numbers.h"

/* bf16_act has no numbers but 0 below 2^-40: then every product and every sum is 0 or a multiple of
 * 2^-94, none is denormal, and instructions that flush denormals give the bits of fma. */
enum { BFLOAT_FLOOR = (127 - 40) << 7 }; /* the bits of 2^-40 */

/* The bits of x as bfloat16, rounded to nearest even; NaN stays NaN. */
static inline uint16_t bfloat_round(float x) {
    uint32_t bits = float_bits(x);
    uint32_t rounded = bits + 0x7FFF + (bits >> 16 & 1);
    return (uint16_t)(((bits & 0x7FFFFFFFu) > 0x7F800000u ? bits | 0x400000u : rounded) >> 16);
}

/* The same with +0 in place of numbers that are below 2^-40 after rounding, and of -0. */
static inline uint16_t bfloat_round_floored(float x) {
    uint16_t bits = bfloat_round(x);
    return (bits & 0x7FFF) < BFLOAT_FLOOR ? 0 : bits;
}

/* An activation as bf16_act's weights are multiplied by it: bfloat_round_floored, widened again. */
static inline float bfloat_activation(float x) {
    uint32_t bits = float_bits(x), rounded = bits + 0x7FFF + (bits >> 16 & 1);
    rounded = (bits & 0x7FFFFFFFu) > 0x7F800000u ? bits | 0x400000u : rounded;
    bool low = (rounded & 0x7FFFFFFFu) < (uint32_t)BFLOAT_FLOOR << 16;
    return float_from_bits(low ? 0 : rounded & 0xFFFF0000u);
}

/* Whether one of n bfloat16 numbers is below 2^-40 and not 0. */
static inline bool bfloat_any_low(const uint16_t *x, size_t n) {
    /* Without its sign and less 1, a 0 becomes the largest number, and the low ones stay low. */
    uint16_t least = 0xFFFF;
    for (size_t i = 0; i < n; i++) {
        uint16_t above = (uint16_t)(2 * x[i] - 1);
        least = above < least ? above : least;
    }
    return least < 2 * BFLOAT_FLOOR - 1;
}

#endif
