#include "layers/state/mamba2.h"

#include "layers/layer_allocate.h"
#include "layers/state/state_fields.h"

/* The working memory of a call: arrays of n rows each. */
typedef struct Mamba2Rows {
    float *mixed;        /* [channels]  x, b, c; x becomes the output */
    float *z;            /* [values] */
    float *step, *decay; /* [heads] */
} Mamba2Rows;

static Mamba2Rows mamba2_take_rows(Rows *memory, const Model *m) {
    const StateSizes sizes = state_sizes(m->config);
    size_t n = m->max_rows;
    Mamba2Rows rows;
    rows.mixed = rows_take(memory, n, sizes.channels);
    rows.z = rows_take(memory, n, sizes.values);
    rows.step = rows_take(memory, n, m->config->state.n_heads);
    rows.decay = rows_take(memory, n, m->config->state.n_heads);
    return rows;
}

static void mamba2_rows(Rows *memory, const Model *m, const Branch *b) {
    (void)b;
    mamba2_take_rows(memory, m);
}

void mamba2_find(Finder *f, Mamba2 *w) {
    const Config *c = f->config;
    const StateSizes sizes = state_sizes(c);
    w->z = weights_linear(f, "mamba.z", sizes.values, c->dim, true);
    w->x = weights_linear(f, "mamba.x", sizes.values, c->dim, true);
    w->b = weights_linear(f, "mamba.b", sizes.keys, c->dim, true);
    w->c = weights_linear(f, "mamba.c", sizes.keys, c->dim, true);
    w->step = weights_linear(f, "mamba.step", c->state.n_heads, c->dim, true);
    w->out = weights_linear(f, "mamba.out", c->dim, sizes.values, true);
    w->convolution = (Convolution){
        .weight = weights_vector(f, "mamba.taps", c->state.conv_kernel, sizes.channels, true),
        .bias = weights_vector(f, "mamba.taps.bias", 1, sizes.channels, false),
        .channels = sizes.channels,
        .kernel = c->state.conv_kernel,
        .silu = true};
    w->decay = weights_vector(f, "mamba.decay", 1, c->state.n_heads, true);
    w->step_bias = weights_vector(f, "mamba.step_bias", 1, c->state.n_heads, true);
    w->skip = weights_vector(f, "mamba.skip", 1, c->state.n_heads, true);
    w->norm = weights_vector(f, "mamba.norm", 1, sizes.values, false);
    w->scales = weights_vector(f, "mamba.scales", 1, MAMBA2_SCALES, false);
}

size_t mamba2_state_floats(const Config *c) {
    return state_convolution_floats(c->state.conv_kernel, state_sizes(c).channels) +
           c->state.n_heads * state_head_floats(c->state.key_dim, c->state.value_dim);
}

/* Completes a part of what the layer's input is projected to: its bias and the scales. */
static void mamba2_complete(const Model *m, const Mamba2 *w, const Linear *linear, Mamba2Scale part,
                            float *x) {
    if (w->scales) m->isa->numeric->scale(x, w->scales[MAMBA2_IN], linear->w.rows);
    forward_add_bias(m, linear, x);
    if (w->scales) m->isa->numeric->scale(x, w->scales[part], linear->w.rows);
}

/* Completes the projections, and makes the steps and the decays of the heads. */
static void mamba2_prepare(ForwardPass *pass, const Mamba2 *w, const Mamba2Rows *rows) {
    const Model *m = pass->model;
    const Recurrence *recurrence = state_recurrence(m);
    const StateSizes sizes = state_sizes(m->config);
    size_t heads = m->config->state.n_heads;
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++) {
        float *x = rows->mixed + i * sizes.channels, *step = rows->step + i * heads;
        mamba2_complete(m, w, &w->z, MAMBA2_Z, rows->z + i * sizes.values);
        mamba2_complete(m, w, &w->x, MAMBA2_X, x);
        mamba2_complete(m, w, &w->b, MAMBA2_B, x + sizes.values);
        mamba2_complete(m, w, &w->c, MAMBA2_C, x + sizes.values + sizes.keys);
        mamba2_complete(m, w, &w->step, MAMBA2_STEP, step);
        recurrence->softplus(step, w->step_bias, 0.0f, INFINITY, heads);
        recurrence->decay(rows->decay + i * heads, w->decay, step, heads);
    }
    forward_wait(pass);
}

