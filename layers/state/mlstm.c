#include "layers/state/mlstm.h"

#include "base/numbers.h"
#include "layers/layer_allocate.h"
#include "layers/state/state_fields.h"
#include "layers/state/state_steps.h"
#include "core/weights.h"

typedef struct Mlstm {
    Linear q, k, v, gate;   /* keys x dim, values x dim: gate is that of the output */
    Linear input, forget;   /* heads x dim */
    Linear out;             /* dim x values */
    const float *norm;      /* [values] */
    const float *norm_bias; /* [values]; NULL: none */
} Mlstm;

/* The working memory of a call: arrays of n rows each. */
typedef struct MlstmRows {
    float *q, *k;      /* [keys] */
    float *v, *gate;   /* [values]  v becomes the output */
    float *input;      /* [heads]  becomes the factor of what a state takes in */
    float *forget;     /* [heads]  becomes the decay of a state */
    float *least;      /* [heads]  the least value of the normalizer */
    float *normalizer; /* [heads] */
} MlstmRows;

static MlstmRows mlstm_take_rows(Rows *memory, const Model *m) {
    const StateSizes sizes = state_sizes(m->config);
    size_t n = m->max_rows, heads = m->config->state.n_heads;
    MlstmRows rows;
    rows.q = rows_take(memory, n, sizes.keys);
    rows.k = rows_take(memory, n, sizes.keys);
    rows.v = rows_take(memory, n, sizes.values);
    rows.gate = rows_take(memory, n, sizes.values);
    rows.input = rows_take(memory, n, heads);
    rows.forget = rows_take(memory, n, heads);
    rows.least = rows_take(memory, n, heads);
    rows.normalizer = rows_take(memory, n, heads);
    return rows;
}

static void mlstm_rows(Rows *memory, const Model *m, const Branch *b) {
    (void)b;
    mlstm_take_rows(memory, m);
}

/* Finds the weights of the layer. Returns NULL, with f->status set, where memory is short. */
static void *mlstm_find(Finder *f, uint32_t layer) {
    const Config *c = f->config;
    const StateSizes sizes = state_sizes(c);
    Mlstm *w = layer_allocate(f, sizeof *w);
    (void)layer;
    if (!w) return NULL;
    w->q = weights_linear(f, "mlstm.q", sizes.keys, c->dim, true);
    w->k = weights_linear(f, "mlstm.k", sizes.keys, c->dim, true);
    w->v = weights_linear(f, "mlstm.v", sizes.values, c->dim, true);
    w->gate = weights_linear(f, "mlstm.gate", sizes.values, c->dim, true);
    w->input = weights_linear(f, "mlstm.input_gate", c->state.n_heads, c->dim, true);
    w->forget = weights_linear(f, "mlstm.forget_gate", c->state.n_heads, c->dim, true);
    w->out = weights_linear(f, "mlstm.out", c->dim, sizes.values, true);
    w->norm = weights_vector(f, "mlstm.norm", 1, sizes.values, true);
    w->norm_bias = weights_vector(f, "mlstm.norm.bias", 1, sizes.values, false);
    return w;
}

/* A layer's state holds the heads' states, then their normalizers, then their running maxima. */
static KvLayer mlstm_cached(const Config *c, uint32_t layer) {
    size_t of_head = state_head_floats(c->state.key_dim, c->state.value_dim) +
                     state_head_floats(c->state.key_dim, 1);
    (void)layer;
    return (KvLayer){.state_floats =
                         c->state.n_heads * of_head + round_up(c->state.n_heads, RECURRENT_LANES)};
}

static void project(ForwardPass *pass, const Mlstm *w, const float *in, const MlstmRows *rows) {
    Model *m = pass->model;
    const StateSizes sizes = state_sizes(m->config);
    size_t heads = m->config->state.n_heads;
    const Product products[] = {
        {&w->q.w, rows->q, sizes.keys},    {&w->k.w, rows->k, sizes.keys},
        {&w->v.w, rows->v, sizes.values},  {&w->gate.w, rows->gate, sizes.values},
        {&w->input.w, rows->input, heads}, {&w->forget.w, rows->forget, heads},
    };
    forward_multiply(m, in, pass->n, products, sizeof products / sizeof *products);
}

