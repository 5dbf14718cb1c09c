/* A stack whose layers differ in where they normalize: x + norm2(f(norm(x))), where f is attention,
 * a layer of another kind or the feed-forward, and each norm is left out in layers without weights
 * for it. OLMo Hybrid normalizes before its layers with a state and after its attention.
 *
 * With Config.norm_gate_rank a norm before a block may have a gate that depends on its output: A.X
 * K2 takes norm(x) * sigmoid(up activation(down norm(x))), where down has norm_gate_rank rows.
 *
 * With Config.residual_by_depth the n-th sum of the stream (the embedding is the first part) is
 * (x sqrt(n - 1) + norm2(f(norm(x)))) / sqrt(n): Beam.
 *
 * The output head may read another layer's output (head_transform.h): ModernBERT's decoder. */
#include <math.h>
#include <stdio.h>

#include "core/forward_steps.h"
#include "layers/arrangements/arrangements.h"
#include "layers/attention/head_transform.h"
#include "layers/layer_allocate.h"

/* The gates of a layer's norms: before attention, and before the feed-forward. */
typedef struct LayerGates {
    NormGate attention, ffn;
} LayerGates;

typedef struct MixedNorms {
    HeadTransform head;
    LayerGates gates[]; /* of each layer, where Config.adapter_rank is not 0 */
} MixedNorms;

/* Multiplies Branch.in by the gate of its norm (NormGate.apply). */
static void apply_gate(ForwardPass *pass, const Branch *b) {
    Model *m = pass->model;
    const NormGate *gate = b->gate;
    const Numeric *numeric = m->isa->numeric;
    size_t dim = m->config->dim, rank = gate->down.rows;
    float *low = gate->low, *gates = gate->wide;
    const Product down = {&gate->down, low, rank}, up = {&gate->up, gates, dim};
    forward_multiply(m, b->in, pass->n, &down, 1);
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++)
        numeric->activate(ACTIVATION_SILU, low + i * rank, NULL, rank);
    forward_wait(pass);
    forward_multiply(m, low, pass->n, &up, 1);
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++) {
        float *x = b->in + i * dim;
        numeric->activate(ACTIVATION_SIGMOID, gates + i * dim, NULL, dim);
        for (size_t k = 0; k < dim; k++) x[k] *= gates[i * dim + k];
    }
    forward_wait(pass);
}

static NormGate find_gate(Finder *f, const char *norm) {
    const Config *c = f->config;
    char name[64];
    NormGate gate = {.apply = apply_gate};
    snprintf(name, sizeof name, "%s.gate_down", norm);
    gate.down = weights_matrix(f, name, c->norm_gate_rank, c->dim, false);
    snprintf(name, sizeof name, "%s.gate_up", norm);
    gate.up = weights_matrix(f, name, c->dim, c->norm_gate_rank, gate.down.data != NULL);
    return gate;
}

static void mixed_norms_find(Finder *f, Weights *weights) {
    const Config *c = f->config;
    size_t n_gated = c->norm_gate_rank > 0 ? c->n_layers : 0;
    MixedNorms *own = layer_allocate(f, sizeof *own + n_gated * sizeof *own->gates);
    weights->stack = own;
    if (!own) return;
    for (uint32_t l = 0; l < n_gated; l++) {
        snprintf(f->prefix, sizeof f->prefix, "layers.%u.", l);
        own->gates[l].attention = find_gate(f, "attention_norm");
        own->gates[l].ffn = find_gate(f, "ffn_norm");
    }
    head_transform_find(f, &own->head);
}

/* Appends a half of layer l, f = branches_append_attention or branches_append_feed_forward: it
 * reads the norm, where the layer has it, with its gate. */
static void list_half(Model *m, size_t l,
                      Branch *(*f)(Model *m, size_t l, const Norm *pre, float *in),
                      const Norm *norm, const NormGate *gate) {
    if (!norm->weight) {
        f(m, l, NULL, m->x);
    } else {
        Branch *b = f(m, l, norm, m->normed);
        if (gate && gate->down.data) b->gate = gate;
    }
}

/* Sets the branch's scales so that the residual stream, a sum of n_parts branches then, keeps the
 * size of one (residual_by_depth). */
static void set_residual_scales(const Model *m, Branch *b, size_t n_parts) {
    if (!m->config->residual_by_depth) return;
    b->before = sqrtf((float)(n_parts - 1));
    b->after = 1.0f / sqrtf((float)n_parts);
}

static void mixed_norms_list(Model *m, size_t l) {
    const LayerWeights *w = &m->weights.layers[l];
    const MixedNorms *own = m->weights.stack;
    const LayerGates *gates = m->config->norm_gate_rank > 0 ? own->gates + l : NULL;
    list_half(m, l, branches_append_attention, &w->attention_norm,
              gates ? &gates->attention : NULL);
    set_residual_scales(m, branches_last(m), 2 * l + 2);
    list_half(m, l, branches_append_feed_forward, &w->ffn_norm, gates ? &gates->ffn : NULL);
    set_residual_scales(m, branches_last(m), 2 * l + 3);
}

static void mixed_norms_keep(Model *m) {
    const Config *c = m->config;
    MixedNorms *own = m->weights.stack;
    for (size_t l = 0; c->norm_gate_rank > 0 && l < c->n_layers; l++) {
        LayerGates *gates = &own->gates[l];
        float *low = arena_keep(&m->arena, "gate inputs", m->max_rows, c->norm_gate_rank);
        float *wide = arena_keep(&m->arena, "gates", m->max_rows, c->dim);
        gates->attention.low = gates->ffn.low = low;
        gates->attention.wide = gates->ffn.wide = wide;
    }
}

static void mixed_norms_end(ForwardPass *pass) {
    const MixedNorms *own = pass->model->weights.stack;
    if (own->head.dense.w.data) head_transform_run(pass, &own->head);
}

const Arrangement mixed_norms_arrangement = {
    .find = mixed_norms_find,
    .keep = mixed_norms_keep,
    .list = mixed_norms_list,
    .end = mixed_norms_end,
};
