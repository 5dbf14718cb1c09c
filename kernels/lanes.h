/* Lanes: 16 floats side by side, in whatever registers the instruction set has.
 *
 * A file that includes this is built once for each instruction set with -DISA=name; FOR_ISA(f)
 * gives each build's symbols their own names. Lanes run across independent results, so that
 * every build computes the same bits: one AVX-512 register, two of AVX2, four of NEON, or a
 * plain loop (the definition). Every operation rounds as IEEE 754 says; nothing flushes
 * denormals; a fused multiply-add is lanes_fma and nothing else. */
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

#define LANES_INLINE static inline __attribute__((always_inline, unused))

#if defined(__AVX512F__) && defined(__AVX512DQ__)

#include <immintrin.h>

typedef __m512 lanes;
typedef __mmask16 lanes_mask;

LANES_INLINE lanes lanes_set(float x) {
    return _mm512_set1_ps(x);
}
LANES_INLINE lanes lanes_load(const float *p) {
    return _mm512_loadu_ps(p);
}
LANES_INLINE void lanes_store(float *p, lanes a) {
    _mm512_storeu_ps(p, a);
}
LANES_INLINE lanes lanes_load_half(const uint16_t *p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256((const void *)p));
}
LANES_INLINE lanes lanes_add(lanes a, lanes b) {
    return _mm512_add_ps(a, b);
}
LANES_INLINE lanes lanes_sub(lanes a, lanes b) {
    return _mm512_sub_ps(a, b);
}
LANES_INLINE lanes lanes_mul(lanes a, lanes b) {
    return _mm512_mul_ps(a, b);
}
LANES_INLINE lanes lanes_div(lanes a, lanes b) {
    return _mm512_div_ps(a, b);
}
LANES_INLINE lanes lanes_fma(lanes a, lanes b, lanes c) {
    return _mm512_fmadd_ps(a, b, c);
}
/* a > b ? a : b, in each lane: b where either is NaN. */
LANES_INLINE lanes lanes_max(lanes a, lanes b) {
    return _mm512_max_ps(a, b);
}
LANES_INLINE lanes lanes_min(lanes a, lanes b) {
    return _mm512_min_ps(a, b);
}
LANES_INLINE lanes lanes_abs(lanes a) {
    return _mm512_abs_ps(a);
}
LANES_INLINE lanes_mask lanes_less(lanes a, lanes b) {
    return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ);
}
LANES_INLINE lanes lanes_select(lanes_mask m, lanes yes, lanes no) {
    return _mm512_mask_blend_ps(m, no, yes);
}
/* x * 2^n, n whole and -126 <= n <= 127; NaN where both are. */
LANES_INLINE lanes lanes_scale_by_power(lanes x, lanes n) {
    return _mm512_scalef_ps(x, n);
}
/* The largest, by halves: 8 and 8, 4 and 4, 2 and 2, 1 and 1, each as lanes_max has it. */
LANES_INLINE float lanes_maximum(lanes a) {
    a = _mm512_max_ps(a, _mm512_shuffle_f32x4(a, a, 0x4E));
    a = _mm512_max_ps(a, _mm512_shuffle_f32x4(a, a, 0xB1));
    a = _mm512_max_ps(a, _mm512_permute_ps(a, 0x4E));
    a = _mm512_max_ps(a, _mm512_permute_ps(a, 0xB1));
    return _mm512_cvtss_f32(a);
}
/* bfloat16 pairs of one line: input 0 (low halves) and input 1 (high halves). */
LANES_INLINE lanes lanes_bfloat_low(const void *line) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_loadu_si512(line), 16));
}
LANES_INLINE lanes lanes_bfloat_high(const void *line) {
    return _mm512_castsi512_ps(
        _mm512_and_si512(_mm512_loadu_si512(line), _mm512_set1_epi32((int)0xFFFF0000u)));
}

#elif defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)

#include <immintrin.h>

typedef struct lanes {
    __m256 a, b;
} lanes;
typedef lanes lanes_mask;

#define LANES_BOTH(low, high) ((lanes){low, high})
LANES_INLINE lanes lanes_set(float x) {
    return LANES_BOTH(_mm256_set1_ps(x), _mm256_set1_ps(x));
}
LANES_INLINE lanes lanes_load(const float *p) {
    return LANES_BOTH(_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8));
}
LANES_INLINE void lanes_store(float *p, lanes x) {
    _mm256_storeu_ps(p, x.a);
    _mm256_storeu_ps(p + 8, x.b);
}
LANES_INLINE lanes lanes_load_half(const uint16_t *p) {
    return LANES_BOTH(_mm256_cvtph_ps(_mm_loadu_si128((const void *)p)),
                      _mm256_cvtph_ps(_mm_loadu_si128((const void *)(p + 8))));
}
#define LANES_BINARY(name, op)                                                                     \
    LANES_INLINE lanes name(lanes x, lanes y) {                                                    \
        return LANES_BOTH(op(x.a, y.a), op(x.b, y.b));                                             \
    }
