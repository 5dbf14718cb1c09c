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
 * All streams begin as the token's embedding. After the last layer they are joined as for a block's
 * input. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "forward_pass.h"
#include "layers/stacks.h"
#include "layers/sums.h"

enum { MOST_STREAMS = 16 };

typedef struct HyperMap {
    Matrix map;         /* 2 S x S * dim; at the end S x S * dim */
    const float *base;  /* [2 S], or [S] */
    const float *scale; /* [2], or [1] */
} HyperMap;

typedef struct HyperWeights {
    HyperMap end;
    HyperMap layers[][2]; /* of attention and of the feed-forward */
} HyperWeights;

/* ---- Weights ---- */

static HyperMap find_map(Finder *f, const char *name, size_t rows, size_t scales) {
    size_t inputs = (size_t)f->config->altup_streams * f->config->dim;
    char part[64];
    HyperMap found = {.map = weights_matrix(f, name, rows, inputs, true)};
    snprintf(part, sizeof part, "%s.base", name);
    found.base = weights_vector(f, part, 1, rows, true);
    snprintf(part, sizeof part, "%s.scale", name);
    found.scale = weights_vector(f, part, 1, scales, true);
    return found;
}

static void find(Finder *f, Weights *weights) {
    const Config *c = f->config;
    size_t streams = c->altup_streams;
    HyperWeights *own = stack_allocate(f, sizeof *own + c->n_layers * sizeof *own->layers);
    weights->stack = own;
    if (!own) return;
    f->prefix[0] = '\0';
    own->end = find_map(f, "hyper.end", streams, 1);
    for (uint32_t l = 0; l < c->n_layers; l++) {
        snprintf(f->prefix, sizeof f->prefix, "layers.%u.", l);
        own->layers[l][0] = find_map(f, "hyper.attention", 2 * streams, 2);
        own->layers[l][1] = find_map(f, "hyper.ffn", 2 * streams, 2);
    }
}

/* ---- Working memory ---- */

static size_t row_floats(const Config *c) {
    size_t streams = c->altup_streams;
    return stack_kind_floats(c) + streams * c->dim + 2 * streams;
}

static size_t thread_floats(const Config *c) {
    (void)c;
    return 0;
}

/* [n][S][dim] */
static float *streams_of(const Model *m) {
    return m->layer_rows + m->max_rows * stack_kind_floats(m->config);
}

/* [n][2 S], or [n][S] at the end */
static float *shares_of(const Model *m) {
    return streams_of(m) + m->max_rows * m->config->altup_streams * m->config->dim;
}

/* ---- The forward pass ---- */

/* shares[n] = scale * sigmoid(shares * by + base) + hyper_eps */
static void make_shares(const Model *m, float *shares, float by, const float *base, float scale) {
    size_t n = m->config->altup_streams;
    for (size_t s = 0; s < n; s++) shares[s] = shares[s] * by + base[s];
    m->isa->numeric->activate(ACTIVATION_SIGMOID, shares, NULL, n);
    for (size_t s = 0; s < n; s++) shares[s] = shares[s] * scale + m->config->hyper_eps;
}

/* Model.x = the streams by their shares. The shares of a block's output stay in memory. */
static void join(ForwardPass *pass, const HyperMap *w, const Norm *norm) {
    Model *m = pass->model;
    const Config *c = m->config;
    const Numeric *numeric = m->isa->numeric;
    size_t dim = c->dim, streams = c->altup_streams, width = streams * dim, n = w->map.rows;
    const Product map = {&w->map, shares_of(m), n};
    forward_multiply(m, streams_of(m), pass->n, &map, 1);
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++) {
        const float *flat = streams_of(m) + i * width;
        float *shares = shares_of(m) + i * n, *x = m->x + i * dim;
        float factor = 1.0f / sqrtf(sums_mean_square(flat, 0.0f, width) + c->norm_eps);
        for (size_t k = 0; k < n; k++) shares[k] *= factor;
        make_shares(m, shares, w->scale[0], w->base, 1.0f);
        if (n > streams)
            make_shares(m, shares + streams, w->scale[1], w->base + streams, c->hyper_scale);
        memset(x, 0, dim * sizeof *x);
        for (size_t s = 0; s < streams; s++) numeric->add_scaled(x, flat + s * dim, shares[s], dim);
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

/* Adds Model.y and the bias of `last` to the streams, by the shares that `join` made. */
static void share_out(ForwardPass *pass, size_t l, const Linear *last) {
    Model *m = pass->model;
    const Config *c = m->config;
    const Numeric *numeric = m->isa->numeric;
    size_t dim = c->dim, streams = c->altup_streams;
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++) {
        float *y = m->y + i * dim, *stream = streams_of(m) + i * streams * dim;
        const float *shares = shares_of(m) + i * 2 * streams + streams;
        forward_add_bias(m, last, y);
        if (c->residual_scale != 1.0f) numeric->scale(y, c->residual_scale, dim);
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
