/* Lanes in one AVX-512 register. lanes_reference.h says what each operation does; lanes.h
 * includes this file and defines LANES and LANES_INLINE before it. */
#ifndef LANES_AVX512_H
#define LANES_AVX512_H

#include <immintrin.h>

#define LANES_HAVE_MASKS /* lanes_load_part and lanes_store_part */

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
/* Masked accesses do not touch the lanes that are left out. */
LANES_INLINE lanes lanes_load_part(const float *p, size_t n, float fill) {
    return _mm512_mask_loadu_ps(_mm512_set1_ps(fill), (__mmask16)((1u << n) - 1), p);
}
LANES_INLINE void lanes_store_part(float *p, lanes a, size_t n) {
    _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), a);
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
LANES_INLINE lanes lanes_scale_by_power(lanes x, lanes n) {
    return _mm512_scalef_ps(x, n);
}
LANES_INLINE float lanes_maximum(lanes a) {
    a = _mm512_max_ps(a, _mm512_shuffle_f32x4(a, a, 0x4E));
    a = _mm512_max_ps(a, _mm512_shuffle_f32x4(a, a, 0xB1));
    a = _mm512_max_ps(a, _mm512_permute_ps(a, 0x4E));
    a = _mm512_max_ps(a, _mm512_permute_ps(a, 0xB1));
    return _mm512_cvtss_f32(a);
}
LANES_INLINE lanes lanes_bfloat_low(const void *line) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_loadu_si512(line), 16));
}
LANES_INLINE lanes lanes_bfloat_high(const void *line) {
    return _mm512_castsi512_ps(
        _mm512_and_si512(_mm512_loadu_si512(line), _mm512_set1_epi32((int)0xFFFF0000u)));
}

#endif
