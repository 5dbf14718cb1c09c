#include "layers/state/rg_lru.h"

#include <stdio.h>
#include <string.h>

#include "layers/layer_allocate.h"
#include "layers/state/state_fields.h"
#include "layers/state/state_steps.h"
#include "core/weights.h"

/* A matrix of diagonal blocks: each multiplies its own channels. */
typedef struct Blocks {
    Matrix blocks[RG_LRU_MAX_BLOCKS]; /* block_width x block_width */
    const float *bias;                /* [channels] */
} Blocks;

typedef struct RgLru {
    Linear x, y; /* channels x dim: what is convolved, the gate of the output */
    Convolution convolution;
    Blocks input, decay; /* the gates of the input and of the decay */
    const float *a;      /* [channels], -8 softplus of the parameter */
    Linear out;          /* dim x channels */
} RgLru;

/* The working memory of a call: arrays [n][channels]. */
typedef struct RgLruRows {
    float *x, *y;         /* x becomes the output of the recurrence */
    float *blocks;        /* x, block by block: [state_heads][n][block_width] */
    float *input, *decay; /* the gates */
} RgLruRows;

static RgLruRows rg_lru_take_rows(Rows *memory, const Model *m) {
    size_t n = m->max_rows, channels = state_sizes(m->config).values;
    RgLruRows rows;
    rows.x = rows_take(memory, n, channels);
    rows.y = rows_take(memory, n, channels);
    rows.blocks = rows_take(memory, n, channels);
    rows.input = rows_take(memory, n, channels);
    rows.decay = rows_take(memory, n, channels);
    return rows;
}

static void rg_lru_rows(Rows *memory, const Model *m, const Branch *b) {
    (void)b;
    rg_lru_take_rows(memory, m);
}

/* Finds the matrices NAME.0, NAME.1 ... and the vector NAME.bias. */
static void find_blocks(Finder *f, const char *name, Blocks *blocks) {
    const Config *c = f->config;
    char text[48];
    for (uint32_t i = 0; i < c->state.n_heads; i++) {
        snprintf(text, sizeof text, "%s.%u", name, i);
        blocks->blocks[i] = weights_matrix(f, text, c->state.value_dim, c->state.value_dim, true);
    }
    snprintf(text, sizeof text, "%s.bias", name);
    blocks->bias = weights_vector(f, text, 1, state_sizes(c).values, true);
}

/* Finds the weights of the layer. Returns NULL, with f->status set, where memory is short. */
static void *rg_lru_find(Finder *f, uint32_t layer) {
    const Config *c = f->config;
    size_t channels = state_sizes(c).values;
    RgLru *w = layer_allocate(f, sizeof *w);
    (void)layer;
    if (!w) return NULL;
    w->x = weights_linear(f, "rg_lru.x", channels, c->dim, true);
    w->y = weights_linear(f, "rg_lru.y", channels, c->dim, true);
    w->convolution = (Convolution){
        .weight = weights_vector(f, "rg_lru.taps", c->state.conv_kernel, channels, true),
        .bias = weights_vector(f, "rg_lru.taps.bias", 1, channels, false),
        .channels = channels,
        .kernel = c->state.conv_kernel};
    find_blocks(f, "rg_lru.input_gate", &w->input);
    find_blocks(f, "rg_lru.decay_gate", &w->decay);
    w->a = weights_vector(f, "rg_lru.a", 1, channels, true);
    w->out = weights_linear(f, "rg_lru.out", c->dim, channels, true);
    return w;
}

static KvLayer rg_lru_cached(const Config *c, uint32_t layer) {
    size_t channels = state_sizes(c).values;
    (void)layer;
    return (KvLayer){.state_floats =
                         state_convolution_floats(c->state.conv_kernel, channels) + channels};
}

/* The projections of the input: x, and y with its activation still to come. */
static void project(ForwardPass *pass, const RgLru *w, const float *in, const RgLruRows *rows) {
    Model *m = pass->model;
    size_t channels = state_sizes(m->config).values;
    const Product inputs[] = {{&w->x.w, rows->x, channels}, {&w->y.w, rows->y, channels}};
    forward_multiply(m, in, pass->n, inputs, 2);
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++) {
        forward_add_bias(m, &w->x, rows->x + i * channels);
        forward_add_bias(m, &w->y, rows->y + i * channels);
    }
    forward_wait(pass);
}

