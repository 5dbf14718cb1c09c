/* Gemma 3n's stack: alternating updates (AltUp, arXiv:2301.13310).
 *
 * The model has S residual streams instead of one. Before a block, each stream is predicted from
 * all of them; the block computes the active stream alone; afterwards each prediction is corrected
 * by what the block changed in the active one. The coefficients of both maps depend on the active
 * stream. In the block, a low-rank map of attention's input (Laurel) is added beside attention, and
 * some feed-forwards keep only the gates far above the row's mean. At its end the layer's own input
 * (per_layer.h) is added to all streams but the first. */
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <string.h>

#include "layers/arrangements/per_layer.h"
#include "layers/arrangements/arrangements.h"
#include "layers/arrangements/sums.h"
#include "layers/layer_allocate.h"

typedef struct AltupLayer {
    PerLayerGate gate;
    Matrix router;        /* S x dim */
    Norm router_norm;     /* [dim] */
    const float *predict; /* [S * S][S] */
    const float *correct; /* [S][S] */
    const float *scale;   /* [dim], of the active stream before the gate; NULL: none */
    Matrix left, right;   /* Laurel's: rank x dim, dim x rank */
    Norm laurel_norm;     /* [dim] */
} AltupLayer;

/* Rows that live for a pass. */
typedef struct Streams {
    float *all;    /* [S][max_rows][dim] */
    float *routed; /* [n][S], the router's output */
} Streams;

typedef struct AltupWeights {
    PerLayerTable table;
    Streams streams;
    Matrix in[16], out[16]; /* dim x dim, of all streams but the first */
    AltupLayer layers[];    /* [n_layers] */
} AltupWeights;

/* A thread's copy of a row of all streams, or of an embedding. */
static size_t thread_floats(const Config *c) {
    size_t copy = (size_t)c->altup_streams * c->dim, embedding = per_layer_thread_floats(c);
    return copy > embedding ? copy : embedding;
}

static void altup_keep(Model *m) {
    const Config *c = m->config;
    AltupWeights *own = m->weights.stack;
    size_t n = m->max_rows, width = c->dim;
    per_layer_keep(m, &own->table);
    own->streams.all = arena_keep(&m->arena, "streams", c->altup_streams * n, width);
    own->streams.routed = arena_keep(&m->arena, "router output", n, c->altup_streams);
}

static const Streams *streams_of(const Model *m) {
    return &((const AltupWeights *)m->weights.stack)->streams;
}

/* Row `row` of a stream. */
static float *stream_row(const Model *m, const Streams *s, size_t stream, size_t row) {
    return s->all + (stream * m->max_rows + row) * m->config->dim;
}

/* ---- Weights ---- */

static void find_layer(Finder *f, uint32_t l, AltupLayer *layer, FeedForward *ffn) {
    const Config *c = f->config;
    size_t streams = c->altup_streams, rank = c->altup.laurel_rank;
    snprintf(f->prefix, sizeof f->prefix, "layers.%u.", l);
    per_layer_find_gate(f, &layer->gate);
    layer->router = weights_matrix(f, "altup.router", streams, c->dim, true);
    layer->router_norm = weights_norm(f, "altup.router_norm", c->dim, true);
    layer->predict = weights_vector(f, "altup.predict", streams * streams, streams, true);
    layer->correct = weights_vector(f, "altup.correct", streams, streams, true);
    if (c->altup.scales) layer->scale = weights_vector(f, "altup.scale", 1, c->dim, true);
    layer->left = weights_matrix(f, "laurel.left", rank, c->dim, true);
    layer->right = weights_matrix(f, "laurel.right", c->dim, rank, true);
    layer->laurel_norm = weights_norm(f, "laurel.norm", c->dim, true);
    ffn->cutoff = weights_vector(f, "gate_cutoff", 1, 1, false);
}

static void altup_find(Finder *f, Weights *weights) {
    const Config *c = f->config;
    AltupWeights *own = layer_allocate(f, sizeof *own + c->n_layers * sizeof *own->layers);
    weights->stack = own;
    if (!own) return;
    per_layer_find_table(f, &own->table);
    for (uint32_t i = 1; i < c->altup_streams; i++) {
        char name[32];
        snprintf(name, sizeof name, "altup.in.%u", i);
        own->in[i] = weights_matrix(f, name, c->dim, c->dim, true);
        snprintf(name, sizeof name, "altup.out.%u", i);
        own->out[i] = weights_matrix(f, name, c->dim, c->dim, true);
    }
    for (uint32_t l = 0; l < c->n_layers; l++)
        find_layer(f, l, &own->layers[l], &weights->layers[l].ffn);
}

/* ---- Prediction and correction ---- */

