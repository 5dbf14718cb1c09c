#include "layers/state/recurrence.h"

#include "kernels/lanes.h"

static inline lanes sigmoid(lanes x) {
    lanes one = lanes_set(1.0f);
    return lanes_div(one, lanes_add(one, lanes_exp(lanes_sub(lanes_zero(), x))));
}

/* ---- Convolution ---- */

/* Channels that go through all rows together: their weights stay in the first-level cache. */
enum { CONVOLUTION_TILE = 512 };

/* Convolves one row of n channels. in[j] is the row that weight[j * channels] multiplies; in[kernel
 * - 1] is x itself. `ahead` is prefetched. */
LANES_INLINE void convolve_row(const Convolution *c, size_t kernel, const float *weight,
                               const float *bias, const float *const *in, const float *ahead,
                               float *x, size_t n) {
    size_t channels = c->channels;
    bool silu = c->silu;
    for (size_t at = 0; at < n; at += LANES) {
        size_t left = n - at;
        lanes y = bias ? lanes_load_upto(bias + at, left, 0.0f) : lanes_zero();
        for (size_t j = 0; j < kernel; j++)
            y = lanes_fma(lanes_load_upto(weight + j * channels + at, left, 0.0f),
                          lanes_load_upto(in[j] + at, left, 0.0f), y);
        __builtin_prefetch(ahead + at);
        lanes_store_upto(x + at, silu ? lanes_mul(y, sigmoid(y)) : y, left);
    }
}

/* Convolves n <= CONVOLUTION_TILE channels from `at` on. A row needs the inputs of those before it,
 * so the outputs replace the inputs from the last row to the first. */
static void convolve_tile(const Convolution *c, float *state, float *x, size_t stride,
                          size_t n_rows, size_t at, size_t n) {
    const float *in[CONVOLUTION_MAX_KERNEL];
    float newest[CONVOLUTION_MAX_KERNEL - 1][CONVOLUTION_TILE];
    const float *weight = c->weight + at, *bias = c->bias ? c->bias + at : NULL;
    size_t kernel = c->kernel, before = kernel - 1;
    x += at;
    state += at;
    /* Input number i counts from the oldest of the state. */
#define INPUT(i) ((i) < before ? state + (i)*c->channels : x + ((i)-before) * stride)
    for (size_t j = 0; j < before; j++) memcpy(newest[j], INPUT(n_rows + j), n * sizeof *newest[j]);
    for (size_t row = n_rows; row-- > 0;) {
        for (size_t j = 0; j < kernel; j++) in[j] = INPUT(row + j);
        const float *ahead = row > before ? x + (row - kernel) * stride : x;
        if (kernel == 4) {
            convolve_row(c, 4, weight, bias, in, ahead, x + row * stride, n);
        } else {
            convolve_row(c, kernel, weight, bias, in, ahead, x + row * stride, n);
        }
    }
#undef INPUT
    for (size_t j = 0; j < before; j++)
        memcpy(state + j * c->channels, newest[j], n * sizeof *newest[j]);
}

/* Prefetches weights and state of LANES channels from `at` on. */
LANES_INLINE void fetch_taps(const Convolution *c, size_t kernel, const float *state, size_t at) {
    for (size_t j = 0; j < kernel; j++) __builtin_prefetch(c->weight + j * c->channels + at);
    for (size_t j = 0; j + 1 < kernel; j++) __builtin_prefetch(state + j * c->channels + at);
}

/* Convolves the channels of a single row, which takes as long as reading their weights and state.
 */
