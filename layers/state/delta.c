#include "layers/state/delta.h"

#include "layers/arrangements/ngram.h"
#include "layers/layer_allocate.h"
#include "layers/state/state_fields.h"
#include "layers/state/state_steps.h"
#include "core/weights.h"

/* A layer's weights: q, k, v and the gate z of the output; a, from which the decay follows, and b,
 * from which the rate of learning follows, have a row for each head. */
typedef struct Delta {
    Matrix q, k, v, z, a, b;
    Matrix z_low, a_low; /* key_dim rows, which z and a are made from; absent: from the input */
    Linear out;
    Convolution convolution; /* of q, k and v side by side */
    const float *decay;      /* [heads], -exp(A_log) */
    const float *step_bias;  /* [heads], or [keys] where state_by_key */
    Norm norm;               /* [value_dim] */
} Delta;

/* The working memory of a call: arrays of n rows each. */
typedef struct DeltaRows {
    float *mixed;         /* [channels]  q, k, v; v becomes the output */
    float *z;             /* [values] */
    float *a;             /* [steps]     become the decays */
    float *b;             /* [heads]     become the rates */
    float *z_low, *a_low; /* [key_dim]  where state_by_key */
} DeltaRows;

/* Decays of a row: one for each head, or for each element of its key. */
static size_t steps_of(const Config *c) {
    return c->state.decay_by_key ? state_sizes(c).keys : c->state.n_heads;
}

static DeltaRows delta_take_rows(Rows *memory, const Model *m) {
    const Config *c = m->config;
    const StateSizes sizes = state_sizes(c);
    size_t n = m->max_rows, low = c->state.decay_by_key ? c->state.key_dim : 0;
    DeltaRows rows;
    rows.mixed = rows_take(memory, n, sizes.channels);
    rows.z = rows_take(memory, n, sizes.values);
    rows.a = rows_take(memory, n, steps_of(c));
    rows.b = rows_take(memory, n, c->state.n_heads);
    rows.z_low = rows_take(memory, n, low);
    rows.a_low = rows_take(memory, n, low);
    return rows;
}

static void delta_rows(Rows *memory, const Model *m, const Branch *b) {
    (void)b;
    delta_take_rows(memory, m);
}

/* Columns of z or a, which is made from `low` where that exists. */
static size_t inputs_of(const Config *c, const Matrix *low) {
    return low->data ? c->state.key_dim : c->dim;
}

/* Finds a layer's weights. With decay_by_key (Kimi Delta Attention) the gates z and the decays a
 * may be products of two matrices. */
static void *delta_find(Finder *f, uint32_t layer) {
    const Config *c = f->config;
    const StateSizes sizes = state_sizes(c);
    Delta *d = layer_allocate(f, sizeof *d);
    (void)layer;
    if (!d) return NULL;
    d->q = weights_matrix(f, "delta.q", sizes.keys, c->dim, true);
    d->k = weights_matrix(f, "delta.k", sizes.keys, c->dim, true);
    d->v = weights_matrix(f, "delta.v", sizes.values, c->dim, true);
    if (c->state.decay_by_key) {
        d->z_low = weights_matrix(f, "delta.z_low", c->state.key_dim, c->dim, false);
        d->a_low = weights_matrix(f, "delta.a_low", c->state.key_dim, c->dim, false);
    }
    d->z = weights_matrix(f, "delta.z", sizes.values, inputs_of(c, &d->z_low), true);
    d->a = weights_matrix(f, "delta.a", steps_of(c), inputs_of(c, &d->a_low), true);
    d->b = weights_matrix(f, "delta.b", c->state.n_heads, c->dim, true);
    d->out = weights_linear(f, "delta.out", c->dim, sizes.values, true);
    d->convolution =
        (Convolution){.weight = weights_vector(f, "delta.convolution", c->state.conv_kernel,
                                               sizes.channels, true),
                      .channels = sizes.channels,
                      .kernel = c->state.conv_kernel,
                      .silu = true};
    d->decay = weights_vector(f, "delta.decay", 1, c->state.n_heads, true);
    d->step_bias = weights_vector(f, "delta.step_bias", 1, steps_of(c), true);
    d->norm = weights_norm(f, "delta.norm", c->state.value_dim, true);
    return d;
}

size_t delta_state_floats(const Config *c) {
    return state_convolution_floats(c->state.conv_kernel, state_sizes(c).channels) +
           c->state.n_heads * state_head_floats(c->state.key_dim, c->state.value_dim);
}

