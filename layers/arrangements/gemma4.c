/* The arrangement of Gemma 4: which branches a layer has. Attention and feed-forward are those of
 * other models (core/self_attention.c with heads, windows and angles of each layer from Config:
 * queries, keys and values have a norm for each head, scores have no factor 1 / sqrt(head_dim), a
 * layer without wv takes its keys for values, and some read the keys of an earlier layer;
 * core/forward_steps.c); of each of them the input and the output have a norm.
 *
 *     x += post_attention_norm(attention(attention_norm(x)))
 *     x += post_ffn_norm(feed-forward(ffn_norm(x)))
 *     x += norm(projection(activation(gate(x)) * input))      per_layer.h: input is a vector that
 *                                                             the token has for this layer,
 *                                                             computed before layer 0
 *     x *= output_scale                                       one number: Branch.after of the last
 *
 * In models with experts the second line is
 *
 *     x += post_ffn_norm(post_dense_norm(feed-forward(ffn_norm(x))) +
 *                        post_expert_norm(experts(expert_norm(x))))
 *
 * where both norms read the same x. The router chooses by norm(x) * router_scale / sqrt(dim); the
 * softmax of the chosen is multiplied by router_correction of each (ROUTER_SCALED).
 * Not every model has the third and the fourth line. */
#include <stdio.h>
#include <stdlib.h>

#include "layers/arrangements/per_layer.h"
#include "layers/arrangements/arrangements.h"
#include "layers/experts/mixture.h"
#include "layers/layer_allocate.h"

typedef struct Gemma4Layer {
    PerLayerGate gate;
    const float *scale; /* [1], of the block's output; NULL: none */
    /* Mixtures. */
    const float *router_scale;                           /* [dim] */
    Norm expert_norm, post_expert_norm, post_dense_norm; /* [dim] */
} Gemma4Layer;

typedef struct Gemma4 {
    PerLayerTable table;
    Gemma4Layer layers[]; /* [n_layers] */
} Gemma4;

/* ---- Weights ---- */

static void find_layer(Finder *f, uint32_t l, Gemma4Layer *layer) {
    const Config *c = f->config;
    snprintf(f->prefix, sizeof f->prefix, "layers.%u.", l);
    if (c->per_layer.dim > 0) per_layer_find_gate(f, &layer->gate);
    layer->scale = weights_vector(f, "output_scale", 1, 1, false);
    if (c->experts.count == 0) return;
    layer->router_scale = weights_vector(f, "router_scale", 1, c->dim, true);
    layer->expert_norm = weights_norm(f, "expert_norm", c->dim, true);
    layer->post_expert_norm = weights_norm(f, "post_expert_norm", c->dim, true);
    layer->post_dense_norm = weights_norm(f, "post_dense_norm", c->dim, true);
}

static void gemma4_find(Finder *f, Weights *weights) {
    const Config *c = f->config;
    Gemma4 *own = layer_allocate(f, sizeof *own + c->n_layers * sizeof *own->layers);
    weights->stack = own;
    if (!own) return;
    if (c->per_layer.dim > 0) per_layer_find_table(f, &own->table);
    for (uint32_t l = 0; l < c->n_layers; l++) find_layer(f, l, &own->layers[l]);
}

/* ---- The branches ---- */

/* The feed-forward network and the experts beside it, whose outputs are added as one. Returns the
 * second branch. Both are read before the first one runs: they need an input and an output each. */
static Branch *list_dense_and_experts(Model *m, size_t l, const Gemma4Layer *own) {
    const LayerWeights *w = &m->weights.layers[l];
    Branch *dense = branches_append(m, l, &forward_ffn_kind);
    branches_set_input(dense, &w->ffn_norm, m->normed);
    dense->last_linear = &w->ffn.down;
    dense->post = &own->post_dense_norm;
    dense->addition = ADD_TO_NEXT;
    dense->same_x = true;
    Branch *experts = branches_append(m, l, &mixture_kind);
    branches_set_input(experts, &own->expert_norm, branches_second_input(m));
    experts->router_scale = own->router_scale;
    /* The same rows for all layers. */
    experts->routed = arena_keep(&m->arena, "router input", m->max_rows, m->config->dim);
    experts->out = branches_second_output(m);
    experts->post = &own->post_expert_norm;
    experts->sum_post = w->post_ffn_norm.present ? &w->post_ffn_norm : NULL;
    experts->scale = m->config->residual_scale;
    return experts;
}

static void gemma4_list(Model *m, size_t l) {
    const LayerWeights *w = &m->weights.layers[l];
    const Gemma4Layer *own = &((const Gemma4 *)m->weights.stack)->layers[l];
    Branch *last;
    branches_append_attention(m, l, &w->attention_norm, m->normed); /* with post_attention_norm */
    if (w->router.w.data) {
        last = list_dense_and_experts(m, l, own);
    } else {
        last = branches_append_feed_forward(m, l, &w->ffn_norm, m->normed);
    }
    if (m->config->per_layer.dim > 0) last = per_layer_branch(m, l, &own->gate);
    if (own->scale) last->after = *own->scale; /* x = scale * (x + the last branch's output) */
}

static void gemma4_keep(Model *m) {
    Gemma4 *own = m->weights.stack;
    if (m->config->per_layer.dim > 0) per_layer_keep(m, &own->table);
}

static void gemma4_begin(ForwardPass *pass) {
    const Gemma4 *own = pass->model->weights.stack;
    if (pass->model->config->per_layer.dim > 0) per_layer_inputs(pass, &own->table);
}

const Arrangement gemma4_arrangement = {
    .find = gemma4_find,
    .keep = gemma4_keep,
    .thread_floats = per_layer_thread_floats,
    .list = gemma4_list,
    .begin = gemma4_begin,
};
