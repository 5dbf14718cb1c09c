/* A stack in which each element of the residual stream, and of what a block adds to it, has a
 * weight: Muse Spark, Doge. With learned vectors keep and add,
 *
 *     x = keep * x + add * norm(attention(norm(x)))
 *     x = keep * x + add * norm(scale * feed-forward(norm(x)))
 *
 * The converter makes both vectors of one gate: add = sigmoid(gate), and keep so that a sum of
 * independent parts of the same size has that size. The vectors `add` are the weights of the norms
 * after the blocks. A feed-forward with a router is a mixture whose experts read and write a
 * narrower vector (layers/experts/latent_moe.h), and each expert's output is normalized
 * (LayerWeights.expert_scale).
 *
 * Doge has the vectors `keep` alone, without norms after its blocks (norm_place 'before'), and may
 * have experts found by product keys beside its feed-forwards (layers/experts/product_keys.h). */
#include <stdio.h>

#include "layers/arrangements/arrangements.h"
#include "layers/experts/latent_moe.h"
#include "layers/experts/product_keys.h"
#include "layers/layer_allocate.h"

/* How the output of a block is added: Branch.stream_weights. */
typedef struct ResidualGate {
    const float *keep;  /* [dim], multiplies x */
    const float *scale; /* [dim], multiplies the output before its norm; NULL: nothing does */
    const Norm *post;   /* the norm of the output; NULL: none */
} ResidualGate;

typedef struct GatedLayer {
    ResidualGate attention, ffn;
    LatentMoe mixture;   /* where the layer has a router */
    ProductKeys product; /* where Config.product has experts */
} GatedLayer;

static void find_mixture(Finder *f, LayerWeights *layer, LatentMoe *mixture) {
    const Config *c = f->config;
    mixture->mixture = layer;
    mixture->in = weights_linear(f, "experts_in", c->experts.dim, c->dim, true);
    mixture->in_norm = weights_norm(f, "experts_norm", c->experts.dim, true);
    mixture->out = weights_linear(f, "experts_out", c->dim, c->experts.dim, true);
    layer->expert_scale = weights_vector(f, "expert_scale", 1, c->experts.dim, true);
}

static void residual_gates_find(Finder *f, Weights *weights) {
    const Config *c = f->config;
    GatedLayer *own = layer_allocate(f, c->n_layers * sizeof *own);
    weights->stack = own;
    if (!own) return;
    for (uint32_t l = 0; l < c->n_layers; l++) {
        LayerWeights *layer = &weights->layers[l];
        snprintf(f->prefix, sizeof f->prefix, "layers.%u.", l);
        own[l].attention.keep = weights_vector(f, "attention_keep", 1, c->dim, true);
        own[l].ffn.keep = weights_vector(f, "ffn_keep", 1, c->dim, true);
        if (c->product.count > 0) own[l].product = product_keys_find(f);
        if (c->norm_place == NORM_BEFORE) continue;
        own[l].attention.post = &layer->post_attention_norm;
        own[l].ffn.scale = weights_vector(f, "ffn_scale", 1, c->dim, true);
        own[l].ffn.post = &layer->post_ffn_norm;
        if (layer->router.w.data) find_mixture(f, layer, &own[l].mixture);
    }
}

static void gated_add(ForwardPass *pass, const Branch *b, size_t row, float *y) {
    Model *m = pass->model;
    const ResidualGate *gate = b->stream_weights;
    size_t dim = m->config->dim;
    float *x = m->x + row * dim;
    for (size_t k = 0; gate->scale && k < dim; k++) y[k] *= gate->scale[k];
    if (gate->post) forward_normalize(m, gate->post, y, y, dim);
    for (size_t k = 0; k < dim; k++) x[k] = gate->keep[k] * x[k] + y[k];
    if (!m->isa->numeric->all_finite(x, dim)) forward_not_finite(pass, b->layer);
}

/* Lists the branches of layer l: attention, then a mixture or a feed-forward, which may have
 * experts by product keys beside it. Each is added with weights for every element of the stream
 * (gated_add). */
static void residual_gates_list(Model *m, size_t l) {
    static const StreamUse normed = {.adds = "x = keep * x + add * norm of ", .add = gated_add};
    static const StreamUse plain = {.adds = "x = keep * x + ", .add = gated_add};
    const LayerWeights *w = &m->weights.layers[l];
    const GatedLayer *own = (const GatedLayer *)m->weights.stack + l;
    size_t first = m->branches.n;
    branches_append_attention(m, l, &w->attention_norm, m->normed);
    branches_last(m)->stream_weights = &own->attention;
    if (w->router.w.data) {
        Branch *b = branches_append(m, l, &latent_moe_kind);
        branches_set_input(b, &w->ffn_norm, m->normed);
        b->weights = &own->mixture;
    } else {
        Branch *b = branches_append_feed_forward(m, l, &w->ffn_norm, m->normed);
        if (m->config->product.count > 0) {
            b->kind = &product_keys_kind;
            b->weights = &own->product;
        }
    }
    branches_last(m)->stream_weights = &own->ffn;
    for (Branch *b = m->branches.all + first; b <= branches_last(m); b++) {
        b->streams = own->ffn.post ? &normed : &plain;
        b->sum_post = NULL;
    }
}

const Arrangement residual_gates_arrangement = {
    .find = residual_gates_find,
    .thread_floats = product_keys_thread_floats,
    .list = residual_gates_list,
};