LANES_INLINE void convolve_alone(const Convolution *c, size_t kernel, float *state, float *x,
                                 size_t begin, size_t end) {
    enum { CHANNELS_AHEAD = 16 * LANES };
    const size_t channels = c->channels, before = kernel - 1;
    for (size_t at = begin; at < end && at < begin + CHANNELS_AHEAD; at += LANES)
        fetch_taps(c, kernel, state, at);
    for (size_t at = begin; at < end; at += LANES) {
        size_t left = end - at;
        const float *weight = c->weight + at;
        float *taps = state + at;
        if (left > CHANNELS_AHEAD) fetch_taps(c, kernel, state, at + CHANNELS_AHEAD);
        lanes newest = lanes_load_upto(x + at, left, 0.0f);
        lanes y = c->bias ? lanes_load_upto(c->bias + at, left, 0.0f) : lanes_zero();
        for (size_t j = 0; j < before; j++) {
            lanes tap = lanes_load_upto(taps + j * channels, left, 0.0f);
            y = lanes_fma(lanes_load_upto(weight + j * channels, left, 0.0f), tap, y);
            if (j > 0) lanes_store_upto(taps + (j - 1) * channels, tap, left);
        }
        y = lanes_fma(lanes_load_upto(weight + before * channels, left, 0.0f), newest, y);
        if (before > 0) lanes_store_upto(taps + (before - 1) * channels, newest, left);
        lanes_store_upto(x + at, c->silu ? lanes_mul(y, sigmoid(y)) : y, left);
    }
}

static void convolve(const Convolution *c, float *state, float *x, size_t stride, size_t n_rows,
                     size_t begin, size_t end) {
    if (n_rows == 1 && c->kernel == 4) {
        convolve_alone(c, 4, state, x, begin, end);
        return;
    }
    if (n_rows == 1) {
        convolve_alone(c, c->kernel, state, x, begin, end);
        return;
    }
    for (size_t at = begin; at < end; at += CONVOLUTION_TILE)
        convolve_tile(c, state, x, stride, n_rows, at,
                      end - at < CONVOLUTION_TILE ? end - at : CONVOLUTION_TILE);
}

/* ---- Linear recurrence ---- */

/* sums[b] = k (S * decay) of each block of columns, for the first row. by_key: there is a decay for
 * each element of the key. keep: S becomes S * decay. */
LANES_INLINE void recall(const RecurrentHead *h, size_t n_blocks, bool by_key, bool keep,
                         lanes *sums) {
    const float *k = h->k, *decay = h->decay;
    float *state = h->state;
    size_t key_dim = h->key_dim;
    lanes factor = lanes_set(decay[0]);
    for (size_t b = 0; b < n_blocks; b++) sums[b] = lanes_zero();
    for (size_t i = 0; i < key_dim; i++) {
        lanes key = lanes_set(k[i]);
        if (by_key) factor = lanes_set(decay[i]);
        for (size_t b = 0; b < n_blocks; b++) {
            float *p = state + (b * key_dim + i) * LANES;
            lanes s = lanes_mul(lanes_load(p), factor);
            sums[b] = lanes_fma(s, key, sums[b]);
            if (keep) lanes_store(p, s);
        }
    }
}

/* Takes one row into the state: what[b] is u of each block, which becomes the output. Where there
 * is a next row, sums[b] becomes what `recall` would give for it, and the state is left as `recall`
 * would leave it: multiplied by the decay of the next row. decayed: the state was left so. */
LANES_INLINE void take_row(const RecurrentHead *h, size_t n_blocks, size_t row, bool by_key,
                           bool decayed, bool next, lanes *what, lanes *sums) {
    const float *q = h->q + row * h->qk_stride, *k = h->k + row * h->qk_stride;
    const float *decay = h->decay + row * h->decay_stride;
    const float *next_k = k + (next ? h->qk_stride : 0);
    const float *next_decay = decay + (next ? h->decay_stride : 0);
    float *state = h->state;
    size_t key_dim = h->key_dim;
    lanes outs[RECURRENT_COLUMNS / LANES];
    lanes factor = lanes_set(decay[0]), next_factor = lanes_set(next_decay[0]);
    for (size_t b = 0; b < n_blocks; b++) outs[b] = sums[b] = lanes_zero();
    for (size_t i = 0; i < key_dim; i++) {
        lanes key = lanes_set(k[i]), query = lanes_set(q[i]), next_key = lanes_set(next_k[i]);
        if (by_key) factor = lanes_set(decay[i]), next_factor = lanes_set(next_decay[i]);
        for (size_t b = 0; b < n_blocks; b++) {
            float *p = state + (b * key_dim + i) * LANES;
            lanes s = lanes_load(p);
            s = lanes_fma(key, what[b], decayed ? s : lanes_mul(s, factor));
            outs[b] = lanes_fma(s, query, outs[b]);
            if (next) s = lanes_mul(s, next_factor);
            if (next) sums[b] = lanes_fma(s, next_key, sums[b]);
            lanes_store(p, s);
        }
    }
    for (size_t b = 0; b < n_blocks; b++) what[b] = outs[b];
}