/* routed[n][S] = tanh(router(norm(x) / dim)). x[n][dim]; overwrites Model.normed. */
static void route(ForwardPass *pass, const AltupLayer *own, const float *x, float *routed) {
    Model *m = pass->model;
    const Config *c = m->config;
    const Product router = {&own->router, routed, c->altup_streams};
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++) {
        float *normed = m->normed + i * c->dim;
        forward_normalize(m, &own->router_norm, normed, x + i * c->dim, c->dim);
        m->isa->numeric->scale(normed, 1.0f / (float)c->dim, c->dim);
    }
    forward_wait(pass);
    forward_multiply(m, m->normed, pass->n, &router, 1);
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++)
        m->isa->numeric->softcap(routed + i * c->altup_streams, 1.0f, c->altup_streams);
    forward_wait(pass);
}

/* One row of a small map: the sum of row[k] * x[k], in the order of k. */
static float combine(const float *row, const float *x, size_t n) {
    float sum = 0.0f;
    for (size_t k = 0; k < n; k++) sum = fmaf(row[k], x[k], sum);
    return sum;
}

static const AltupLayer *layer_of(const Model *m, const Branch *b) {
    return &((const AltupWeights *)m->weights.stack)->layers[b->layer];
}

/* The coefficients of the prediction depend on the active stream. */
static void predict_gather(ForwardPass *pass, const Branch *b) {
    const Model *m = pass->model;
    const Streams *s = streams_of(m);
    route(pass, layer_of(m, b), stream_row(m, s, m->config->altup.active, 0), s->routed);
}

/* Replaces a row of the streams by its predictions. x = the active stream. */
static void predict_read(const ForwardPass *pass, const Branch *b, size_t row) {
    const Model *m = pass->model;
    const Config *c = m->config;
    const Streams *s = streams_of(m);
    const AltupLayer *own = layer_of(m, b);
    size_t dim = c->dim, n_streams = c->altup_streams;
    float *old = m->layer_threads + (size_t)omp_get_thread_num() * m->layer_thread_floats;
    const float *routed = s->routed + row * n_streams;
    for (size_t k = 0; k < n_streams; k++)
        memcpy(old + k * dim, stream_row(m, s, k, row), dim * sizeof *old);
    for (size_t j = 0; j < n_streams; j++)
        for (size_t k = 0; k < n_streams; k++) {
            const float *coefficients = own->predict + (j * n_streams + k) * n_streams;
            m->isa->numeric->add_scaled(stream_row(m, s, j, row), old + k * dim,
                                        combine(coefficients, routed, n_streams), dim);
        }
    memcpy(m->x + row * dim, stream_row(m, s, c->altup.active, row), dim * sizeof *old);
}

/* The router's outputs for the correction, which depend on x, the active stream after the layer. */
static void correct_gather(ForwardPass *pass, const Branch *b) {
    const Streams *s = streams_of(pass->model);
    route(pass, layer_of(pass->model, b), pass->model->x, s->routed);
}

/* Corrects a row of the streams, which hold predictions, by x. Branch.in = what gates the layer's
 * own input. */
static void correct_read(const ForwardPass *pass, const Branch *b, size_t row) {
    const Model *m = pass->model;
    const Config *c = m->config;
    const Streams *s = streams_of(m);
    const AltupLayer *own = layer_of(m, b);
    size_t dim = c->dim, n_streams = c->altup_streams;
    float *change = m->layer_threads + (size_t)omp_get_thread_num() * m->layer_thread_floats;
    const float *active = stream_row(m, s, c->altup.active, row), *x = m->x + row * dim;
    float *gating = b->in + row * dim;
    for (size_t k = 0; k < dim; k++) change[k] = x[k] - active[k];
    for (size_t j = 0; j < n_streams; j++) {
        const float *coefficients = own->correct + j * n_streams;
        float coefficient = combine(coefficients, s->routed + row * n_streams, n_streams) + 1.0f;
        m->isa->numeric->add_scaled(stream_row(m, s, j, row), change, coefficient, dim);
    }
    for (size_t k = 0; k < dim; k++) gating[k] = own->scale ? active[k] * own->scale[k] : active[k];
}

/* Adds y to all streams but the first. */
static void add_to_others(ForwardPass *pass, const Branch *b, size_t row, float *y) {
    const Model *m = pass->model;
    const Streams *s = streams_of(m);
    (void)b;
    for (size_t j = 1; j < m->config->altup_streams; j++)
        m->isa->numeric->add_scaled(stream_row(m, s, j, row), y, 1.0f, m->config->dim);
}

/* ---- The branches ---- */

static float *take_reduced(Rows *memory, const Model *m) {
    return rows_take(memory, m->max_rows, m->config->altup.laurel_rank);
}

static void laurel_rows(Rows *memory, const Model *m, const Branch *b) {
    (void)b;
    take_reduced(memory, m);
}

