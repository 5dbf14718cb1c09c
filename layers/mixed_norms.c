/* A stack whose layers differ in where they normalize: x + norm2(f(norm(x))), where f is attention,
 * a layer of another kind or the feed-forward, and each norm is left out in layers without weights
 * for it. OLMo Hybrid normalizes before its layers with a state and after its attention. */
#include "forward_pass.h"
#include "layer_kind.h"
#include "layers/stacks.h"

/* There is nothing to find beside the layers' own weights. NULL would be freed as well. */
static void find(Finder *f, Weights *weights) {
    (void)f, (void)weights;
}

static size_t no_floats(const Config *c) {
    (void)c;
    return 0;
}

/* Model.normed = the norm of the residual stream. Returns it, or the stream itself where the layer
 * has no such norm. */
static const float *input_of(ForwardPass *pass, const Norm *norm) {
    Model *m = pass->model;
    size_t dim = m->config->dim;
    if (!norm->weight) return m->x;
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++)
        forward_normalize(m, norm, m->normed + i * dim, m->x + i * dim, dim);
    forward_wait(pass);
    return m->normed;
}

/* Adds Model.y with the bias of `last` and the norm of the sum's second part. */
static void add(ForwardPass *pass, size_t l, const Linear *last, const Norm *post) {
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++)
        pass->steps->add(pass, l, i, last, post, NULL, pass->model->y);
    forward_wait(pass);
}

static void block(ForwardPass *pass, size_t l) {
    Model *m = pass->model;
    const LayerWeights *w = &m->weights.layers[l];
    const float *in = input_of(pass, &w->attention_norm);
    if (m->config->layer_kind[l] == LAYER_ATTENTION) {
        pass->steps->attention(pass, l, in, m->y);
    } else {
        layer_kind(m->config->layer_kind[l])->forward(pass, l, in, m->y);
    }
    add(pass, l, &w->wo, &w->post_attention_norm);
    in = input_of(pass, &w->ffn_norm);
    forward_add_time(pass, PART_REST);
    if (w->router.w.data) {
        mixture_forward(pass, w, in, in, m->y);
    } else {
        feed_forward(pass, &w->ffn, pass->n, in, m->y);
    }
    forward_add_time(pass, PART_FEED_FORWARD);
    add(pass, l, &w->ffn.down, &w->post_ffn_norm);
}

static void forward(ForwardPass *pass) {
    for (size_t l = pass->first_layer; l < pass->end_layer; l++) block(pass, l);
}

const StackKind stack_mixed_norms = {find, no_floats, no_floats, forward};
