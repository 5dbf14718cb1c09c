/* A stack with hyper-connections: S residual streams instead of one (Hy 4's independent ones; the
 * idea is of arXiv:2409.19606).
 *
 * Before attention and before each feed-forward, numbers follow from all streams of the row: the
 * share of each stream in the block's input, and the share of the block's output that each stream
 * receives. With the streams side by side as flat[S * dim]:
 *
 *     a       = (map flat) / sqrt(mean of flat^2 + norm_eps)      2 S numbers
 *     in[s]   = sigmoid(a[s] * scale[0] + base[s]) + hyper_eps
 *     out[s]  = hyper_scale * sigmoid(a[S + s] * scale[1] + base[S + s]) + hyper_eps
 *     x       = sum of in[s] * stream[s],  y = block(norm(x))
 *     stream[s] = stream[s] + out[s] * y
 *
 * With hyper_rounds, S^2 more numbers of the map (and scale[2]) say how much of each stream goes
 * into each other one: DeepSeek V4's manifold-constrained hyper-connections (arXiv:2512.24880). The
 * matrix is brought close to one whose rows and columns all have the sum 1 (Sinkhorn and Knopp):
 *
 *     out[s]       = hyper_scale * sigmoid(a[S + s] * scale[1] + base[S + s])
 *     mix[j]       = softmax(a[2 S + j S ...] * scale[2] + base[2 S + j S ...]) + hyper_eps
 *     mix[.][s]    = mix[.][s] / (sum of mix[.][s] + hyper_eps)
 *     then hyper_rounds - 1 times the rows mix[j], in the same way, and again the columns
 *     stream[s]    = sum over j of mix[j][s] * stream[j], + out[s] * y
 *
 * All streams begin as the token's embedding. After the last layer they are joined as for a block's
 * input, or by their mean where there is no map for that (GLM-5 Next). */
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <string.h>

#include "forward_pass.h"
#include "layers/stacks.h"
#include "layers/sums.h"

typedef struct HyperMap {
    Matrix map;         /* shares x S * dim, of which there are 2 S (+ S^2); at the end S */
    const float *base;  /* [shares] */
    const float *scale; /* [2], [3] or, at the end, [1] */
} HyperMap;

typedef struct HyperWeights {
    HyperMap end;
    HyperMap layers[][2]; /* of attention and of the feed-forward */
} HyperWeights;

/* The numbers that a map gives for a block. */
static size_t hyper_shares(const Config *c) {
    size_t streams = c->altup_streams;
    return 2 * streams + (c->hyper_rounds > 0 ? streams * streams : 0);
}

/* ---- Weights ---- */

static HyperMap find_map(Finder *f, const char *name, size_t rows, size_t scales, bool required) {
    size_t inputs = (size_t)f->config->altup_streams * f->config->dim;
    char part[64];
    HyperMap found = {.map = weights_matrix(f, name, rows, inputs, required)};
    if (!found.map.data) return found;
    snprintf(part, sizeof part, "%s.base", name);
    found.base = weights_vector(f, part, 1, rows, true);
    snprintf(part, sizeof part, "%s.scale", name);
    found.scale = weights_vector(f, part, 1, scales, true);
    return found;
}

static void find(Finder *f, Weights *weights) {
    const Config *c = f->config;
    size_t streams = c->altup_streams, shares = hyper_shares(c), scales = c->hyper_rounds ? 3 : 2;
    HyperWeights *own = stack_allocate(f, sizeof *own + c->n_layers * sizeof *own->layers);
    weights->stack = own;
    if (!own) return;
    f->prefix[0] = '\0';
    own->end = find_map(f, "hyper.end", streams, 1, c->hyper_rounds == 0);
    for (uint32_t l = 0; l < c->n_layers; l++) {
        snprintf(f->prefix, sizeof f->prefix, "layers.%u.", l);
        own->layers[l][0] = find_map(f, "hyper.attention", shares, scales, true);
        own->layers[l][1] = find_map(f, "hyper.ffn", shares, scales, true);
    }
}

/* ---- Working memory ---- */

static size_t row_floats(const Config *c) {
    size_t streams = c->altup_streams;
    return stack_kind_floats(c) + streams * c->dim + hyper_shares(c);
}

