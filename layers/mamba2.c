#include "layers/mamba2.h"

#include <stdlib.h>

#include "layers/state_fields.h"
#include "layers/state_steps.h"
#include "weights.h"

typedef struct Mamba2 {
    Linear z, x, b, c; /* the gate, the values, what k and q are to attention */
    Linear step;       /* a row for each head */
    Linear out;
    Convolution convolution; /* of x, b and c side by side */
    const float *decay;      /* [heads], -exp(A_log) */
    const float *step_bias;  /* [heads] */
    const float *skip;       /* [heads], D */
    const float *norm;       /* [values]; NULL: the output is gated and not normalized */
} Mamba2;

/* The working memory of a call: arrays of n rows each. */
typedef struct Mamba2Rows {
    float *mixed;        /* [channels]  x, b, c; x becomes the output */
    float *z;            /* [values] */
    float *step, *decay; /* [heads] */
} Mamba2Rows;

static size_t row_floats(const Config *c) {
    const StateSizes sizes = state_sizes(c);
    return sizes.channels + sizes.values + 2 * (size_t)c->state_heads;
}

static Mamba2Rows rows_of(const Model *m) {
    const StateSizes sizes = state_sizes(m->config);
    Mamba2Rows rows = {.mixed = m->layer_rows};
    rows.z = rows.mixed + m->max_rows * sizes.channels;
    rows.step = rows.z + m->max_rows * sizes.values;
    rows.decay = rows.step + m->max_rows * m->config->state_heads;
    return rows;
}

static void *find(Finder *f, uint32_t layer) {
    const Config *c = f->config;
    const StateSizes sizes = state_sizes(c);
    Mamba2 *w = calloc(1, sizeof *w);
    (void)layer;
    if (!w) {
        f->status = error_set(f->error, "no memory for a layer");
        return NULL;
    }
    w->z = weights_linear(f, "mamba.z", sizes.values, c->dim, true);
    w->x = weights_linear(f, "mamba.x", sizes.values, c->dim, true);
    w->b = weights_linear(f, "mamba.b", sizes.keys, c->dim, true);
    w->c = weights_linear(f, "mamba.c", sizes.keys, c->dim, true);
    w->step = weights_linear(f, "mamba.step", c->state_heads, c->dim, true);
    w->out = weights_linear(f, "mamba.out", c->dim, sizes.values, true);
    w->convolution = (Convolution){
        .weight = weights_vector(f, "mamba.taps", c->state_kernel, sizes.channels, true),
        .bias = weights_vector(f, "mamba.taps.bias", 1, sizes.channels, false),
        .channels = sizes.channels,
        .kernel = c->state_kernel,
        .silu = true};
    w->decay = weights_vector(f, "mamba.decay", 1, c->state_heads, true);
    w->step_bias = weights_vector(f, "mamba.step_bias", 1, c->state_heads, true);
    w->skip = weights_vector(f, "mamba.skip", 1, c->state_heads, true);
    w->norm = weights_vector(f, "mamba.norm", 1, sizes.values, false);
    return w;
}

static KvLayer cached(const Config *c, uint32_t layer) {
    (void)layer;
    return (KvLayer){.state_floats =
                         state_convolution_floats(c->state_kernel, state_sizes(c).channels) +
                         c->state_heads * state_head_floats(c->state_key_dim, c->state_value_dim)};
}

/* Adds the biases of the projections, and makes the steps and the decays of the heads. */
static void prepare(ForwardPass *pass, const Mamba2 *w, const Mamba2Rows *rows) {
    const Model *m = pass->model;
    const Recurrence *recurrence = recurrence_of(m);
    const StateSizes sizes = state_sizes(m->config);
    size_t heads = m->config->state_heads;
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++) {
        float *x = rows->mixed + i * sizes.channels, *step = rows->step + i * heads;
        forward_add_bias(m, &w->z, rows->z + i * sizes.values);
        forward_add_bias(m, &w->x, x);
        forward_add_bias(m, &w->b, x + sizes.values);
        forward_add_bias(m, &w->c, x + sizes.values + sizes.keys);
        forward_add_bias(m, &w->step, step);
        recurrence->softplus(step, w->step_bias, 0.0f, INFINITY, heads);
        recurrence->decay(rows->decay + i * heads, w->decay, step, heads);
    }
    forward_wait(pass);
}