/* Runs all rows of a head through its state. n_blocks, delta and by_key are constants of the
 * caller. */
LANES_INLINE void run_rows(const RecurrentHead *h, size_t n_blocks, bool delta, bool by_key) {
    lanes sums[RECURRENT_COLUMNS / LANES], what[RECURRENT_COLUMNS / LANES];
    lanes values[RECURRENT_COLUMNS / LANES];
    bool decayed = delta && h->n_rows > 1; /* a single row does not store the decayed state */
    if (decayed) {
        recall(h, n_blocks, by_key, true, sums);
    } else if (delta) {
        recall(h, n_blocks, by_key, false, sums);
    }
    for (size_t row = 0; row < h->n_rows; row++) {
        lanes beta = lanes_set(h->beta[row * h->beta_stride]);
        for (size_t b = 0; b < n_blocks; b++) {
            size_t left = h->n_columns - b * LANES;
            values[b] = lanes_load_upto(h->v + row * h->v_stride + b * LANES, left, 0.0f);
            what[b] = lanes_mul(delta ? lanes_sub(values[b], sums[b]) : values[b], beta);
        }
        if (decayed && row + 1 < h->n_rows) {
            take_row(h, n_blocks, row, by_key, true, true, what, sums);
        } else if (decayed) {
            take_row(h, n_blocks, row, by_key, true, false, what, sums);
        } else {
            take_row(h, n_blocks, row, by_key, false, false, what, sums);
        }
        for (size_t b = 0; b < n_blocks; b++) {
            if (h->skip) what[b] = lanes_fma(values[b], lanes_set(*h->skip), what[b]);
            lanes_store_upto(h->out + row * h->out_stride + b * LANES, what[b],
                             h->n_columns - b * LANES);
        }
    }
}

LANES_INLINE void run_kind(const RecurrentHead *h, size_t n_blocks) {
    if (h->delta && h->decay_by_key) {
        run_rows(h, n_blocks, true, true);
    } else if (h->delta) {
        run_rows(h, n_blocks, true, false);
    } else {
        run_rows(h, n_blocks, false, false);
    }
}

/* Runs the rows of a head, with the number of its blocks of columns known to the compiler. */
static void linear(const RecurrentHead *h) {
    if (h->n_rows == 0) return;
    switch ((h->n_columns + LANES - 1) / LANES) {
    case 1:
        run_kind(h, 1);
        break;
    case 2:
        run_kind(h, 2);
        break;
    case 3:
        run_kind(h, 3);
        break;
    default:
        run_kind(h, 4);
    }
}

/* ---- Selective scan ---- */

/* Scans the n <= 16 channels from `at` on. */
static void scan_block(const SelectiveScan *s, size_t at, size_t n) {
    float *state = s->state + at * s->n;
    lanes skip = lanes_load_upto(s->skip + at, n, 0.0f);
    for (size_t row = 0; row < s->n_rows; row++) {
        const float *b = s->b + row * s->b_stride, *c = s->c + row * s->c_stride;
        float *out = s->x + row * s->x_stride + at;
        lanes step = lanes_load_upto(s->step + row * s->step_stride + at, n, 0.0f);
        lanes x = lanes_load_upto(out, n, 0.0f), taken = lanes_mul(step, x), y = lanes_zero();
        for (size_t i = 0; i < s->n; i++) {
            lanes a = lanes_load_upto(s->a + i * s->channels + at, n, 0.0f);
            lanes kept = lanes_mul(lanes_load(state + i * LANES), lanes_exp(lanes_mul(step, a)));
            kept = lanes_fma(taken, lanes_set(b[i]), kept);
            lanes_store(state + i * LANES, kept);
            y = lanes_fma(kept, lanes_set(c[i]), y);
        }
        lanes_store_upto(out, lanes_fma(x, skip, y), n);
    }
}

