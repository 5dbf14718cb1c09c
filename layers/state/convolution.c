#include "layers/state/convolution.h"

#include "layers/layer_allocate.h"
#include "layers/state/state_fields.h"
#include "layers/state/state_steps.h"
#include "core/weights.h"

typedef struct ShortConvolution {
    Linear b, c, x, out; /* dim x dim */
    Convolution convolution;
} ShortConvolution;

/* The working memory of a call: arrays [n][dim]. */
typedef struct ConvolutionRows {
    float *b, *c, *x;
} ConvolutionRows;

static ConvolutionRows convolution_take_rows(Rows *memory, const Model *m) {
    size_t n = m->max_rows, dim = m->config->dim;
    ConvolutionRows rows;
    rows.b = rows_take(memory, n, dim);
    rows.c = rows_take(memory, n, dim);
    rows.x = rows_take(memory, n, dim);
    return rows;
}

static void convolution_rows(Rows *memory, const Model *m, const Branch *branch) {
    (void)branch;
    convolution_take_rows(memory, m);
}

static void *convolution_find(Finder *f, uint32_t layer) {
    size_t dim = f->config->dim;
    ShortConvolution *w = layer_allocate(f, sizeof *w);
    (void)layer;
    if (!w) return NULL;
    w->b = weights_linear(f, "convolution.b", dim, dim, true);
    w->c = weights_linear(f, "convolution.c", dim, dim, true);
    w->x = weights_linear(f, "convolution.x", dim, dim, true);
    w->out = weights_linear(f, "convolution.out", dim, dim, true);
    w->convolution = (Convolution){
        .weight = weights_vector(f, "convolution.taps", f->config->state.conv_kernel, dim, true),
        .bias = weights_vector(f, "convolution.taps.bias", 1, dim, false),
        .channels = dim,
        .kernel = f->config->state.conv_kernel};
    return w;
}

static KvLayer convolution_cached(const Config *c, uint32_t layer) {
    (void)layer;
    return (KvLayer){.state_floats = state_convolution_floats(c->state.conv_kernel, c->dim)};
}

/* LFM2's gated short convolution: with b, c and x projections of the input, the output is
 * W_out (c * conv(b * x)); `*` multiplies elements, conv is causal, each channel by itself. */
static void convolution_run(ForwardPass *pass, const Branch *branch) {
    size_t layer = branch->layer;
    const float *in = branch->in;
    float *y = branch->out;
    Model *m = pass->model;
    const Recurrence *recurrence = state_recurrence(m);
    const ShortConvolution *w = branch->weights;
    size_t dim = m->config->dim;
    Rows memory = arena_rows(&m->arena);
    const ConvolutionRows rows = convolution_take_rows(&memory, m);
    float *b = rows.b, *c = rows.c, *x = rows.x;
    const Product inputs[] = {{&w->b.w, b, dim}, {&w->c.w, c, dim}, {&w->x.w, x, dim}};
    forward_add_time(pass, PART_REST);
    forward_multiply(m, in, pass->n, inputs, 3);
    forward_add_time(pass, PART_PROJECTIONS);
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++) {
        forward_add_bias(m, &w->b, b + i * dim);
        forward_add_bias(m, &w->c, c + i * dim);
        forward_add_bias(m, &w->x, x + i * dim);
        recurrence->multiply(x + i * dim, b + i * dim, dim);
    }
    forward_wait(pass);
    state_convolve(pass, layer, &w->convolution, x, dim);
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++) recurrence->multiply(x + i * dim, c + i * dim, dim);
    forward_wait(pass);
    forward_add_time(pass, PART_ATTENTION);
    forward_project(pass, &w->out, x, y);
}

const BranchKind convolution_kind = {
    .name = "convolution",
    .find = convolution_find,
    .rows = convolution_rows,
    .cached = convolution_cached,
    .run = convolution_run,
};
