/* The steps that avx512.c and avx512_superblocks.c share. A register holds a panel's 16 outputs;
 * integer and float sums of `panels` panels by `rows` rows are arrays, sum j * rows + r for row r
 * of panel j, which the compiler keeps in registers. */
#ifndef KERNELS_AVX512_STEPS_H
#define KERNELS_AVX512_STEPS_H

#include <immintrin.h>

#include "kernels/block_kernels.h"
#include "kernels/order.h"
#include "kernels/panel_scales.h"

#define INLINE static inline __attribute__((always_inline))

/* Most rows of a block and of a stream kernel, and most sums (panels times rows) of either. */
enum { BLOCK_ROWS = 12, BLOCK_SUMS = 12, STREAM_ROWS = 3 };

/* STEP(i) for each i < n, which the compiler knows. (clang leaves arrays of a loop in memory.) */
#define EACH(n, STEP)                                                                              \
    do {                                                                                           \
        STEP(0);                                                                                   \
        if ((n) > 1) STEP(1);                                                                      \
        if ((n) > 2) STEP(2);                                                                      \
        if ((n) > 3) STEP(3);                                                                      \
        if ((n) > 4) STEP(4);                                                                      \
        if ((n) > 5) STEP(5);                                                                      \
        if ((n) > 6) STEP(6);                                                                      \
        if ((n) > 7) STEP(7);                                                                      \
        if ((n) > 8) STEP(8);                                                                      \
        if ((n) > 9) STEP(9);                                                                      \
        if ((n) > 10) STEP(10);                                                                    \
        if ((n) > 11) STEP(11);                                                                    \
    } while (0)

/* STEP(j) for each panel j < panels, which are at most STREAM_PANELS. */
#define EACH_PANEL(panels, STEP)                                                                   \
    do {                                                                                           \
        STEP(0);                                                                                   \
        if ((panels) > 1) STEP(1);                                                                 \
        if ((panels) > 2) STEP(2);                                                                 \
        if ((panels) > 3) STEP(3);                                                                 \
    } while (0)

/* Bits of a line of nibbles that hold the lower nibbles. */
INLINE __m512i lower_nibbles(void) {
    return _mm512_set1_epi8(15);
}

/* 16 float16 numbers as floats. */
INLINE __m512 load_halves(const void *p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}

INLINE __m512i broadcast_4_codes(const uint8_t *p) {
    int32_t codes;
    memcpy(&codes, p, sizeof codes);
    return _mm512_set1_epi32(codes);
}

/* broadcast_4_codes into a register that several products use: a compiler would load it anew for
 * each of them. */
INLINE __m512i broadcast_once(const uint8_t *p) {
    __m512i codes;
    __asm__("vpbroadcastd %1, %0" : "=v"(codes) : "m"(*(const uint32_t *)p));
    return codes;
}

/* Integer sums of one group. Few of them are not enough to hide the latency of vpdpbusd: then every
 * output has a second accumulator, dot2, for the second half of each line. */
typedef struct Dots {
    __m512i dot[BLOCK_SUMS], dot2[BLOCK_SUMS];
} Dots;

/* True when dot2 adds up upper nibbles without shifting them down: they count 16 times, which one
 * shift of the sum corrects. `nibbles`: codes are plain nibbles. */
INLINE bool upper_unshifted(bool nibbles, size_t panels, size_t rows) {
    return nibbles && panels * rows <= 4;
}
INLINE bool has_dot2(bool nibbles, size_t panels, size_t rows) {
    return panels * rows < 4 || upper_unshifted(nibbles, panels, rows);
}

/* Starts the sums. Unsigned weights lie `raised` (0 or a power of two) above their values, which a
 * row's offset takes out again. */
INLINE void start_dots(uint32_t raised, size_t panels, size_t rows, const int32_t *offsets,
                       Dots *d) {
#define STEP(i)                                                                                    \
    do {                                                                                           \
        d->dot[i] = _mm512_set1_epi32(activation_offset(raised, offsets[(i) % rows]));             \
        d->dot2[i] = _mm512_setzero_si512();                                                       \
    } while (0)
    EACH(panels * rows, STEP);
#undef STEP
}

/* Adds eight inputs of panel j: unsigned weights a (inputs 0 to 3) and b (4 to 7) times codes. The
 * codes of row r begin at x + r * group. */
