#include "layers/arrangements/messages.h"

#include <stdio.h>
#include <string.h>

#include "layers/arrangements/unit_sums.h"

/* ---- Runs ---- */

/* The end of the last run. */
static size_t end_of_runs(const Config *c) {
    return c->loop_from + (size_t)c->loops * c->loop_layers;
}

bool messages_loops(const Config *c, size_t l) {
    return c->loop_layers > 0 && l >= c->loop_from && l < end_of_runs(c);
}

bool messages_begins_run(const Config *c, size_t l) {
    return messages_loops(c, l) && (l - c->loop_from) % c->loop_layers == 0;
}

bool messages_reach(const Config *c, size_t l) {
    return messages_loops(c, l) && l >= (size_t)c->loop_from + c->loop_layers;
}

uint32_t messages_stored_layer(const Config *c, uint32_t l) {
    if (messages_loops(c, l)) return c->loop_from + (l - c->loop_from) % c->loop_layers;
    return c->loop_layers == 0 || l < c->loop_from ? l : l - (c->loops - 1) * c->loop_layers;
}

static size_t sums_of_run(const Config *c) {
    return c->loop_layers / c->block_layers;
}

/* ---- Weights and working memory ---- */

void messages_find(Finder *f, Messages *messages) {
    static const char *const readers[MESSAGE_READERS] = {"q", "k", "v", "ffn"};
    size_t dim = f->config->dim, rank = f->config->message_rank;
    for (size_t i = 0; i < MESSAGE_READERS; i++) {
        MessageGate *gate = &messages->of[i];
        char name[64];
        snprintf(name, sizeof name, "messages.%s.query", readers[i]);
        gate->query = weights_vector(f, name, 1, dim, true);
        snprintf(name, sizeof name, "messages.%s.down", readers[i]);
        gate->down = weights_matrix(f, name, rank, 2 * dim, true);
        snprintf(name, sizeof name, "messages.%s.forget", readers[i]);
        gate->forget = weights_matrix(f, name, dim, rank, true);
        snprintf(name, sizeof name, "messages.%s.gain", readers[i]);
        gate->gain = weights_matrix(f, name, dim, rank, true);
    }
}

void messages_keep(Model *m, MessageRows *rows) {
    const Config *c = m->config;
    Arena *arena = &m->arena;
    size_t n = m->max_rows, several = n * MESSAGES_AT_ONCE;
    rows->previous = arena_keep(arena, "sums of the run before", n, sums_of_run(c) * c->dim);
    rows->hidden = arena_keep(arena, "inputs without messages", several, c->dim);
    rows->message = arena_keep(arena, "messages", several, c->dim);
    rows->joined = arena_keep(arena, "inputs of message gates", several, 2 * (size_t)c->dim);
    rows->low = arena_keep(arena, "low rank of message gates", several, c->message_rank);
    rows->forget = arena_keep(arena, "forget gates", several, c->dim);
    rows->gain = arena_keep(arena, "gains of messages", several, c->dim);
}

/* ---- The forward pass ---- */

void messages_remember(const Model *m, const MessageRows *rows, size_t row, const float *units) {
    size_t n = sums_of_run(m->config) * m->config->dim;
    memcpy(rows->previous + row * n, units, n * sizeof *units);
}

/* The number of elements before the elements of a row and reader. */
static size_t place(const Model *m, size_t at, size_t row, size_t width) {
    return (at * m->max_rows + row) * width;
}

float *messages_hidden(const Model *m, const MessageRows *rows, size_t at, size_t row) {
    return rows->hidden + place(m, at, row, m->config->dim);
}

void messages_make(const Model *m, const MessageRows *rows, const MessageGate *gate, size_t at,
                   size_t row, float *scores) {
    const Config *c = m->config;
    const Numeric *numeric = m->isa->numeric;
    size_t dim = c->dim, n = sums_of_run(c);
    float *message = rows->message + place(m, at, row, dim);
    float *joined = rows->joined + place(m, at, row, 2 * dim);
    unit_sums_attend(m, gate->query, rows->previous + row * n * dim, n, scores, message);
    numeric->rms_norm(joined, messages_hidden(m, rows, at, row), NULL, dim, c->norm_eps);
    numeric->rms_norm(joined + dim, message, NULL, dim, c->norm_eps);
}

void messages_multiply(ForwardPass *pass, const MessageRows *rows, const MessageGate *gates,
                       size_t n) {
    Model *m = pass->model;
    size_t dim = m->config->dim, rank = m->config->message_rank;
    Product down[MESSAGES_AT_ONCE], up[MESSAGES_AT_ONCE][2];
    ProductSet sets[MESSAGES_AT_ONCE] = {{0}};
    for (size_t i = 0; i < n; i++) {
        down[i] = (Product){&gates[i].down, rows->low + place(m, i, 0, rank), rank};
        up[i][0] = (Product){&gates[i].forget, rows->forget + place(m, i, 0, dim), dim};
        up[i][1] = (Product){&gates[i].gain, rows->gain + place(m, i, 0, dim), dim};
        sets[i] = (ProductSet){rows->joined + place(m, i, 0, 2 * dim), pass->n, &down[i], 1, NULL};
    }
    forward_multiply_sets(m, sets, n);
    for (size_t i = 0; i < n; i++)
        sets[i] = (ProductSet){rows->low + place(m, i, 0, rank), pass->n, up[i], 2, NULL};
    forward_multiply_sets(m, sets, n);
}

void messages_mix(const Model *m, const MessageRows *rows, size_t at, size_t row, float *out) {
    size_t dim = m->config->dim, from = place(m, at, row, dim);
    const float *hidden = rows->hidden + from, *message = rows->message + from;
    float *forget = rows->forget + from, *gain = rows->gain + from;
    m->isa->numeric->softcap(forget, 1.0f, dim); /* tanh */
    m->isa->numeric->softcap(gain, 1.0f, dim);
    for (size_t k = 0; k < dim; k++) out[k] = (1.0f - forget[k]) * hidden[k] + gain[k] * message[k];
}