LANES_BINARY(lanes_add, _mm256_add_ps)
LANES_BINARY(lanes_sub, _mm256_sub_ps)
LANES_BINARY(lanes_mul, _mm256_mul_ps)
LANES_BINARY(lanes_div, _mm256_div_ps)
LANES_BINARY(lanes_max, _mm256_max_ps)
LANES_BINARY(lanes_min, _mm256_min_ps)
LANES_INLINE lanes lanes_fma(lanes x, lanes y, lanes z) {
    return LANES_BOTH(_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b));
}
LANES_INLINE lanes lanes_abs(lanes x) {
    __m256 sign = _mm256_set1_ps(-0.0f);
    return LANES_BOTH(_mm256_andnot_ps(sign, x.a), _mm256_andnot_ps(sign, x.b));
}
LANES_INLINE lanes_mask lanes_less(lanes x, lanes y) {
    return LANES_BOTH(_mm256_cmp_ps(x.a, y.a, _CMP_LT_OQ), _mm256_cmp_ps(x.b, y.b, _CMP_LT_OQ));
}
LANES_INLINE lanes lanes_select(lanes_mask m, lanes yes, lanes no) {
    return LANES_BOTH(_mm256_blendv_ps(no.a, yes.a, m.a), _mm256_blendv_ps(no.b, yes.b, m.b));
}
LANES_INLINE __m256 lanes_power_half(__m256 n) {
    return _mm256_castsi256_ps(
        _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23));
}
LANES_INLINE lanes lanes_scale_by_power(lanes x, lanes n) {
    return LANES_BOTH(_mm256_mul_ps(x.a, lanes_power_half(n.a)),
                      _mm256_mul_ps(x.b, lanes_power_half(n.b)));
}
LANES_INLINE float lanes_maximum(lanes x) {
    __m256 a = _mm256_max_ps(x.a, x.b);
    a = _mm256_max_ps(a, _mm256_permute2f128_ps(a, a, 1));
    a = _mm256_max_ps(a, _mm256_permute_ps(a, 0x4E));
    a = _mm256_max_ps(a, _mm256_permute_ps(a, 0xB1));
    return _mm256_cvtss_f32(a);
}
LANES_INLINE lanes lanes_bfloat_low(const void *line) {
    const __m256i *p = line;
    return LANES_BOTH(_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_loadu_si256(p), 16)),
                      _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_loadu_si256(p + 1), 16)));
}
LANES_INLINE lanes lanes_bfloat_high(const void *line) {
    const __m256i *p = line;
    __m256i high = _mm256_set1_epi32((int)0xFFFF0000u);
    return LANES_BOTH(_mm256_castsi256_ps(_mm256_and_si256(_mm256_loadu_si256(p), high)),
                      _mm256_castsi256_ps(_mm256_and_si256(_mm256_loadu_si256(p + 1), high)));
}

#elif defined(__ARM_NEON) && !defined(LANES_PLAIN)

#include <arm_neon.h>

typedef struct lanes {
    float32x4_t v[4];
} lanes;
typedef struct lanes_mask {
    uint32x4_t v[4];
} lanes_mask;

#define LANES_EACH(type, expression)                                                               \
    type r;                                                                                        \
    for (int i = 0; i < 4; i++) r.v[i] = expression;                                               \
    return r
