/* A stack whose blocks end in a convolution over the positions (Inkling), whose taps contain the
 * output itself:
 *
 *     x = x + convolution(attention(norm(x)))        layers/attention/relative.c does both
 *     x = x + convolution(feed-forward(norm(x)))     or a mixture of experts */
#include "layers/arrangements/convolved.h"

#include <stdio.h>

#include "core/forward_steps.h"
#include "layers/attention/relative.h"
#include "layers/experts/mixture.h"
#include "layers/layer_allocate.h"
#include "layers/state/state_steps.h"

/* ---- Feed-forwards ---- */

void convolved_find(Finder *f, uint32_t l, Convolution *convolution) {
    snprintf(f->prefix, sizeof f->prefix, "layers.%u.", l);
    *convolution = relative_ffn_convolution(f, l);
}

static void run_convolved(ForwardPass *pass, const Branch *b, const BranchKind *kind) {
    const Convolution *convolution = b->weights;
    kind->run(pass, b);
    state_convolve(pass, b->layer, convolution, b->out, convolution->channels);
}

static void convolved_ffn_run(ForwardPass *pass, const Branch *b) {
    run_convolved(pass, b, &forward_ffn_kind);
}

static void convolved_mixture_run(ForwardPass *pass, const Branch *b) {
    run_convolved(pass, b, &mixture_kind);
}

static void convolved_ffn_rows(Rows *memory, const Model *m, const Branch *b) {
    forward_ffn_kind.rows(memory, m, b);
}

static void convolved_mixture_rows(Rows *memory, const Model *m, const Branch *b) {
    mixture_kind.rows(memory, m, b);
}

Branch *convolved_append(Model *m, size_t l, const Norm *pre, float *in,
                         const Convolution *convolution) {
    static const BranchKind ffn = {
        .name = "convolved feed-forward", .run = convolved_ffn_run, .rows = convolved_ffn_rows};
    static const BranchKind mixture = {
        .name = "convolved mixture", .run = convolved_mixture_run, .rows = convolved_mixture_rows};
    Branch *b = branches_append_feed_forward(m, l, pre, in);
    b->kind = b->kind == &forward_ffn_kind ? &ffn : &mixture;
    b->weights = convolution;
    return b;
}

/* ---- The arrangement ---- */

typedef struct Convolved {
    Convolution ffn[1]; /* [n_layers] */
} Convolved;

static void convolved_stack_find(Finder *f, Weights *weights) {
    size_t n = f->config->n_layers;
    Convolved *own = layer_allocate(f, n * sizeof *own->ffn);
    weights->stack = own;
    for (uint32_t l = 0; own && l < n; l++) convolved_find(f, l, &own->ffn[l]);
}

static void convolved_list(Model *m, size_t l) {
    const LayerWeights *w = &m->weights.layers[l];
    const Convolved *own = m->weights.stack;
    branches_append_attention(m, l, &w->attention_norm, m->normed);
    convolved_append(m, l, &w->ffn_norm, m->normed, &own->ffn[l]);
}

const Arrangement convolved_arrangement = {.find = convolved_stack_find, .list = convolved_list};
