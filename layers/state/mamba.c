#include "layers/state/mamba.h"

#include <stdio.h>
#include <string.h>

#include "layers/layer_allocate.h"
#include "layers/state/state_fields.h"
#include "layers/state/state_steps.h"
#include "core/weights.h"

/* A part of the channels, `width` of them, that is selected by itself: most models have one. */
typedef struct MambaHead {
    Matrix rank;        /* state_rank x width: what steps are made from */
    Matrix b, c;        /* n x width */
    Matrix step;        /* width x state_rank */
    const float *decay; /* [n][width], -exp(A_log) */
} MambaHead;

struct Mamba {
    Linear z, x; /* channels x dim: the gate, what is convolved */
    Convolution convolution;
    const float *rank_norm;       /* [state_rank]; NULL: none of the three is normalized */
    const float *b_norm, *c_norm; /* [n] */
    const float *step_bias;       /* [channels] */
    const float *skip;            /* [channels], D */
    Linear out;                   /* dim x channels */
    MambaHead heads[];            /* [state_key_heads] */
};

/* The working memory of a call: arrays of n rows each. */
typedef struct MambaRows {
    float *x, *z;   /* [channels]  x becomes the output */
    float *step;    /* [channels] */
    float *by_head; /* x, the rows of a head after those of another; not where there is one */
    float *rank;    /* [state_rank], of a head after another, as b and c */
    float *b, *c;   /* [n] */
} MambaRows;

static MambaRows mamba_take_rows(Rows *memory, const Model *m) {
    const Config *c = m->config;
    size_t n = m->max_rows;
    MambaRows rows;
    rows.x = rows_take(memory, n, c->state.n_heads);
    rows.z = rows_take(memory, n, c->state.n_heads);
    rows.step = rows_take(memory, n, c->state.n_heads);
    size_t n_heads = c->state.n_key_heads;
    rows.by_head = rows_take(memory, n, n_heads > 1 ? c->state.n_heads : 0);
    rows.rank = rows_take(memory, n, n_heads * c->state.dt_rank);
    rows.b = rows_take(memory, n, n_heads * c->state.key_dim);
    rows.c = rows_take(memory, n, n_heads * c->state.key_dim);
    return rows;
}

static void mamba_rows(Rows *memory, const Model *m, const Branch *b) {
    (void)b;
    mamba_take_rows(memory, m);
}

size_t mamba_bytes(const Config *c) {
    return sizeof(Mamba) + c->state.n_key_heads * sizeof(MambaHead);
}

/* The name of a head's tensor: its number stands after the name where there are several. */
static const char *name_of_head(char *out, size_t size, const char *name, size_t head,
                                size_t n_heads) {
    if (n_heads == 1) return name;
    snprintf(out, size, "%s.%zu", name, head);
    return out;
}

static MambaHead find_head(Finder *f, size_t head) {
    const Config *c = f->config;
    size_t n_heads = c->state.n_key_heads, width = c->state.n_heads / n_heads, n = c->state.key_dim;
    char name[5][32];
#define NAME(i, text) name_of_head(name[i], sizeof name[i], text, head, n_heads)
    return (MambaHead){
        .rank = weights_matrix(f, NAME(0, "mamba.rank"), c->state.dt_rank, width, true),
        .b = weights_matrix(f, NAME(1, "mamba.b"), n, width, true),
        .c = weights_matrix(f, NAME(2, "mamba.c"), n, width, true),
        .step = weights_matrix(f, NAME(3, "mamba.step"), width, c->state.dt_rank, true),
        .decay = weights_vector(f, NAME(4, "mamba.decay"), n, width, true)};
#undef NAME
}

void mamba_find(Finder *f, Mamba *w) {
    const Config *c = f->config;
    size_t channels = c->state.n_heads, n = c->state.key_dim, n_heads = c->state.n_key_heads;
    w->z = weights_linear(f, "mamba.z", channels, c->dim, true);
    w->x = weights_linear(f, "mamba.x", channels, c->dim, true);
    w->convolution = (Convolution){
        .weight = weights_vector(f, "mamba.taps", c->state.conv_kernel, channels, true),
        .bias = weights_vector(f, "mamba.taps.bias", 1, channels, false),
        .channels = channels,
        .kernel = c->state.conv_kernel,
        .silu = true};
    for (size_t head = 0; head < n_heads; head++) w->heads[head] = find_head(f, head);
    if (n_heads == 1)
        w->rank_norm = weights_vector(f, "mamba.rank_norm", 1, c->state.dt_rank, false);
    w->b_norm = weights_vector(f, "mamba.b_norm", 1, n, w->rank_norm != NULL);
    w->c_norm = weights_vector(f, "mamba.c_norm", 1, n, w->rank_norm != NULL);
    w->step_bias = weights_vector(f, "mamba.step_bias", 1, channels, true);
    w->skip = weights_vector(f, "mamba.skip", 1, channels, true);
    w->out = weights_linear(f, "mamba.out", c->dim, channels, true);
}

