#include "layers/state/lightning.h"

#include "layers/layer_allocate.h"
#include "layers/state/state_fields.h"
#include "layers/state/state_steps.h"
#include "core/weights.h"

typedef struct Lightning {
    Matrix q, k, v, gate; /* heads * head_dim rows */
    Linear out;
    Norm norm;     /* [heads * head_dim] */
    float decay[]; /* [heads], exp(-slope) */
} Lightning;

/* The working memory of a call: arrays [n][heads * head_dim]. */
typedef struct LightningRows {
    float *q, *k, *v, *gate; /* v becomes the output */
} LightningRows;

static LightningRows lightning_take_rows(Rows *memory, const Model *m) {
    size_t n = m->max_rows, width = state_sizes(m->config).values;
    LightningRows rows;
    rows.q = rows_take(memory, n, width);
    rows.k = rows_take(memory, n, width);
    rows.v = rows_take(memory, n, width);
    rows.gate = rows_take(memory, n, width);
    return rows;
}

static void lightning_rows(Rows *memory, const Model *m, const Branch *b) {
    (void)b;
    lightning_take_rows(memory, m);
}

/* Finds the weights of the layer, and computes each head's decay, exp(-slope). Returns NULL, with
 * f->status set, where memory is short. */
static void *lightning_find(Finder *f, uint32_t layer) {
    const Config *c = f->config;
    size_t values = state_sizes(c).values;
    Lightning *w = layer_allocate(f, sizeof *w + c->state.n_heads * sizeof *w->decay);
    (void)layer;
    if (!w) return NULL;
    w->q = weights_matrix(f, "lightning.q", values, c->dim, true);
    w->k = weights_matrix(f, "lightning.k", values, c->dim, true);
    w->v = weights_matrix(f, "lightning.v", values, c->dim, true);
    w->gate = weights_matrix(f, "lightning.gate", values, c->dim, true);
    w->out = weights_linear(f, "lightning.out", c->dim, values, true);
    w->norm = weights_norm(f, "lightning.norm", values, true);
    w->norm.eps = c->state.norm_eps;
    const float *slope = weights_vector(f, "lightning.slope", 1, c->state.n_heads, true);
    for (uint32_t i = 0; slope && i < c->state.n_heads; i++) w->decay[i] = -slope[i];
    /* Any instruction set gives the same bits. */
    recurrence_reference.decay(w->decay, NULL, w->decay, c->state.n_heads);
    return w;
}

static KvLayer lightning_cached(const Config *c, uint32_t layer) {
    (void)layer;
    return (KvLayer){.state_floats = c->state.n_heads *
                                     state_head_floats(c->state.key_dim, c->state.value_dim)};
}

/* Activates the projections q, k and v. */
static void activate(ForwardPass *pass, const LightningRows *rows, size_t width) {
    const Model *m = pass->model;
    const Numeric *numeric = m->isa->numeric;
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++) {
        numeric->activate(m->config->activation, rows->q + i * width, NULL, width);
        numeric->activate(m->config->activation, rows->k + i * width, NULL, width);
        numeric->activate(m->config->activation, rows->v + i * width, NULL, width);
    }
    forward_wait(pass);
}

/* Takes the rows of one sequence into its states. The threads share heads and blocks of columns. */
static void run_sequence(ForwardPass *pass, const Lightning *w, const LightningRows *rows,
                         const StateRun *run) {
    size_t first = run->first;
    static const float one = 1.0f;
    const Model *m = pass->model;
    const Config *c = m->config;
    const Recurrence *recurrence = state_recurrence(m);
    size_t width = state_sizes(c).values, dim = c->state.value_dim;
    size_t pieces = (dim + RECURRENT_COLUMNS - 1) / RECURRENT_COLUMNS;
    float *states = run->state;
#pragma omp for schedule(static) nowait
    for (size_t item = 0; item < c->state.n_heads * pieces; item++) {
        size_t head = item / pieces, column = item % pieces * RECURRENT_COLUMNS;
        size_t at = first * width + head * dim, left = dim - column;
        const RecurrentHead piece = {
            .state = states + head * state_head_floats(dim, dim) + column * dim,
            .key_dim = dim,
            .n_columns = left < RECURRENT_COLUMNS ? left : RECURRENT_COLUMNS,
            .q = rows->q + at,
            .k = rows->k + at,
            .qk_stride = width,
            .v = rows->v + at + column,
            .v_stride = width,
            .decay = &w->decay[head],
            .beta = &one,
            .out = rows->v + at + column,
            .out_stride = width,
        };
        state_linear(recurrence, run, piece);
    }
}

/* gate = sigmoid(gate) * norm(output). */
static void lightning_gate(ForwardPass *pass, const Lightning *w, const LightningRows *rows,
                           size_t width) {
    const Model *m = pass->model;
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++) {
        float *out = rows->v + i * width;
        forward_normalize(m, &w->norm, out, out, width);
        m->isa->numeric->activate(ACTIVATION_SIGMOID, rows->gate + i * width, out, width);
    }
    forward_wait(pass);
}

/* Runs a layer: activated projections, linear attention of each sequence with a decaying state,
 * gated norm, output. */
static void lightning_run(ForwardPass *pass, const Branch *b) {
    size_t layer = b->layer;
    const float *in = b->in;
    float *y = b->out;
    Model *m = pass->model;
    const Lightning *w = b->weights;
    Rows memory = arena_rows(&m->arena);
    const LightningRows rows = lightning_take_rows(&memory, m);
    size_t width = state_sizes(m->config).values;
    const Product inputs[] = {{&w->q, rows.q, width},
                              {&w->k, rows.k, width},
                              {&w->v, rows.v, width},
                              {&w->gate, rows.gate, width}};
    forward_add_time(pass, PART_REST);
    forward_multiply(m, in, pass->n, inputs, sizeof inputs / sizeof *inputs);
    forward_add_time(pass, PART_PROJECTIONS);
    activate(pass, &rows, width);
    for (size_t first = 0; first < pass->n;) {
        const StateRun run = state_run(pass, layer, first);
        run_sequence(pass, w, &rows, &run);
        first += run.n;
    }
    forward_wait(pass);
    lightning_gate(pass, w, &rows, width);
    forward_add_time(pass, PART_ATTENTION);
    forward_project(pass, &w->out, rows.gate, y);
}

const BranchKind lightning_kind = {
    .name = "lightning attention",
    .find = lightning_find,
    .rows = lightning_rows,
    .cached = lightning_cached,
    .run = lightning_run,
};
