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

#include "forward_pass.h"
#include "layers/per_layer.h"
#include "layers/stacks.h"
#include "layers/sums.h"

typedef struct AltupLayer {
    PerLayerGate gate;
    Matrix router;        /* S x dim */
    Norm router_norm;     /* [dim] */
    const float *predict; /* [S * S][S] */
    const float *correct; /* [S][S] */
    const float *scale;   /* [dim], of the active stream before the gate; NULL: none */
    Matrix left, right;   /* Laurel's: rank x dim, dim x rank */
    Norm laurel_norm;     /* [dim] */
    const float *cutoff;  /* [1] standard deviations above the mean; NULL: all gates are kept */
} AltupLayer;

typedef struct AltupWeights {
    PerLayerTable table;
    Matrix in[16], out[16]; /* dim x dim, of all streams but the first */
} AltupWeights;

/* Working memory of a call: sections of Model.layer_rows, each with a row for each of max_rows. */
typedef struct Sections {
    float *inputs;  /* [n][n_layers * per_layer_dim] */
    float *gated;   /* [n][per_layer_dim] */
    float *streams; /* [S][max_rows][dim] */
    float *routed;  /* [n][S], the router's output */
    float *reduced; /* [n][rank] */
    float *laurel;  /* [n][dim] */
} Sections;

static size_t row_floats(const Config *c) {
    size_t p = c->per_layer_dim, streams = c->altup_streams;
    return (c->n_layers + 1) * p + (streams + 1) * c->dim + streams + c->laurel_rank;
}

/* A thread's copy of a row of all streams, or of an embedding. */
static size_t thread_floats(const Config *c) {
    size_t copy = (size_t)c->altup_streams * c->dim, embedding = per_layer_thread_floats(c);
    return copy > embedding ? copy : embedding;
}

static Sections sections(const Model *m) {
    const Config *c = m->config;
    size_t n = m->max_rows, p = c->per_layer_dim;
    Sections s = {.inputs = m->layer_rows};
    s.gated = s.inputs + n * c->n_layers * p;
    s.streams = s.gated + n * p;
    s.routed = s.streams + n * c->altup_streams * c->dim;
    s.reduced = s.routed + n * c->altup_streams;
    s.laurel = s.reduced + n * c->laurel_rank;
    return s;
}

/* Row `row` of a stream. */
static float *stream_row(const Model *m, const Sections *s, size_t stream, size_t row) {
    return s->streams + (stream * m->max_rows + row) * m->config->dim;
}

/* ---- Weights ---- */

static AltupLayer *find_layer(Finder *f, uint32_t l) {
    const Config *c = f->config;
    size_t streams = c->altup_streams, rank = c->laurel_rank;
    AltupLayer *layer = stack_allocate(f, sizeof *layer);
    if (!layer) return NULL;
    snprintf(f->prefix, sizeof f->prefix, "layers.%u.", l);
    per_layer_find_gate(f, &layer->gate);
    layer->router = weights_matrix(f, "altup.router", streams, c->dim, true);
    layer->router_norm = weights_norm(f, "altup.router_norm", c->dim, true);
    layer->predict = weights_vector(f, "altup.predict", streams * streams, streams, true);
    layer->correct = weights_vector(f, "altup.correct", streams, streams, true);
    if (c->altup_scales) layer->scale = weights_vector(f, "altup.scale", 1, c->dim, true);
    layer->left = weights_matrix(f, "laurel.left", rank, c->dim, true);
    layer->right = weights_matrix(f, "laurel.right", c->dim, rank, true);
    layer->laurel_norm = weights_norm(f, "laurel.norm", c->dim, true);
    layer->cutoff = weights_vector(f, "gate_cutoff", 1, 1, false);
    return layer;
}

