#include "layers/arrangements/per_layer.h"

#include <math.h>
#include <omp.h>

void per_layer_find_table(Finder *f, PerLayerTable *table) {
    const Config *c = f->config;
    size_t all = (size_t)c->n_layers * c->per_layer.dim;
    table->embedding = weights_matrix(f, "per_layer.embedding", c->per_layer.vocab, all, true);
    table->projection = weights_matrix(f, "per_layer.projection", all, c->dim, true);
    table->norm = weights_norm(f, "per_layer.norm", c->per_layer.dim, true);
}

void per_layer_find_gate(Finder *f, PerLayerGate *gate) {
    const Config *c = f->config;
    gate->gate = weights_matrix(f, "per_layer.gate", c->per_layer.dim, c->dim, true);
    gate->projection = weights_matrix(f, "per_layer.projection", c->dim, c->per_layer.dim, true);
    gate->norm = weights_norm(f, "per_layer.norm", c->dim, true);
}

size_t per_layer_thread_floats(const Config *c) {
    return (size_t)c->n_layers * c->per_layer.dim;
}

/* Joins a row's projection, in inputs[n_layers * p], with its token's embedding. */
static void join_embedding(const Model *m, const PerLayerTable *table, const Row *row,
                           float *inputs, float *embedding) {
    const Config *c = m->config;
    const Numeric *numeric = m->isa->numeric;
    size_t p = c->per_layer.dim, all = c->n_layers * p;
    uint32_t token = (uint32_t)row->token;
    matrix_row(&table->embedding, token < c->per_layer.vocab ? token : 0, embedding);
    numeric->scale(inputs, 1.0f / sqrtf((float)c->dim), all);
    for (size_t l = 0; l < c->n_layers; l++)
        forward_normalize(m, &table->norm, inputs + l * p, inputs + l * p, p);
    numeric->add_scaled(inputs, embedding, sqrtf((float)p), all);
    numeric->scale(inputs, 1.0f / sqrtf(2.0f), all);
}

static float *inputs_of(Model *m) {
    size_t all = (size_t)m->config->n_layers * m->config->per_layer.dim;
    return arena_keep(&m->arena, "layer inputs", m->max_rows, all);
}

void per_layer_keep(Model *m, PerLayerTable *table) {
    table->inputs = inputs_of(m);
}

void per_layer_inputs(ForwardPass *pass, const PerLayerTable *table) {
    Model *m = pass->model;
    size_t all = (size_t)m->config->n_layers * m->config->per_layer.dim;
    float *inputs = table->inputs;
    const Product projection = {&table->projection, inputs, all};
    float *embedding = m->layer_threads + (size_t)omp_get_thread_num() * m->layer_thread_floats;
    forward_multiply(m, m->x, pass->n, &projection, 1);
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++)
        join_embedding(m, table, &pass->rows[i], inputs + i * all, embedding);
    forward_wait(pass);
}

static float *take_gated(Rows *memory, const Model *m) {
    return rows_take(memory, m->max_rows, m->config->per_layer.dim);
}

static void per_layer_rows(Rows *memory, const Model *m, const Branch *b) {
    (void)b;
    take_gated(memory, m);
}

static void per_layer_run(ForwardPass *pass, const Branch *b) {
    Model *m = pass->model;
    const Config *c = m->config;
    const PerLayerGate *w = b->weights;
    size_t p = c->per_layer.dim, all = c->n_layers * p;
    Rows memory = arena_rows(&m->arena);
    const float *inputs = (const float *)b->kept + b->layer * p;
    float *gated = take_gated(&memory, m);
    const Product inner = {&w->gate, gated, p}, outer = {&w->projection, b->out, c->dim};
    forward_multiply(m, b->in, pass->n, &inner, 1);
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++)
        m->isa->numeric->activate(c->activation, gated + i * p, inputs + i * all, p);
    forward_wait(pass);
    forward_multiply(m, gated, pass->n, &outer, 1);
}

Branch *per_layer_branch(Model *m, size_t l, const PerLayerGate *gate) {
    static const BranchKind kind = {
        .name = "layer input", .run = per_layer_run, .rows = per_layer_rows};
    Branch *b = branches_append(m, l, &kind);
    b->weights = gate;
    b->kept = inputs_of(m);
    b->post = &gate->norm;
    return b;
}
