#include "core/numeric.h"

#include "kernels/lanes.h"

/* Loops over x[n] in steps of 16 elements; the last step may have fewer. */
#define EACH_LANES(i, n) for (size_t i = 0; i < (n); i += LANES)

static void rms_norm(float *out, const float *x, const float *weight, size_t n, float eps) {
    lanes squares = lanes_zero();
    EACH_LANES(i, n) {
        lanes v = lanes_load_upto(x + i, n - i, 0.0f);
        squares = lanes_fma(v, v, squares);
    }
    lanes inverse = lanes_set(1.0f / sqrtf(lanes_sum(squares) / (float)n + eps));
    EACH_LANES(i, n) {
        lanes v = lanes_mul(lanes_load_upto(x + i, n - i, 0.0f), inverse);
        if (weight) v = lanes_mul(v, lanes_load_upto(weight + i, n - i, 0.0f));
        lanes_store_upto(out + i, v, n - i);
    }
}

/* Computes out = (x - mean) / sqrt(variance + eps) * weight + bias; weight and bias may be NULL. */
static void layer_norm(float *out, const float *x, const float *weight, const float *bias, size_t n,
                       float eps) {
    lanes sum = lanes_zero();
    EACH_LANES(i, n) {
        sum = lanes_add(sum, lanes_load_upto(x + i, n - i, 0.0f));
    }
    float mean = lanes_sum(sum) / (float)n;
    lanes means = lanes_set(mean), squares = lanes_zero();
    EACH_LANES(i, n) {
        lanes v = lanes_sub(lanes_load_upto(x + i, n - i, mean), means);
        squares = lanes_fma(v, v, squares);
    }
    lanes inverse = lanes_set(1.0f / sqrtf(lanes_sum(squares) / (float)n + eps));
    EACH_LANES(i, n) {
        lanes v = lanes_mul(lanes_sub(lanes_load_upto(x + i, n - i, mean), means), inverse);
        if (weight) v = lanes_mul(v, lanes_load_upto(weight + i, n - i, 0.0f));
        if (bias) v = lanes_add(v, lanes_load_upto(bias + i, n - i, 0.0f));
        lanes_store_upto(out + i, v, n - i);
    }
}

/* 1 / (1 + exp(-x)) */
static inline lanes sigmoid(lanes x) {
    lanes one = lanes_set(1.0f);
    return lanes_div(one, lanes_add(one, lanes_exp(lanes_sub(lanes_zero(), x))));
}

/* tanh(x) = 1 - 2 / (exp(2x) + 1); near 0, where that would cancel, an odd polynomial. */
static inline lanes lanes_tanh(lanes x) {
    lanes a = lanes_abs(x), one = lanes_set(1.0f);
    lanes e = lanes_exp(lanes_add(a, a));
    lanes far = lanes_sub(one, lanes_div(lanes_set(2.0f), lanes_add(e, one)));
    far = lanes_select(lanes_less(x, lanes_zero()), lanes_sub(lanes_zero(), far), far);
    lanes s = lanes_mul(x, x);
    lanes p = lanes_set(-929569.0f / 638512875.0f);
    p = lanes_fma(p, s, lanes_set(21844.0f / 6081075.0f));
    p = lanes_fma(p, s, lanes_set(-1382.0f / 155925.0f));
    p = lanes_fma(p, s, lanes_set(62.0f / 2835.0f));
    p = lanes_fma(p, s, lanes_set(-17.0f / 315.0f));
    p = lanes_fma(p, s, lanes_set(2.0f / 15.0f));
    p = lanes_fma(p, s, lanes_set(-1.0f / 3.0f));
    lanes near = lanes_fma(lanes_mul(p, s), x, x);
    return lanes_select(lanes_less(a, lanes_set(0.5f)), near, far);
}

/* The standard normal distribution function, Phi(x) = erfc(-x / sqrt 2) / 2, with erfc as t times
 * the exponential of a polynomial in t = 1 / (1 + z / 2) (Numerical Recipes' erfcc). Its relative
 * error is below 1.2e-7; rounding of the exponent to float32 raises it to 1.4e-6. */