/* Multiplies the convolved x with both gates' blocks. */
static void multiply_blocks(ForwardPass *pass, const RgLru *w, const RgLruRows *rows) {
    Model *m = pass->model;
    size_t n_blocks = m->config->state.n_heads, width = m->config->state.value_dim, n = pass->n;
    size_t channels = n_blocks * width;
    Product products[2 * RG_LRU_MAX_BLOCKS];
    ProductSet sets[RG_LRU_MAX_BLOCKS];
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < n; i++)
        for (size_t b = 0; b < n_blocks; b++)
            memcpy(rows->blocks + (b * n + i) * width, rows->x + i * channels + b * width,
                   width * sizeof *rows->x);
    forward_wait(pass);
    for (size_t b = 0; b < n_blocks; b++) {
        Product *two = &products[2 * b];
        two[0] = (Product){&w->input.blocks[b], rows->input + b * width, channels};
        two[1] = (Product){&w->decay.blocks[b], rows->decay + b * width, channels};
        sets[b] = (ProductSet){rows->blocks + b * n * width, n, two, 2, NULL};
    }
    forward_multiply_sets(m, sets, n_blocks);
}

/* Makes of the gates' products the decays and what the states take in. */
static void make_gates(ForwardPass *pass, const RgLru *w, const RgLruRows *rows) {
    const Model *m = pass->model;
    const Recurrence *recurrence = state_recurrence(m);
    size_t channels = state_sizes(m->config).values;
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++) {
        float *input = rows->input + i * channels, *decay = rows->decay + i * channels;
        m->isa->numeric->add_scaled(input, w->input.bias, 1.0f, channels);
        m->isa->numeric->add_scaled(decay, w->decay.bias, 1.0f, channels);
        recurrence->lru_gates(rows->x + i * channels, input, decay, w->a,
                              pass->rows[i].position == 0, channels);
    }
    forward_wait(pass);
}

/* Takes the rows of all sequences into their states. The threads share blocks of channels. */
static void recur(ForwardPass *pass, size_t layer, const RgLruRows *rows) {
    enum { CHANNELS = 2 * RECURRENT_LANES };
    const Model *m = pass->model;
    const Recurrence *recurrence = state_recurrence(m);
    size_t channels = state_sizes(m->config).values;
    size_t taps = state_convolution_floats(m->config->state.conv_kernel, channels);
    for (size_t first = 0; first < pass->n;) {
        const StateRun run = state_run(pass, layer, first);
        const float *decay = rows->decay + first * channels;
#pragma omp for schedule(static) nowait
        for (size_t at = 0; at < channels; at += CHANNELS)
            state_lru(recurrence, &run, run.state + taps, decay, rows->x + first * channels,
                      channels, at, at + CHANNELS < channels ? at + CHANNELS : channels);
        first += run.n;
    }
    forward_wait(pass);
}

/* Runs Griffin's recurrent block: out(activation(y) * RG-LRU(convolution(x))). */
static void rg_lru_run(ForwardPass *pass, const Branch *b) {
    Model *m = pass->model;
    const RgLru *w = b->weights;
    size_t channels = state_sizes(m->config).values;
    Rows memory = arena_rows(&m->arena);
    const RgLruRows rows = rg_lru_take_rows(&memory, m);
    forward_add_time(pass, PART_REST);
    project(pass, w, b->in, &rows);
    forward_add_time(pass, PART_PROJECTIONS);
    state_convolve(pass, b->layer, &w->convolution, rows.x, channels);
    multiply_blocks(pass, w, &rows);
    make_gates(pass, w, &rows);
    recur(pass, b->layer, &rows);
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++)
        m->isa->numeric->activate(m->config->activation, rows.y + i * channels,
                                  rows.x + i * channels, channels);
    forward_wait(pass);
    forward_add_time(pass, PART_ATTENTION);
    forward_project(pass, &w->out, rows.y, b->out);
}

const BranchKind rg_lru_kind = {
    .name = "RG-LRU",
    .find = rg_lru_find,
    .rows = rg_lru_rows,
    .cached = rg_lru_cached,
    .run = rg_lru_run,
};
