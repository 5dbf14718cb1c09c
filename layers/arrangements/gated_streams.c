/* A stack of gated residual streams: S streams instead of one, of which a low-rank map makes what a
 * block reads (Qwen4-Exp).
 *
 * Before attention and before each feed-forward, with the streams side by side as flat[S * dim]:
 *
 *     n        = norm(stream[s]) for each stream, with weights of its own, side by side
 *     low      = silu((down n) / S)                            adapter_rank numbers
 *     gates    = sigmoid(up low)                               S * dim numbers
 *     coefficients   = 2 * sigmoid((inject n) / S)                   S numbers
 *     x        = mean over s of gates[s] * n[s],  y = block(x)
 *     stream[s] = stream[s] + coefficients[s] * y
 *
 * All streams begin as the token's embedding. After the last layer x is made in the same way,
 * without coefficients. Layers may add embeddings of n-grams to their streams first
 * (layers/arrangements/ngram.h). */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/numbers.h"
#include "layers/arrangements/arrangements.h"
#include "layers/layer_allocate.h"
#include "layers/state/delta.h"
#include "layers/arrangements/ngram.h"

typedef struct StreamGate {
    const float *norm; /* [S * dim] */
    Matrix down;       /* adapter_rank x S * dim */
    Matrix up;         /* S * dim x adapter_rank */
    Matrix inject;     /* S x S * dim; without data: none */
} StreamGate;

typedef struct GatedWeights {
    float *streams;      /* [n][S][dim], rows that live for a pass */
    float *normed;       /* [n][S][dim] */
    float *gates;        /* [n][S][dim] */
    float *low;          /* [n][adapter_rank] */
    float *coefficients; /* [n][S] */
    char *ngrams;        /* of the layers that have them, after `layers` */
    StreamGate end;
    StreamGate layers[][2]; /* of attention and of the feed-forward */
} GatedWeights;

/* ---- Weights ---- */

/* The n-grams of a layer that has them. */
static Ngram *ngram_of(const GatedWeights *own, const Config *c, size_t l) {
    return (Ngram *)(own->ngrams + (c->ngram.layer[l] - 1) * ngram_bytes(c));
}

static StreamGate find_gate(Finder *f, const char *name, bool injects) {
    const Config *c = f->config;
    size_t width = (size_t)c->gated_streams * c->dim;
    char part[64];
    StreamGate found = {.norm = NULL};
    snprintf(part, sizeof part, "%s.norm", name);
    found.norm = weights_vector(f, part, 1, width, true);
    snprintf(part, sizeof part, "%s.down", name);
    found.down = weights_matrix(f, part, c->stream_gate_rank, width, true);
    snprintf(part, sizeof part, "%s.up", name);
    found.up = weights_matrix(f, part, width, c->stream_gate_rank, true);
    snprintf(part, sizeof part, "%s.inject", name);
    if (injects) found.inject = weights_matrix(f, part, c->gated_streams, width, true);
    return found;
}

static void gated_find(Finder *f, Weights *weights) {
    const Config *c = f->config;
    size_t gates = sizeof(GatedWeights) + c->n_layers * sizeof(StreamGate[2]), n_ngrams = 0;
    for (uint32_t l = 0; l < c->n_layers; l++) n_ngrams += c->ngram.layer[l] > 0;
    gates = round_up(gates, 64);
    GatedWeights *own = layer_allocate(f, gates + n_ngrams * ngram_bytes(c));
    weights->stack = own;
    if (!own) return;
    own->ngrams = (char *)own + gates;
    f->prefix[0] = '\0';
    own->end = find_gate(f, "streams.end", false);
    for (uint32_t l = 0; l < c->n_layers; l++) {
        snprintf(f->prefix, sizeof f->prefix, "layers.%u.", l);
        own->layers[l][0] = find_gate(f, "streams.attention", true);
        own->layers[l][1] = find_gate(f, "streams.ffn", true);
        if (c->ngram.layer[l] > 0) ngram_find(f, l, delta_state_floats(c), ngram_of(own, c, l));
    }
}

/* ---- Working memory ---- */

static void gated_keep(Model *m) {
    GatedWeights *own = m->weights.stack;
    const Config *c = m->config;
    size_t n = m->max_rows, width = (size_t)c->gated_streams * c->dim;
    own->streams = arena_keep(&m->arena, "streams", n, width);
    own->normed = arena_keep(&m->arena, "normed streams", n, width);
    own->gates = arena_keep(&m->arena, "gates of streams", n, width);
    own->low = arena_keep(&m->arena, "low rank", n, c->stream_gate_rank);
    own->coefficients = arena_keep(&m->arena, "coefficients", n, c->gated_streams);
}

/* ---- The forward pass ---- */

/* Makes the gates and the coefficients, before their sigmoids. */
static void make_gates(ForwardPass *pass, const StreamGate *w) {
    Model *m = pass->model;
    const Config *c = m->config;
    const GatedWeights *own = m->weights.stack;
    size_t dim = c->dim, streams = c->gated_streams, width = streams * dim;
    const Product from_streams[] = {{&w->down, own->low, c->stream_gate_rank},
                                    {&w->inject, own->coefficients, streams}};
    const Product gates = {&w->up, own->gates, width};
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++)
        for (size_t s = 0; s < streams; s++)
            m->isa->numeric->rms_norm(own->normed + i * width + s * dim,
                                      own->streams + i * width + s * dim, w->norm + s * dim, dim,
                                      c->norm_eps);
    forward_wait(pass);
    forward_multiply(m, own->normed, pass->n, from_streams, w->inject.data ? 2 : 1);
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++) {
        float *low = own->low + i * c->stream_gate_rank;
        m->isa->numeric->scale(low, 1.0f / (float)streams, c->stream_gate_rank);
        m->isa->numeric->activate(ACTIVATION_SILU, low, NULL, c->stream_gate_rank);
    }
    forward_wait(pass);
    forward_multiply(m, own->low, pass->n, &gates, 1);
}

