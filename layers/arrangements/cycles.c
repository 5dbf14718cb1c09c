/* A stack of two modules that run in turn, each on a state of its own: HRM-Text (arXiv:2506.21734).
 *
 * Each module is block_layers layers of a plain decoder with a norm without weights after them. A
 * cycle runs the low module low_cycles times and then the high one:
 *
 *     low  = norm(layers of the low module(low + high))      low_cycles times
 *     high = norm(layers of the high module(high + low))
 *
 * high begins as the token's embedding, low as a learned vector. The output head reads the last
 * high. A layer here is one run of a module's layer, with keys and values of its own; the weights
 * of all its runs are the same tensors of the file. */
#include <string.h>

#include "layers/arrangements/arrangements.h"
#include "layers/layer_allocate.h"

typedef struct CycleStates {
    const float *start; /* [dim], what low begins as */
    float *low, *high;  /* [n][dim], rows that live for a pass */
} CycleStates;

static void cycles_find(Finder *f, Weights *weights) {
    CycleStates *own = layer_allocate(f, sizeof *own);
    weights->stack = own;
    if (!own) return;
    f->prefix[0] = '\0';
    own->start = weights_vector(f, "low_start", 1, f->config->dim, true);
}

static void cycles_keep(Model *m) {
    CycleStates *own = m->weights.stack;
    own->low = arena_keep(&m->arena, "low states", m->max_rows, m->config->dim);
    own->high = arena_keep(&m->arena, "high states", m->max_rows, m->config->dim);
}

/* Whether the run before that of layer l was one of the high module. */
static bool follows_high(const Config *c, size_t l) {
    return (l / c->block_layers) % (c->low_cycles + 1) == 0;
}

/* Keeps what the run before has made of the row; x = low + high. */
static void cycles_read(const ForwardPass *pass, const Branch *b, size_t row) {
    const Model *m = pass->model;
    const Config *c = m->config;
    const CycleStates *own = m->weights.stack;
    size_t dim = c->dim, at = row * dim;
    float *x = m->x + at, *low = own->low + at, *high = own->high + at;
    if (b->layer == 0) {
        memcpy(high, x, dim * sizeof *x);
        memcpy(low, own->start, dim * sizeof *x);
    } else {
        m->isa->numeric->rms_norm(follows_high(c, b->layer) ? high : low, x, NULL, dim,
                                  c->norm_eps);
    }
    for (size_t k = 0; k < dim; k++) x[k] = low[k] + high[k];
}

static void cycles_list(Model *m, size_t l) {
    static const StreamUse begins_run = {.reads = "x = low + high", .read = cycles_read};
    const LayerWeights *w = &m->weights.layers[l];
    Branch *attention = branches_append_attention(m, l, &w->attention_norm, m->normed);
    if (l % m->config->block_layers == 0) attention->streams = &begins_run;
    branches_append_feed_forward(m, l, &w->ffn_norm, m->normed);
}

const Arrangement cycles_arrangement = {
    .find = cycles_find,
    .keep = cycles_keep,
    .list = cycles_list,
};
