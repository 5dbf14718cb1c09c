#include "layers/attention/cca.h"

#include <stdio.h>
#include <string.h>

#include "layers/layer_allocate.h"
#include "layers/state/delays.h"
#include "layers/state/state_steps.h"

/* Queries and keys are normalized as by an L2 norm, whose least value this is. */
static const float LEAST_NORM = 1.1920929e-7f;

typedef struct Cca {
    Linear wq, wk;            /* heads x dim */
    Linear wv_now, wv_before; /* half of the values x dim */
    Linear wo;                /* dim x heads */
    Convolution taps;         /* of queries and keys side by side */
    Delays mixed, values;     /* what `mix` reads, and what wv_before gave */
    const float *mix_bias;    /* [channels] */
    const float *key_scale;   /* [n_kv_heads] */
    Matrix mix[];             /* [n_heads + n_kv_heads], head_dim x head_dim * mix_kernel */
} Cca;

/* Elements of a row's queries and keys. */
static size_t channels_of(const HeadShape *h) {
    return ((size_t)h->n_heads + h->n_kv_heads) * h->head_dim;
}

/* ---- Weights and sizes ---- */

/* Places the parts of a layer's state. Returns its floats. */
static size_t place_state(const Config *c, uint32_t l, Convolution *taps, Delays *mixed,
                          Delays *values) {
    const HeadShape h = config_heads(c, l);
    size_t channels = channels_of(&h);
    *taps = (Convolution){.channels = channels, .kernel = c->state.conv_kernel};
    *mixed = (Delays){.width = channels,
                      .steps = c->state.mix_kernel - 1,
                      .state = state_convolution_floats(taps->kernel, channels)};
    *values = (Delays){.width = (size_t)h.n_kv_heads * h.value_dim / 2,
                       .steps = 1,
                       .state = mixed->state + delays_state_floats(mixed)};
    return values->state + delays_state_floats(values);
}

/* Finds the weights of the layer. Returns NULL, with f->status set, where memory is short. */
static void *cca_find(Finder *f, uint32_t l) {
    const Config *c = f->config;
    const HeadShape h = config_heads(c, l);
    size_t n_heads = (size_t)h.n_heads + h.n_kv_heads, kv = (size_t)h.n_kv_heads * h.value_dim;
    Cca *w = layer_allocate(f, sizeof *w + n_heads * sizeof *w->mix);
    if (!w) return NULL;
    place_state(c, l, &w->taps, &w->mixed, &w->values);
    w->wq = weights_linear(f, "wq", (size_t)h.n_heads * h.head_dim, c->dim, true);
    w->wk = weights_linear(f, "wk", (size_t)h.n_kv_heads * h.head_dim, c->dim, true);
    w->wv_now = weights_linear(f, "wv_now", kv / 2, c->dim, true);
    w->wv_before = weights_linear(f, "wv_before", kv / 2, c->dim, true);
    w->wo = weights_linear(f, "wo", c->dim, (size_t)h.n_heads * h.value_dim, true);
    w->taps.weight = weights_vector(f, "cca.taps", w->taps.kernel, w->taps.channels, true);
    w->mix_bias = weights_vector(f, "cca.mix.bias", 1, w->taps.channels, true);
    w->key_scale = weights_vector(f, "cca.key_scale", 1, h.n_kv_heads, true);
    for (size_t i = 0; i < n_heads; i++) {
        char name[32];
        snprintf(name, sizeof name, "cca.mix.%zu", i);
        w->mix[i] =
            weights_matrix(f, name, h.head_dim, w->mixed.steps * h.head_dim + h.head_dim, true);
    }
    return w;
}

static KvLayer cca_cached(const Config *c, uint32_t l) {
    const HeadShape h = config_heads(c, l);
    Convolution taps;
    Delays mixed, values;
    return (KvLayer){.n_kv_heads = h.n_kv_heads,
                     .key_dim = h.head_dim,
                     .value_dim = h.value_dim,
                     .window = c->window[l],
                     .state_floats = place_state(c, l, &taps, &mixed, &values)};
}

