#include "layers/experts/latent_moe.h"

#include <stdio.h>
#include <string.h>

#include "layers/experts/mixture.h"
#include "layers/layer_allocate.h"

/* A layer of LAYER_LATENT_MOE. */
typedef struct LatentMoeLayer {
    LatentMoe weights;
    LayerWeights mixture;  /* of weights */
    FeedForward experts[]; /* of mixture */
} LatentMoeLayer;

/* The working memory of a call. */
typedef struct LatentMoeRows {
    MixtureRows mixture;
    float *in, *sum; /* [n][expert_dim] */
} LatentMoeRows;

static LatentMoeRows latent_moe_take_rows(Rows *memory, const Model *m, const LatentMoe *w) {
    LatentMoeRows rows = {.mixture = mixture_take(memory, m, w->mixture)};
    rows.in = rows_take(memory, m->max_rows, m->config->experts.dim);
    rows.sum = rows_take(memory, m->max_rows, m->config->experts.dim);
    return rows;
}

static void latent_moe_rows(Rows *memory, const Model *m, const Branch *b) {
    latent_moe_take_rows(memory, m, b->weights);
}

static FeedForward find_network(Finder *f, size_t width, size_t dim) {
    FeedForward found = {.width = width};
    if (f->config->gated) found.gate = weights_linear(f, "w_gate", width, dim, true);
    found.up = weights_linear(f, "w_up", width, dim, true);
    found.down = weights_linear(f, "w_down", dim, width, true);
    return found;
}

/* Finds a layer's weights: the projections into and out of the experts' width, the router, the
 * experts and the shared expert. */
static void *latent_moe_find(Finder *f, uint32_t layer) {
    const Config *c = f->config;
    char saved_prefix[sizeof f->prefix];
    LatentMoeLayer *own = layer_allocate(f, sizeof *own + c->experts.count * sizeof *own->experts);
    if (!own) return NULL;
    LatentMoe *w = &own->weights;
    LayerWeights *mixture = w->mixture = &own->mixture;
    w->in = weights_linear(f, "experts_in", c->experts.dim, c->dim, true);
    w->out = weights_linear(f, "experts_out", c->dim, c->experts.dim, true);
    mixture->router = weights_linear(f, "router", c->experts.count, c->dim, true);
    mixture->router_correction = weights_vector(f, "router.correction", 1, c->experts.count, false);
    mixture->experts = own->experts;
    memcpy(saved_prefix, f->prefix, sizeof saved_prefix);
    for (uint32_t e = 0; e < c->experts.count; e++) {
        snprintf(f->prefix, sizeof f->prefix, "layers.%u.experts.%u.", layer, e);
        own->experts[e] = find_network(f, c->experts.ffn_dim, c->experts.dim);
    }
    snprintf(f->prefix, sizeof f->prefix, "layers.%u.shared.", layer);
    if (c->experts.shared_ffn_dim > 0) {
        mixture->shared_gate = weights_matrix(f, "router", 1, c->dim, false);
        mixture->shared = find_network(f, c->experts.shared_ffn_dim, c->dim);
    }
    memcpy(f->prefix, saved_prefix, sizeof saved_prefix);
    return own;
}

static KvLayer latent_moe_cached(const Config *c, uint32_t layer) {
    (void)c, (void)layer;
    return (KvLayer){.n_kv_heads = 0};
}

/* y[n][width] = norm(in[n] times the matrix, and the bias); norm NULL: none. */
static void project(ForwardPass *pass, const Linear *linear, const Norm *norm, const float *in,
                    size_t width, float *y) {
    Model *m = pass->model;
    forward_multiply(m, in, pass->n, &(Product){&linear->w, y, linear->w.rows}, 1);
    forward_gather(pass, linear->outputs, y, pass->n);
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++) {
        forward_add_bias(m, linear, y + i * width);
        if (norm) forward_normalize(m, norm, y + i * width, y + i * width, width);
    }
    forward_wait(pass);
}

static void latent_moe_run(ForwardPass *pass, const Branch *b) {
    const float *in = b->in;
    float *y = b->out;
    const Model *m = pass->model;
    const LatentMoe *w = b->weights;
    Rows memory = arena_rows(&m->arena);
    const LatentMoeRows rows = latent_moe_take_rows(&memory, m, w);
    project(pass, &w->in, w->in_norm.present ? &w->in_norm : NULL, in, m->config->experts.dim,
            rows.in);
    mixture_sum(pass, w->mixture, &rows.mixture, in, rows.in, m->config->experts.dim, rows.sum);
    project(pass, &w->out, NULL, rows.sum, m->config->dim, y);
    if (m->config->experts.shared_ffn_dim > 0)
        mixture_add_shared(pass, w->mixture, &rows.mixture, in, y);
    forward_add_time(pass, PART_FEED_FORWARD);
}

const BranchKind latent_moe_kind = {
    .name = "narrow mixture",
    .find = latent_moe_find,
    .rows = latent_moe_rows,
    .cached = latent_moe_cached,
    .run = latent_moe_run,
};

LatentMoe *latent_moe_weights(const LayerWeights *layer) {
    return layer->kind == &latent_moe_kind ? &((LatentMoeLayer *)layer->own)->weights : NULL;
}
