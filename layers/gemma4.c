/* Gemma 4's stack. A block is a plain one with norms around, and then
 * - in mixtures, experts that run beside the feed-forward: each has norms of its own, and their sum
 *   has the block's post-norm. The router reads the residual stream through a third norm;
 * - the layer's own input (per_layer.h), where the model has them;
 * - one number that the residual stream is multiplied by. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "forward_pass.h"
#include "layer_kind.h"
#include "layers/per_layer.h"
#include "layers/stacks.h"

typedef struct Gemma4Layer {
    PerLayerGate gate;
    const float *scale; /* [1], of the block's output; NULL: none */
    /* Mixtures. */
    const float *router_scale; /* [dim], after the router's norm, which has no weights */
    Norm expert_norm, post_expert_norm, post_dense_norm; /* [dim] */
} Gemma4Layer;

/* Working memory of a call: sections of Model.layer_rows, each with a row for each of max_rows. */
typedef struct Sections {
    float *inputs;         /* [n][n_layers * per_layer_dim] */
    float *gated;          /* [n][per_layer_dim] */
    float *routed, *mixed; /* [n][dim], the router's input and the experts' output */
} Sections;

static size_t row_floats(const Config *c) {
    return ((size_t)c->n_layers + 1) * c->per_layer_dim + (c->n_experts ? 2 * (size_t)c->dim : 0);
}

static Sections sections(const Model *m) {
    const Config *c = m->config;
    size_t n = m->max_rows, p = c->per_layer_dim;
    Sections s = {.inputs = m->layer_rows};
    s.gated = s.inputs + n * c->n_layers * p;
    s.routed = s.gated + n * p;
    s.mixed = s.routed + (c->n_experts ? n * c->dim : 0);
    return s;
}

static Gemma4Layer *find_layer(Finder *f, uint32_t l) {
    const Config *c = f->config;
    Gemma4Layer *layer = stack_allocate(f, sizeof *layer);
    if (!layer) return NULL;
    snprintf(f->prefix, sizeof f->prefix, "layers.%u.", l);
    if (c->per_layer_dim > 0) per_layer_find_gate(f, &layer->gate);
    layer->scale = weights_vector(f, "output_scale", 1, 1, false);
    if (c->n_experts == 0) return layer;
    layer->router_scale = weights_vector(f, "router_scale", 1, c->dim, true);
    layer->expert_norm = weights_norm(f, "expert_norm", c->dim, true);
    layer->post_expert_norm = weights_norm(f, "post_expert_norm", c->dim, true);
    layer->post_dense_norm = weights_norm(f, "post_dense_norm", c->dim, true);
    return layer;
}

static void find(Finder *f, Weights *weights) {
    PerLayerTable *table = stack_allocate(f, sizeof *table);
    weights->stack = table;
    if (table && f->config->per_layer_dim > 0) per_layer_find_table(f, table);
    for (uint32_t l = 0; l < f->config->n_layers; l++) weights->layers[l].own = find_layer(f, l);
}

/* y = norm(feed-forward(normed)) + norm(experts(norm(x))), each norm with weights of its own.
 * Overwrites Model.normed. */
static void dense_and_experts(ForwardPass *pass, const LayerWeights *w, const Sections *s) {
    Model *m = pass->model;
    const Gemma4Layer *own = w->own;
    const Numeric *numeric = m->isa->numeric;
    size_t dim = m->config->dim;
    float root = 1.0f / sqrtf((float)dim);
    feed_forward(pass, &w->ffn, pass->n, m->normed, m->y);
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++) {
        float *x = m->x + i * dim, *y = m->y + i * dim, *routed = s->routed + i * dim;
        forward_add_bias(m, &w->ffn.down, y);
        forward_normalize(m, &own->post_dense_norm, y, y, dim);
        forward_normalize(m, &own->expert_norm, m->normed + i * dim, x, dim);
        forward_normalize(m, &(Norm){.weight = own->router_scale}, routed, x, dim);
        numeric->scale(routed, root, dim);
    }
    forward_wait(pass);
    mixture_forward(pass, w, s->routed, m->normed, s->mixed);
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++) {
        float *mixed = s->mixed + i * dim;
        forward_normalize(m, &own->post_expert_norm, mixed, mixed, dim);
        numeric->add_scaled(m->y + i * dim, mixed, 1.0f, dim);
    }
    forward_wait(pass);
}

static void block(ForwardPass *pass, size_t l, const Sections *s) {
    Model *m = pass->model;
    const Config *c = m->config;
    const LayerWeights *w = &m->weights.layers[l], *next = w + 1;
    const Gemma4Layer *own = w->own;
    size_t dim = c->dim;
    const Linear no_bias = {.bias = NULL};
    pass->steps->attention(pass, l, m->normed, m->y);
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++) {
        pass->steps->add(pass, l, i, &w->wo, &w->post_attention_norm, NULL, m->y);
        forward_normalize(m, &w->ffn_norm, m->normed + i * dim, m->x + i * dim, dim);
    }
    forward_wait(pass);
    forward_add_time(pass, PART_REST);
    if (w->router.w.data) {
        dense_and_experts(pass, w, s);
    } else {
        feed_forward(pass, &w->ffn, pass->n, m->normed, m->y);
    }
    forward_add_time(pass, PART_FEED_FORWARD);
    /* dense_and_experts has added the bias, before its norm. */
    const Linear *last = w->router.w.data ? &no_bias : &w->ffn.down;
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++)
        pass->steps->add(pass, l, i, last, &w->post_ffn_norm, NULL, m->y);
    forward_wait(pass);
    if (c->per_layer_dim > 0)
        per_layer_output(pass, &own->gate, l, s->inputs, m->x, s->gated, m->y);
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++) {
        float *x = m->x + i * dim;
        if (c->per_layer_dim > 0) m->isa->numeric->add_scaled(x, m->y + i * dim, 1.0f, dim);
        if (own->scale) m->isa->numeric->scale(x, *own->scale, dim);
        if (l + 1 < c->n_layers)
            forward_normalize(m, &next->attention_norm, m->normed + i * dim, x, dim);
    }
    forward_wait(pass);
}

static void forward(ForwardPass *pass) {
    Model *m = pass->model;
    const Sections s = sections(m);
    if (m->config->per_layer_dim > 0 && pass->first_layer == 0)
        per_layer_inputs(pass, m->weights.stack, s.inputs);
    for (size_t l = pass->first_layer; l < pass->end_layer; l++) block(pass, l, &s);
}

const StackKind stack_gemma4 = {find, row_floats, per_layer_thread_floats, forward};
