#include "layers/state/rwkv.h"

#include <omp.h>
#include <string.h>

#include "base/numbers.h"
#include "core/branches.h"
#include "layers/layer_allocate.h"
#include "layers/state/state_steps.h"
#include "core/weights.h"

typedef struct Rwkv {
    Matrix k, v, r;                     /* channels x dim: time mixing */
    const float *mix_k, *mix_v, *mix_r; /* [dim], the part of the row itself in what they read */
    const float *decay, *first;         /* [channels], -exp(time_decay), time_first */
    Linear out;                         /* dim x channels */
    Matrix ffn_k;                       /* ffn_dim x dim: channel mixing */
    Linear ffn_v;                       /* dim x ffn_dim */
    Matrix ffn_r;                       /* dim x dim */
    const float *ffn_mix_k, *ffn_mix_r; /* [dim] */
} Rwkv;

/* Where the parts of a layer's state begin, and their end. Each is a multiple of 16 floats. */
typedef struct RwkvState {
    size_t wkv;   /* after the row that time mixing read last */
    size_t shift; /* the row that channel mixing read last */
    size_t end;
} RwkvState;

static RwkvState rwkv_state(const Config *c) {
    RwkvState at;
    size_t row = round_up(c->dim, RECURRENT_LANES);
    at.wkv = row;
    at.shift = at.wkv + WKV_PARTS * round_up(c->state.n_heads, RECURRENT_LANES);
    at.end = at.shift + row;
    return at;
}

/* Finds the weights of time mixing and channel mixing. Returns NULL, with f->status set, where
 * memory is short. */
static void *rwkv_find(Finder *f, uint32_t layer) {
    const Config *c = f->config;
    size_t channels = c->state.n_heads, dim = c->dim, width = config_ffn_dim(c, layer);
    Rwkv *w = layer_allocate(f, sizeof *w);
    if (!w) return NULL;
    w->k = weights_matrix(f, "rwkv.k", channels, dim, true);
    w->v = weights_matrix(f, "rwkv.v", channels, dim, true);
    w->r = weights_matrix(f, "rwkv.r", channels, dim, true);
    w->mix_k = weights_vector(f, "rwkv.mix_k", 1, dim, true);
    w->mix_v = weights_vector(f, "rwkv.mix_v", 1, dim, true);
    w->mix_r = weights_vector(f, "rwkv.mix_r", 1, dim, true);
    w->decay = weights_vector(f, "rwkv.decay", 1, channels, true);
    w->first = weights_vector(f, "rwkv.first", 1, channels, true);
    w->out = weights_linear(f, "rwkv.out", dim, channels, true);
    w->ffn_k = weights_matrix(f, "rwkv.ffn_k", width, dim, true);
    w->ffn_v = weights_linear(f, "rwkv.ffn_v", dim, width, true);
    w->ffn_r = weights_matrix(f, "rwkv.ffn_r", dim, dim, true);
    w->ffn_mix_k = weights_vector(f, "rwkv.ffn_mix_k", 1, dim, true);
    w->ffn_mix_r = weights_vector(f, "rwkv.ffn_mix_r", 1, dim, true);
    return w;
}

static KvLayer rwkv_cached(const Config *c, uint32_t layer) {
    (void)layer;
    return (KvLayer){.state_floats = rwkv_state(c).end};
}

/* ---- Token shift ---- */

/* Mixes the channels from `begin` to `end` of the run's rows. */
static void shift_run(const Recurrence *recurrence, const StateRun *run, TokenShift shift,
                      size_t begin, size_t end) {
    size_t n = run->n_before;
    shift.n_rows = n;
    recurrence->shift(&shift, begin, end);
    if (!run->held) return;
    memcpy(run->held + (shift.state - run->state) + begin, shift.state + begin,
           (end - begin) * sizeof *shift.state);
    shift.n_rows = run->n - n;
    shift.in += n * shift.channels;
    for (size_t i = 0; i < shift.n_mixes; i++) shift.out[i] += n * shift.channels;
    if (shift.n_rows > 0) recurrence->shift(&shift, begin, end);
}

/* Mixes all rows; `state` is where the last row lies in the layer's state. The threads share
 * channels. */