/* Takes the rows of one sequence into its states. The threads share heads and blocks of columns. */
static void run_sequence(ForwardPass *pass, const Mamba2 *w, const Mamba2Rows *rows,
                         const StateRun *run) {
    size_t first = run->first;
    const Model *m = pass->model;
    const Config *c = m->config;
    const Recurrence *recurrence = state_recurrence(m);
    const StateSizes sizes = state_sizes(c);
    size_t pieces = (c->state.value_dim + RECURRENT_COLUMNS - 1) / RECURRENT_COLUMNS;
    size_t shared = c->state.n_heads / c->state.n_key_heads, heads = c->state.n_heads;
    size_t head_floats = state_head_floats(c->state.key_dim, c->state.value_dim);
    float *states = run->state + state_convolution_floats(c->state.conv_kernel, sizes.channels);
#pragma omp for schedule(static) nowait
    for (size_t item = 0; item < heads * pieces; item++) {
        size_t head = item / pieces, column = item % pieces * RECURRENT_COLUMNS;
        size_t left = c->state.value_dim - column;
        float *row = rows->mixed + first * sizes.channels;
        float *x = row + head * c->state.value_dim + column;
        const float *b = row + sizes.values + head / shared * c->state.key_dim;
        const RecurrentHead piece = {
            .state = states + head * head_floats + column * c->state.key_dim,
            .key_dim = c->state.key_dim,
            .n_columns = left < RECURRENT_COLUMNS ? left : RECURRENT_COLUMNS,
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
        state_linear(recurrence, run, piece);
    }
}

/* z = norm(silu(z) * output), or silu(z) * norm(output); a group of heads is normalized at once. */
static void mamba2_gate(ForwardPass *pass, const Mamba2 *w, const Mamba2Rows *rows) {
    const Model *m = pass->model;
    const Config *c = m->config;
    const StateSizes sizes = state_sizes(c);
    size_t group = sizes.values / c->state.n_key_heads;
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++) {
        float *out = rows->mixed + i * sizes.channels, *z = rows->z + i * sizes.values;
        float *normed = c->state.norm_first ? out : z;
        if (!c->state.norm_first) m->isa->numeric->activate(ACTIVATION_SILU, z, out, sizes.values);
        for (size_t at = 0; w->norm && at < sizes.values; at += group)
            m->isa->numeric->rms_norm(normed + at, normed + at, w->norm + at, group,
                                      state_norm_eps(c));
        if (c->state.norm_first) m->isa->numeric->activate(ACTIVATION_SILU, z, out, sizes.values);
    }
    forward_wait(pass);
}

/* Runs a layer: projections, convolution of x, B and C side by side, the scan of each sequence,
 * gated norm, output. */
static void mamba2_run(ForwardPass *pass, const Branch *branch) {
    Model *m = pass->model;
    const Config *c = m->config;
    const Mamba2 *w = branch->weights;
    size_t layer = branch->layer;
    const StateSizes sizes = state_sizes(c);
    Rows memory = arena_rows(&m->arena);
    const Mamba2Rows rows = mamba2_take_rows(&memory, m);
    const Product inputs[] = {
        {&w->z.w, rows.z, sizes.values},
        {&w->x.w, rows.mixed, sizes.channels},
        {&w->b.w, rows.mixed + sizes.values, sizes.channels},
        {&w->c.w, rows.mixed + sizes.values + sizes.keys, sizes.channels},
        {&w->step.w, rows.step, c->state.n_heads},
    };
    forward_add_time(pass, PART_REST);
    forward_multiply(m, branch->in, pass->n, inputs, sizeof inputs / sizeof *inputs);
    forward_add_time(pass, PART_PROJECTIONS);
    mamba2_prepare(pass, w, &rows);
    state_convolve(pass, layer, &w->convolution, rows.mixed, sizes.channels);
    for (size_t first = 0; first < pass->n;) {
        const StateRun run = state_run(pass, layer, first);
        run_sequence(pass, w, &rows, &run);
        first += run.n;
    }
    forward_wait(pass);
    mamba2_gate(pass, w, &rows);
    forward_add_time(pass, PART_ATTENTION);
    forward_project(pass, &w->out, rows.z, branch->out);
}

/* ---- Layers of nothing else ---- */

static void *find(Finder *f, uint32_t layer) {
    Mamba2 *w = layer_allocate(f, sizeof *w);
    (void)layer;
    if (w) mamba2_find(f, w);
    return w;
}

static KvLayer mamba2_cached(const Config *c, uint32_t layer) {
    (void)layer;
    return (KvLayer){.state_floats = mamba2_state_floats(c)};
}

const BranchKind mamba2_kind = {
    .name = "mamba 2",
    .find = find,
    .rows = mamba2_rows,
    .cached = mamba2_cached,
    .run = mamba2_run,
};