/* Room for the streams of a row while they are mixed. */
static size_t thread_floats(const Config *c) {
    return c->hyper_rounds > 0 ? (size_t)c->altup_streams * c->dim : 0;
}

/* [n][S][dim] */
static float *streams_of(const Model *m) {
    return m->layer_rows + m->max_rows * stack_kind_floats(m->config);
}

/* [n][hyper_shares], or [n][S] at the end */
static float *shares_of(const Model *m) {
    return streams_of(m) + m->max_rows * m->config->altup_streams * m->config->dim;
}

/* ---- The forward pass ---- */

/* shares[S] = scale * sigmoid(shares * by + base) + eps */
static void make_shares(const Model *m, float *shares, float by, const float *base, float scale,
                        float eps) {
    size_t n = m->config->altup_streams;
    for (size_t s = 0; s < n; s++) shares[s] = shares[s] * by + base[s];
    m->isa->numeric->activate(ACTIVATION_SIGMOID, shares, NULL, n);
    for (size_t s = 0; s < n; s++) shares[s] = shares[s] * scale + eps;
}

/* Divides n elements, `step` apart, by their sum plus eps. */
static void divide_by_sum(float *x, size_t n, size_t step, float eps) {
    float sum = 0.0f;
    for (size_t i = 0; i < n; i++) sum += x[i * step];
    for (size_t i = 0; i < n; i++) x[i * step] /= sum + eps;
}

/* mix[S][S] = what follows from mix * by + base. */
static void make_mix(const Model *m, float *mix, float by, const float *base) {
    const Numeric *numeric = m->isa->numeric;
    size_t n = m->config->altup_streams;
    float eps = m->config->hyper_eps;
    for (size_t i = 0; i < n * n; i++) mix[i] = mix[i] * by + base[i];
    for (size_t j = 0; j < n; j++) {
        float sum = numeric->softmax_sum(mix + j * n, numeric->maximum(mix + j * n, n), n);
        for (size_t s = 0; s < n; s++) mix[j * n + s] = mix[j * n + s] / sum + eps;
    }
    for (size_t s = 0; s < n; s++) divide_by_sum(mix + s, n, n, eps);
    for (uint32_t round = 1; round < m->config->hyper_rounds; round++) {
        for (size_t j = 0; j < n; j++) divide_by_sum(mix + j * n, n, 1, eps);
        for (size_t s = 0; s < n; s++) divide_by_sum(mix + s, n, n, eps);
    }
}

/* The shares of a row, from what the map gave for the streams flat[S * dim]. */
static void shares_of_row(const Model *m, const HyperMap *w, const float *flat, float *shares) {
    const Config *c = m->config;
    size_t streams = c->altup_streams, n = w->map.rows, width = streams * c->dim;
    bool mixes = c->hyper_rounds > 0;
    float factor = 1.0f / sqrtf(sums_mean_square(flat, 0.0f, width) + c->norm_eps);
    for (size_t k = 0; k < n; k++) shares[k] *= factor;
    make_shares(m, shares, w->scale[0], w->base, 1.0f, c->hyper_eps);
    if (n == streams) return;
    make_shares(m, shares + streams, w->scale[1], w->base + streams, c->hyper_scale,
                mixes ? 0.0f : c->hyper_eps);
    if (mixes) make_mix(m, shares + 2 * streams, w->scale[2], w->base + 2 * streams);
}

/* Model.x = the streams by their shares. The shares of a block's output stay in memory. */
static void join(ForwardPass *pass, const HyperMap *w, const Norm *norm) {
    Model *m = pass->model;
    const Config *c = m->config;
    const Numeric *numeric = m->isa->numeric;
    size_t dim = c->dim, streams = c->altup_streams, n = w->map.rows;
    const Product map = {&w->map, shares_of(m), n};
    if (n > 0) forward_multiply(m, streams_of(m), pass->n, &map, 1);
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++) {
        const float *flat = streams_of(m) + i * streams * dim;
        float *shares = shares_of(m) + i * n, *x = m->x + i * dim;
        if (n > 0) shares_of_row(m, w, flat, shares);
        memset(x, 0, dim * sizeof *x);
        for (size_t s = 0; s < streams; s++)
            numeric->add_scaled(x, flat + s * dim, n > 0 ? shares[s] : 1.0f, dim);
        if (n == 0) numeric->scale(x, 1.0f / (float)streams, dim);
        if (norm) forward_normalize(m, norm, m->normed + i * dim, x, dim);
    }
    forward_wait(pass);
}

