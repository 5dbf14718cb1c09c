/* A stack with hyper-connections: S residual streams instead of one (Hy 4's independent ones; the
 * idea is of arXiv:2409.19606).
 *
 * Before attention and before each feed-forward, coefficients follow from all streams of the row:
 * how much of each stream goes into the block's input, and how much of the block's output goes into
 * each stream. With the streams side by side as flat[S * dim]:
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

#include "layers/arrangements/arrangements.h"
#include "layers/arrangements/sums.h"
#include "layers/layer_allocate.h"

typedef struct HyperMap {
    Matrix map;         /* coefficients x S * dim; there are 2 S (+ S^2); at the end S */
    const float *base;  /* [coefficients] */
    const float *scale; /* [2], [3] or, at the end, [1] */
} HyperMap;

typedef struct HyperWeights {
    float *streams;      /* [n][S][dim], rows that live for a pass */
    float *coefficients; /* [n][n_coefficients], or [n][S] at the end */
    HyperMap end;
    HyperMap layers[][2]; /* of attention and of the feed-forward */
} HyperWeights;

/* The numbers that a map gives for a block. */
static size_t n_coefficients(const Config *c) {
    size_t streams = c->hyper_streams;
    return 2 * streams + (c->hyper.mix_rounds > 0 ? streams * streams : 0);
}

/* ---- Weights ---- */

static HyperMap find_map(Finder *f, const char *name, size_t rows, size_t scales, bool required) {
    size_t inputs = (size_t)f->config->hyper_streams * f->config->dim;
    char part[64];
    HyperMap found = {.map = weights_matrix(f, name, rows, inputs, required)};
    if (!found.map.data) return found;
    snprintf(part, sizeof part, "%s.base", name);
    found.base = weights_vector(f, part, 1, rows, true);
    snprintf(part, sizeof part, "%s.scale", name);
    found.scale = weights_vector(f, part, 1, scales, true);
    return found;
}

static void hyper_find(Finder *f, Weights *weights) {
    const Config *c = f->config;
    size_t streams = c->hyper_streams, coefficients = n_coefficients(c),
           scales = c->hyper.mix_rounds ? 3 : 2;
    HyperWeights *own = layer_allocate(f, sizeof *own + c->n_layers * sizeof *own->layers);
    weights->stack = own;
    if (!own) return;
    f->prefix[0] = '\0';
    own->end = find_map(f, "hyper.end", streams, 1, c->hyper.mix_rounds == 0);
    for (uint32_t l = 0; l < c->n_layers; l++) {
        snprintf(f->prefix, sizeof f->prefix, "layers.%u.", l);
        own->layers[l][0] = find_map(f, "hyper.attention", coefficients, scales, true);
        own->layers[l][1] = find_map(f, "hyper.ffn", coefficients, scales, true);
    }
}

/* ---- Working memory ---- */

/* Room for the streams of a row while they are mixed. */
static size_t thread_floats(const Config *c) {
    return c->hyper.mix_rounds > 0 ? (size_t)c->hyper_streams * c->dim : 0;
}

static void hyper_keep(Model *m) {
    HyperWeights *own = m->weights.stack;
    size_t n = m->max_rows, width = (size_t)m->config->hyper_streams * m->config->dim;
    own->streams = arena_keep(&m->arena, "streams", n, width);
    own->coefficients = arena_keep(&m->arena, "stream coefficients", n, n_coefficients(m->config));
}

static float *streams_of(const Model *m) {
    return ((const HyperWeights *)m->weights.stack)->streams;
}

static float *coefficients_of(const Model *m) {
    return ((const HyperWeights *)m->weights.stack)->coefficients;
}

/* ---- The forward pass ---- */

/* coefficients[S] = scale * sigmoid(coefficients * by + base) + eps */
static void make_coefficients(const Model *m, float *coefficients, float by, const float *base,
                              float scale, float eps) {
    size_t n = m->config->hyper_streams;
    for (size_t s = 0; s < n; s++) coefficients[s] = coefficients[s] * by + base[s];
    m->isa->numeric->activate(ACTIVATION_SIGMOID, coefficients, NULL, n);
    for (size_t s = 0; s < n; s++) coefficients[s] = coefficients[s] * scale + eps;
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
    size_t n = m->config->hyper_streams;
    float eps = m->config->hyper.mix_eps;
    for (size_t i = 0; i < n * n; i++) mix[i] = mix[i] * by + base[i];
    for (size_t j = 0; j < n; j++) {
        float sum = numeric->softmax_sum(mix + j * n, numeric->maximum(mix + j * n, n), n);
        for (size_t s = 0; s < n; s++) mix[j * n + s] = mix[j * n + s] / sum + eps;
    }
    for (size_t s = 0; s < n; s++) divide_by_sum(mix + s, n, n, eps);
    for (uint32_t round = 1; round < m->config->hyper.mix_rounds; round++) {
        for (size_t j = 0; j < n; j++) divide_by_sum(mix + j * n, n, 1, eps);
        for (size_t s = 0; s < n; s++) divide_by_sum(mix + s, n, n, eps);
    }
}