static void find(Finder *f, Weights *weights) {
    const Config *c = f->config;
    AltupWeights *own = stack_allocate(f, sizeof *own);
    weights->stack = own;
    if (own) per_layer_find_table(f, &own->table);
    for (uint32_t i = 1; own && i < c->altup_streams; i++) {
        char name[32];
        snprintf(name, sizeof name, "altup.in.%u", i);
        own->in[i] = weights_matrix(f, name, c->dim, c->dim, true);
        snprintf(name, sizeof name, "altup.out.%u", i);
        own->out[i] = weights_matrix(f, name, c->dim, c->dim, true);
    }
    for (uint32_t l = 0; l < c->n_layers; l++) weights->layers[l].own = find_layer(f, l);
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

/* Replaces the streams by their predictions for layer l, and prepares its attention: x = the active
 * stream, Model.normed = its pre-norm. */
static void predict(ForwardPass *pass, size_t l, const Sections *s) {
    Model *m = pass->model;
    const Config *c = m->config;
    const LayerWeights *w = &m->weights.layers[l];
    const AltupLayer *own = w->own;
    size_t dim = c->dim, n_streams = c->altup_streams;
    float *old = m->layer_threads + (size_t)omp_get_thread_num() * m->layer_thread_floats;
    route(pass, own, stream_row(m, s, c->altup_active, 0), s->routed);
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++) {
        const float *routed = s->routed + i * n_streams;
        for (size_t k = 0; k < n_streams; k++)
            memcpy(old + k * dim, stream_row(m, s, k, i), dim * sizeof *old);
        for (size_t j = 0; j < n_streams; j++)
            for (size_t k = 0; k < n_streams; k++) {
                const float *row = own->predict + (j * n_streams + k) * n_streams;
                m->isa->numeric->add_scaled(stream_row(m, s, j, i), old + k * dim,
                                            combine(row, routed, n_streams), dim);
            }
        float *x = m->x + i * dim;
        memcpy(x, stream_row(m, s, c->altup_active, i), dim * sizeof *x);
        forward_normalize(m, &w->attention_norm, m->normed + i * dim, x, dim);
    }
    forward_wait(pass);
}

/* Corrects the streams, which hold predictions, by x, the active stream after the block. Leaves
 * what gates the layer's own input in Model.normed. */
static void correct(ForwardPass *pass, const AltupLayer *own, const Sections *s) {
    Model *m = pass->model;
    const Config *c = m->config;
    size_t dim = c->dim, n_streams = c->altup_streams;
    float *change = m->layer_threads + (size_t)omp_get_thread_num() * m->layer_thread_floats;
    route(pass, own, m->x, s->routed);
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++) {
        const float *active = stream_row(m, s, c->altup_active, i), *x = m->x + i * dim;
        float *gating = m->normed + i * dim;
        for (size_t k = 0; k < dim; k++) change[k] = x[k] - active[k];
        for (size_t j = 0; j < n_streams; j++) {
            const float *row = own->correct + j * n_streams;
            float share = combine(row, s->routed + i * n_streams, n_streams) + 1.0f;
            m->isa->numeric->add_scaled(stream_row(m, s, j, i), change, share, dim);
        }
        for (size_t k = 0; k < dim; k++)
            gating[k] = own->scale ? active[k] * own->scale[k] : active[k];
    }
    forward_wait(pass);
}

/* ---- Feed-forward ---- */

/* gate[n] = max(0, gate - mean - cutoff * standard deviation). NaN stays NaN. */
static void cut_gate(float *gate, size_t n, float cutoff) {
    float mean = sums_mean(gate, n);
    float edge = fmaf(sqrtf(sums_mean_square(gate, mean, n)), cutoff, mean);
    for (size_t i = 0; i < n; i++) gate[i] = gate[i] < edge ? 0.0f : gate[i] - edge;
}

