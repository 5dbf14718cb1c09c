/* A stack whose layers differ in where they normalize: x + norm2(f(norm(x))), where f is attention,
 * a layer of another kind or the feed-forward, and each norm is left out in layers without weights
 * for it. OLMo Hybrid normalizes before its layers with a state and after its attention.
 *
 * With Config.adapter_rank a norm before a block may have a gate that depends on its output: A.X K2
 * takes norm(x) * sigmoid(up activation(down norm(x))), where down has adapter_rank rows.
 *
 * With Config.residual_by_depth the n-th sum of the stream (the embedding is the first part) is
 * (x sqrt(n - 1) + norm2(f(norm(x)))) / sqrt(n): Beam. */
#include <math.h>
#include <stdio.h>

#include "forward_pass.h"
#include "layer_kind.h"
#include "layers/stacks.h"

/* A norm's gate; without data where the norm has none. */
typedef struct NormGate {
    Matrix down, up; /* rank x dim, dim x rank */
} NormGate;

/* The gates of a layer's norms: before attention, and before the feed-forward. */
typedef struct LayerGates {
    NormGate attention, ffn;
} LayerGates;

static NormGate find_gate(Finder *f, const char *norm) {
    const Config *c = f->config;
    char name[64];
    NormGate gate;
    snprintf(name, sizeof name, "%s.gate_down", norm);
    gate.down = weights_matrix(f, name, c->adapter_rank, c->dim, false);
    snprintf(name, sizeof name, "%s.gate_up", norm);
    gate.up = weights_matrix(f, name, c->dim, c->adapter_rank, gate.down.data != NULL);
    return gate;
}

/* Without gates there is nothing to find beside the layers' own weights. */
static void find(Finder *f, Weights *weights) {
    const Config *c = f->config;
    if (c->adapter_rank == 0) return;
    LayerGates *gates = stack_allocate(f, c->n_layers * sizeof *gates);
    weights->stack = gates;
    for (uint32_t l = 0; gates && l < c->n_layers; l++) {
        snprintf(f->prefix, sizeof f->prefix, "layers.%u.", l);
        gates[l].attention = find_gate(f, "attention_norm");
        gates[l].ffn = find_gate(f, "ffn_norm");
    }
}

static size_t row_floats(const Config *c) {
    return c->adapter_rank == 0 ? 0 : stack_kind_floats(c) + c->adapter_rank + (size_t)c->dim;
}

static size_t no_floats(const Config *c) {
    (void)c;
    return 0;
}

/* Multiplies Model.normed by the gate. */
static void apply_gate(ForwardPass *pass, const NormGate *gate) {
    Model *m = pass->model;
    const Numeric *numeric = m->isa->numeric;
    size_t dim = m->config->dim, rank = gate->down.rows;
    float *low = m->layer_rows + m->max_rows * stack_kind_floats(m->config);
    float *gates = low + m->max_rows * rank;
    const Product down = {&gate->down, low, rank}, up = {&gate->up, gates, dim};
    forward_multiply(m, m->normed, pass->n, &down, 1);
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++)
        numeric->activate(ACTIVATION_SILU, low + i * rank, NULL, rank);
    forward_wait(pass);
    forward_multiply(m, low, pass->n, &up, 1);
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++) {
        float *x = m->normed + i * dim;
        numeric->activate(ACTIVATION_SIGMOID, gates + i * dim, NULL, dim);
        for (size_t k = 0; k < dim; k++) x[k] *= gates[i * dim + k];
    }
    forward_wait(pass);
}

/* Model.normed = the norm of the residual stream, with its gate where `gate` is not NULL and has
 * data. Returns it, or the stream itself where the layer has no such norm. */
static const float *input_of(ForwardPass *pass, const Norm *norm, const NormGate *gate) {
    Model *m = pass->model;
    size_t dim = m->config->dim;
    if (!norm->weight) return m->x;
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++)
        forward_normalize(m, norm, m->normed + i * dim, m->x + i * dim, dim);
    forward_wait(pass);
    if (gate && gate->down.data) apply_gate(pass, gate);
    return m->normed;
}

/* Adds Model.y with the bias of `last` and the norm of the sum's second part. The sum has n_parts
 * parts now. */
static void add(ForwardPass *pass, size_t l, const Linear *last, const Norm *post, size_t n_parts) {
    Model *m = pass->model;
    size_t dim = m->config->dim;
    bool by_depth = m->config->residual_by_depth;
    float before = sqrtf((float)(n_parts - 1)), after = 1.0f / sqrtf((float)n_parts);
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++) {
        if (by_depth) m->isa->numeric->scale(m->x + i * dim, before, dim);
        pass->steps->add(pass, l, i, last, post, NULL, m->y);
        if (by_depth) m->isa->numeric->scale(m->x + i * dim, after, dim);
    }
    forward_wait(pass);
}

static void block(ForwardPass *pass, size_t l) {
    Model *m = pass->model;
    const LayerWeights *w = &m->weights.layers[l];
    const LayerGates *gates = m->weights.stack ? (const LayerGates *)m->weights.stack + l : NULL;
    const float *in = input_of(pass, &w->attention_norm, gates ? &gates->attention : NULL);
    if (m->config->layer_kind[l] == LAYER_ATTENTION) {
        pass->steps->attention(pass, l, in, m->y);
    } else {
        layer_kind(m->config->layer_kind[l])->forward(pass, l, in, m->y);
    }
    add(pass, l, &w->wo, &w->post_attention_norm, 2 * l + 2);
    in = input_of(pass, &w->ffn_norm, gates ? &gates->ffn : NULL);
    forward_add_time(pass, PART_REST);
    if (w->router.w.data) {
        mixture_forward(pass, w, in, in, m->y);
    } else {
        feed_forward(pass, &w->ffn, pass->n, in, m->y);
    }
    forward_add_time(pass, PART_FEED_FORWARD);
    add(pass, l, &w->ffn.down, &w->post_ffn_norm, 2 * l + 3);
}

static void forward(ForwardPass *pass) {
    for (size_t l = pass->first_layer; l < pass->end_layer; l++) block(pass, l);
}

const StackKind stack_mixed_norms = {find, row_floats, no_floats, forward};
