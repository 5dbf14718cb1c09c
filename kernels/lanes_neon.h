/* Lanes in four NEON registers. lanes_reference.h says what each operation does. */
#ifndef LANES_NEON_H
#define LANES_NEON_H

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
/* Compare and select instead of vmaxq, which treats NaN and signed zeros differently. */
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

#endif
