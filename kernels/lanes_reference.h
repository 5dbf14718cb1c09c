/* Lanes in plain C: the definition of every operation. The other lanes_*.h files give the same bits
 * with the registers of their instruction set. Included by lanes.h, which defines LANES and
 * LANES_INLINE before it. */
#ifndef LANES_REFERENCE_H
#define LANES_REFERENCE_H

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
/* 16 float16 numbers, widened. */
LANES_INLINE lanes lanes_load_half(const uint16_t *p) {
    LANES_EACH(lanes, numbers_half_to_float(p[i]));
}
/* A 64-byte line of bfloat16 holds two numbers for each lane, interleaved: the first ones, widened,
 * and the second ones. */
LANES_INLINE lanes lanes_bfloat_low(const void *line) {
    LANES_EACH(lanes, bfloat_to_float(((const uint16_t *)line)[2 * i]));
}
LANES_INLINE lanes lanes_bfloat_high(const void *line) {
    LANES_EACH(lanes, bfloat_to_float(((const uint16_t *)line)[2 * i + 1]));
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
/* x * y + z, rounded once. */
LANES_INLINE lanes lanes_fma(lanes x, lanes y, lanes z) {
    LANES_EACH(lanes, fmaf(x.v[i], y.v[i], z.v[i]));
}
/* x > y ? x : y, hence y where either is NaN. */
LANES_INLINE lanes lanes_max(lanes x, lanes y) {
    LANES_EACH(lanes, x.v[i] > y.v[i] ? x.v[i] : y.v[i]);
}
/* x < y ? x : y, hence y where either is NaN. */
LANES_INLINE lanes lanes_min(lanes x, lanes y) {
    LANES_EACH(lanes, x.v[i] < y.v[i] ? x.v[i] : y.v[i]);
}
LANES_INLINE lanes lanes_abs(lanes x) {
    LANES_EACH(lanes, fabsf(x.v[i]));
}
LANES_INLINE lanes_mask lanes_less(lanes x, lanes y) {
    LANES_EACH(lanes_mask, x.v[i] < y.v[i]);
}
/* In each lane `yes` where the mask is set, else `no`. */
LANES_INLINE lanes lanes_select(lanes_mask m, lanes yes, lanes no) {
    LANES_EACH(lanes, m.v[i] ? yes.v[i] : no.v[i]);
}
/* x * 2^n for whole n, -126 <= n <= 127. Where x and n are NaN the result is NaN: the factor 0 that
 * stands for such an n only avoids an undefined conversion to an integer. */
LANES_INLINE lanes lanes_scale_by_power(lanes x, lanes n) {
    LANES_EACH(lanes, x.v[i] * (fabsf(n.v[i]) < 128.0f
                                    ? float_from_bits((uint32_t)((int32_t)n.v[i] + 127) << 23)
                                    : 0.0f));
}
/* The largest lane, found by halves: lanes_max of 8 and 8, then 4 and 4, 2 and 2, 1 and 1. */
LANES_INLINE float lanes_maximum(lanes a) {
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++) a.v[i] = a.v[i] > a.v[i + half] ? a.v[i] : a.v[i + half];
    return a.v[0];
}

#endif