static void laurel_run(ForwardPass *pass, const Branch *b) {
    Model *m = pass->model;
    const AltupLayer *own = b->weights;
    Rows memory = arena_rows(&m->arena);
    float *reduced = take_reduced(&memory, m);
    const Product left = {&own->left, reduced, own->left.rows};
    const Product right = {&own->right, b->out, m->config->dim};
    forward_multiply(m, b->in, pass->n, &left, 1);
    forward_multiply(m, reduced, pass->n, &right, 1);
}

/* Lists the branches of layer l: x = the active stream's prediction; x = (x + attention + laurel) /
 * sqrt(2); x += feed-forward; the streams are corrected by x; then the layer's own input is added
 * to all but the first. */
static void altup_list(Model *m, size_t l) {
    static const BranchKind laurel_kind = {
        .name = "laurel", .run = laurel_run, .rows = laurel_rows};
    static const StreamUse predicts = {.reads = "x = one stream, after all were predicted",
                                       .gather = predict_gather,
                                       .read = predict_read};
    static const StreamUse corrects = {.reads = "streams corrected by x; n = that one stream",
                                       .gather = correct_gather,
                                       .read = correct_read,
                                       .add = add_to_others};
    const LayerWeights *w = &m->weights.layers[l];
    const AltupLayer *own = &((const AltupWeights *)m->weights.stack)->layers[l];
    Branch *attention = branches_append_attention(m, l, &w->attention_norm, m->normed);
    attention->streams = &predicts;
    attention->same_x = true; /* laurel reads the same normed x */
    Branch *laurel = branches_append(m, l, &laurel_kind);
    branches_set_input(laurel, NULL, m->normed);
    laurel->weights = own;
    laurel->out = branches_second_output(m);
    laurel->post = &own->laurel_norm;
    laurel->adds_input = true;
    laurel->after = 1.0f / sqrtf(2.0f); /* of x + attention + laurel */
    branches_append_feed_forward(m, l, &w->ffn_norm, m->normed);
    Branch *input = per_layer_branch(m, l, &own->gate);
    branches_set_input(input, NULL, m->normed);
    input->streams = &corrects;
}

/* ---- Before the first layer and after the last ---- */

/* Root mean square. */
static float magnitude(const float *x, size_t n) {
    return sqrtf(sums_mean_square(x, 0.0f, n));
}

/* Scales y to the magnitude of x; y's own counts as at least sqrt(1e-5). */
static void match_magnitude(const Model *m, float *y, const float *x) {
    size_t dim = m->config->dim;
    float own = sums_mean_square(y, 0.0f, dim);
    m->isa->numeric->scale(y, magnitude(x, dim) / sqrtf(own < 1e-5f ? 1e-5f : own), dim);
}

/* Fills the streams: the first with x, the others with maps of it. */
static void altup_begin(ForwardPass *pass) {
    Model *m = pass->model;
    const Config *c = m->config;
    const AltupWeights *own = m->weights.stack;
    const Streams *s = streams_of(m);
    per_layer_inputs(pass, &own->table);
    for (size_t j = 1; j < c->altup_streams; j++) {
        const Product in = {&own->in[j], stream_row(m, s, j, 0), c->dim};
        forward_multiply(m, m->x, pass->n, &in, 1);
    }
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++) {
        const float *x = m->x + i * c->dim;
        memcpy(stream_row(m, s, 0, i), x, c->dim * sizeof *x);
        for (size_t j = 1; j < c->altup_streams; j++) match_magnitude(m, stream_row(m, s, j, i), x);
    }
    forward_wait(pass);
}

/* x = the mean of the first stream and maps of the others. */
static void altup_end(ForwardPass *pass) {
    Model *m = pass->model;
    const Config *c = m->config;
    const AltupWeights *own = m->weights.stack;
    const Streams *s = streams_of(m);
    size_t dim = c->dim;
    for (size_t j = 1; j <= c->altup_streams; j++) {
        const Product out = {&own->out[j], m->y, dim};
        if (j < c->altup_streams) forward_multiply(m, stream_row(m, s, j, 0), pass->n, &out, 1);
#pragma omp for schedule(static) nowait
        for (size_t i = 0; i < pass->n; i++) {
            const float *first = stream_row(m, s, 0, i);
            float *x = m->x + i * dim, *y = m->y + i * dim;
            if (j == 1) memcpy(x, first, dim * sizeof *x);
            if (j < c->altup_streams) {
                match_magnitude(m, y, first);
                m->isa->numeric->add_scaled(x, y, 1.0f, dim);
            } else {
                m->isa->numeric->scale(x, 1.0f / (float)c->altup_streams, dim);
            }
        }
        forward_wait(pass);
    }
}

const Arrangement altup_arrangement = {
    .find = altup_find,
    .keep = altup_keep,
    .thread_floats = thread_floats,
    .list = altup_list,
    .begin = altup_begin,
    .end = altup_end,
};