/* Records the layer if x[n] holds a non-finite value and no earlier layer is recorded. */
static void check_finite(ForwardPass *pass, int layer, const float *x, size_t n) {
    if (pass->model->isa->numeric->all_finite(x, n)) return;
    int seen = atomic_load(&pass->bad_layer);
    while (layer < seen && !atomic_compare_exchange_weak(&pass->bad_layer, &seen, layer)) {
    }
}

/* stream[s] = sum over j of mix[j][s] * stream[j] */
static void mix_streams(const Model *m, const float *mix, float *stream) {
    size_t dim = m->config->dim, streams = m->config->altup_streams;
    float *old = m->layer_threads + (size_t)omp_get_thread_num() * m->layer_thread_floats;
    memcpy(old, stream, streams * dim * sizeof *old);
    memset(stream, 0, streams * dim * sizeof *stream);
    for (size_t s = 0; s < streams; s++)
        for (size_t j = 0; j < streams; j++)
            m->isa->numeric->add_scaled(stream + s * dim, old + j * dim, mix[j * streams + s], dim);
}

/* Adds Model.y and the bias of `last` to the streams, by the shares that `join` made. */
static void share_out(ForwardPass *pass, size_t l, const Linear *last) {
    Model *m = pass->model;
    const Config *c = m->config;
    const Numeric *numeric = m->isa->numeric;
    size_t dim = c->dim, streams = c->altup_streams, n = hyper_shares(c);
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++) {
        float *y = m->y + i * dim, *stream = streams_of(m) + i * streams * dim;
        const float *shares = shares_of(m) + i * n + streams;
        forward_add_bias(m, last, y);
        if (c->residual_scale != 1.0f) numeric->scale(y, c->residual_scale, dim);
        if (c->hyper_rounds > 0) mix_streams(m, shares + streams, stream);
        for (size_t s = 0; s < streams; s++)
            numeric->add_scaled(stream + s * dim, y, shares[s], dim);
        check_finite(pass, (int)l, stream, streams * dim);
    }
    forward_wait(pass);
}

static void block(ForwardPass *pass, size_t l, const HyperMap maps[2]) {
    Model *m = pass->model;
    const LayerWeights *w = &m->weights.layers[l];
    uint32_t kind = m->config->layer_kind[l];
    join(pass, &maps[0], &w->attention_norm);
    if (kind == LAYER_ATTENTION) {
        pass->steps->attention(pass, l, m->normed, m->y);
    } else {
        layer_kind(kind)->forward(pass, l, m->normed, m->y);
    }
    share_out(pass, l, &w->wo);
    join(pass, &maps[1], &w->ffn_norm);
    forward_add_time(pass, PART_REST);
    if (w->router.w.data) {
        mixture_forward(pass, w, m->normed, m->normed, m->y);
    } else {
        feed_forward(pass, &w->ffn, pass->n, m->normed, m->y);
    }
    forward_add_time(pass, PART_FEED_FORWARD);
    share_out(pass, l, &w->ffn.down);
}

/* Every stream begins as the embedding. */
static void begin(ForwardPass *pass) {
    Model *m = pass->model;
    size_t dim = m->config->dim, streams = m->config->altup_streams;
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++)
        for (size_t s = 0; s < streams; s++)
            memcpy(streams_of(m) + (i * streams + s) * dim, m->x + i * dim, dim * sizeof *m->x);
    forward_wait(pass);
}

static void forward(ForwardPass *pass) {
    const HyperWeights *own = pass->model->weights.stack;
    if (pass->first_layer == 0) begin(pass);
    for (size_t l = pass->first_layer; l < pass->end_layer; l++) block(pass, l, own->layers[l]);
    if (pass->end_layer == pass->model->config->n_layers) join(pass, &own->end, NULL);
}

const StackKind stack_hyper = {find, row_floats, thread_floats, forward};