/* y = the feed-forward of in, whose gates are cut. */
static void sparse_feed_forward(ForwardPass *pass, const FeedForward *f, float cutoff,
                                const float *in, float *y) {
    Model *m = pass->model;
    const Config *c = m->config;
    const Product inner[] = {{&f->up.w, m->up, f->width}, {&f->gate.w, m->gate, f->width}};
    const Product out = {&f->down.w, y, c->dim};
    forward_multiply(m, in, pass->n, inner, 2);
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++) {
        float *up = m->up + i * f->width, *gate = m->gate + i * f->width;
        cut_gate(gate, f->width, cutoff);
        m->isa->numeric->activate(c->activation, gate, up, f->width);
    }
    forward_wait(pass);
    forward_multiply(m, m->gate, pass->n, &out, 1);
}

/* ---- The stack ---- */

/* Adds Laurel's map of attention's input to a row of x, which has attention added already, and
 * scales the sum; prepares the feed-forward's input. */
static void add_laurel(const Model *m, const LayerWeights *w, const Sections *s, size_t row) {
    const AltupLayer *own = w->own;
    const Numeric *numeric = m->isa->numeric;
    size_t dim = m->config->dim;
    float *x = m->x + row * dim, *normed = m->normed + row * dim, *laurel = s->laurel + row * dim;
    forward_normalize(m, &own->laurel_norm, laurel, laurel, dim);
    numeric->add_scaled(laurel, normed, 1.0f, dim);
    numeric->add_scaled(x, laurel, 1.0f, dim);
    numeric->scale(x, 1.0f / sqrtf(2.0f), dim);
    forward_normalize(m, &w->ffn_norm, normed, x, dim);
}

/* One block, on the streams' predictions. */
static void block(ForwardPass *pass, size_t l, const Sections *s) {
    Model *m = pass->model;
    const Config *c = m->config;
    const LayerWeights *w = &m->weights.layers[l];
    const AltupLayer *own = w->own;
    const Product left = {&own->left, s->reduced, c->laurel_rank};
    const Product right = {&own->right, s->laurel, c->dim};
    forward_multiply(m, m->normed, pass->n, &left, 1);
    forward_multiply(m, s->reduced, pass->n, &right, 1);
    pass->steps->attention(pass, l, m->normed, m->y);
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++) {
        pass->steps->add(pass, l, i, &w->wo, &w->post_attention_norm, NULL, m->y);
        add_laurel(m, w, s, i);
    }
    forward_wait(pass);
    forward_add_time(pass, PART_REST);
    if (own->cutoff) {
        sparse_feed_forward(pass, &w->ffn, *own->cutoff, m->normed, m->y);
    } else {
        feed_forward(pass, &w->ffn, pass->n, m->normed, m->y);
    }
    forward_add_time(pass, PART_FEED_FORWARD);
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++)
        pass->steps->add(pass, l, i, &w->ffn.down, &w->post_ffn_norm, NULL, m->y);
    forward_wait(pass);
    correct(pass, own, s);
    per_layer_output(pass, &own->gate, l, s->inputs, m->normed, s->gated, m->y);
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++)
        for (size_t j = 1; j < c->altup_streams; j++)
            m->isa->numeric->add_scaled(stream_row(m, s, j, i), m->y + i * c->dim, 1.0f, c->dim);
    forward_wait(pass);
}

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
static void begin(ForwardPass *pass, const Sections *s) {
    Model *m = pass->model;
    const Config *c = m->config;
    const AltupWeights *own = m->weights.stack;
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
static void end(ForwardPass *pass, const Sections *s) {
    Model *m = pass->model;
    const Config *c = m->config;
    const AltupWeights *own = m->weights.stack;
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

static void forward(ForwardPass *pass) {
    Model *m = pass->model;
    const Sections s = sections(m);
    const AltupWeights *own = m->weights.stack;
    if (pass->first_layer == 0) {
        per_layer_inputs(pass, &own->table, s.inputs);
        begin(pass, &s);
    }
    for (size_t l = pass->first_layer; l < pass->end_layer; l++) {
        predict(pass, l, &s);
        block(pass, l, &s);
    }
    if (pass->end_layer == m->config->n_layers) end(pass, &s);
}

const StackKind stack_altup = {find, row_floats, thread_floats, forward};