static inline lanes normal_distribution(lanes x) {
    lanes z = lanes_mul(lanes_abs(x), lanes_set(0.707106781f));
    lanes t = lanes_div(lanes_set(1.0f), lanes_fma(z, lanes_set(0.5f), lanes_set(1.0f)));
    static const float coefficient[] = {0.17087277f, -0.82215223f, 1.48851587f, -1.13520398f,
                                        0.27886807f, -0.18628806f, 0.09678418f, 0.37409196f,
                                        1.00002368f, -1.26551223f};
    lanes p = lanes_set(coefficient[0]);
    for (int i = 1; i < 10; i++) p = lanes_fma(p, t, lanes_set(coefficient[i]));
    lanes tail = lanes_mul(t, lanes_exp(lanes_fma(lanes_sub(lanes_zero(), z), z, p)));
    lanes half = lanes_mul(tail, lanes_set(0.5f));
    return lanes_select(lanes_less(x, lanes_zero()), half, lanes_sub(lanes_set(1.0f), half));
}

/* log(1 + exp(x)) = max(x, 0) + log(1 + u), u = exp(-|x|), and log(1 + u) = 2 artanh(u / (2 + u))
 * by its series, which ends when its terms are below 1e-8. In this order of max NaN stays NaN. */
static inline lanes softplus(lanes x) {
    lanes u = lanes_exp(lanes_sub(lanes_zero(), lanes_abs(x)));
    lanes s = lanes_div(u, lanes_add(u, lanes_set(2.0f))), square = lanes_mul(s, s);
    lanes p = lanes_set(1.0f / 15.0f);
    for (int k = 13; k > 0; k -= 2) p = lanes_fma(p, square, lanes_set(1.0f / (float)k));
    return lanes_fma(lanes_add(s, s), p, lanes_max(lanes_zero(), x));
}

/* Applies the activation function to each lane; ReLU for any kind that has no case here. */
static inline lanes activated(Activation kind, lanes x) {
    switch (kind) {
    case ACTIVATION_SILU:
        return lanes_mul(x, sigmoid(x));
    case ACTIVATION_GELU:
        return lanes_mul(x, normal_distribution(x));
    case ACTIVATION_GELU_TANH: {
        /* x (1 + tanh u) / 2 = x sigmoid(2u), u = sqrt(2 / pi) (x + 0.044715 x^3) */
        lanes cubic = lanes_fma(lanes_mul(lanes_mul(x, x), x), lanes_set(0.044715f), x);
        return lanes_mul(x, sigmoid(lanes_mul(cubic, lanes_set(1.59576912f))));
    }
    case ACTIVATION_GELU_QUICK:
        return lanes_mul(x, sigmoid(lanes_mul(x, lanes_set(1.702f))));
    case ACTIVATION_SIGMOID:
        return sigmoid(x);
    case ACTIVATION_SOFTPLUS:
        return softplus(x);
    case ACTIVATION_RELU2:
        x = lanes_max(lanes_zero(), x);
        return lanes_mul(x, x);
    default:
        return lanes_max(lanes_zero(), x); /* in this order NaN stays NaN */
    }
}

static void activate(Activation kind, float *x, const float *up, size_t n) {
    EACH_LANES(i, n) {
        lanes v = activated(kind, lanes_load_upto(x + i, n - i, 0.0f));
        if (up) v = lanes_mul(v, lanes_load_upto(up + i, n - i, 0.0f));
        lanes_store_upto(x + i, v, n - i);
    }
}