/* x = the row's streams by their gates. The coefficients of the block's output stay in memory. */
static void join_row(const Model *m, const StreamGate *w, size_t row) {
    const Config *c = m->config;
    const Numeric *numeric = m->isa->numeric;
    const GatedWeights *own = m->weights.stack;
    size_t dim = c->dim, streams = c->gated_streams, at = row * streams * dim;
    float *x = m->x + row * dim, *gates = own->gates + at,
          *coefficients = own->coefficients + row * streams;
    /* activate multiplies the activated gate by what it gates. */
    numeric->activate(ACTIVATION_SIGMOID, gates, own->normed + at, streams * dim);
    memset(x, 0, dim * sizeof *x);
    for (size_t s = 0; s < streams; s++) numeric->add_scaled(x, gates + s * dim, 1.0f, dim);
    numeric->scale(x, 1.0f / (float)streams, dim);
    if (!w->inject.data) return;
    numeric->scale(coefficients, 1.0f / (float)streams, streams);
    numeric->activate(ACTIVATION_SIGMOID, coefficients, NULL, streams);
    numeric->scale(coefficients, 2.0f, streams);
}

static void gated_gather(ForwardPass *pass, const Branch *b) {
    make_gates(pass, b->stream_weights);
}

static void gated_read(const ForwardPass *pass, const Branch *b, size_t row) {
    join_row(pass->model, b->stream_weights, row);
}

static void check_finite(ForwardPass *pass, const Branch *b, const float *streams, size_t n) {
    if (!pass->model->isa->numeric->all_finite(streams, n)) forward_not_finite(pass, b->layer);
}

static void gated_add(ForwardPass *pass, const Branch *b, size_t row, float *y) {
    const Model *m = pass->model;
    const GatedWeights *own = m->weights.stack;
    size_t dim = m->config->dim, streams = m->config->gated_streams;
    float *stream = own->streams + row * streams * dim;
    for (size_t s = 0; s < streams; s++)
        m->isa->numeric->add_scaled(stream + s * dim, y, own->coefficients[row * streams + s], dim);
    check_finite(pass, b, stream, streams * dim);
}

/* Adds what the n-grams give, for all streams. */
static void ngram_add(ForwardPass *pass, const Branch *b, size_t row, float *y) {
    const Model *m = pass->model;
    const GatedWeights *own = m->weights.stack;
    size_t width = (size_t)m->config->dim * m->config->gated_streams;
    float *stream = own->streams + row * width;
    (void)y;
    m->isa->numeric->add_scaled(stream, (const float *)b->kept + row * width, 1.0f, width);
    check_finite(pass, b, stream, width);
}

/* ---- The branches ---- */

/* Lists the branches of a layer: n-gram embeddings where it has them, attention, feed-forward. */
static void gated_list(Model *m, size_t l) {
    static const StreamUse blocks = {.reads = "x = the streams by their gates",
                                     .gather = gated_gather,
                                     .read = gated_read,
                                     .add = gated_add};
    static const StreamUse ngrams = {.reads = "the streams", .add = ngram_add};
    const GatedWeights *own = m->weights.stack;
    if (m->config->ngram.layer[l] > 0) {
        Branch *b = branches_append(m, l, &ngram_kind);
        b->weights = ngram_of(own, m->config, l);
        b->streams = &ngrams;
        b->stream_weights = own->streams;
        b->kept = arena_keep(&m->arena, "n-grams", m->max_rows,
                             (size_t)m->config->gated_streams * m->config->dim);
    }
    size_t first = m->branches.n;
    /* A kind of attention may have two branches: the first reads the streams, the last adds to
     * them. */
    branches_append_attention(m, l, NULL, m->x)->stream_weights = &own->layers[l][0];
    branches_last(m)->stream_weights = &own->layers[l][0];
    branches_append_feed_forward(m, l, NULL, m->x)->stream_weights = &own->layers[l][1];
    for (Branch *b = m->branches.all + first; b <= branches_last(m); b++) {
        b->streams = &blocks;
        b->sum_post = NULL;
    }
}

/* Every stream begins as the embedding. */
static void gated_begin(ForwardPass *pass) {
    Model *m = pass->model;
    const GatedWeights *own = m->weights.stack;
    size_t dim = m->config->dim, streams = m->config->gated_streams;
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++)
        for (size_t s = 0; s < streams; s++)
            memcpy(own->streams + (i * streams + s) * dim, m->x + i * dim, dim * sizeof *m->x);
    forward_wait(pass);
}

static void gated_end(ForwardPass *pass) {
    const GatedWeights *own = pass->model->weights.stack;
    make_gates(pass, &own->end);
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++) join_row(pass->model, &own->end, i);
    forward_wait(pass);
}

const Arrangement gated_streams_arrangement = {
    .find = gated_find,
    .keep = gated_keep,
    .list = gated_list,
    .begin = gated_begin,
    .end = gated_end,
};