static KvLayer delta_cached(const Config *c, uint32_t layer) {
    return (KvLayer){.state_floats = delta_state_floats(c) + ngram_state_floats(c, layer)};
}

/* a[steps] = exp(-state_decay_most * sigmoid(exp(A_log) * (a + bias))). */
static void make_bounded_decays(const Model *m, const Delta *d, float *a) {
    const Config *c = m->config;
    const Numeric *numeric = m->isa->numeric;
    size_t n = steps_of(c), each = n / c->state.n_heads;
    for (size_t i = 0; i < n; i++) a[i] += d->step_bias[i];
    for (size_t head = 0; head < c->state.n_heads; head++)
        numeric->scale(a + head * each, -d->decay[head], each);
    numeric->activate(ACTIVATION_SIGMOID, a, NULL, n);
    numeric->scale(a, -c->state.decay_most, n);
    state_recurrence(m)->decay(a, NULL, a, n);
}

/* a[steps] = the decays that follow from a row's steps. */
static void make_decays(const Model *m, const Delta *d, float *a) {
    const Config *c = m->config;
    const Recurrence *recurrence = state_recurrence(m);
    size_t n = steps_of(c);
    if (c->state.decay_most != 0.0f) {
        make_bounded_decays(m, d, a);
        return;
    }
    recurrence->softplus(a, d->step_bias, 0.0f, INFINITY, n);
    for (size_t head = 0; c->state.decay_by_key && head < c->state.n_heads; head++)
        m->isa->numeric->scale(a + head * c->state.key_dim, d->decay[head], c->state.key_dim);
    recurrence->decay(a, c->state.decay_by_key ? NULL : d->decay, a, n);
}

/* Makes q and k of each head unit vectors (q is divided by sqrt(key_dim) as well), and of a and b
 * the decay and the rate of learning. */
static void delta_prepare(ForwardPass *pass, const Delta *d, const DeltaRows *rows) {
    const Model *m = pass->model;
    const Config *c = m->config;
    const Recurrence *recurrence = state_recurrence(m);
    const StateSizes sizes = state_sizes(c);
    float scale = 1.0f / sqrtf((float)c->state.key_dim);
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++) {
        float *q = rows->mixed + i * sizes.channels, *k = q + sizes.keys;
        float *b = rows->b + i * c->state.n_heads;
        for (size_t at = 0; at < sizes.keys; at += c->state.key_dim) {
            recurrence->unit(q + at, c->state.key_dim, 1e-6f, scale);
            recurrence->unit(k + at, c->state.key_dim, 1e-6f, 1.0f);
        }
        make_decays(m, d, rows->a + i * steps_of(c));
        m->isa->numeric->activate(ACTIVATION_SIGMOID, b, NULL, c->state.n_heads);
        if (c->state.beta != 0.0f) m->isa->numeric->scale(b, c->state.beta, c->state.n_heads);
    }
    forward_wait(pass);
}

/* Takes the rows of one sequence into its states. The threads share heads and blocks of columns. */
static void run_sequence(ForwardPass *pass, const DeltaRows *rows, const StateRun *run) {
    const Model *m = pass->model;
    const Config *c = m->config;
    const Recurrence *recurrence = state_recurrence(m);
    const StateSizes sizes = state_sizes(c);
    size_t pieces = (c->state.value_dim + RECURRENT_COLUMNS - 1) / RECURRENT_COLUMNS;
    size_t shared = c->state.n_heads / c->state.n_key_heads, heads = c->state.n_heads;
    size_t steps = steps_of(c), first = run->first;
    size_t head_floats = state_head_floats(c->state.key_dim, c->state.value_dim);
    float *states = run->state + state_convolution_floats(c->state.conv_kernel, sizes.channels);
#pragma omp for schedule(static) nowait
    for (size_t item = 0; item < heads * pieces; item++) {
        size_t head = item / pieces, column = item % pieces * RECURRENT_COLUMNS;
        size_t left = c->state.value_dim - column;
        size_t key_head = c->state.tiled ? head % c->state.n_key_heads : head / shared;
        float *q = rows->mixed + first * sizes.channels + key_head * c->state.key_dim;
        float *v = rows->mixed + first * sizes.channels + 2 * sizes.keys +
                   head * c->state.value_dim + column;
        const RecurrentHead piece = {
            .state = states + head * head_floats + column * c->state.key_dim,
            .key_dim = c->state.key_dim,
            .n_columns = left < RECURRENT_COLUMNS ? left : RECURRENT_COLUMNS,
            .q = q,
            .k = q + sizes.keys,
            .qk_stride = sizes.channels,
            .v = v,
            .v_stride = sizes.channels,
            .decay = rows->a + first * steps + head * (steps / heads),
            .decay_stride = steps,
            .beta = rows->b + first * heads + head,
            .beta_stride = heads,
            .out = v,
            .out_stride = sizes.channels,
            .delta = true,
            .decay_by_key = c->state.decay_by_key,
        };
        state_linear(recurrence, run, piece);
    }
}

