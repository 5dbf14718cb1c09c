#include "layers/mamba.h"

#include <stdlib.h>

#include "layers/state_fields.h"
#include "layers/state_steps.h"
#include "weights.h"

typedef struct Mamba {
    Linear z, x; /* channels x dim: the gate, what is convolved */
    Convolution convolution;
    Matrix rank;                  /* state_rank x channels: what steps are made from */
    Matrix b, c;                  /* n x channels */
    const float *rank_norm;       /* [state_rank]; NULL: none of the three is normalized */
    const float *b_norm, *c_norm; /* [n] */
    Matrix step;                  /* channels x state_rank */
    const float *step_bias;       /* [channels] */
    const float *decay;           /* [n][channels], -exp(A_log) */
    const float *skip;            /* [channels], D */
    Linear out;                   /* dim x channels */
} Mamba;

/* The working memory of a call: arrays of n rows each. */
typedef struct MambaRows {
    float *x, *z; /* [channels]  x becomes the output */
    float *step;  /* [channels] */
    float *rank;  /* [state_rank] */
    float *b, *c; /* [n] */
} MambaRows;

static MambaRows mamba_take_rows(Rows *memory, const Model *m) {
    const Config *c = m->config;
    size_t n = m->max_rows;
    MambaRows rows;
    rows.x = rows_take(memory, n, c->state.n_heads);
    rows.z = rows_take(memory, n, c->state.n_heads);
    rows.step = rows_take(memory, n, c->state.n_heads);
    rows.rank = rows_take(memory, n, c->state.dt_rank);
    rows.b = rows_take(memory, n, c->state.key_dim);
    rows.c = rows_take(memory, n, c->state.key_dim);
    return rows;
}

static void mamba_rows(Rows *memory, const Model *m, const Branch *b) {
    (void)b;
    mamba_take_rows(memory, m);
}

static void *mamba_find(Finder *f, uint32_t layer) {
    const Config *c = f->config;
    size_t channels = c->state.n_heads, n = c->state.key_dim;
    Mamba *w = calloc(1, sizeof *w);
    (void)layer;
    if (!w) {
        f->status = error_set(f->error, "no memory for a layer");
        return NULL;
    }
    w->z = weights_linear(f, "mamba.z", channels, c->dim, true);
    w->x = weights_linear(f, "mamba.x", channels, c->dim, true);
    w->convolution = (Convolution){
        .weight = weights_vector(f, "mamba.taps", c->state.conv_kernel, channels, true),
        .bias = weights_vector(f, "mamba.taps.bias", 1, channels, false),
        .channels = channels,
        .kernel = c->state.conv_kernel,
        .silu = true};
    w->rank = weights_matrix(f, "mamba.rank", c->state.dt_rank, channels, true);
    w->b = weights_matrix(f, "mamba.b", n, channels, true);
    w->c = weights_matrix(f, "mamba.c", n, channels, true);
    w->rank_norm = weights_vector(f, "mamba.rank_norm", 1, c->state.dt_rank, false);
    w->b_norm = weights_vector(f, "mamba.b_norm", 1, n, w->rank_norm != NULL);
    w->c_norm = weights_vector(f, "mamba.c_norm", 1, n, w->rank_norm != NULL);
    w->step = weights_matrix(f, "mamba.step", channels, c->state.dt_rank, true);
    w->step_bias = weights_vector(f, "mamba.step_bias", 1, channels, true);
    w->decay = weights_vector(f, "mamba.decay", n, channels, true);
    w->skip = weights_vector(f, "mamba.skip", 1, channels, true);
    w->out = weights_linear(f, "mamba.out", c->dim, channels, true);
    return w;
}

static KvLayer mamba_cached(const Config *c, uint32_t layer) {
    (void)layer;
    return (KvLayer){.state_floats =
                         state_convolution_floats(c->state.conv_kernel, c->state.n_heads) +
                         state_head_floats(c->state.key_dim, c->state.n_heads)};
}

static void add_biases(ForwardPass *pass, const Mamba *w, const MambaRows *rows) {
    const Model *m = pass->model;
    size_t channels = m->config->state.n_heads;
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++) {
        forward_add_bias(m, &w->z, rows->z + i * channels);
        forward_add_bias(m, &w->x, rows->x + i * channels);
    }
    forward_wait(pass);
}