LANES_INLINE lanes lanes_set(float x) {
    LANES_EACH(lanes, vdupq_n_f32(x));
}
LANES_INLINE lanes lanes_load(const float *p) {
    LANES_EACH(lanes, vld1q_f32(p + 4 * i));
}
LANES_INLINE void lanes_store(float *p, lanes x) {
    for (int i = 0; i < 4; i++) vst1q_f32(p + 4 * i, x.v[i]);
}
LANES_INLINE lanes lanes_load_half(const uint16_t *p) {
    LANES_EACH(lanes, vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p + 4 * i))));
}
LANES_INLINE lanes lanes_add(lanes x, lanes y) {
    LANES_EACH(lanes, vaddq_f32(x.v[i], y.v[i]));
}
LANES_INLINE lanes lanes_sub(lanes x, lanes y) {
    LANES_EACH(lanes, vsubq_f32(x.v[i], y.v[i]));
}
LANES_INLINE lanes lanes_mul(lanes x, lanes y) {
    LANES_EACH(lanes, vmulq_f32(x.v[i], y.v[i]));
}
LANES_INLINE lanes lanes_div(lanes x, lanes y) {
    LANES_EACH(lanes, vdivq_f32(x.v[i], y.v[i]));
}
LANES_INLINE lanes lanes_fma(lanes x, lanes y, lanes z) {
    LANES_EACH(lanes, vfmaq_f32(z.v[i], x.v[i], y.v[i]));
}
/* Compare and select, not vmaxq: it must do with NaN and zeros as the other builds do. */
LANES_INLINE lanes lanes_max(lanes x, lanes y) {
    LANES_EACH(lanes, vbslq_f32(vcgtq_f32(x.v[i], y.v[i]), x.v[i], y.v[i]));
}
LANES_INLINE lanes lanes_min(lanes x, lanes y) {
    LANES_EACH(lanes, vbslq_f32(vcltq_f32(x.v[i], y.v[i]), x.v[i], y.v[i]));
}
LANES_INLINE lanes lanes_abs(lanes x) {
    LANES_EACH(lanes, vabsq_f32(x.v[i]));
}
LANES_INLINE lanes_mask lanes_less(lanes x, lanes y) {
    LANES_EACH(lanes_mask, vcltq_f32(x.v[i], y.v[i]));
}
LANES_INLINE lanes lanes_select(lanes_mask m, lanes yes, lanes no) {
    LANES_EACH(lanes, vbslq_f32(m.v[i], yes.v[i], no.v[i]));
}
LANES_INLINE lanes lanes_scale_by_power(lanes x, lanes n) {
    LANES_EACH(lanes,
               vmulq_f32(x.v[i], vreinterpretq_f32_s32(vshlq_n_s32(
                                     vaddq_s32(vcvtq_s32_f32(n.v[i]), vdupq_n_s32(127)), 23))));
}
LANES_INLINE float lanes_maximum(lanes x) {
    float v[4];
    lanes low = {{x.v[0], x.v[1]}}, high = {{x.v[2], x.v[3]}};
    for (int i = 0; i < 2; i++)
        low.v[i] = vbslq_f32(vcgtq_f32(low.v[i], high.v[i]), low.v[i], high.v[i]);
    vst1q_f32(v, vbslq_f32(vcgtq_f32(low.v[0], low.v[1]), low.v[0], low.v[1]));
    for (int half = 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++) v[i] = v[i] > v[i + half] ? v[i] : v[i + half];
    return v[0];
}
LANES_INLINE lanes lanes_bfloat_low(const void *line) {
    const uint32_t *p = line;
    LANES_EACH(lanes, vreinterpretq_f32_u32(vshlq_n_u32(vld1q_u32(p + 4 * i), 16)));
}
LANES_INLINE lanes lanes_bfloat_high(const void *line) {
    const uint32_t *p = line;
    LANES_EACH(lanes,
               vreinterpretq_f32_u32(vandq_u32(vld1q_u32(p + 4 * i), vdupq_n_u32(0xFFFF0000u))));
}

#else /* plain C: the definition of all of the above */

typedef struct lanes {
    float v[LANES];
} lanes;
typedef struct lanes_mask {
    unsigned char v[LANES];
} lanes_mask;

#define LANES_EACH(type, expression)                                                               \
    type r;                                                                                        \
    for (int i = 0; i < LANES; i++) r.v[i] = expression;                                           \
    return r
