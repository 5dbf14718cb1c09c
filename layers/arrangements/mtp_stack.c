#include "layers/arrangements/mtp_stack.h"

#include <stdio.h>

#include "layers/layer_allocate.h"

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

static void mtp_stack_find(Finder *f, Weights *weights) {
    MtpStack *stack = layer_allocate(f, sizeof *stack);
    weights->stack = stack;
    if (!stack) return;
    stack->n = f->config->mtp.n_layers;
    stack->first = f->config->n_layers - stack->n;
    for (uint32_t i = 0; i < stack->n; i++)
        find_layer(f, weights, stack->first + i, &stack->layers[i]);
}

/* ---- The branches ---- */

static void mtp_stack_keep(Model *m) {
    MtpStack *stack = m->weights.stack;
    stack->both = arena_keep(&m->arena, "embedding and state", m->max_rows, 2 * m->config->dim);
}

/* x = the projection of the norms of x, which holds the tokens' embeddings, and of the hidden
 * states. */
static void mtp_stack_join(ForwardPass *pass, const Branch *b) {
    Model *m = pass->model;
    const MtpStack *stack = m->weights.stack;
    const MtpLayer *own = &stack->layers[b->layer - stack->first];
    size_t dim = m->config->dim;
    const Product product = {&own->projection, m->x, dim};
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++) {
        float *both = stack->both + i * 2 * dim;
        forward_normalize(m, &own->embedding_norm, both, m->x + i * dim, dim);
        forward_normalize(m, &own->hidden_norm, both + dim, pass->path->hidden + i * dim, dim);
    }
    forward_wait(pass);
    forward_multiply(m, stack->both, pass->n, &product, 1);
}

/* Lists the branches of a prediction layer. Layers before them belong to the main model, and have
 * none here. */
static void mtp_stack_list(Model *m, size_t l) {
    static const StreamUse joins = {.reads = "x = projection(norm(embedding), norm(hidden state))",
                                    .gather = mtp_stack_join};
    const LayerWeights *w = &m->weights.layers[l];
    if (l < ((const MtpStack *)m->weights.stack)->first) return;
    branches_append_attention(m, l, &w->attention_norm, m->normed)->streams = &joins;
    branches_append_feed_forward(m, l, &w->ffn_norm, m->normed);
}

const Arrangement mtp_arrangement = {
    .find = mtp_stack_find, .keep = mtp_stack_keep, .list = mtp_stack_list};