static void shift_rows(ForwardPass *pass, size_t layer, TokenShift all, size_t state) {
    const Recurrence *recurrence = state_recurrence(pass->model);
    size_t width = (all.channels - 1) / (size_t)omp_get_num_threads() + 1;
    width = round_up(width, RECURRENT_LANES);
    for (size_t first = 0; first < pass->n;) {
        const StateRun run = state_run(pass, layer, first);
        TokenShift shift = all;
        shift.state = run.state + state;
        shift.in += first * all.channels;
        for (size_t i = 0; i < shift.n_mixes; i++) shift.out[i] += first * all.channels;
#pragma omp for schedule(static) nowait
        for (size_t at = 0; at < all.channels; at += width)
            shift_run(recurrence, &run, shift, at,
                      at + width < all.channels ? at + width : all.channels);
        first += run.n;
    }
    forward_wait(pass);
}

/* ---- Time mixing ---- */

/* The working memory of a call: arrays of n rows each. */
typedef struct TimeRows {
    float *in_k, *in_v, *in_r; /* [dim] */
    float *k, *v, *r;          /* [channels]  v becomes the mean of values */
} TimeRows;

static TimeRows time_take_rows(Rows *memory, const Model *m) {
    size_t n = m->max_rows, dim = m->config->dim, channels = m->config->state.n_heads;
    TimeRows rows;
    rows.in_k = rows_take(memory, n, dim);
    rows.in_v = rows_take(memory, n, dim);
    rows.in_r = rows_take(memory, n, dim);
    rows.k = rows_take(memory, n, channels);
    rows.v = rows_take(memory, n, channels);
    rows.r = rows_take(memory, n, channels);
    return rows;
}

static void time_rows(Rows *memory, const Model *m, const Branch *b) {
    (void)b;
    time_take_rows(memory, m);
}

/* Takes the run's rows into the means of the channels from `begin` to `end`. */
static void wkv_run(const Recurrence *recurrence, const StateRun *run, WkvScan scan, size_t begin,
                    size_t end) {
    size_t n = run->n_before, part = round_up(scan.channels, RECURRENT_LANES);
    scan.n_rows = n;
    recurrence->wkv(&scan, begin, end);
    if (!run->held) return;
    for (size_t i = 0; i < WKV_PARTS; i++) {
        const float *of_part = scan.state + i * part + begin;
        memcpy(run->held + (of_part - run->state), of_part, (end - begin) * sizeof *of_part);
    }
    scan.n_rows = run->n - n;
    scan.k += n * scan.channels;
    scan.v += n * scan.channels;
    if (scan.n_rows > 0) recurrence->wkv(&scan, begin, end);
}

/* Takes all rows into the means. The threads share blocks of channels. */
static void take_means(ForwardPass *pass, size_t layer, const Rwkv *w, const TimeRows *rows) {
    enum { CHANNELS = 2 * RECURRENT_LANES };
    const Config *c = pass->model->config;
    const Recurrence *recurrence = state_recurrence(pass->model);
    size_t channels = c->state.n_heads;
    for (size_t first = 0; first < pass->n;) {
        const StateRun run = state_run(pass, layer, first);
        const WkvScan scan = {.state = run.state + rwkv_state(c).wkv,
                              .decay = w->decay,
                              .first = w->first,
                              .channels = channels,
                              .k = rows->k + first * channels,
                              .v = rows->v + first * channels};
#pragma omp for schedule(static) nowait
        for (size_t at = 0; at < channels; at += CHANNELS)
            wkv_run(recurrence, &run, scan, at,
                    at + CHANNELS < channels ? at + CHANNELS : channels);
        first += run.n;
    }
    forward_wait(pass);
}

/* Runs time mixing: projects the shifted rows to keys, values and receptance r, takes the weighted
 * means of the values, and projects sigmoid(r) * means. */
static void time_run(ForwardPass *pass, const Branch *b) {
    Model *m = pass->model;
    const Rwkv *w = b->weights;
    size_t channels = m->config->state.n_heads, n = pass->n;
    Rows memory = arena_rows(&m->arena);
    const TimeRows rows = time_take_rows(&memory, m);
    const TokenShift shift = {.in = b->in,
                              .channels = m->config->dim,
                              .n_mixes = 3,
                              .mix = {w->mix_k, w->mix_v, w->mix_r},
                              .out = {rows.in_k, rows.in_v, rows.in_r}};
    const Product k = {&w->k, rows.k, channels}, v = {&w->v, rows.v, channels};
    const Product r = {&w->r, rows.r, channels};
    const ProductSet sets[] = {
        {rows.in_k, n, &k, 1, NULL}, {rows.in_v, n, &v, 1, NULL}, {rows.in_r, n, &r, 1, NULL}};
    shift_rows(pass, b->layer, shift, 0);
    forward_add_time(pass, PART_REST);
    forward_multiply_sets(m, sets, 3);
    forward_add_time(pass, PART_PROJECTIONS);
    take_means(pass, b->layer, w, &rows);
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < n; i++)
        m->isa->numeric->activate(ACTIVATION_SIGMOID, rows.r + i * channels, rows.v + i * channels,
                                  channels);
    forward_wait(pass);
    forward_add_time(pass, PART_ATTENTION);
    forward_project(pass, &w->out, rows.r, b->out);
}