/* xIELU, whose formula and parameters numeric.h has: `above` for x > 0, `below` for the others. */
static void xielu(float *x, const float p[4], size_t n) {
    EACH_LANES(i, n) {
        lanes v = lanes_load_upto(x + i, n - i, 0.0f), one = lanes_set(1.0f);
        lanes linear = lanes_mul(v, lanes_set(p[2]));
        lanes above = lanes_fma(lanes_mul(v, lanes_set(p[0])), v, linear);
        lanes curve = lanes_sub(lanes_exp(lanes_min(v, lanes_set(p[3]))), one);
        lanes below = lanes_fma(lanes_sub(curve, v), lanes_set(p[1]), linear);
        lanes_store_upto(x + i, lanes_select(lanes_less(lanes_zero(), v), above, below), n - i);
    }
}

static void round_row(float *x, size_t n) {
    float max = 1e-5f;
    for (size_t i = 0; i < n; i++) max = fabsf(x[i]) > max ? fabsf(x[i]) : max;
    float scale = 127.0f / max;
    for (size_t i = 0; i < n; i++) x[i] = rintf(x[i] * scale) / scale;
}

static void add_scaled(float *x, const float *y, float factor, size_t n) {
    EACH_LANES(i, n) {
        lanes sum = lanes_fma(lanes_load_upto(y + i, n - i, 0.0f), lanes_set(factor),
                              lanes_load_upto(x + i, n - i, 0.0f));
        lanes_store_upto(x + i, sum, n - i);
    }
}

static void scale(float *x, float factor, size_t n) {
    EACH_LANES(i, n) {
        lanes_store_upto(x + i, lanes_mul(lanes_load_upto(x + i, n - i, 0.0f), lanes_set(factor)),
                         n - i);
    }
}

static void softcap(float *x, float cap, size_t n) {
    EACH_LANES(i, n) {
        lanes v = lanes_div(lanes_load_upto(x + i, n - i, 0.0f), lanes_set(cap));
        lanes_store_upto(x + i, lanes_mul(lanes_tanh(v), lanes_set(cap)), n - i);
    }
}

static float softmax_sum(float *x, float max, size_t n) {
    lanes sum = lanes_zero();
    EACH_LANES(i, n) {
        lanes e = lanes_exp(lanes_sub(lanes_load_upto(x + i, n - i, -INFINITY), lanes_set(max)));
        sum = lanes_add(sum, e);
        lanes_store_upto(x + i, e, n - i);
    }
    return lanes_sum(sum);
}

static float maximum(const float *x, size_t n) {
    lanes m = lanes_set(-INFINITY);
    EACH_LANES(i, n) {
        m = lanes_max(lanes_load_upto(x + i, n - i, -INFINITY), m);
    }
    return lanes_maximum(m);
}

/* x * 0 is 0 for finite x and NaN otherwise, and NaN spreads through sums. */
static bool all_finite(const float *x, size_t n) {
    lanes sum = lanes_zero();
    EACH_LANES(i, n) {
        sum = lanes_fma(lanes_load_upto(x + i, n - i, 0.0f), lanes_zero(), sum);
    }
    return lanes_sum(sum) == 0.0f;
}

static inline void rotate_pair(float *a, float *b, float cosine, float sine) {
    float first = *a, second = *b;
    *a = fmaf(first, cosine, -(second * sine));
    *b = fmaf(second, cosine, first * sine);
}

/* A loop for each way to pair, because the compiler makes vectors of constant steps alone. */
static void rotate(float *restrict x, const float *restrict cosine, const float *restrict sine,
                   size_t n, bool interleaved) {
    if (interleaved)
        for (size_t i = 0; i < n; i++) rotate_pair(x + 2 * i, x + 2 * i + 1, cosine[i], sine[i]);
    else
        for (size_t i = 0; i < n; i++) rotate_pair(x + i, x + n + i, cosine[i], sine[i]);
}

const Numeric FOR_ISA(numeric) = {
    .rms_norm = rms_norm,
    .layer_norm = layer_norm,
    .activate = activate,
    .xielu = xielu,
    .round_row = round_row,
    .add_scaled = add_scaled,
    .scale = scale,
    .softcap = softcap,
    .softmax_sum = softmax_sum,
    .maximum = maximum,
    .all_finite = all_finite,
    .rotate = rotate,
};
