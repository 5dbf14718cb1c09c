#include "convert/quantize.h"

#include "base/numbers.h"
#include "convert/quantize_lanes.h"
#include "kernels/tensor.h"

/* ---- Types with one scale a group (kernels/tensor.h, and q5_0 and q5_1 of superblocks.h) ---- */

enum { MAX_GROUP = 64 };

typedef struct Group {
    size_t n;
    float x[MAX_GROUP], weight[MAX_GROUP];
    float low, high; /* the smallest and the largest code */
} Group;

typedef struct Best {
    float error; /* weighted, squared */
    uint16_t scale, minimum;
    float q[MAX_GROUP];
} Best;

/* The nearest codes q for x ~ scale * q - minimum, where inverse is 1 / scale. */
static inline void quantize_encode(const Group *g, float inverse, float minimum, float *q) {
    for (size_t i = 0; i < g->n; i++)
        q[i] = round_even(clamp((g->x[i] + minimum) * inverse, g->low, g->high));
}

/* Rounds scale and minimum to f16, codes the group with them, and keeps the result when it is the
 * best so far. */
static inline void attempt(const Group *g, float scale, float minimum, Best *best) {
    float q[MAX_GROUP];
    uint16_t half = numbers_float_to_half(scale), half_minimum = numbers_float_to_half(minimum);
    float stored = numbers_half_to_float(half);
    if (stored == 0.0f || !isfinite(1.0f / stored)) return;
    minimum = numbers_half_to_float(half_minimum);
    quantize_encode(g, 1.0f / stored, minimum, q);
    float error = weighted_error(g->x, g->weight, g->n, stored, minimum, q);
    if (!(error < best->error)) return;
    best->error = error;
    best->scale = half;
    best->minimum = half_minimum;
    for (size_t i = 0; i < g->n; i++) best->q[i] = q[i];
}

/* Searches the scale of codes around zero. For given codes q least squares give the scale
 * sum(w x q) / sum(w q^2), which reduces the error by sum(w x q)^2 / sum(w q^2): the codes where
 * that is largest win. The scales tried put the extreme weight at codes around `reach`. */
FOR_EACH_ISA static void search_symmetric(const Group *g, float extreme, float reach, int steps,
                                          float step, Best *best) {
    float best_gain = 0.0f, best_scale = extreme / reach;
    for (int k = -steps; k <= steps; k++) {
        float inverse = (reach + step * (float)k) / extreme, xq[LANES] = {0}, qq[LANES] = {0};
        if (!isfinite(inverse)) continue;
        for (size_t i = 0; i < g->n; i += LANES) {
            for (size_t l = 0; l < LANES; l++) {
                float x = g->x[i + l], q = round_even(clamp(x * inverse, g->low, g->high));
                float wq = g->weight[i + l] * q;
                xq[l] += wq * x;
                qq[l] += wq * q;
            }
        }
        float top = fold(xq), bottom = fold(qq);
        if (!(bottom > 0.0f) || !(top * (top / bottom) > best_gain)) continue;
        best_gain = top * (top / bottom);
        best_scale = top / bottom;
    }
    attempt(g, best_scale, 0.0f, best);
    attempt(g, extreme / reach, 0.0f, best);
}

/* The scale and minimum that suit fixed codes best: a line fitted by least squares. */
static inline void best_line(const Group *g, const float *q, float *scale, float *minimum) {
    const LineSums s = line_sums(g->x, g->weight, g->n, q);
    float determinant = s.w * s.wqq - s.wq * s.wq;
    if (!(determinant > 0.0f)) return;
    *scale = (s.w * s.wxq - s.wx * s.wq) / determinant;
    *minimum = (s.wq * s.wxq - s.wqq * s.wx) / determinant;
}

/* Searches for the scale and minimum that fit a group best, with codes from 0 to g->high. */
FOR_EACH_ISA static void search_line(const Group *g, int steps, Best *best) {
    float low = 0.0f, high = 0.0f, q[MAX_GROUP];
    for (size_t i = 0; i < g->n; i++) {
        low = g->x[i] < low ? g->x[i] : low;
        high = g->x[i] > high ? g->x[i] : high;
    }
    if (high == low) return;
    for (int k = -steps; k <= steps; k++) {
        float inverse = (g->high + 0.1f * (float)k) / (high - low);
        float scale = 1.0f / inverse, minimum = -low;
        if (!isfinite(inverse) || !isfinite(scale)) continue;
        quantize_encode(g, inverse, minimum, q);
        best_line(g, q, &scale, &minimum);
        attempt(g, scale, minimum, best);
    }
    attempt(g, (high - low) / g->high, -low, best);
}

/* The weight of the largest magnitude, with its sign. */
static float extreme_of(const Group *g) {
    float extreme = 0.0f;
    for (size_t i = 0; i < g->n; i++)
        if (fabsf(g->x[i]) > fabsf(extreme)) extreme = g->x[i];
    return extreme;
}

/* Sets the weights of the squared errors: the activations' importance if it is known (calibration),
 * else 1 + x^2 / mean(x^2). */
static void set_weights(Group *g, const float *importance) {
    float unit = inverse_mean_square(g->x, g->n);
    for (size_t i = 0; i < g->n; i++)
        g->weight[i] = importance ? importance[i] : 1.0f + g->x[i] * g->x[i] * unit;
}

/* Finds the codes, the scale and (for types that have one) the minimum of a group with the smallest
 * weighted error. More candidates are tried for types of fewer bits. Best.error stays infinite
 * where all weights are 0. */
static void quantize_group(TensorType type, Group *g, const float *importance, Best *best) {
    const TensorTypeInfo *info = tensor_type_info(type);
    *best = (Best){.error = INFINITY};
    float extreme = extreme_of(g);
    set_weights(g, importance);
    if (extreme == 0.0f) return;
    const float codes = (float)(1u << info->bits), zero = info->zero;
    if (info->has_min) {
        g->low = 0.0f, g->high = codes - 1.0f;
        search_line(g, info->bits == 8 ? 2 : 14, best);
    } else if (zero > 0.0f) {
        g->low = -zero, g->high = codes - 1.0f - zero;
        search_symmetric(g, extreme, g->low, 7, 0.125f, best);
        search_symmetric(g, extreme, g->high, 7, 0.125f, best);
    } else {
        g->low = -127.0f, g->high = 127.0f;
        search_symmetric(g, fabsf(extreme), 126.5f, 2, 0.25f, best);
    }
}

void quantize_row(TensorType type, size_t padded_cols, const float *x, const float *importance,
                  uint8_t *codes, uint16_t *scales, uint16_t *minima) {
    Group g = {.n = tensor_type_info(type)->group};
    Best best;
    for (size_t at = 0, k = 0; at < padded_cols; at += g.n, k++) {
        for (size_t i = 0; i < g.n; i++) g.x[i] = x[at + i];
        quantize_group(type, &g, importance ? importance + at : NULL, &best);
        scales[k] = best.scale;
        if (minima) minima[k] = best.minimum;
        float zero = (float)weight_types[type].zero;
        for (size_t i = 0; i < g.n; i++) codes[at + i] = (uint8_t)(int)(best.q[i] + zero);
    }
}
