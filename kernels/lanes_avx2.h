/* Lanes in two AVX2 registers. lanes_reference.h says what each operation does; lanes.h
 * includes this file and defines LANES and LANES_INLINE before it. */
#ifndef LANES_AVX2_H
#define LANES_AVX2_H

#include <immintrin.h>

#define LANES_HAVE_MASKS /* lanes_load_part and lanes_store_part */

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
/* Lane i of the mask is set where i + first < n. Masked accesses do not touch the other lanes. */
LANES_INLINE __m256i lanes_mask_before(size_t n, int first) {
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n - first), lane);
}
LANES_INLINE lanes lanes_load_part(const float *p, size_t n, float fill) {
    const __m256i a = lanes_mask_before(n, 0), b = lanes_mask_before(n, 8);
    const __m256 rest = _mm256_set1_ps(fill);
    return LANES_BOTH(_mm256_blendv_ps(rest, _mm256_maskload_ps(p, a), _mm256_castsi256_ps(a)),
                      _mm256_blendv_ps(rest, _mm256_maskload_ps(p + 8, b), _mm256_castsi256_ps(b)));
}
LANES_INLINE void lanes_store_part(float *p, lanes x, size_t n) {
    _mm256_maskstore_ps(p, lanes_mask_before(n, 0), x.a);
    _mm256_maskstore_ps(p + 8, lanes_mask_before(n, 8), x.b);
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

#endif
