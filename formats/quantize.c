#include "quantize.h"

#include <math.h>

#include "../numeric.h"

enum { MAX_GROUP = 64 };

typedef struct Group {
    size_t n;
    float x[MAX_GROUP], weight[MAX_GROUP];
    float low, high; /* the smallest and the largest code */
} Group;

/* Round to nearest even, for |x| < 2^22. */
static inline float round_even(float x) {
    return (x + 12582912.0f) - 12582912.0f;
}

static inline float clamp(float x, float low, float high) {
    return x < low ? low : x > high ? high : x;
}

/* Codes of the group for x ~ scale * q - minimum. */
static void encode(const Group *g, float inverse, float minimum, float *q) {
    for (size_t i = 0; i < g->n; i++)
        q[i] = round_even(clamp((g->x[i] + minimum) * inverse, g->low, g->high));
}

static float error_of(const Group *g, float scale, float minimum, const float *q) {
    float sum[8] = {0};
    for (size_t i = 0; i < g->n; i++) {
        float d = g->x[i] - (scale * q[i] - minimum);
        sum[i % 8] += g->weight[i] * d * d;
    }
    return ((sum[0] + sum[4]) + (sum[1] + sum[5])) + ((sum[2] + sum[6]) + (sum[3] + sum[7]));
}

/* The scale that least squares give for fixed codes. */
static float best_scale(const Group *g, const float *q) {
    float xq[8] = {0}, qq[8] = {0}, top = 0.0f, bottom = 0.0f;
    for (size_t i = 0; i < g->n; i++) {
        xq[i % 8] += g->weight[i] * g->x[i] * q[i];
        qq[i % 8] += g->weight[i] * q[i] * q[i];
    }
    for (size_t i = 0; i < 8; i++) top += xq[i], bottom += qq[i];
    return bottom > 0.0f ? top / bottom : 0.0f;
}

/* Scale and minimum for fixed codes: a line fitted by least squares. */
static void best_line(const Group *g, const float *q, float *scale, float *minimum) {
    float w = 0, wq = 0, wqq = 0, wx = 0, wxq = 0;
    for (size_t i = 0; i < g->n; i++) {
        float weight = g->weight[i];
        w += weight;
        wq += weight * q[i];
        wqq += weight * q[i] * q[i];
        wx += weight * g->x[i];
        wxq += weight * g->x[i] * q[i];
    }
    float determinant = w * wqq - wq * wq;
    if (!(determinant > 0.0f)) return;
    *scale = (w * wxq - wx * wq) / determinant;
    *minimum = (wq * wxq - wqq * wx) / determinant;
}

typedef struct Best {
    float error;
    uint16_t scale, minimum;
    float q[MAX_GROUP];
} Best;

/* Rounds scale and minimum to f16, codes the group with them, and keeps it when it is the best
 * so far. Returns the rounded codes' error. */
static void attempt(const Group *g, float scale, float minimum, float *q, Best *best) {
    uint16_t half = float_to_half(scale), half_minimum = float_to_half(minimum);
    float stored = half_to_float(half);
    if (stored == 0.0f || !isfinite(1.0f / stored)) return;
    minimum = half_to_float(half_minimum);
    encode(g, 1.0f / stored, minimum, q);
    float error = error_of(g, stored, minimum, q);
    if (!(error < best->error)) return;
    best->error = error;
    best->scale = half;
    best->minimum = half_minimum;
    for (size_t i = 0; i < g->n; i++) best->q[i] = q[i];
}

/* Codes around zero. `reach` is the code that the largest weight gets, before and around which
 * the search goes. */
static void search_symmetric(const Group *g, float extreme, float reach, int steps, float step,
                             Best *best) {
    float q[MAX_GROUP];
    for (int k = -steps; k <= steps; k++) {
        float inverse = (reach + step * (float)k) / extreme;
        if (!isfinite(inverse) || inverse == 0.0f) continue;
        encode(g, inverse, 0.0f, q);
        attempt(g, best_scale(g, q), 0.0f, q, best);
    }
    attempt(g, extreme / reach, 0.0f, q, best);
}

/* Codes from zero with a minimum. */
static void search_line(const Group *g, int steps, Best *best) {
    float low = 0.0f, high = 0.0f, q[MAX_GROUP];
    for (size_t i = 0; i < g->n; i++) {
        low = g->x[i] < low ? g->x[i] : low;
        high = g->x[i] > high ? g->x[i] : high;
    }
    if (high == low) return;
    for (int k = 0; k <= steps; k++) {
        float inverse = (g->high - 0.5f + 0.1f * (float)k) / (high - low);
        float scale = 1.0f / inverse, minimum = -low;
        if (!isfinite(inverse) || !isfinite(scale)) continue;
        encode(g, inverse, minimum, q);
        best_line(g, q, &scale, &minimum);
        attempt(g, scale, minimum, q, best);
    }
    attempt(g, (high - low) / g->high, -low, q, best);
}

static float extreme_of(const Group *g) {
    float extreme = 0.0f;
    for (size_t i = 0; i < g->n; i++)
        if (fabsf(g->x[i]) > fabsf(extreme)) extreme = g->x[i];
    return extreme;
}

static void weigh(Group *g) {
    float squares = 0.0f;
    for (size_t i = 0; i < g->n; i++) squares += g->x[i] * g->x[i];
    float mean = squares / (float)g->n;
    /* Relative, so that groups of tiny weights do not underflow. */
    float unit = mean > 0.0f && isfinite(1.0f / mean) ? 1.0f / mean : 1.0f;
    for (size_t i = 0; i < g->n; i++) g->weight[i] = 1.0f + g->x[i] * g->x[i] * unit;
}

static void quantize_group(TensorType type, Group *g, Best *best) {
    *best = (Best){.error = INFINITY};
    float extreme = extreme_of(g);
    weigh(g);
    switch (type) {
    case TENSOR_Q4:
        g->low = -8.0f, g->high = 7.0f;
        if (extreme == 0.0f) break;
        search_symmetric(g, extreme, -8.0f, 9, 0.1f, best);
        search_symmetric(g, extreme, 7.0f, 9, 0.1f, best);
        break;
    case TENSOR_Q4_MIN:
        g->low = 0.0f, g->high = 15.0f;
        search_line(g, 14, best);
        break;
    case TENSOR_Q8_MIN:
        g->low = 0.0f, g->high = 255.0f;
        search_line(g, 2, best);
        break;
    default:
        g->low = -127.0f, g->high = 127.0f;
        if (extreme == 0.0f) break;
        search_symmetric(g, fabsf(extreme), 126.5f, 2, 0.25f, best);
        break;
    }
}

void quantize_row(TensorType type, size_t padded_cols, const float *x, uint8_t *codes,
                  uint16_t *scales, uint16_t *minima) {
    Group g = {.n = tensor_type_info(type)->group};
    Best best;
    for (size_t at = 0, k = 0; at < padded_cols; at += g.n, k++) {
        for (size_t i = 0; i < g.n; i++) g.x[i] = x[at + i];
        quantize_group(type, &g, &best);
        scales[k] = best.scale;
        if (minima) minima[k] = best.minimum;
        float zero = type == TENSOR_Q4 ? 8.0f : 0.0f;
        for (size_t i = 0; i < g.n; i++) codes[at + i] = (uint8_t)(int)(best.q[i] + zero);
    }
}