static void scan(const SelectiveScan *s, size_t begin, size_t end) {
    for (size_t at = begin; at < end; at += LANES)
        scan_block(s, at, end - at < LANES ? end - at : LANES);
}

/* ---- Single numbers ---- */

static void unit(float *x, size_t n, float eps, float scale) {
    lanes squares = lanes_zero();
    for (size_t i = 0; i < n; i += LANES) {
        lanes v = lanes_load_upto(x + i, n - i, 0.0f);
        squares = lanes_fma(v, v, squares);
    }
    lanes inverse = lanes_set(1.0f / sqrtf(lanes_sum(squares) + eps)), factor = lanes_set(scale);
    for (size_t i = 0; i < n; i += LANES) {
        lanes v = lanes_mul(lanes_load_upto(x + i, n - i, 0.0f), inverse);
        lanes_store_upto(x + i, lanes_mul(v, factor), n - i);
    }
}

/* log(1 + u) for 0 <= u <= 1: twice the inverse hyperbolic tangent of s = u / (2 + u), by its
 * series up to s^15. */
static inline lanes log_one_plus(lanes u) {
    lanes s = lanes_div(u, lanes_add(u, lanes_set(2.0f))), square = lanes_mul(s, s);
    lanes p = lanes_set(1.0f / 15);
    for (int i = 13; i >= 1; i -= 2) p = lanes_fma(p, square, lanes_set(1.0f / (float)i));
    return lanes_mul(lanes_add(s, s), p);
}

static void softplus(float *x, const float *bias, float low, float high, size_t n) {
    for (size_t i = 0; i < n; i += LANES) {
        lanes v = lanes_load_upto(x + i, n - i, 0.0f);
        if (bias) v = lanes_add(v, lanes_load_upto(bias + i, n - i, 0.0f));
        lanes u = lanes_exp(lanes_sub(lanes_zero(), lanes_abs(v)));
        /* In this order NaN stays NaN. */
        lanes y = lanes_add(lanes_max(lanes_zero(), v), log_one_plus(u));
        y = lanes_select(lanes_less(lanes_set(20.0f), v), v, y);
        y = lanes_min(lanes_set(high), lanes_max(lanes_set(low), y));
        lanes_store_upto(x + i, y, n - i);
    }
}

static void decay(float *out, const float *a, const float *x, size_t n) {
    for (size_t i = 0; i < n; i += LANES) {
        lanes v = lanes_load_upto(x + i, n - i, 0.0f);
        if (a) v = lanes_mul(lanes_load_upto(a + i, n - i, 0.0f), v);
        lanes_store_upto(out + i, lanes_exp(v), n - i);
    }
}

static void multiply(float *x, const float *y, size_t n) {
    for (size_t i = 0; i < n; i += LANES)
        lanes_store_upto(
            x + i,
            lanes_mul(lanes_load_upto(x + i, n - i, 0.0f), lanes_load_upto(y + i, n - i, 0.0f)),
            n - i);
}

/* ---- Real-gated linear recurrent unit ---- */

static void lru_gates(float *x, const float *input, float *gate, const float *a, bool first,
                      size_t n) {
    for (size_t i = 0; i < n; i += LANES) {
        lanes v = lanes_mul(lanes_load_upto(x + i, n - i, 0.0f),
                            sigmoid(lanes_load_upto(input + i, n - i, 0.0f)));
        lanes log_decay = lanes_mul(lanes_load_upto(a + i, n - i, 0.0f),
                                    sigmoid(lanes_load_upto(gate + i, n - i, 0.0f)));
        lanes_store_upto(gate + i, lanes_exp(log_decay), n - i);
        if (!first) {
            float root[LANES];
            lanes squared = lanes_exp(lanes_add(log_decay, log_decay));
            /* In this order NaN stays NaN. */
            lanes_store(root, lanes_max(lanes_zero(), lanes_sub(lanes_set(1.0f), squared)));
            for (size_t k = 0; k < LANES; k++) root[k] = sqrtf(root[k]);
            v = lanes_mul(v, lanes_load(root));
        }
        lanes_store_upto(x + i, v, n - i);
    }
}

