#include "layers/mtp_stack.h"

#include <stdio.h>

#include "forward_pass.h"

/* ---- Weights ---- */

/* A matrix of the layer's own, or else that of the model. */
static Matrix own_or_shared(Finder *f, const char *name, const Matrix *shared) {
    Matrix own = weights_matrix(f, name, shared->rows, shared->cols, false);
    return own.data ? own : *shared;
}

static void find_layer(Finder *f, const Weights *weights, uint32_t l, MtpLayer *layer) {
    size_t dim = f->config->dim;
    snprintf(f->prefix, sizeof f->prefix, "layers.%u.mtp.", l);
    layer->embedding_norm =
        (Norm){.weight = weights_vector(f, "embedding_norm", 1, dim, true), .present = true};
    layer->hidden_norm =
        (Norm){.weight = weights_vector(f, "hidden_norm", 1, dim, true), .present = true};
    layer->final_norm = weights_norm(f, "final_norm", dim, false);
    if (!layer->final_norm.present) layer->final_norm = weights->final_norm;
    layer->projection = weights_matrix(f, "projection", dim, 2 * dim, true);
    layer->embedding = own_or_shared(f, "embedding", &weights->token_embedding);
    layer->output = weights->output;
    layer->output.w = own_or_shared(f, "output", &weights->output.w);
}

static void find(Finder *f, Weights *weights) {
    MtpStack *stack = stack_allocate(f, sizeof *stack);
    weights->stack = stack;
    if (!stack) return;
    stack->n = f->config->mtp_layers;
    stack->first = f->config->n_layers - stack->n;
    for (uint32_t i = 0; i < stack->n; i++)
        find_layer(f, weights, stack->first + i, &stack->layers[i]);
}

/* ---- The forward pass ---- */

static size_t row_floats(const Config *c) {
    return 2 * (size_t)c->dim;
}

static size_t thread_floats(const Config *c) {
    (void)c;
    return 0;
}

/* Model.x = the projection of the norms of Model.x, which holds the tokens' embeddings, and of the
 * hidden states; Model.normed = the input of the layer's attention. */
static void join(ForwardPass *pass, const MtpStack *stack, const MtpLayer *own,
                 const LayerWeights *w) {
    Model *m = pass->model;
    size_t dim = m->config->dim;
    const Product product = {&own->projection, m->x, dim};
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++) {
        float *both = m->layer_rows + i * 2 * dim;
        forward_normalize(m, &own->embedding_norm, both, m->x + i * dim, dim);
        forward_normalize(m, &own->hidden_norm, both + dim, stack->hidden + i * dim, dim);
    }
    forward_wait(pass);
    forward_multiply(m, m->layer_rows, pass->n, &product, 1);
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++)
        forward_normalize(m, &w->attention_norm, m->normed + i * dim, m->x + i * dim, dim);
    forward_wait(pass);
}

static void forward(ForwardPass *pass) {
    Model *m = pass->model;
    const MtpStack *stack = m->weights.stack;
    size_t l = stack->first + stack->layer, dim = m->config->dim;
    const LayerWeights *w = &m->weights.layers[l];
    join(pass, stack, &stack->layers[stack->layer], w);
    if (m->config->layer_kind[l] == LAYER_ATTENTION) {
        pass->steps->attention(pass, l, m->normed, m->y);
    } else {
        layer_kind(m->config->layer_kind[l])->forward(pass, l, m->normed, m->y);
    }
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++) {
        pass->steps->add(pass, l, i, &w->wo, &w->post_attention_norm, &w->attention_norm, m->y);
        forward_normalize(m, &w->ffn_norm, m->normed + i * dim, m->x + i * dim, dim);
    }
    forward_wait(pass);
    if (w->router.w.data) {
        mixture_forward(pass, w, m->normed, m->normed, m->y);
    } else {
        feed_forward(pass, &w->ffn, pass->n, m->normed, m->y);
    }
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++)
        pass->steps->add(pass, l, i, &w->ffn.down, &w->post_ffn_norm, &w->ffn_norm, m->y);
    forward_wait(pass);
}

const StackKind stack_mtp = {find, row_floats, thread_floats, forward};