/* Completes the projections. forget[heads] becomes log(sigmoid(forget)). */
static void complete(ForwardPass *pass, const Mlstm *w, const MlstmRows *rows) {
    const Model *m = pass->model;
    const Config *c = m->config;
    const Numeric *numeric = m->isa->numeric;
    const Recurrence *recurrence = state_recurrence(m);
    const StateSizes sizes = state_sizes(c);
    size_t heads = c->state.n_heads;
    float scale = 1.0f / sqrtf((float)c->state.key_dim);
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++) {
        float *q = rows->q + i * sizes.keys;
        float *input = rows->input + i * heads, *forget = rows->forget + i * heads;
        forward_add_bias(m, &w->q, q);
        forward_add_bias(m, &w->k, rows->k + i * sizes.keys);
        forward_add_bias(m, &w->v, rows->v + i * sizes.values);
        forward_add_bias(m, &w->gate, rows->gate + i * sizes.values);
        forward_add_bias(m, &w->input, input);
        forward_add_bias(m, &w->forget, forget);
        numeric->scale(q, scale, sizes.keys);
        numeric->softcap(input, c->mlstm.gate_cap, heads);
        numeric->softcap(forget, c->mlstm.gate_cap, heads);
        numeric->scale(forget, -1.0f, heads);
        recurrence->softplus(forget, NULL, 0.0f, INFINITY, heads);
        numeric->scale(forget, -1.0f, heads);
    }
    forward_wait(pass);
}

/* One head's stabilizer (xLSTM's m = max(log f + m, log i)) over the run's rows: leaves the
 * logarithms of the gates relative to it, and that of the normalizer's lower bound, exp(-m). */
static void stabilize(const StateRun *run, const MlstmRows *rows, float *stabilizer, size_t heads,
                      size_t head) {
    float most = *stabilizer;
    for (size_t i = 0; i < run->n; i++) {
        size_t at = (run->first + i) * heads + head;
        if (run->held && i == run->n_before) run->held[stabilizer - run->state] = most;
        float kept = rows->forget[at] + most, taken = rows->input[at];
        most = kept > taken ? kept : taken;
        rows->forget[at] = kept - most;
        rows->input[at] = taken - most;
        rows->least[at] = -most;
    }
    if (run->held && run->n_before == run->n) run->held[stabilizer - run->state] = most;
    *stabilizer = most;
}

/* Makes the factors of all rows of the gates' logarithms. */
static void make_gates(ForwardPass *pass, size_t layer, const MlstmRows *rows) {
    const Model *m = pass->model;
    const Config *c = m->config;
    const Recurrence *recurrence = state_recurrence(m);
    size_t heads = c->state.n_heads;
    size_t maxima = mlstm_cached(c, 0).state_floats - round_up(heads, RECURRENT_LANES);
    for (size_t first = 0; first < pass->n;) {
        const StateRun run = state_run(pass, layer, first);
#pragma omp for schedule(static) nowait
        for (size_t head = 0; head < heads; head++)
            stabilize(&run, rows, run.state + maxima + head, heads, head);
        first += run.n;
    }
    forward_wait(pass);
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++) {
        float *const logs[] = {rows->forget, rows->input, rows->least};
        for (size_t k = 0; k < 3; k++)
            recurrence->decay(logs[k] + i * heads, NULL, logs[k] + i * heads, heads);
    }
    forward_wait(pass);
}

/* Takes the rows of one sequence into its states and normalizers. The threads share heads and
 * blocks of columns; a normalizer is one more block, of one column whose values are 1. */