/* ---- Channel mixing ---- */

/* The working memory of a call: arrays of n rows each. */
typedef struct ChannelRows {
    float *in_k, *in_r; /* [dim] */
    float *k;           /* [ffn_dim] */
    float *r;           /* [dim] */
} ChannelRows;

static ChannelRows channel_take_rows(Rows *memory, const Model *m, size_t layer) {
    size_t n = m->max_rows, dim = m->config->dim;
    ChannelRows rows;
    rows.in_k = rows_take(memory, n, dim);
    rows.in_r = rows_take(memory, n, dim);
    rows.k = rows_take(memory, n, config_ffn_dim(m->config, layer));
    rows.r = rows_take(memory, n, dim);
    return rows;
}

static void channel_rows(Rows *memory, const Model *m, const Branch *b) {
    channel_take_rows(memory, m, b->layer);
}

/* Runs channel mixing: out = sigmoid(ffn_r y) * (ffn_v relu(ffn_k x)^2), where x and y are the row
 * mixed with the row before it. */
static void channel_run(ForwardPass *pass, const Branch *b) {
    Model *m = pass->model;
    const Numeric *numeric = m->isa->numeric;
    const Recurrence *recurrence = state_recurrence(m);
    const Rwkv *w = b->weights;
    size_t dim = m->config->dim, width = config_ffn_dim(m->config, b->layer), n = pass->n;
    Rows memory = arena_rows(&m->arena);
    const ChannelRows rows = channel_take_rows(&memory, m, b->layer);
    const TokenShift shift = {.in = b->in,
                              .channels = dim,
                              .n_mixes = 2,
                              .mix = {w->ffn_mix_k, w->ffn_mix_r},
                              .out = {rows.in_k, rows.in_r}};
    const Product k = {&w->ffn_k, rows.k, width}, r = {&w->ffn_r, rows.r, dim};
    const ProductSet sets[] = {{rows.in_k, n, &k, 1, NULL}, {rows.in_r, n, &r, 1, NULL}};
    shift_rows(pass, b->layer, shift, rwkv_state(m->config).shift);
    forward_add_time(pass, PART_REST);
    forward_multiply_sets(m, sets, 2);
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < n; i++) {
        numeric->activate(ACTIVATION_RELU2, rows.k + i * width, NULL, width);
        numeric->activate(ACTIVATION_SIGMOID, rows.r + i * dim, NULL, dim);
    }
    forward_wait(pass);
    forward_project(pass, &w->ffn_v, rows.k, b->out);
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < n; i++) recurrence->multiply(b->out + i * dim, rows.r + i * dim, dim);
    forward_wait(pass);
    forward_add_time(pass, PART_FEED_FORWARD);
}

/* ---- The layer ---- */

/* x += time mixing(pre(x)); x += channel mixing(ffn_norm(x)). After every rwkv_rescale_every layers
 * the stream is halved, and what later layers add with it: powers of two, which change no bits but
 * weigh the norms' epsilon as transformers does. */
static void rwkv_list(Model *m, size_t l, const Norm *pre, float *in) {
    static const BranchKind time = {.name = "time mixing", .run = time_run, .rows = time_rows};
    static const BranchKind channel = {
        .name = "channel mixing", .run = channel_run, .rows = channel_rows};
    uint32_t every = m->config->rwkv.rescale_every;
    float scale = every > 0 ? ldexpf(1.0f, -(int)(l / every)) : 1.0f;
    Branch *first = branches_append(m, l, &time);
    branches_set_input(first, pre, in);
    first->weights = m->weights.layers[l].own;
    first->scale = scale;
    Branch *second = branches_append(m, l, &channel);
    branches_set_input(second, &m->weights.layers[l].ffn_norm, in);
    second->weights = m->weights.layers[l].own;
    second->scale = scale;
    if (every > 0 && (l + 1) % every == 0) second->after = 0.5f;
}

const BranchKind rwkv_kind = {.find = rwkv_find, .cached = rwkv_cached, .list = rwkv_list};
