/* Activations quantized to 8 bits, in the form that every integer kernel reads.
 *
 * The rows of x are cut into blocks of nearly equal size, at most `max_rows` each (what a
 * kernel's registers hold). A block of R rows is a run of groups, and a group holds
 *
 *     float   scale[R]
 *     float   sum[R]           scale * (sum of the row's codes in this group), for minima
 *     int32   offset[R]        -128 * (sum of the row's codes in this group)
 *     int8    codes[R][group]
 *
 * Kernels that multiply unsigned by signed bytes add 128 to signed weights; starting their
 * sums at `offset` takes it out again. This header is compiled into each kernel file with that
 * file's instructions; the cache in 8 bits (attention_q8.c) quantizes with it, too. */
#ifndef ACTIVATIONS_H
#define ACTIVATIONS_H

#if defined(__AVX512F__)
#include <immintrin.h>
#endif
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/numbers.h"
#include "base/status.h"

static inline size_t block_count(size_t n_rows, size_t max_rows) {
    return (n_rows + max_rows - 1) / max_rows;
}

/* First row of block b; with b = blocks, n_rows. */
static inline size_t block_start(size_t n_rows, size_t blocks, size_t b) {
    return b * n_rows / blocks;
}

/* Bytes of one row's part of a group, and of that part before the codes. */
enum { ACTIVATION_HEADER = 2 * sizeof(float) + sizeof(int32_t) };

static inline size_t activation_bytes(size_t group) {
    return ACTIVATION_HEADER + group;
}

static inline size_t activation_groups(size_t group, size_t n_inputs) {
    return (n_inputs + group - 1) / group;
}

#define ACTIVATIONS_INLINE static inline __attribute__((always_inline, unused))

/* The largest |x[i]| by its bits; and codes of x[i] * inverse, |code| <= 127, with their sum. */
#if defined(__AVX512F__) && defined(__AVX512BW__)
ACTIVATIONS_INLINE uint32_t largest_magnitude(const float *x, size_t group) {
    __m512i largest = _mm512_setzero_si512(), mask = _mm512_set1_epi32(0x7FFFFFFF);
    for (size_t i = 0; i < group; i += 16)
        largest = _mm512_max_epu32(largest, _mm512_and_si512(_mm512_loadu_si512(x + i), mask));
    return _mm512_reduce_max_epu32(largest);
}

ACTIVATIONS_INLINE int32_t round_to_codes(const float *x, size_t group, float inverse,
                                          int8_t *restrict codes) {
    __m512i sum = _mm512_setzero_si512();
    for (size_t i = 0; i < group; i += 16) {
        __m512 scaled = _mm512_mul_ps(_mm512_loadu_ps(x + i), _mm512_set1_ps(inverse));
        __m512i code = _mm512_cvtps_epi32(scaled); /* rounds to nearest even */
        _mm_storeu_si128((__m128i *)(codes + i), _mm512_cvtsepi32_epi8(code));
        sum = _mm512_add_epi32(sum, code);
    }
    return _mm512_reduce_add_epi32(sum);
}
#else
ACTIVATIONS_INLINE uint32_t largest_magnitude(const float *x, size_t group) {
    uint32_t largest = 0;
    for (size_t i = 0; i < group; i++) {
        uint32_t magnitude = float_bits(x[i]) & 0x7FFFFFFFu;
        largest = magnitude > largest ? magnitude : largest;
    }
    return largest;
}

ACTIVATIONS_INLINE int32_t round_to_codes(const float *x, size_t group, float inverse,
                                          int8_t *restrict codes) {
    int32_t sum = 0;
    for (size_t i = 0; i < group; i++) {
        /* Adding 1.5 * 2^23 rounds to nearest even and leaves the code in the low bits. */
        float shifted = x[i] * inverse + 12582912.0f;
        int32_t code = (int32_t)(float_bits(shifted) - float_bits(12582912.0f));
        codes[i] = (int8_t)code;
        sum += code;
    }
    return sum;
}
#endif

/* The scale of elements of which the largest is that: NaN for one that is not finite. By its bits,
 * as an integer, so that NaN does not escape. */
ACTIVATIONS_INLINE float code_scale(uint32_t largest) {
    float max = float_from_bits(largest);
    if (largest >= 0x7F800000u) return NAN;
    return max >= 1e-30f ? max / 127.0f : 0.0f;
}

/* Quantizes x[group]; returns the scale. The definition's clamp never acts: x * (127 / max)
 * exceeds 127 by two roundings at most and rounds to it. */
ACTIVATIONS_INLINE float quantize_group(const float *x, size_t group, int8_t *restrict codes,
                                        int32_t *restrict offset) {
    uint32_t largest = largest_magnitude(x, group);
    float scale = code_scale(largest);
    *offset = 0;
    if (scale > 0.0f) {
        *offset = -128 * round_to_codes(x, group, 127.0f / float_from_bits(largest), codes);
    } else {
        memset(codes, 0, group);
    }
    return scale;
}

ACTIVATIONS_INLINE void quantize_row(size_t group, const float *x, size_t n_inputs, size_t row,
                                     size_t rows, uint8_t *restrict block) {
    size_t stride = rows * activation_bytes(group), first = 0;
    for (; first < n_inputs; first += group, block += stride) {
        float *scale = (float *)block + row, *sum = scale + rows;
        int32_t *offset = (int32_t *)block + 2 * rows + row;
        int8_t *codes = (int8_t *)(block + ACTIVATION_HEADER * rows + row * group);
        if (first + group <= n_inputs) {
            *scale = quantize_group(x + first, group, codes, offset);
        } else {
            float last[64] = {0};
            memcpy(last, x + first, (n_inputs - first) * sizeof *x);
            *scale = quantize_group(last, group, codes, offset);
        }
        *sum = *offset ? *scale * (float)(*offset / -128) : 0.0f; /* NaN is the scale's alone */
    }
}

/* Packs one row of x[n_rows][n_inputs] into `input`, the run of all blocks. */
static inline void pack_activation_row(size_t group, const float *x, size_t n_rows, size_t n_inputs,
                                       size_t row, size_t max_rows, void *input) {
    size_t blocks = block_count(n_rows, max_rows);
    size_t b = row * blocks / n_rows;
    while (block_start(n_rows, blocks, b + 1) <= row) b++;
    while (block_start(n_rows, blocks, b) > row) b--;
    size_t start = block_start(n_rows, blocks, b),
           rows = block_start(n_rows, blocks, b + 1) - start;
    size_t row_bytes = activation_groups(group, n_inputs) * activation_bytes(group);
    uint8_t *block = (uint8_t *)input + start * row_bytes;
    if (group == 32) {
        quantize_row(32, x + row * n_inputs, n_inputs, row - start, rows, block);
    } else if (group == 16) {
        quantize_row(16, x + row * n_inputs, n_inputs, row - start, rows, block);
    } else {
        quantize_row(64, x + row * n_inputs, n_inputs, row - start, rows, block);
    }
}

#endif