static void normalize(ForwardPass *pass, const Mamba *w, const MambaRows *rows) {
    const Model *m = pass->model;
    const Numeric *numeric = m->isa->numeric;
    size_t rank = m->config->state.dt_rank, n = m->config->state.key_dim;
    float eps = state_norm_eps(m->config);
    if (!w->rank_norm) return;
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++) {
        float *of_rank = rows->rank + i * rank, *b = rows->b + i * n, *c = rows->c + i * n;
        numeric->rms_norm(of_rank, of_rank, w->rank_norm, rank, eps);
        numeric->rms_norm(b, b, w->b_norm, n, eps);
        numeric->rms_norm(c, c, w->c_norm, n, eps);
    }
    forward_wait(pass);
}

/* Makes B, C and the steps of the rows' convolved x. */
static void select_inputs(ForwardPass *pass, const Mamba *w, const MambaRows *rows) {
    Model *m = pass->model;
    const Recurrence *recurrence = state_recurrence(m);
    size_t channels = m->config->state.n_heads;
    const Product inputs[] = {{&w->rank, rows->rank, w->rank.rows},
                              {&w->b, rows->b, w->b.rows},
                              {&w->c, rows->c, w->c.rows}};
    const Product step = {&w->step, rows->step, channels};
    forward_multiply(m, rows->x, pass->n, inputs, 3);
    normalize(pass, w, rows);
    forward_multiply(m, rows->rank, pass->n, &step, 1);
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++)
        recurrence->softplus(rows->step + i * channels, w->step_bias, 0.0f, INFINITY, channels);
    forward_wait(pass);
}

/* Takes the rows of one sequence into its states. The threads share blocks of channels. */
static void run_sequence(ForwardPass *pass, const Mamba *w, const MambaRows *rows,
                         const StateRun *run) {
    enum { CHANNELS = 2 * RECURRENT_LANES };
    const Model *m = pass->model;
    const Config *c = m->config;
    const Recurrence *recurrence = state_recurrence(m);
    size_t channels = c->state.n_heads, n = c->state.key_dim, first = run->first;
    const SelectiveScan scan = {
        .state = run->state + state_convolution_floats(c->state.conv_kernel, channels),
        .a = w->decay,
        .skip = w->skip,
        .channels = channels,
        .n = n,
        .step = rows->step + first * channels,
        .step_stride = channels,
        .x = rows->x + first * channels,
        .x_stride = channels,
        .b = rows->b + first * n,
        .b_stride = n,
        .c = rows->c + first * n,
        .c_stride = n,
    };
#pragma omp for schedule(static) nowait
    for (size_t at = 0; at < channels; at += CHANNELS)
        state_scan(recurrence, run, scan, at, at + CHANNELS < channels ? at + CHANNELS : channels);
}

/* z = silu(z) * output. */
static void mamba_gate(ForwardPass *pass, const MambaRows *rows) {
    const Model *m = pass->model;
    size_t channels = m->config->state.n_heads;
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++)
        m->isa->numeric->activate(ACTIVATION_SILU, rows->z + i * channels, rows->x + i * channels,
                                  channels);
    forward_wait(pass);
}

/* Runs a layer: projections, convolution of x, the steps, B and C that x selects, the scan of each
 * sequence, gate, output. */
static void mamba_run(ForwardPass *pass, const Branch *b) {
    size_t layer = b->layer;
    const float *in = b->in;
    float *y = b->out;
    Model *m = pass->model;
    const Mamba *w = b->weights;
    Rows memory = arena_rows(&m->arena);
    const MambaRows rows = mamba_take_rows(&memory, m);
    size_t channels = m->config->state.n_heads;
    const Product inputs[] = {{&w->z.w, rows.z, channels}, {&w->x.w, rows.x, channels}};
    forward_add_time(pass, PART_REST);
    forward_multiply(m, in, pass->n, inputs, 2);
    forward_add_time(pass, PART_PROJECTIONS);
    add_biases(pass, w, &rows);
    state_convolve(pass, layer, &w->convolution, rows.x, channels);
    select_inputs(pass, w, &rows);
    for (size_t first = 0; first < pass->n;) {
        const StateRun run = state_run(pass, layer, first);
        run_sequence(pass, w, &rows, &run);
        first += run.n;
    }
    forward_wait(pass);
    mamba_gate(pass, &rows);
    forward_add_time(pass, PART_ATTENTION);
    forward_project(pass, &w->out, rows.z, y);
}

const BranchKind mamba_layer = {
    .name = "mamba",
    .find = mamba_find,
    .rows = mamba_rows,
    .cached = mamba_cached,
    .run = mamba_run,
};
