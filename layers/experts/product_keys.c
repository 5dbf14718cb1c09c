#include "layers/experts/product_keys.h"

#include <omp.h>
#include <string.h>

#include "base/numbers.h"
#include "core/forward_steps.h"
#include "layers/attention/selection.h"

enum { LANES = 16 }; /* partial sums of a product */

ProductKeys product_keys_find(Finder *f) {
    const Config *c = f->config;
    ProductKeys w;
    w.router = weights_matrix(f, "product.router", 2 * (size_t)c->product.keys, c->dim, true);
    w.down = weights_matrix(f, "product.down", c->product.count, c->dim, true);
    w.up = weights_matrix(f, "product.up", c->product.count, c->dim, true);
    return w;
}

/* ---- Working memory ---- */

/* A thread's memory. */
typedef struct ProductThread {
    float *expert; /* [dim], a row of `down` or `up` */
    float *scores; /* [product_keys], of the experts with one first part */
    float *shares; /* [product_used] */
    uint32_t *selection;
} ProductThread;

size_t product_keys_thread_floats(const Config *c) {
    if (c->product.count == 0) return 0;
    return round_up(c->dim, 16) + round_up(c->product.keys, 16) +
           round_up(c->product.per_token, 16) + round_up(selection_words(c->product.per_token), 16);
}

static ProductThread product_thread(const Model *m) {
    const Config *c = m->config;
    ProductThread t;
    t.expert = m->layer_threads + (size_t)omp_get_thread_num() * m->layer_thread_floats;
    t.scores = t.expert + round_up(c->dim, 16);
    t.shares = t.scores + round_up(c->product.keys, 16);
    t.selection = (uint32_t *)(t.shares + round_up(c->product.per_token, 16));
    return t;
}

static float *take_routing(Rows *memory, const Model *m, size_t l) {
    forward_ffn_take_rows(memory, m, l);
    return rows_take(memory, m->max_rows, 2 * (size_t)m->config->product.keys);
}

static void product_keys_rows(Rows *memory, const Model *m, const Branch *b) {
    take_routing(memory, m, b->layer);
}

/* ---- The experts of a row ---- */

/* Chooses the experts with the largest sums of routing[2K], and sets their shares. */
static Selection choose_experts(const Model *m, const float *routing, const ProductThread *t) {
    const Numeric *numeric = m->isa->numeric;
    size_t keys = m->config->product.keys;
    Selection chosen = selection_begin(t->selection, m->config->product.per_token);
    for (size_t i = 0; i < keys; i++) {
        for (size_t j = 0; j < keys; j++) t->scores[j] = routing[i] + routing[keys + j];
        selection_add(&chosen, t->scores, i * keys, keys);
    }
    selection_finish(&chosen);
    for (size_t i = 0; i < chosen.n; i++)
        t->shares[i] =
            routing[chosen.positions[i] / keys] + routing[keys + chosen.positions[i] % keys];
    float sum = numeric->softmax_sum(t->shares, numeric->maximum(t->shares, chosen.n), chosen.n);
    for (size_t i = 0; i < chosen.n; i++) t->shares[i] = t->shares[i] / sum;
    return chosen;
}

/* x . y: element i in partial sum i % 16, each product rounded; then the sums in order of halves.
 */
static float dot(const float *x, const float *y, size_t n) {
    float sum[LANES] = {0};
    for (size_t i = 0; i + LANES <= n; i += LANES)
        for (size_t j = 0; j < LANES; j++) sum[j] += x[i + j] * y[i + j];
    for (size_t i = n / LANES * LANES; i < n; i++) sum[i % LANES] += x[i] * y[i];
    for (size_t half = LANES / 2; half > 0; half /= 2)
        for (size_t j = 0; j < half; j++) sum[j] += sum[j + half];
    return sum[0];
}

static void add_experts(const Model *m, const ProductKeys *w, const float *routing, const float *x,
                        float *y) {
    const Config *c = m->config;
    const ProductThread t = product_thread(m);
    const Selection chosen = choose_experts(m, routing, &t);
    for (size_t i = 0; i < chosen.n; i++) {
        matrix_row(&w->down, chosen.positions[i], t.expert);
        float inner = dot(t.expert, x, c->dim);
        m->isa->numeric->activate(c->activation, &inner, NULL, 1);
        matrix_row(&w->up, chosen.positions[i], t.expert);
        m->isa->numeric->add_scaled(y, t.expert, inner * t.shares[i], c->dim);
    }
}

static void product_keys_run(ForwardPass *pass, const Branch *b) {
    Model *m = pass->model;
    const ProductKeys *w = b->weights;
    Rows memory = arena_rows(&m->arena);
    float *routing = take_routing(&memory, m, b->layer);
    size_t dim = m->config->dim, width = w->router.rows;
    forward_ffn_kind.run(pass, b);
    forward_multiply(m, b->in, pass->n, &(Product){&w->router, routing, width}, 1);
#pragma omp for schedule(dynamic, 1) nowait
    for (size_t i = 0; i < pass->n; i++)
        add_experts(m, w, routing + i * width, b->in + i * dim, b->out + i * dim);
    forward_wait(pass);
    forward_add_time(pass, PART_FEED_FORWARD);
}

const BranchKind product_keys_kind = {
    .name = "feed-forward with product keys", .run = product_keys_run, .rows = product_keys_rows};