/* The working memory of a call: arrays of n rows each. */
typedef struct CcaRows {
    float *qk;       /* [channels]  queries, then keys */
    float *mean;     /* [channels]  what is added to them after the convolutions */
    float *mix_in;   /* for each head, [n][head_dim * mix_kernel] */
    float *q;        /* [n_heads * head_dim] */
    float *v;        /* [n_kv_heads * value_dim] */
    float *v_before; /* half of it */
    float *attended; /* [n_heads * value_dim] */
} CcaRows;

static CcaRows cca_take_rows(Rows *memory, const Model *m, size_t l) {
    const HeadShape h = config_heads(m->config, l);
    size_t n = m->max_rows, channels = channels_of(&h);
    CcaRows r;
    r.qk = rows_take(memory, n, channels);
    r.mean = rows_take(memory, n, channels);
    r.mix_in = rows_take(memory, n, channels * m->config->state.mix_kernel);
    r.q = rows_take(memory, n, (size_t)h.n_heads * h.head_dim);
    r.v = rows_take(memory, n, (size_t)h.n_kv_heads * h.value_dim);
    r.v_before = rows_take(memory, n, (size_t)h.n_kv_heads * h.value_dim / 2);
    r.attended = rows_take(memory, n, (size_t)h.n_heads * h.value_dim);
    return r;
}

static void cca_rows(Rows *memory, const Model *m, const Branch *b) {
    cca_take_rows(memory, m, b->layer);
}

/* ---- Queries and keys ---- */

/* Adds the biases of queries and keys, and makes the means of both. */
static void make_means(ForwardPass *pass, const Cca *w, const HeadShape *h, const CcaRows *r) {
    const Model *m = pass->model;
    const Numeric *numeric = m->isa->numeric;
    size_t dim = h->head_dim, channels = channels_of(h), group = h->n_heads / h->n_kv_heads;
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++) {
        float *q = r->qk + i * channels, *k = q + h->n_heads * dim;
        float *mean = r->mean + i * channels, *mean_k = mean + h->n_heads * dim;
        forward_add_bias(m, &w->wq, q);
        forward_add_bias(m, &w->wk, k);
        memcpy(mean, q, h->n_heads * dim * sizeof *mean);
        memset(mean_k, 0, h->n_kv_heads * dim * sizeof *mean);
        for (size_t head = 0; head < h->n_heads; head++) {
            float *of_head = mean + head * dim;
            numeric->add_scaled(of_head, k + head / group * dim, 1.0f, dim);
            numeric->scale(of_head, 0.5f, dim);
            numeric->add_scaled(mean_k + head / group * dim, of_head, 1.0f, dim);
        }
        numeric->scale(mean_k, 1.0f / (float)group, h->n_kv_heads * dim);
    }
    forward_wait(pass);
}

/* Gathers what each head's `mix` reads: the newest inputs of each element side by side. */
static void gather_inputs(ForwardPass *pass, size_t l, const Cca *w, const HeadShape *h,
                          const CcaRows *r) {
    size_t dim = h->head_dim, n_heads = (size_t)h->n_heads + h->n_kv_heads,
           kernel = w->mixed.steps + 1, width = dim * kernel;
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++)
        for (size_t tap = 0; tap < kernel; tap++) {
            const float *x = delays_at(pass, l, &w->mixed, r->qk, i, kernel - 1 - tap);
            for (size_t head = 0; head < n_heads; head++) {
                float *in = r->mix_in + (head * pass->n + i) * width + tap;
                for (size_t d = 0; d < dim; d++) in[d * kernel] = x[head * dim + d];
            }
        }
    forward_wait(pass);
}

/* qk = mix of the gathered inputs, without its bias. */
static void mix_heads(ForwardPass *pass, const Cca *w, const HeadShape *h, const CcaRows *r) {
    enum { HEADS = 64 }; /* of one list of work */
    size_t n_heads = (size_t)h->n_heads + h->n_kv_heads, width = w->mix[0].cols;
    for (size_t first = 0; first < n_heads; first += HEADS) {
        Product products[HEADS];
        ProductSet sets[HEADS];
        size_t n = n_heads - first < HEADS ? n_heads - first : HEADS;
        for (size_t i = 0; i < n; i++) {
            size_t head = first + i;
            products[i] = (Product){&w->mix[head], r->qk + head * h->head_dim, channels_of(h)};
            sets[i] = (ProductSet){.x = r->mix_in + head * pass->n * width,
                                   .n_rows = pass->n,
                                   .products = &products[i],
                                   .n_products = 1};
        }
        forward_multiply_sets(pass->model, sets, n);
    }
}