static void *mamba_layer_find(Finder *f, uint32_t layer) {
    Mamba *w = layer_allocate(f, mamba_bytes(f->config));
    (void)layer;
    if (w) mamba_find(f, w);
    return w;
}

size_t mamba_state_floats(const Config *c) {
    size_t n_heads = c->state.n_key_heads;
    return state_convolution_floats(c->state.conv_kernel, c->state.n_heads) +
           n_heads * state_head_floats(c->state.key_dim, c->state.n_heads / n_heads);
}

static KvLayer mamba_cached(const Config *c, uint32_t layer) {
    (void)layer;
    return (KvLayer){.state_floats = mamba_state_floats(c)};
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

/* Copies x so that the rows of a head lie together. */
static void part_heads(ForwardPass *pass, const MambaRows *rows) {
    const Config *c = pass->model->config;
    size_t n_heads = c->state.n_key_heads, width = c->state.n_heads / n_heads;
    if (n_heads == 1) return;
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n * n_heads; i++) {
        size_t row = i / n_heads, head = i % n_heads;
        memcpy(rows->by_head + (head * pass->n + row) * width, rows->x + i * width,
               width * sizeof *rows->x);
    }
    forward_wait(pass);
}

/* Makes B, C and the steps of the rows' convolved x. */
static void select_inputs(ForwardPass *pass, const Mamba *w, const MambaRows *rows) {
    Model *m = pass->model;
    const Recurrence *recurrence = state_recurrence(m);
    size_t channels = m->config->state.n_heads, n_heads = m->config->state.n_key_heads;
    size_t rank = m->config->state.dt_rank, n = m->config->state.key_dim;
    const float *in = n_heads > 1 ? rows->by_head : rows->x;
    Product inputs[STATE_MOST_MAMBA_HEADS][3], steps[STATE_MOST_MAMBA_HEADS];
    ProductSet sets[STATE_MOST_MAMBA_HEADS];
    part_heads(pass, rows);
    for (size_t h = 0, width = channels / n_heads; h < n_heads; h++) {
        const MambaHead *head = &w->heads[h];
        inputs[h][0] = (Product){&head->rank, rows->rank + h * pass->n * rank, rank};
        inputs[h][1] = (Product){&head->b, rows->b + h * pass->n * n, n};
        inputs[h][2] = (Product){&head->c, rows->c + h * pass->n * n, n};
        steps[h] = (Product){&head->step, rows->step + h * width, channels};
        sets[h] = (ProductSet){in + h * pass->n * width, pass->n, inputs[h], 3, NULL};
    }
    forward_multiply_sets(m, sets, n_heads);
    normalize(pass, w, rows);
    for (size_t h = 0; h < n_heads; h++)
        sets[h] = (ProductSet){rows->rank + h * pass->n * rank, pass->n, &steps[h], 1, NULL};
    forward_multiply_sets(m, sets, n_heads);
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++)
        recurrence->softplus(rows->step + i * channels, w->step_bias, 0.0f, INFINITY, channels);
    forward_wait(pass);
}

/* The scan of one head for the rows of a sequence. */
static SelectiveScan scan_of(const ForwardPass *pass, const Mamba *w, const MambaRows *rows,
                             const StateRun *run, size_t head) {
    const Config *c = pass->model->config;
    size_t channels = c->state.n_heads, n = c->state.key_dim,
           width = channels / c->state.n_key_heads;
    size_t at = run->first * channels + head * width, row = head * pass->n + run->first;
    return (SelectiveScan){
        .state = run->state + state_convolution_floats(c->state.conv_kernel, channels) +
                 head * state_head_floats(n, width),
        .a = w->heads[head].decay,
        .skip = w->skip + head * width,
        .channels = width,
        .n = n,
        .step = rows->step + at,
        .step_stride = channels,
        .x = rows->x + at,
        .x_stride = channels,
        .b = rows->b + row * n,
        .b_stride = n,
        .c = rows->c + row * n,
        .c_stride = n,
    };
}

/* Takes the rows of one sequence into its states. The threads share blocks of channels. */
static void run_sequence(ForwardPass *pass, const Mamba *w, const MambaRows *rows,
                         const StateRun *run) {
    enum { CHANNELS = 2 * RECURRENT_LANES };
    const Config *c = pass->model->config;
    const Recurrence *recurrence = state_recurrence(pass->model);
    size_t n_heads = c->state.n_key_heads, width = c->state.n_heads / n_heads;
    size_t n_blocks = (width - 1) / CHANNELS + 1;
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < n_heads * n_blocks; i++) {
        size_t at = i % n_blocks * CHANNELS;
        state_scan(recurrence, run, scan_of(pass, w, rows, run, i / n_blocks), at,
                   at + CHANNELS < width ? at + CHANNELS : width);
    }
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

const BranchKind mamba_kind = {
    .name = "mamba",
    .find = mamba_layer_find,
    .rows = mamba_rows,
    .cached = mamba_cached,
    .run = mamba_run,
};
