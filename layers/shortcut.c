/* LongCat-Flash's stack: every second layer has a mixture beside its feed-forward, both of one
 * input, and the mixture's output skips the next layer: it is added after that layer's
 * feed-forward. (LongCat calls two such layers one, with two attentions.) */
#include <string.h>

#include "forward_pass.h"
#include "layer_kind.h"
#include "layers/stacks.h"

static void find(Finder *f, Weights *weights) {
    (void)f;
    (void)weights; /* the layers have no others than those of a plain stack */
}

static size_t no_floats(const Config *c) {
    (void)c;
    return 0;
}

/* y = the layer's attention of Model.normed. */
static void attend(ForwardPass *pass, size_t l) {
    Model *m = pass->model;
    uint32_t kind = m->config->layer_kind[l];
    if (kind == LAYER_ATTENTION) {
        pass->steps->attention(pass, l, m->normed, m->y);
    } else {
        layer_kind(kind)->forward(pass, l, m->normed, m->y);
    }
}

/* Computes the mixture of Model.normed and keeps it in Model.expert_in, which nothing else uses
 * until the next mixture. */
static void mix(ForwardPass *pass, const LayerWeights *w) {
    Model *m = pass->model;
    size_t dim = m->config->dim;
    mixture_forward(pass, w, m->normed, m->normed, m->y);
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++)
        memcpy(m->expert_in + i * dim, m->y + i * dim, dim * sizeof *m->y);
    forward_wait(pass);
}

/* One layer, x -> x. `mixed`: the layer before it has a mixture, which is added here. */
static void block(ForwardPass *pass, size_t l, bool mixed) {
    Model *m = pass->model;
    const Config *c = m->config;
    const LayerWeights *w = &m->weights.layers[l], *next = w + 1;
    const Linear no_bias = {.bias = NULL};
    const Norm no_norm = {.present = false};
    size_t dim = c->dim;
    attend(pass, l);
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++) {
        pass->steps->add(pass, l, i, &w->wo, &w->post_attention_norm, NULL, m->y);
        forward_normalize(m, &w->ffn_norm, m->normed + i * dim, m->x + i * dim, dim);
    }
    forward_wait(pass);
    forward_add_time(pass, PART_REST);
    if (w->router.w.data) mix(pass, w);
    feed_forward(pass, &w->ffn, pass->n, m->normed, m->y);
    forward_add_time(pass, PART_FEED_FORWARD);
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++) {
        pass->steps->add(pass, l, i, &w->ffn.down, &w->post_ffn_norm, NULL, m->y);
        if (mixed) pass->steps->add(pass, l, i, &no_bias, &no_norm, NULL, m->expert_in);
        if (l + 1 < c->n_layers)
            forward_normalize(m, &next->attention_norm, m->normed + i * dim, m->x + i * dim, dim);
    }
    forward_wait(pass);
}

static void forward(ForwardPass *pass) {
    const Model *m = pass->model;
    bool mixed = false;
    for (size_t l = 0; l < pass->end_layer; l++) {
        bool mixes = !mixed && m->weights.layers[l].router.w.data;
        if (l >= pass->first_layer) block(pass, l, mixed);
        mixed = mixes;
    }
}

const StackKind stack_shortcut = {find, no_floats, no_floats, forward};
