/* A stack whose sums weigh both parts by element (ZAYA). With a weight and a bias [dim] each:
 *
 *     x = (embedding + embedding_bias) * embedding_scale
 *     x = (x + input_bias) * input_scale + (f(norm(x)) + output_bias) * output_scale
 *
 * for attention and for the mixture of experts of each layer. A mixture's router has layers of its
 * own, router_dim wide, and takes from layer l to the next what its first one has given:
 *
 *     r_l    = router.in y + carry * r_(l - 1)       y = norm(x); the first layer has no carry
 *     h      = gelu(hidden_1 gelu(hidden_0 norm(r_l)))
 *     logits = router h                              then as in other mixtures */
#include <stdio.h>
#include <string.h>

#include "core/forward_steps.h"
#include "layers/arrangements/arrangements.h"
#include "layers/experts/mixture.h"
#include "layers/layer_allocate.h"

/* How a branch is added. */
typedef struct ScaledSum {
    const float *input_scale, *input_bias;   /* [dim], for x */
    const float *output_scale, *output_bias; /* [dim], for f(norm(x)) */
} ScaledSum;

typedef struct RouterRows {
    float *carried;      /* [n][router_dim]  r of the layer before */
    float *first, *last; /* [n][router_dim] */
} RouterRows;

typedef struct ScaledLayer {
    ScaledSum attention, ffn;
    Linear in;          /* router_dim x dim */
    const float *carry; /* [router_dim]; NULL in the first layer */
    Norm norm;          /* [router_dim] */
    Linear hidden[2];   /* router_dim x router_dim */
    RouterRows rows;
} ScaledLayer;

typedef struct ScaledSums {
    const float *embedding_scale, *embedding_bias; /* [dim] */
    ScaledLayer layers[];                          /* [n_layers] */
} ScaledSums;

/* ---- Weights ---- */

static ScaledSum find_sum(Finder *f, const char *of) {
    static const char *const names[] = {"input_scale", "input_bias", "output_scale", "output_bias"};
    const float *found[4];
    for (size_t i = 0; i < 4; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s.%s", of, names[i]);
        found[i] = weights_vector(f, name, 1, f->config->dim, true);
    }
    return (ScaledSum){found[0], found[1], found[2], found[3]};
}

static void find_layer(Finder *f, uint32_t l, ScaledLayer *layer) {
    size_t dim = f->config->dim, width = f->config->router.dim;
    snprintf(f->prefix, sizeof f->prefix, "layers.%u.", l);
    layer->attention = find_sum(f, "attention_sum");
    layer->ffn = find_sum(f, "ffn_sum");
    layer->in = weights_linear(f, "router.in", width, dim, true);
    if (l > 0) layer->carry = weights_vector(f, "router.carry", 1, width, true);
    layer->norm = weights_norm(f, "router.norm", width, true);
    layer->hidden[0] = weights_linear(f, "router.hidden_0", width, width, true);
    layer->hidden[1] = weights_linear(f, "router.hidden_1", width, width, true);
}

static void scaled_sums_find(Finder *f, Weights *weights) {
    const Config *c = f->config;
    ScaledSums *own = layer_allocate(f, sizeof *own + c->n_layers * sizeof *own->layers);
    weights->stack = own;
    if (!own) return;
    f->prefix[0] = '\0';
    own->embedding_scale = weights_vector(f, "embedding_scale", 1, c->dim, true);
    own->embedding_bias = weights_vector(f, "embedding_bias", 1, c->dim, true);
    for (uint32_t l = 0; l < c->n_layers; l++) find_layer(f, l, &own->layers[l]);
    for (uint32_t l = 0; f->status == STATUS_OK && l < c->n_layers; l++)
        if (!weights->layers[l].router.w.data)
            f->status = error_set(f->error, "tensor 'layers.%u.router' is missing", l);
}

/* ---- The router ---- */

/* x[n] = (x + bias) * scale. */
static void shift_and_scale(float *x, const float *bias, const float *scale, size_t n) {
    for (size_t i = 0; i < n; i++) x[i] = (x[i] + bias[i]) * scale[i];
}