INLINE void add_8_inputs(bool nibbles, size_t panels, size_t rows, size_t j, __m512i a, __m512i b,
                         const uint8_t *x, size_t group, Dots *d) {
    __m512i *dot = d->dot + j * rows, *second = d->dot2 + j * rows;
    if (!has_dot2(nibbles, panels, rows)) second = dot;
#define STEP(r)                                                                                    \
    do {                                                                                           \
        const uint8_t *own = x + (r)*group;                                                        \
        dot[r] = _mm512_dpbusd_epi32(dot[r], a, broadcast_4_codes(own));                           \
        IN_ORDER(dot[r]);                                                                          \
        second[r] = _mm512_dpbusd_epi32(second[r], b, broadcast_4_codes(own + 4));                 \
        IN_ORDER(second[r]);                                                                       \
    } while (0)
    EACH(rows, STEP);
#undef STEP
}

/* Adds the group's sums of panel j, scaled, to the float sums. */
INLINE void add_scaled(bool nibbles, bool with_minima, size_t panels, size_t rows, size_t j,
                       __m512 scale, __m512 minimum, const float *x_scales, const float *x_sums,
                       Dots *d, __m512 *acc) {
    acc += j * rows;
#define STEP(r)                                                                                    \
    do {                                                                                           \
        __m512 factor = _mm512_mul_ps(scale, _mm512_set1_ps(x_scales[r]));                         \
        __m512i dot = d->dot[j * rows + (r)], dot2 = d->dot2[j * rows + (r)];                      \
        if (upper_unshifted(nibbles, panels, rows)) dot2 = _mm512_srai_epi32(dot2, 4);             \
        if (has_dot2(nibbles, panels, rows)) dot = _mm512_add_epi32(dot, dot2);                    \
        acc[r] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot), factor, acc[r]);                         \
        if (with_minima) acc[r] = _mm512_fnmadd_ps(_mm512_set1_ps(x_sums[r]), minimum, acc[r]);    \
    } while (0)
    EACH(rows, STEP);
#undef STEP
}

/* Stores the sums of `panels` neighbouring panels; only the first `outputs` lie in the matrix. */
INLINE void store_block(size_t panels, size_t rows, const __m512 *acc, float *out, size_t stride,
                        size_t outputs) {
#define STEP(i)                                                                                    \
    do {                                                                                           \
        size_t j = (i) / rows, r = (i) % rows, left = outputs - j * PANEL_ROWS;                    \
        __mmask16 store = left < PANEL_ROWS ? (__mmask16)((1u << left) - 1) : 0xffff;              \
        _mm512_mask_storeu_ps(out + r * stride + j * PANEL_ROWS, store, acc[i]);                   \
    } while (0)
    EACH(panels * rows, STEP);
#undef STEP
}

/* Define block_TYPE for one panel and stream_TYPE for STREAM_PANELS panels. They call the file's
 * multiply_block(type, panels, rows, w, p, block, out, stride, outputs) with the first three
 * arguments known to the compiler. */
#define ROWS_CASE(type, panels, rows)                                                              \
    case rows:                                                                                     \
        multiply_block(TENSOR_##type, panels, rows, w, p, block, out, stride, outputs);            \
        break
#define BLOCK_KERNEL(type)                                                                         \
    static void block_##type(const Matrix *w, size_t p, size_t rows, const uint8_t *block,         \
                             float *out, size_t stride, size_t outputs) {                          \
        switch (rows) {                                                                            \
            ROWS_CASE(type, 1, 1);                                                                 \
            ROWS_CASE(type, 1, 2);                                                                 \
            ROWS_CASE(type, 1, 3);                                                                 \
            ROWS_CASE(type, 1, 4);                                                                 \
            ROWS_CASE(type, 1, 5);                                                                 \
            ROWS_CASE(type, 1, 6);                                                                 \
            ROWS_CASE(type, 1, 7);                                                                 \
            ROWS_CASE(type, 1, 8);                                                                 \
            ROWS_CASE(type, 1, 9);                                                                 \
            ROWS_CASE(type, 1, 10);                                                                \
            ROWS_CASE(type, 1, 11);                                                                \
            ROWS_CASE(type, 1, 12);                                                                \
        }                                                                                          \
    }
#define STREAM_KERNEL(type)                                                                        \
    static void stream_##type(const Matrix *w, size_t p, size_t rows, const uint8_t *block,        \
                              float *out, size_t stride, size_t outputs) {                         \
        switch (rows) {                                                                            \
            ROWS_CASE(type, STREAM_PANELS, 1);                                                     \
            ROWS_CASE(type, STREAM_PANELS, 2);                                                     \
            ROWS_CASE(type, STREAM_PANELS, 3);                                                     \
        }                                                                                          \
    }

#endif
