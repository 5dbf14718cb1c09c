/* A stack whose residual stream keeps the length 1, and whose middle layers run several times:
 * Dory, a looped normalized transformer (nGPT, arXiv:2410.01131). With n(x) = x / |x| and learned
 * rates, a layer is
 *
 *     x = n(x);  x = (1 - rate) * x + rate * n(attention(x))
 *     x = n(x);  x = (1 - rate) * x + rate * n(feed-forward(x))
 *
 * The vectors `keep` are 1 - rate; the rates are in the weights of the norms after the blocks, as 1
 * / sqrt(n) is in those of all norms, which makes an RMS norm of n elements n(x). Before its first
 * layer, each run of the middle layers reads x = n(x) + input, where input = n(x) before the first
 * run. A run's layers are layers of their own here, with keys and values of their own; the weights
 * of all runs are the same tensors of the file. */
#include <stdio.h>
#include <string.h>

#include "layers/arrangements/arrangements.h"
#include "layers/layer_allocate.h"

/* What n(x) adds to the sum of squares before its root. */
static const float SUM_EPS = 1e-6f;

/* How the output of a block is added: Branch.stream_weights. */
typedef struct SphereStep {
    const float *keep; /* [dim] */
    const Norm *post;
} SphereStep;

typedef struct Looped {
    float *input; /* [n][dim], rows that live for a pass */
    struct {
        SphereStep attention, ffn;
    } layers[];
} Looped;

static void looped_find(Finder *f, Weights *weights) {
    const Config *c = f->config;
    Looped *own = layer_allocate(f, sizeof *own + c->n_layers * sizeof *own->layers);
    weights->stack = own;
    if (!own) return;
    for (uint32_t l = 0; l < c->n_layers; l++) {
        LayerWeights *layer = &weights->layers[l];
        const HeadShape h = config_heads(c, l);
        snprintf(f->prefix, sizeof f->prefix, "layers.%u.", l);
        own->layers[l].attention.keep = weights_vector(f, "attention_keep", 1, c->dim, true);
        own->layers[l].ffn.keep = weights_vector(f, "ffn_keep", 1, c->dim, true);
        own->layers[l].attention.post = &layer->post_attention_norm;
        own->layers[l].ffn.post = &layer->post_ffn_norm;
        layer->q_norm.eps = layer->k_norm.eps = SUM_EPS / (float)h.head_dim;
        layer->inner_norm.eps = SUM_EPS / (float)((size_t)h.n_heads * h.value_dim);
        layer->ffn.inner_norm.eps = SUM_EPS / (float)c->ffn_dim;
    }
}

static void looped_keep(Model *m) {
    Looped *own = m->weights.stack;
    own->input = arena_keep(&m->arena, "loop input", m->max_rows, m->config->dim);
}

/* x = n(x) + input. All norms of the stream have the same weights. */
static void loop_read(const ForwardPass *pass, const Branch *b, size_t row) {
    const Model *m = pass->model;
    const Looped *own = m->weights.stack;
    size_t dim = m->config->dim;
    float *x = m->x + row * dim, *input = own->input + row * dim;
    forward_normalize(m, &m->weights.layers[b->layer].attention_norm, x, x, dim);
    if (b->layer == m->config->loop_from) memcpy(input, x, dim * sizeof *x);
    m->isa->numeric->add_scaled(x, input, 1.0f, dim);
}

static void sphere_add(ForwardPass *pass, const Branch *b, size_t row, float *y) {
    Model *m = pass->model;
    const SphereStep *step = b->stream_weights;
    size_t dim = m->config->dim;
    float *x = m->x + row * dim;
    forward_normalize(m, step->post, y, y, dim);
    for (size_t k = 0; k < dim; k++) x[k] = step->keep[k] * x[k] + y[k];
    if (!m->isa->numeric->all_finite(x, dim)) forward_not_finite(pass, b->layer);
}

/* Whether layer l is the first of a run. */
static bool begins_run(const Config *c, size_t l) {
    return l >= c->loop_from && l < c->loop_from + (size_t)c->loops * c->block_layers &&
           (l - c->loop_from) % c->block_layers == 0;
}

static void looped_list(Model *m, size_t l) {
    static const StreamUse step = {.adds = "x = keep * x + rate * norm of ", .add = sphere_add};
    static const StreamUse first = {.reads = "x = norm(x) + input",
                                    .adds = "x = keep * x + rate * norm of ",
                                    .read = loop_read,
                                    .add = sphere_add};
    const LayerWeights *w = &m->weights.layers[l];
    const Looped *own = m->weights.stack;
    Branch *attention = branches_append_attention(m, l, &w->attention_norm, m->normed);
    attention->streams = begins_run(m->config, l) ? &first : &step;
    attention->stream_weights = &own->layers[l].attention;
    Branch *ffn = branches_append_feed_forward(m, l, &w->ffn_norm, m->normed);
    ffn->streams = &step;
    ffn->stream_weights = &own->layers[l].ffn;
    attention->pre_replaces_x = ffn->pre_replaces_x = true;
    attention->sum_post = ffn->sum_post = NULL;
}

const Arrangement looped_arrangement = {
    .find = looped_find,
    .keep = looped_keep,
    .list = looped_list,
};