/* Takes the rows of one sequence into its states. The threads share heads and blocks of columns. */
static void run_sequence(ForwardPass *pass, size_t layer, const Mamba2 *w, const Mamba2Rows *rows,
                         size_t first, size_t end) {
    const Model *m = pass->model;
    const Config *c = m->config;
    const Recurrence *recurrence = recurrence_of(m);
    const StateSizes sizes = state_sizes(c);
    size_t pieces = (c->state_value_dim + RECURRENT_COLUMNS - 1) / RECURRENT_COLUMNS;
    size_t shared = c->state_heads / c->state_key_heads, heads = c->state_heads;
    size_t head_floats = state_head_floats(c->state_key_dim, c->state_value_dim);
    float *states = kvcache_state(pass->cache, pass->rows[first].sequence, layer) +
                    state_convolution_floats(c->state_kernel, sizes.channels);
#pragma omp for schedule(static) nowait
    for (size_t item = 0; item < heads * pieces; item++) {
        size_t head = item / pieces, column = item % pieces * RECURRENT_COLUMNS;
        size_t left = c->state_value_dim - column;
        float *row = rows->mixed + first * sizes.channels;
        float *x = row + head * c->state_value_dim + column;
        const float *b = row + sizes.values + head / shared * c->state_key_dim;
        const RecurrentHead piece = {
            .state = states + head * head_floats + column * c->state_key_dim,
            .key_dim = c->state_key_dim,
            .n_columns = left < RECURRENT_COLUMNS ? left : RECURRENT_COLUMNS,
            .n_rows = end - first,
            .q = b + sizes.keys,
            .k = b,
            .qk_stride = sizes.channels,
            .v = x,
            .v_stride = sizes.channels,
            .decay = rows->decay + first * heads + head,
            .decay_stride = heads,
            .beta = rows->step + first * heads + head,
            .beta_stride = heads,
            .out = x,
            .out_stride = sizes.channels,
            .skip = w->skip + head,
        };
        recurrence->linear(&piece);
    }
}

/* z = norm(silu(z) * output), or silu(z) * norm(output); a group of heads is normalized at once. */
static void gate(ForwardPass *pass, const Mamba2 *w, const Mamba2Rows *rows) {
    const Model *m = pass->model;
    const Config *c = m->config;
    const StateSizes sizes = state_sizes(c);
    size_t group = sizes.values / c->state_key_heads;
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++) {
        float *out = rows->mixed + i * sizes.channels, *z = rows->z + i * sizes.values;
        float *normed = c->state_norm_first ? out : z;
        if (!c->state_norm_first) m->isa->numeric->activate(ACTIVATION_SILU, z, out, sizes.values);
        for (size_t at = 0; w->norm && at < sizes.values; at += group)
            m->isa->numeric->rms_norm(normed + at, normed + at, w->norm + at, group, c->norm_eps);
        if (c->state_norm_first) m->isa->numeric->activate(ACTIVATION_SILU, z, out, sizes.values);
    }
    forward_wait(pass);
}

static void forward(ForwardPass *pass, size_t layer, const float *in, float *y) {
    Model *m = pass->model;
    const Config *c = m->config;
    const Mamba2 *w = m->weights.layers[layer].own;
    const StateSizes sizes = state_sizes(c);
    const Mamba2Rows rows = rows_of(m);
    const Product inputs[] = {
        {&w->z.w, rows.z, sizes.values},
        {&w->x.w, rows.mixed, sizes.channels},
        {&w->b.w, rows.mixed + sizes.values, sizes.channels},
        {&w->c.w, rows.mixed + sizes.values + sizes.keys, sizes.channels},
        {&w->step.w, rows.step, c->state_heads},
    };
    forward_add_time(pass, PART_REST);
    forward_multiply(m, in, pass->n, inputs, sizeof inputs / sizeof *inputs);
    forward_add_time(pass, PART_PROJECTIONS);
    prepare(pass, w, &rows);
    state_convolve(pass, layer, &w->convolution, rows.mixed, sizes.channels);
    for (size_t first = 0, end; first < pass->n; first = end) {
        end = state_run_end(pass, first);
        run_sequence(pass, layer, w, &rows, first, end);
    }
    forward_wait(pass);
    gate(pass, w, &rows);
    forward_add_time(pass, PART_ATTENTION);
    state_project(pass, &w->out, rows.z, y);
}

const LayerKind mamba2_layer = {
    .find = find, .row_floats = row_floats, .cached = cached, .forward = forward};