static void run_sequence(ForwardPass *pass, const MlstmRows *rows, const StateRun *run) {
    static const float one = 1.0f;
    const Config *c = pass->model->config;
    const Recurrence *recurrence = state_recurrence(pass->model);
    const StateSizes sizes = state_sizes(c);
    size_t heads = c->state.n_heads, dim = c->state.value_dim, key_dim = c->state.key_dim;
    size_t pieces = (dim + RECURRENT_COLUMNS - 1) / RECURRENT_COLUMNS, first = run->first;
    size_t head_floats = state_head_floats(key_dim, dim);
    float *normalizers = run->state + heads * head_floats;
#pragma omp for schedule(static) nowait
    for (size_t item = 0; item < heads * (pieces + 1); item++) {
        size_t head = item / (pieces + 1), piece = item % (pieces + 1);
        size_t column = piece * RECURRENT_COLUMNS, left = dim - column;
        float *v = rows->v + first * sizes.values + head * dim + column;
        RecurrentHead part = {
            .state = run->state + head * head_floats + column * key_dim,
            .key_dim = key_dim,
            .n_columns = left < RECURRENT_COLUMNS ? left : RECURRENT_COLUMNS,
            .q = rows->q + first * sizes.keys + head * key_dim,
            .k = rows->k + first * sizes.keys + head * key_dim,
            .qk_stride = sizes.keys,
            .v = v,
            .v_stride = sizes.values,
            .decay = rows->forget + first * heads + head,
            .decay_stride = heads,
            .beta = rows->input + first * heads + head,
            .beta_stride = heads,
            .out = v,
            .out_stride = sizes.values,
        };
        if (piece == pieces) {
            part.state = normalizers + head * state_head_floats(key_dim, 1);
            part.n_columns = 1;
            part.v = &one;
            part.v_stride = 0;
            part.out = rows->normalizer + first * heads + head;
            part.out_stride = heads;
        }
        state_linear(recurrence, run, part);
    }
}

/* gate = sigmoid(gate) * layer norm(output / max(|normalizer|, its lower bound)), head by head. */
static void mlstm_gate(ForwardPass *pass, const Mlstm *w, const MlstmRows *rows) {
    const Model *m = pass->model;
    const Config *c = m->config;
    const Numeric *numeric = m->isa->numeric;
    size_t heads = c->state.n_heads, dim = c->state.value_dim, values = heads * dim;
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++) {
        for (size_t head = 0; head < heads; head++) {
            float *out = rows->v + i * values + head * dim;
            float sum = fabsf(rows->normalizer[i * heads + head]);
            float least = rows->least[i * heads + head];
            numeric->scale(out, 1.0f / ((sum > least ? sum : least) + c->mlstm.eps), dim);
            numeric->layer_norm(out, out, w->norm + head * dim,
                                w->norm_bias ? w->norm_bias + head * dim : NULL, dim, c->norm_eps);
        }
        numeric->activate(ACTIVATION_SIGMOID, rows->gate + i * values, rows->v + i * values,
                          values);
    }
    forward_wait(pass);
}

/* Runs the matrix LSTM of a layer: projections, gates, the recurrence of each sequence in turn,
 * output gate and projection. */
static void mlstm_run(ForwardPass *pass, const Branch *b) {
    Model *m = pass->model;
    const Mlstm *w = b->weights;
    Rows memory = arena_rows(&m->arena);
    const MlstmRows rows = mlstm_take_rows(&memory, m);
    forward_add_time(pass, PART_REST);
    project(pass, w, b->in, &rows);
    forward_add_time(pass, PART_PROJECTIONS);
    complete(pass, w, &rows);
    make_gates(pass, b->layer, &rows);
    for (size_t first = 0; first < pass->n;) {
        const StateRun run = state_run(pass, b->layer, first);
        run_sequence(pass, &rows, &run);
        first += run.n;
    }
    forward_wait(pass);
    mlstm_gate(pass, w, &rows);
    forward_add_time(pass, PART_ATTENTION);
    forward_project(pass, &w->out, rows.gate, b->out);
}

const BranchKind mlstm_kind = {
    .name = "matrix LSTM",
    .find = mlstm_find,
    .rows = mlstm_rows,
    .cached = mlstm_cached,
    .run = mlstm_run,
};