/* x[dim] = x / its norm * sqrt(dim). */
static void normalize_unit(const Model *m, float *x, size_t dim) {
    m->isa->numeric->rms_norm(x, x, NULL, dim, LEAST_NORM * LEAST_NORM / (float)dim);
}

/* Prepares: adds the means, brings heads of queries and keys to length 1 and rotates them, puts
 * half of each value from the position before it, and stores keys and values. */
static void cca_prepare(ForwardPass *pass, size_t l, const Cca *w, const HeadShape *h,
                        const CcaRows *r) {
    const Model *m = pass->model;
    const Numeric *numeric = m->isa->numeric;
    size_t dim = h->head_dim, channels = channels_of(h), q_dim = h->n_heads * dim;
    size_t half = w->values.width;
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++) {
        float *x = r->qk + i * channels, *v = r->v + i * 2 * half, *k = x + q_dim;
        numeric->add_scaled(x, w->mix_bias, 1.0f, channels);
        numeric->add_scaled(x, r->mean + i * channels, 1.0f, channels);
        for (size_t head = 0; head < h->n_heads + h->n_kv_heads; head++) {
            float *of_head = x + head * dim;
            normalize_unit(m, of_head, dim);
            if (head >= h->n_heads) numeric->scale(of_head, w->key_scale[head - h->n_heads], dim);
            forward_rotate(m, l, i, of_head);
        }
        memcpy(r->q + i * q_dim, x, q_dim * sizeof *x);
        forward_add_bias(m, &w->wv_now, v);
        memcpy(v + half, delays_at(pass, l, &w->values, r->v_before, i, 1), half * sizeof *v);
        forward_add_bias(m, &w->wv_before, v + half);
        kvcache_store(pass->cache, pass->rows[i].sequence, pass->rows[i].position, l, k, v);
    }
    forward_wait(pass);
}

/* ---- A call ---- */

/* Runs compressed convolutional attention by the formulas of cca.h, step by step, and stores the
 * newest inputs of each delay in the layer's state. */
static void cca_run(ForwardPass *pass, const Branch *b) {
    Model *m = pass->model;
    size_t l = b->layer;
    const Cca *w = b->weights;
    const HeadShape h = config_heads(m->config, l);
    size_t channels = channels_of(&h);
    Rows memory = arena_rows(&m->arena);
    const CcaRows r = cca_take_rows(&memory, m, l);
    const Product inputs[] = {{&w->wq.w, r.qk, channels},
                              {&w->wk.w, r.qk + (size_t)h.n_heads * h.head_dim, channels},
                              {&w->wv_now.w, r.v, 2 * w->values.width},
                              {&w->wv_before.w, r.v_before, w->values.width}};
    const AttentionParams params = forward_attention_params(m->config, &h, l);
    forward_add_time(pass, PART_REST);
    forward_multiply(m, b->in, pass->n, inputs, 4);
    forward_add_time(pass, PART_PROJECTIONS);
    make_means(pass, w, &h, &r);
    state_convolve(pass, l, &w->taps, r.qk, channels);
    gather_inputs(pass, l, w, &h, &r);
    if (w->mixed.steps > 0) delays_store(pass, l, &w->mixed, r.qk);
    mix_heads(pass, w, &h, &r);
    cca_prepare(pass, l, w, &h, &r);
    delays_store(pass, l, &w->values, r.v_before);
    forward_attend(pass, &params, r.q, r.attended);
    forward_add_time(pass, PART_ATTENTION);
    forward_project(pass, &w->wo, r.attended, b->out);
}

const BranchKind cca_kind = {
    .name = "convolutional attention",
    .has_heads = true,
    .find = cca_find,
    .rows = cca_rows,
    .cached = cca_cached,
    .run = cca_run,
};