LANES_INLINE lanes lanes_set(float x) {
    LANES_EACH(lanes, x);
}
LANES_INLINE lanes lanes_load(const float *p) {
    LANES_EACH(lanes, p[i]);
}
LANES_INLINE void lanes_store(float *p, lanes x) {
    memcpy(p, x.v, sizeof x.v);
}
LANES_INLINE lanes lanes_load_half(const uint16_t *p) {
    LANES_EACH(lanes, half_to_float(p[i]));
}
LANES_INLINE lanes lanes_add(lanes x, lanes y) {
    LANES_EACH(lanes, x.v[i] + y.v[i]);
}
LANES_INLINE lanes lanes_sub(lanes x, lanes y) {
    LANES_EACH(lanes, x.v[i] - y.v[i]);
}
LANES_INLINE lanes lanes_mul(lanes x, lanes y) {
    LANES_EACH(lanes, x.v[i] * y.v[i]);
}
LANES_INLINE lanes lanes_div(lanes x, lanes y) {
    LANES_EACH(lanes, x.v[i] / y.v[i]);
}
LANES_INLINE lanes lanes_fma(lanes x, lanes y, lanes z) {
    LANES_EACH(lanes, fmaf(x.v[i], y.v[i], z.v[i]));
}
LANES_INLINE lanes lanes_max(lanes x, lanes y) {
    LANES_EACH(lanes, x.v[i] > y.v[i] ? x.v[i] : y.v[i]);
}
LANES_INLINE lanes lanes_min(lanes x, lanes y) {
    LANES_EACH(lanes, x.v[i] < y.v[i] ? x.v[i] : y.v[i]);
}
LANES_INLINE lanes lanes_abs(lanes x) {
    LANES_EACH(lanes, fabsf(x.v[i]));
}
LANES_INLINE lanes_mask lanes_less(lanes x, lanes y) {
    LANES_EACH(lanes_mask, x.v[i] < y.v[i]);
}
LANES_INLINE lanes lanes_select(lanes_mask m, lanes yes, lanes no) {
    LANES_EACH(lanes, m.v[i] ? yes.v[i] : no.v[i]);
}
LANES_INLINE lanes lanes_scale_by_power(lanes x, lanes n) {
    LANES_EACH(lanes, x.v[i] * (fabsf(n.v[i]) < 128.0f
                                    ? float_from_bits((uint32_t)((int32_t)n.v[i] + 127) << 23)
                                    : 0.0f)); /* of no number: a NaN, which x is then too */
}
LANES_INLINE float lanes_maximum(lanes a) {
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++) a.v[i] = a.v[i] > a.v[i + half] ? a.v[i] : a.v[i + half];
    return a.v[0];
}
LANES_INLINE lanes lanes_bfloat_low(const void *line) {
    const uint16_t *p = line;
    LANES_EACH(lanes, bfloat_to_float(p[2 * i]));
}
LANES_INLINE lanes lanes_bfloat_high(const void *line) {
    const uint16_t *p = line;
    LANES_EACH(lanes, bfloat_to_float(p[2 * i + 1]));
}

#endif

LANES_INLINE lanes lanes_zero(void) {
    return lanes_set(0.0f);
}

/* The first n lanes from memory, the others `fill`; and the first n lanes to memory. */
LANES_INLINE lanes lanes_load_part(const float *p, size_t n, float fill) {
    float v[LANES];
    for (size_t i = 0; i < LANES; i++) v[i] = i < n ? p[i] : fill;
    return lanes_load(v);
}
LANES_INLINE void lanes_store_part(float *p, lanes a, size_t n) {
    float v[LANES];
    lanes_store(v, a);
    memcpy(p, v, n * sizeof *v);
}

/* The fixed tree that joins 16 partial sums: 8 + 8, 4 + 4, 2 + 2, 1 + 1. */
LANES_INLINE float lanes_sum(lanes a) {
    float v[LANES];
    lanes_store(v, a);
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++) v[i] += v[i + half];
    return v[0];
}

/* Nearest whole number, ties to even, for |x| < 2^22: adding 1.5 * 2^23 rounds. */
LANES_INLINE lanes lanes_round(lanes x) {
    lanes big = lanes_set(12582912.0f);
    return lanes_sub(lanes_add(x, big), big);
}

/* exp(x - n ln 2), |x - n ln 2| at most a little over half of ln 2: a polynomial. */
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

/* exp(x): 0 below -87.33 (no denormal results), infinity above 88.72, NaN for NaN; else within
 * 2 units in the last place. x = n ln 2 + r, a polynomial in r, times 2^n in two steps. */
LANES_INLINE lanes lanes_exp(lanes x) {
    lanes low = lanes_set(-87.33f), high = lanes_set(88.72f);
    lanes_mask is_low = lanes_less(x, low), is_high = lanes_less(high, x);
    lanes clamped = lanes_min(lanes_max(x, low), high);
    lanes n = lanes_round(lanes_mul(clamped, lanes_set(1.44269504f)));
    lanes p = lanes_exp_part(clamped, n);
    /* n reaches 128: half of it first, so that neither power leaves the range. */
    lanes half = lanes_round(lanes_mul(n, lanes_set(0.5f)));
    lanes y = lanes_scale_by_power(lanes_scale_by_power(p, half), lanes_sub(n, half));
    y = lanes_select(is_low, lanes_zero(), y);
    y = lanes_select(is_high, lanes_set(INFINITY), y);
    /* max and min take the other operand where x is NaN: put it back. */
    return lanes_select(lanes_less(lanes_abs(x), lanes_set(INFINITY)), y,
                        lanes_select(lanes_less(x, lanes_zero()), lanes_zero(), lanes_mul(x, x)));
}

/* The same bits for x <= 0 and for NaN, with less work: nothing overflows, one power suffices, a
 * NaN passes through, and what is computed for x below the range, infinite ones too, is not chosen.
 */
LANES_INLINE lanes lanes_exp_falling(lanes x) {
    lanes n = lanes_round(lanes_mul(x, lanes_set(1.44269504f)));
    lanes y = lanes_scale_by_power(lanes_exp_part(x, n), n);
    return lanes_select(lanes_less(x, lanes_set(-87.33f)), lanes_zero(), y);
}

#endif
