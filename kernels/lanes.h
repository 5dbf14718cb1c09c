/* Lanes: a vector of 16 floats, in the registers of the instruction set that is compiled for.
 *
 * A file that includes this header is compiled once for each instruction set, with -DISA=name;
 * FOR_ISA(f) gives the symbols of each build their own names. The 16 lanes hold 16 independent
 * results, so every build computes the same bits, with one AVX-512 register, two AVX2 registers,
 * four NEON registers or a plain loop (lanes_reference.h, the definition). Every operation rounds
 * as IEEE 754 says, nothing flushes denormals, and lanes_fma is the only fused multiply-add. */
#ifndef LANES_H
#define LANES_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/numbers.h"

#ifndef ISA
#define ISA reference
#endif
#define LANES_JOIN2(a, b) a##_##b
#define LANES_JOIN(a, b) LANES_JOIN2(a, b)
#define FOR_ISA(name) LANES_JOIN(name, ISA)

enum { LANES = 16 };

/* Plain C's lanes are arrays, for whose loops a compiler with sanitizers takes minutes where all is
 * inlined: `make asan` and `make fuzz` leave the choice to it. */
#ifndef LANES_INLINE
#define LANES_INLINE static inline __attribute__((always_inline, unused))
#endif

/* The compiler's flags choose the registers. The core computes in plain C everywhere, also on Arm,
 * where NEON needs no flag. */
#ifdef VERBATIM_CORE
#define LANES_PLAIN
#endif
#if defined(__AVX512F__) && defined(__AVX512DQ__)
#include "kernels/lanes_avx512.h"
#elif defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#include "kernels/lanes_avx2.h"
#elif defined(__ARM_NEON) && !defined(LANES_PLAIN)
#include "kernels/lanes_neon.h"
#else
#include "kernels/lanes_reference.h"
#endif

/* The definition, for instruction sets without masked loads and stores; the others define
 * LANES_HAVE_MASKS and both functions. */
#ifndef LANES_HAVE_MASKS
/* Loads the first n lanes from memory and sets the others to `fill`. */
LANES_INLINE lanes lanes_load_part(const float *p, size_t n, float fill) {
    float v[LANES];
    for (size_t i = 0; i < LANES; i++) v[i] = i < n ? p[i] : fill;
    return lanes_load(v);
}
/* Stores the first n lanes. */
LANES_INLINE void lanes_store_part(float *p, lanes a, size_t n) {
    float v[LANES];
    lanes_store(v, a);
    memcpy(p, v, n * sizeof *v);
}
#endif

LANES_INLINE lanes lanes_zero(void) {
    return lanes_set(0.0f);
}

/* Loads the first n lanes from memory and sets the others to `fill`; all of them if n >= LANES. */
LANES_INLINE lanes lanes_load_upto(const float *p, size_t n, float fill) {
    return n >= LANES ? lanes_load(p) : lanes_load_part(p, n, fill);
}
/* Stores the first n lanes; all of them if n >= LANES. */
LANES_INLINE void lanes_store_upto(float *p, lanes a, size_t n) {
    if (n >= LANES) {
        lanes_store(p, a);
    } else {
        lanes_store_part(p, a, n);
    }
}

/* Sum of the 16 lanes, added by a fixed tree: 8 + 8, 4 + 4, 2 + 2, 1 + 1. */
LANES_INLINE float lanes_sum(lanes a) {
    float v[LANES];
    lanes_store(v, a);
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++) v[i] += v[i + half];
    return v[0];
}

/* Rounds to the nearest whole number, ties to even, for |x| < 2^22. The addition of 1.5 * 2^23 does
 * the rounding. */
LANES_INLINE lanes lanes_round(lanes x) {
    lanes big = lanes_set(12582912.0f);
    return lanes_sub(lanes_add(x, big), big);
}

/* exp(x - n ln 2) by a polynomial of degree 7; |x - n ln 2| must not exceed about (ln 2) / 2. */
LANES_INLINE lanes lanes_exp_part(lanes x, lanes n) {
    lanes r = lanes_fma(n, lanes_set(-0.693145752f), x);
    r = lanes_fma(n, lanes_set(-1.42860677e-6f), r);
    lanes p = lanes_set(1.0f / 5040);
    p = lanes_fma(p, r, lanes_set(1.0f / 720));
    p = lanes_fma(p, r, lanes_set(1.0f / 120));
    p = lanes_fma(p, r, lanes_set(1.0f / 24));
    p = lanes_fma(p, r, lanes_set(1.0f / 6));
    p = lanes_fma(p, r, lanes_set(0.5f));
    p = lanes_fma(p, r, lanes_set(1.0f));
    return lanes_fma(p, r, lanes_set(1.0f));
}

/* exp(x), within 2 units in the last place. It is 0 below -87.33 (results are never denormal),
 * infinity above 88.72 and NaN for NaN. Method: x = n ln 2 + r; a polynomial in r, times 2^n. */
LANES_INLINE lanes lanes_exp(lanes x) {
    lanes low = lanes_set(-87.33f), high = lanes_set(88.72f);
    lanes_mask is_low = lanes_less(x, low), is_high = lanes_less(high, x);
    lanes clamped = lanes_min(lanes_max(x, low), high);
    lanes n = lanes_round(lanes_mul(clamped, lanes_set(1.44269504f)));
    lanes p = lanes_exp_part(clamped, n);
    /* n can be 128, which is out of range for one power of two: multiply by two halves of it. */
    lanes half = lanes_round(lanes_mul(n, lanes_set(0.5f)));
    lanes y = lanes_scale_by_power(lanes_scale_by_power(p, half), lanes_sub(n, half));
    y = lanes_select(is_low, lanes_zero(), y);
    y = lanes_select(is_high, lanes_set(INFINITY), y);
    /* max and min replaced NaN by a bound: restore NaN, and compute +-infinity's result. */
    return lanes_select(lanes_less(lanes_abs(x), lanes_set(INFINITY)), y,
                        lanes_select(lanes_less(x, lanes_zero()), lanes_zero(), lanes_mul(x, x)));
}

/* lanes_exp for x <= 0 and NaN: the same bits with less work. Nothing overflows, so one power of
 * two suffices, and NaN passes through. Results below the range, also for -infinity, are replaced
 * by 0. */
LANES_INLINE lanes lanes_exp_falling(lanes x) {
    lanes n = lanes_round(lanes_mul(x, lanes_set(1.44269504f)));
    lanes y = lanes_scale_by_power(lanes_exp_part(x, n), n);
    return lanes_select(lanes_less(x, lanes_set(-87.33f)), lanes_zero(), y);
}

#endif