/* rows->first = the norm of r, which is kept for the next layer. */
static void begin_routing(ForwardPass *pass, const ScaledLayer *w) {
    const Model *m = pass->model;
    size_t width = m->config->router.dim;
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++) {
        float *r = w->rows.first + i * width, *carried = w->rows.carried + i * width;
        forward_add_bias(m, &w->in, r);
        for (size_t k = 0; w->carry && k < width; k++) r[k] += carried[k] * w->carry[k];
        memcpy(carried, r, width * sizeof *r);
        forward_normalize(m, &w->norm, r, r, width);
    }
    forward_wait(pass);
}

/* out = gelu(hidden in). */
static void run_hidden(ForwardPass *pass, const Linear *hidden, const float *in, float *out) {
    Model *m = pass->model;
    size_t width = hidden->w.rows;
    forward_multiply(m, in, pass->n, &(Product){&hidden->w, out, width}, 1);
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++) {
        forward_add_bias(m, hidden, out + i * width);
        m->isa->numeric->activate(ACTIVATION_GELU, out + i * width, NULL, width);
    }
    forward_wait(pass);
}

static void routed_run(ForwardPass *pass, const Branch *b) {
    const ScaledLayer *w = b->weights;
    Branch mixture = *b;
    forward_multiply(pass->model, b->in, pass->n, &(Product){&w->in.w, w->rows.first, w->in.w.rows},
                     1);
    begin_routing(pass, w);
    run_hidden(pass, &w->hidden[0], w->rows.first, w->rows.last);
    run_hidden(pass, &w->hidden[1], w->rows.last, w->rows.first);
    mixture.routed = w->rows.first;
    mixture_kind.run(pass, &mixture);
}

static void routed_rows(Rows *memory, const Model *m, const Branch *b) {
    mixture_kind.rows(memory, m, b);
}

static const BranchKind routed_kind = {.name = "mixture", .run = routed_run, .rows = routed_rows};

/* ---- Sums ---- */

static void scaled_add(ForwardPass *pass, const Branch *b, size_t row, float *y) {
    const Model *m = pass->model;
    const ScaledSum *w = b->stream_weights;
    size_t dim = m->config->dim;
    float *x = m->x + row * dim;
    shift_and_scale(x, w->input_bias, w->input_scale, dim);
    shift_and_scale(y, w->output_bias, w->output_scale, dim);
    m->isa->numeric->add_scaled(x, y, 1.0f, dim);
    if (!m->isa->numeric->all_finite(x, dim)) forward_not_finite(pass, b->layer);
}

/* Finishes the embeddings, before the first branch reads them. */
static void scale_embeddings(ForwardPass *pass, const Branch *b) {
    const Model *m = pass->model;
    const ScaledSums *own = m->weights.stack;
    size_t dim = m->config->dim;
    (void)b;
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++)
        shift_and_scale(m->x + i * dim, own->embedding_bias, own->embedding_scale, dim);
    forward_wait(pass);
}

/* ---- The branches ---- */

static void scaled_sums_list(Model *m, size_t l) {
    static const StreamUse sums = {.adds = "x = scaled x + scaled ", .add = scaled_add};
    static const StreamUse first = {.reads = "x = the embedding, scaled",
                                    .adds = "x = scaled x + scaled ",
                                    .gather = scale_embeddings,
                                    .add = scaled_add};
    const LayerWeights *w = &m->weights.layers[l];
    const ScaledSums *own = m->weights.stack;
    const ScaledLayer *layer = &own->layers[l];
    branches_append_attention(m, l, &w->attention_norm, m->normed);
    branches_last(m)->streams = l == 0 ? &first : &sums;
    branches_last(m)->stream_weights = &layer->attention;
    Branch *ffn = branches_append_feed_forward(m, l, &w->ffn_norm, m->normed);
    ffn->kind = &routed_kind;
    ffn->weights = layer;
    ffn->streams = &sums;
    ffn->stream_weights = &layer->ffn;
}

static void scaled_sums_keep(Model *m) {
    ScaledSums *own = m->weights.stack;
    size_t n = m->max_rows, width = m->config->router.dim;
    RouterRows rows = {.carried = arena_keep(&m->arena, "router state", n, width),
                       .first = arena_keep(&m->arena, "router input", n, width),
                       .last = arena_keep(&m->arena, "router hidden", n, width)};
    for (size_t l = 0; l < m->config->n_layers; l++) own->layers[l].rows = rows;
}

const Arrangement scaled_sums_arrangement = {
    .find = scaled_sums_find,
    .keep = scaled_sums_keep,
    .list = scaled_sums_list,
};