/* The coefficients of a row, from what the map gave for the streams flat[S * dim]. */
static void finish_coefficients(const Model *m, const HyperMap *w, const float *flat,
                                float *coefficients) {
    const Config *c = m->config;
    size_t streams = c->hyper_streams, n = w->map.rows, width = streams * c->dim;
    bool mixes = c->hyper.mix_rounds > 0;
    float factor = 1.0f / sqrtf(sums_mean_square(flat, 0.0f, width) + c->norm_eps);
    for (size_t k = 0; k < n; k++) coefficients[k] *= factor;
    make_coefficients(m, coefficients, w->scale[0], w->base, 1.0f, c->hyper.mix_eps);
    if (n == streams) return;
    make_coefficients(m, coefficients + streams, w->scale[1], w->base + streams, c->hyper.mix_scale,
                      mixes ? 0.0f : c->hyper.mix_eps);
    if (mixes) make_mix(m, coefficients + 2 * streams, w->scale[2], w->base + 2 * streams);
}

/* coefficients = map times streams. The map is a branch's (Branch.stream_weights) or that of the
 * end. */
static void map_streams(ForwardPass *pass, const HyperMap *w) {
    Model *m = pass->model;
    const Product map = {&w->map, coefficients_of(m), w->map.rows};
    if (w->map.rows > 0) forward_multiply(m, streams_of(m), pass->n, &map, 1);
}

/* x = the sum of the row's streams, each times its coefficient. The coefficients of a branch's
 * output stay in memory. */
static void join_row(const Model *m, const HyperMap *w, size_t row) {
    const Config *c = m->config;
    const Numeric *numeric = m->isa->numeric;
    size_t dim = c->dim, streams = c->hyper_streams, n = w->map.rows;
    const float *flat = streams_of(m) + row * streams * dim;
    float *coefficients = coefficients_of(m) + row * n, *x = m->x + row * dim;
    if (n > 0) finish_coefficients(m, w, flat, coefficients);
    memset(x, 0, dim * sizeof *x);
    for (size_t s = 0; s < streams; s++)
        numeric->add_scaled(x, flat + s * dim, n > 0 ? coefficients[s] : 1.0f, dim);
    if (n == 0) numeric->scale(x, 1.0f / (float)streams, dim);
}

static void hyper_gather(ForwardPass *pass, const Branch *b) {
    map_streams(pass, b->stream_weights);
}

static void read(const ForwardPass *pass, const Branch *b, size_t row) {
    join_row(pass->model, b->stream_weights, row);
}

/* stream[s] = sum over j of mix[j][s] * stream[j] */
static void mix_streams(const Model *m, const float *mix, float *stream) {
    size_t dim = m->config->dim, streams = m->config->hyper_streams;
    float *old = m->layer_threads + (size_t)omp_get_thread_num() * m->layer_thread_floats;
    memcpy(old, stream, streams * dim * sizeof *old);
    memset(stream, 0, streams * dim * sizeof *stream);
    for (size_t s = 0; s < streams; s++)
        for (size_t j = 0; j < streams; j++)
            m->isa->numeric->add_scaled(stream + s * dim, old + j * dim, mix[j * streams + s], dim);
}

/* Adds y to the streams, each times the coefficient that join_row made. */
static void hyper_add(ForwardPass *pass, const Branch *b, size_t row, float *y) {
    const Model *m = pass->model;
    const Config *c = m->config;
    const Numeric *numeric = m->isa->numeric;
    size_t dim = c->dim, streams = c->hyper_streams;
    float *stream = streams_of(m) + row * streams * dim;
    const float *coefficients = coefficients_of(m) + row * n_coefficients(c) + streams;
    if (b->scale != 1.0f) numeric->scale(y, b->scale, dim);
    if (c->hyper.mix_rounds > 0) mix_streams(m, coefficients + streams, stream);
    for (size_t s = 0; s < streams; s++)
        numeric->add_scaled(stream + s * dim, y, coefficients[s], dim);
    if (!m->isa->numeric->all_finite(stream, streams * dim)) forward_not_finite(pass, b->layer);
}

/* ---- The branches ---- */

/* A group is read by its first branch and added by its last one, so both have its streams' weights.
 * No norm follows a sum: hyper_add adds to the streams. */
static void hyper_list(Model *m, size_t l) {
    static const StreamUse use = {.reads = "x = the sum of the streams, each times a coefficient",
                                  .gather = hyper_gather,
                                  .read = read,
                                  .add = hyper_add};
    const HyperWeights *own = m->weights.stack;
    const LayerWeights *w = &m->weights.layers[l];
    size_t first = m->branches.n;
    branches_append_attention(m, l, &w->attention_norm, m->normed)->stream_weights =
        &own->layers[l][0];
    branches_last(m)->stream_weights = &own->layers[l][0];
    branches_append_feed_forward(m, l, &w->ffn_norm, m->normed)->stream_weights =
        &own->layers[l][1];
    for (Branch *b = m->branches.all + first; b <= branches_last(m); b++) {
        b->streams = &use;
        b->sum_post = NULL;
    }
}

/* Every stream begins as the embedding. */
static void hyper_begin(ForwardPass *pass) {
    Model *m = pass->model;
    size_t dim = m->config->dim, streams = m->config->hyper_streams;
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++)
        for (size_t s = 0; s < streams; s++)
            memcpy(streams_of(m) + (i * streams + s) * dim, m->x + i * dim, dim * sizeof *m->x);
    forward_wait(pass);
}

/* The streams are joined as for a branch. */
static void hyper_end(ForwardPass *pass) {
    const HyperWeights *own = pass->model->weights.stack;
    map_streams(pass, &own->end);
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++) join_row(pass->model, &own->end, i);
    forward_wait(pass);
}

const Arrangement hyper_arrangement = {
    .find = hyper_find,
    .keep = hyper_keep,
    .thread_floats = thread_floats,
    .list = hyper_list,
    .begin = hyper_begin,
    .end = hyper_end,
};