/* z = silu(z) * norm(output), head by head; sigmoid(z) where state_by_key or
 * state_sigmoid_gate. */
static void delta_gate(ForwardPass *pass, const Delta *d, const DeltaRows *rows) {
    const Model *m = pass->model;
    const Config *c = m->config;
    const StateSizes sizes = state_sizes(c);
    float eps = state_norm_eps(c);
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++) {
        float *out = rows->mixed + i * sizes.channels + 2 * sizes.keys;
        for (size_t at = 0; at < sizes.values; at += c->state.value_dim)
            m->isa->numeric->rms_norm(out + at, out + at, d->norm.weight, c->state.value_dim, eps);
        bool sigmoid = c->state.decay_by_key || c->state.sigmoid_gate;
        m->isa->numeric->activate(sigmoid ? ACTIVATION_SIGMOID : ACTIVATION_SILU,
                                  rows->z + i * sizes.values, out, sizes.values);
    }
    forward_wait(pass);
}

/* The projections of the layer's input. */
static void project(ForwardPass *pass, const Delta *d, const float *in, const DeltaRows *rows) {
    Model *m = pass->model;
    const Config *c = m->config;
    const StateSizes sizes = state_sizes(c);
    const Product z = {&d->z, rows->z, sizes.values}, a = {&d->a, rows->a, steps_of(c)};
    const Product z_low = {&d->z_low, rows->z_low, c->state.key_dim};
    const Product a_low = {&d->a_low, rows->a_low, c->state.key_dim};
    const Product inputs[] = {
        {&d->q, rows->mixed, sizes.channels},
        {&d->k, rows->mixed + sizes.keys, sizes.channels},
        {&d->v, rows->mixed + 2 * sizes.keys, sizes.channels},
        d->z_low.data ? z_low : z,
        d->a_low.data ? a_low : a,
        {&d->b, rows->b, c->state.n_heads},
    };
    ProductSet second[2];
    size_t n = 0;
    forward_multiply(m, in, pass->n, inputs, sizeof inputs / sizeof *inputs);
    if (d->z_low.data) second[n++] = (ProductSet){rows->z_low, pass->n, &z, 1, NULL};
    if (d->a_low.data) second[n++] = (ProductSet){rows->a_low, pass->n, &a, 1, NULL};
    if (n > 0) forward_multiply_sets(m, second, n);
}

/* Runs a layer: projections, short convolution of q, k and v, the delta rule for each sequence,
 * gated norm, output. */
static void delta_run(ForwardPass *pass, const Branch *b) {
    size_t layer = b->layer;
    const float *in = b->in;
    float *y = b->out;
    Model *m = pass->model;
    const Delta *d = b->weights;
    const StateSizes sizes = state_sizes(m->config);
    Rows memory = arena_rows(&m->arena);
    const DeltaRows rows = delta_take_rows(&memory, m);
    forward_add_time(pass, PART_REST);
    project(pass, d, in, &rows);
    forward_add_time(pass, PART_PROJECTIONS);
    state_convolve(pass, layer, &d->convolution, rows.mixed, sizes.channels);
    delta_prepare(pass, d, &rows);
    for (size_t first = 0; first < pass->n;) {
        const StateRun run = state_run(pass, layer, first);
        run_sequence(pass, &rows, &run);
        first += run.n;
    }
    forward_wait(pass);
    delta_gate(pass, d, &rows);
    forward_add_time(pass, PART_ATTENTION);
    forward_project(pass, &d->out, rows.z, y);
}

const BranchKind delta_kind = {
    .name = "delta net",
    .find = delta_find,
    .rows = delta_rows,
    .cached = delta_cached,
    .run = delta_run,
};
