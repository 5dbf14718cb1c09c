/* The witness: a product that tests whether a processor's bfloat16 units give the bits of fma. Its
 * values lie at the limits of bf16_act's range. Units of untested processors may sum in another
 * order, so no processor is trusted by its name or cpuid: if one bit of the witness differs, fma is
 * used instead. */
#ifndef KERNELS_BFLOAT_WITNESS_H
#define KERNELS_BFLOAT_WITNESS_H

#include <math.h>
#include <string.h>

#include "kernels/bfloat.h"
#include "kernels/kernels.h"

enum { WITNESS_ROWS = 16, WITNESS_INPUTS = 128 };

/* Number i of a witness: an exponent from `lowest` on, among `range` of them, and 8 bits of it. */
static inline uint16_t witness_number(uint32_t i, uint32_t lowest, uint32_t range) {
    i *= 0x9E3779B1u, i ^= i >> 15, i *= 0x846CA68Bu, i ^= i >> 13;
    if ((i >> 24 & 15) == 0) return 0;
    uint32_t exponent = lowest + (i >> 8 & 0xFFFF) % range;
    return (uint16_t)((i & 0x8000) | exponent << 7 | (i & 0x7F));
}

/* Whether `kernels` multiplies the witness, 16 outputs by 16 rows, as `exact` does. A quarter of
 * the rows each has inputs of one size, where rounding is frequent, of the smallest sizes, of the
 * whole range, and of sizes whose sums overflow. */
static inline bool witness_agrees(const Kernels *kernels, const Kernels *exact, void *scratch) {
    static const struct {
        uint32_t lowest, range;
    } sizes[] = {{125, 3}, {87, 12}, {87, 127}, {200, 55}};
    _Alignas(LINE_BYTES) uint16_t weights[WITNESS_INPUTS * PANEL_ROWS];
    _Alignas(LINE_BYTES) uint8_t packed[2][WITNESS_ROWS * WITNESS_INPUTS * sizeof(float)];
    float x[WITNESS_ROWS * WITNESS_INPUTS], out[2][WITNESS_ROWS * PANEL_ROWS];
    const Kernels *both[2] = {kernels, exact};
    for (uint32_t i = 0; i < WITNESS_INPUTS * PANEL_ROWS; i++) {
        const size_t size = i / 2 % PANEL_ROWS % 4; /* of each fourth output */
        weights[i] = witness_number(i, sizes[size].lowest, sizes[size].range);
    }
    for (uint32_t i = 0; i < WITNESS_ROWS * WITNESS_INPUTS; i++) {
        const size_t size = i / WITNESS_INPUTS / 4;
        uint16_t bits = witness_number(i + 0x10000, sizes[size].lowest, sizes[size].range);
        x[i] = bfloat_to_float(bits);
    }
    const Matrix w = {TENSOR_BF16_ACT, PANEL_ROWS, WITNESS_INPUTS, sizeof weights,
                      (const uint8_t *)weights};
    for (size_t k = 0; k < 2; k++) {
        const Product product = {&w, out[k], PANEL_ROWS};
        for (size_t task = 0; task < both[k]->pack_tasks(FORM_BFLOATS, WITNESS_ROWS); task++)
            both[k]->pack(FORM_BFLOATS, x, WITNESS_ROWS, WITNESS_INPUTS, task, packed[k]);
        both[k]->multiply(&product, packed[k], WITNESS_ROWS, 0, 1, scratch);
    }
    for (size_t i = 0; i < WITNESS_ROWS * PANEL_ROWS; i++)
        if (memcmp(&out[0][i], &out[1][i], sizeof **out) != 0 &&
            !(isnan(out[0][i]) && isnan(out[1][i])))
            return false;
    return true;
}

#endif