static void lru(float *state, const float *decay, float *x, size_t stride, size_t n_rows,
                size_t begin, size_t end) {
    for (size_t at = begin; at < end; at += LANES) {
        size_t n = end - at;
        lanes s = lanes_load_upto(state + at, n, 0.0f);
        for (size_t row = 0; row < n_rows; row++) {
            float *out = x + row * stride + at;
            s = lanes_fma(s, lanes_load_upto(decay + row * stride + at, n, 0.0f),
                          lanes_load_upto(out, n, 0.0f));
            lanes_store_upto(out, s, n);
        }
        lanes_store_upto(state + at, s, n);
    }
}

/* ---- RWKV ---- */

static void shift(const TokenShift *s, size_t begin, size_t end) {
    for (size_t at = begin; at < end; at += LANES) {
        size_t n = end - at;
        lanes before = lanes_load_upto(s->state + at, n, 0.0f);
        for (size_t row = 0; row < s->n_rows; row++) {
            lanes x = lanes_load_upto(s->in + row * s->channels + at, n, 0.0f);
            for (size_t i = 0; i < s->n_mixes; i++) {
                lanes mix = lanes_load_upto(s->mix[i] + at, n, 0.0f);
                lanes rest = lanes_mul(before, lanes_sub(lanes_set(1.0f), mix));
                lanes_store_upto(s->out[i] + row * s->channels + at, lanes_fma(x, mix, rest), n);
            }
            before = x;
        }
        lanes_store_upto(s->state + at, before, n);
    }
}

/* Scans the n <= 16 channels from `at` on. */
static void wkv_block(const WkvScan *s, size_t at, size_t n) {
    size_t part = (s->channels + LANES - 1) / LANES * LANES;
    float *state = s->state + at;
    lanes decay = lanes_load_upto(s->decay + at, n, 0.0f);
    lanes first = lanes_load_upto(s->first + at, n, 0.0f);
    lanes values = lanes_load(state), weights = lanes_load(state + part);
    lanes maximum = lanes_load(state + 2 * part);
    /* The sum of weights is at least 1 after the first row. */
    maximum = lanes_select(lanes_less(lanes_zero(), weights), maximum, lanes_set(-1e38f));
    for (size_t row = 0; row < s->n_rows; row++) {
        float *out = s->v + row * s->channels + at;
        lanes k = lanes_load_upto(s->k + row * s->channels + at, n, 0.0f);
        lanes v = lanes_load_upto(out, n, 0.0f), own = lanes_add(k, first);
        lanes most = lanes_max(maximum, own);
        lanes old = lanes_exp_falling(lanes_sub(maximum, most));
        lanes new = lanes_exp_falling(lanes_sub(own, most));
        lanes sum = lanes_fma(new, v, lanes_mul(old, values));
        lanes_store_upto(out, lanes_div(sum, lanes_fma(old, weights, new)), n);
        lanes decayed = lanes_add(maximum, decay);
        maximum = lanes_max(decayed, k);
        old = lanes_exp_falling(lanes_sub(decayed, maximum));
        new = lanes_exp_falling(lanes_sub(k, maximum));
        values = lanes_fma(new, v, lanes_mul(old, values));
        weights = lanes_fma(old, weights, new);
    }
    if (s->n_rows == 0) return;
    lanes_store_upto(state, values, n);
    lanes_store_upto(state + part, weights, n);
    lanes_store_upto(state + 2 * part, maximum, n);
}

static void wkv(const WkvScan *s, size_t begin, size_t end) {
    for (size_t at = begin; at < end; at += LANES)
        wkv_block(s, at, end - at < LANES ? end - at : LANES);
}

const Recurrence FOR_ISA(recurrence) = {
    .convolve = convolve,
    .linear = linear,
    .scan = scan,
    .unit = unit,
    .softplus = softplus,
    .decay = decay,
    .multiply = multiply,
    .lru_gates = lru_gates,
    .lru = lru,
    .shift = shift,
    .wkv = wkv,
};
