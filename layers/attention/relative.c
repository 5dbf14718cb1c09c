#include "layers/attention/relative.h"

#include <string.h>

#include "base/numbers.h"
#include "layers/layer_allocate.h"
#include "layers/state/delays.h"
#include "layers/arrangements/messages.h"
#include "layers/attention/relative_fields.h"
#include "layers/state/state_steps.h"
#include "layers/arrangements/sums.h"

/* Added to a norm that divides: transformers' clips. */
static const float CLIP_EPS = 1e-6f;

/* The convolution of keys or of values. */
typedef struct HeadConvolution {
    Convolution taps; /* [state_kernel][n_kv_heads * head_dim], the oldest first */
    Matrix by_row;    /* n_kv_heads * state_kernel x dim: a part of the taps of each row and head,
                       * the newest first; without data: none */
    float row_scale;  /* of that part */
    Delays inputs;    /* with by_row: in the same place of the state */
} HeadConvolution;

typedef struct Relative {
    Matrix wq, wk, wv; /* heads x dim */
    Linear wo;         /* dim x heads */
    Matrix relative;   /* n_heads * relative_dim x dim */
    Matrix gate;       /* n_heads * head_dim x dim; without data: none */
    Matrix sinks;      /* n_heads x dim; without data: none */
    HeadConvolution k, v;
    Convolution out;        /* of the layer's output */
    Norm q_norm, k_norm;    /* [head_dim], without head_clip */
    const float *q_scale;   /* [n_heads * head_dim], with head_clip */
    const float *own_scale; /* [n_heads * relative_dim], with relative_clip */
    const float *profiles;  /* [relative_dim][relative_extent + 2 pages], as RelativeBias has it */
} Relative;

/* ---- The layer's state ---- */

/* Inputs of a layer's four convolutions, one after another. */
typedef enum StatePart { OF_KEYS, OF_VALUES, OF_OUTPUT, OF_FFN, STATE_PARTS } StatePart;

static size_t state_place(const Config *c, uint32_t l, StatePart part) {
    const HeadShape h = config_heads(c, l);
    size_t kernel = c->state.conv_kernel, kv = (size_t)h.n_kv_heads * h.head_dim, at = 0;
    for (StatePart p = 0; p < part; p++)
        at += state_convolution_floats(kernel, p <= OF_VALUES ? kv : c->dim);
    return at;
}

static KvLayer relative_cached(const Config *c, uint32_t l) {
    const HeadShape h = config_heads(c, l);
    return (KvLayer){.n_kv_heads = h.n_kv_heads,
                     .key_dim = h.head_dim,
                     .value_dim = h.head_dim,
                     .window = c->window[l],
                     .state_floats = state_place(c, l, STATE_PARTS)};
}

/* ---- Weights ---- */

static Convolution find_taps(Finder *f, uint32_t l, const char *name, size_t channels,
                             StatePart part) {
    size_t kernel = f->config->state.conv_kernel;
    return (Convolution){.weight = weights_vector(f, name, kernel, channels, true),
                         .channels = channels,
                         .kernel = kernel,
                         .state = state_place(f->config, l, part)};
}

Convolution relative_ffn_convolution(Finder *f, uint32_t l) {
    return find_taps(f, l, "ffn.taps", f->config->dim, OF_FFN);
}

static HeadConvolution find_head_convolution(Finder *f, uint32_t l, const char *taps,
                                             const char *by_row, StatePart part) {
    const Config *c = f->config;
    const HeadShape h = config_heads(c, l);
    size_t kernel = c->state.conv_kernel, channels = (size_t)h.n_kv_heads * h.head_dim;
    HeadConvolution found = {.taps = find_taps(f, l, taps, channels, part)};
    found.by_row = weights_matrix(f, by_row, h.n_kv_heads * kernel, c->dim, false);
    found.row_scale = 1.0f / sqrtf((float)(2 * kernel + 1));
    found.inputs = (Delays){.width = channels, .steps = kernel - 1, .state = found.taps.state};
    return found;
}

/* Finds the weights of the layer. Returns NULL, with f->status set, where memory is short. */
static void *relative_find(Finder *f, uint32_t l) {
    const Config *c = f->config;
    const HeadShape h = config_heads(c, l);
    size_t heads = (size_t)h.n_heads * h.head_dim, kv = (size_t)h.n_kv_heads * h.head_dim;
    size_t own = (size_t)h.n_heads * c->relative.dim;
    Relative *w = layer_allocate(f, sizeof *w);
    if (!w) return NULL;
    w->wq = weights_matrix(f, "wq", heads, c->dim, true);
    w->wk = weights_matrix(f, "wk", kv, c->dim, true);
    w->wv = weights_matrix(f, "wv", kv, c->dim, true);
    w->wo = weights_linear(f, "wo", c->dim, heads, true);
    w->relative = weights_matrix(f, "relative", own, c->dim, true);
    w->gate = weights_matrix(f, "attention_gate", heads, c->dim, false);
    w->sinks = weights_matrix(f, "row_sinks", h.n_heads, c->dim, false);
    w->k = find_head_convolution(f, l, "k.taps", "k.taps_by_row", OF_KEYS);
    w->v = find_head_convolution(f, l, "v.taps", "v.taps_by_row", OF_VALUES);
    if (f->status == STATUS_OK && !w->k.by_row.data != !w->v.by_row.data)
        f->status = error_set(f->error, "layer %u: taps_by_row of keys or values alone", l);
    w->out = find_taps(f, l, "attention.taps", c->dim, OF_OUTPUT);
    if (c->relative.head_clip > 0.0f) {
        w->q_scale = weights_vector(f, "q_scale", 1, heads, true);
    } else {
        w->q_norm = weights_norm(f, "q_norm", h.head_dim, true);
        w->k_norm = weights_norm(f, "k_norm", h.head_dim, true);
    }
    if (c->relative.clip > 0.0f) w->own_scale = weights_vector(f, "relative.scale", 1, own, true);
    w->profiles =
        weights_vector(f, "profiles", c->relative.dim, relative_extent(c, l) + 2 * KV_PAGE, true);
    return w;
}

/* ---- Working memory ---- */

/* The working memory of a call: arrays of n rows each. */
typedef struct RelativeRows {
    float *q;               /* [n_heads * head_dim] */
    float *relative;        /* [n_heads * relative_dim] */
    float *k, *v;           /* [n_kv_heads * head_dim], before the convolutions, or after them where
                             * taps do not depend on the row */
    float *k_out, *v_out;   /* after them where they do */
    float *k_taps, *v_taps; /* [n_kv_heads * state_kernel] */
    float *gate;            /* [n_heads * head_dim] */
    float *sinks;           /* [n_heads] */
    float *attended;        /* [n_heads * head_dim] */
} RelativeRows;

static RelativeRows relative_take_rows(Rows *memory, const Model *m, size_t l, const Relative *w) {
    size_t n = m->max_rows;
    (void)l;
    RelativeRows r;
    r.q = rows_take(memory, n, w->wq.rows);
    r.relative = rows_take(memory, n, w->relative.rows);
    r.k = rows_take(memory, n, w->wk.rows);
    r.v = rows_take(memory, n, w->wv.rows);
    r.k_out = w->k.by_row.data ? rows_take(memory, n, w->wk.rows) : r.k;
    r.v_out = w->v.by_row.data ? rows_take(memory, n, w->wv.rows) : r.v;
    r.k_taps = rows_take(memory, n, w->k.by_row.rows);
    r.v_taps = rows_take(memory, n, w->v.by_row.rows);
    r.gate = rows_take(memory, n, w->gate.rows);
    r.sinks = rows_take(memory, n, w->sinks.rows);
    r.attended = rows_take(memory, n, w->wo.w.cols);
    return r;
}

static void relative_rows(Rows *memory, const Model *m, const Branch *b) {
    relative_take_rows(memory, m, b->layer, b->weights);
}

/* Floats kept for a position: the inputs of keys and values. */
static size_t relative_kept_floats(const Config *c) {
    return c->stack == STACK_BLOCK_SUMS ? 2 * (size_t)c->dim : 0;
}

bool relative_has_inputs(const Model *m, size_t l) {
    return m->config->stack == STACK_BLOCK_SUMS &&
           (m->config->window[l] == 0 || messages_reach(m->config, l));
}

float *relative_key_input(const Model *m, const Branch *b) {
    (void)m;
    return b->kept;
}

float *relative_value_input(const Model *m, const Branch *b) {
    return b->kept ? (float *)b->kept + (size_t)m->max_rows * m->config->dim : NULL;
}

/* ---- Queries, keys and values ---- */

/* out[n][channels] = the convolution of x, whose taps have a part [n_kv_heads][state_kernel] of
 * each row. */
static void convolve_by_row(ForwardPass *pass, size_t l, const HeadConvolution *w, size_t head_dim,
                            const float *x, float *row_taps, float *out) {
    size_t kernel = w->taps.kernel, channels = w->taps.channels, n_heads = channels / head_dim;
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++) {
        float *taps = row_taps + i * n_heads * kernel, *y = out + i * channels;
        pass->model->isa->numeric->scale(taps, w->row_scale, n_heads * kernel);
        memset(y, 0, channels * sizeof *y);
        for (size_t tap = 0; tap < kernel; tap++) {
            size_t back = kernel - 1 - tap;
            const float *in = delays_at(pass, l, &w->inputs, x, i, back);
            const float *weight = w->taps.weight + tap * channels;
            for (size_t c = 0; c < channels; c++)
                y[c] += in[c] * (weight[c] + taps[c / head_dim * kernel + back]);
        }
    }
    forward_wait(pass);
    if (w->inputs.steps > 0) delays_store(pass, l, &w->inputs, x);
}

static void convolve_keys_and_values(ForwardPass *pass, size_t l, const Relative *w,
                                     const RelativeRows *r) {
    size_t head_dim = config_heads(pass->model->config, l).head_dim;
    if (w->k.by_row.data) {
        convolve_by_row(pass, l, &w->k, head_dim, r->k, r->k_taps, r->k_out);
        convolve_by_row(pass, l, &w->v, head_dim, r->v, r->v_taps, r->v_out);
        return;
    }
    state_convolve(pass, l, &w->k.taps, r->k, w->k.taps.channels);
    state_convolve(pass, l, &w->v.taps, r->v, w->v.taps.channels);
}

/* Scales x[n] so that its norm is at most `most`. `weight` (NULL: none) multiplies it first. */
static void clip_norm(const Model *m, float *x, const float *weight, size_t n, float most) {
    for (size_t i = 0; weight && i < n; i++) x[i] *= weight[i];
    float norm = sqrtf(sums_mean_square(x, 0.0f, n) * (float)n), factor = most / (norm + CLIP_EPS);
    if (factor < 1.0f) m->isa->numeric->scale(x, factor, n);
}

/* How queries and their weights of the bias grow in layers without a window. */
static float growth(const Config *c, size_t l, int32_t position) {
    if (c->query_scaling == 0.0f || c->window[l] > 0) return 1.0f;
    double ratio = (position + 1.0) / c->query_scaling_floor;
    return ratio > 1.0 ? 1.0f + c->query_scaling * (float)numbers_logarithm(ratio) : 1.0f;
}

/* Prepares: normalizes or clips queries, keys, values and what the relative biases are made of, and
 * stores keys and values. */
static void relative_prepare(ForwardPass *pass, size_t l, const Relative *w,
                             const RelativeRows *r) {
    const Model *m = pass->model;
    const Config *c = m->config;
    const HeadShape h = config_heads(c, l);
    size_t dim = h.head_dim, own = c->relative.dim;
    float most = c->relative.head_clip;
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++) {
        float *q = r->q + i * w->wq.rows, *relative = r->relative + i * w->relative.rows;
        float *k = r->k_out + i * w->wk.rows, *v = r->v_out + i * w->wv.rows;
        for (size_t head = 0; head < h.n_heads; head++) {
            float *of_head = q + head * dim;
            if (most > 0.0f)
                clip_norm(m, of_head, w->q_scale + head * dim, dim, most);
            else
                forward_normalize(m, &w->q_norm, of_head, of_head, dim);
            if (w->own_scale)
                clip_norm(m, relative + head * own, w->own_scale + head * own, own,
                          c->relative.clip);
        }
        for (size_t head = 0; head < h.n_kv_heads; head++) {
            float *key = k + head * dim, *value = v + head * dim;
            if (most > 0.0f)
                clip_norm(m, key, NULL, dim, most);
            else
                forward_normalize(m, &w->k_norm, key, key, dim);
            if (c->value_norm) forward_normalize(m, &(Norm){0}, value, value, dim);
        }
        float scale = growth(c, l, pass->rows[i].position);
        if (scale != 1.0f) m->isa->numeric->scale(q, scale, w->wq.rows);
        if (scale != 1.0f) m->isa->numeric->scale(relative, scale, w->relative.rows);
        kvcache_store(pass->cache, pass->rows[i].sequence, pass->rows[i].position, l, k, v);
    }
    forward_wait(pass);
}

/* Multiplies each element of the heads' outputs by the sigmoid of its gate. */
static void gate_outputs(ForwardPass *pass, const Relative *w, const RelativeRows *r) {
    size_t width = w->gate.rows;
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++) {
        float *gate = r->gate + i * width, *out = r->attended + i * width;
        pass->model->isa->numeric->activate(ACTIVATION_SIGMOID, gate, out, width);
        memcpy(out, gate, width * sizeof *out);
    }
    forward_wait(pass);
}

/* ---- A call ---- */

/* The products of the layer's inputs. */
static void relative_project(ForwardPass *pass, const Branch *b, const Relative *w,
                             const RelativeRows *r) {
    Model *m = pass->model;
    bool apart = relative_has_inputs(m, b->layer);
    const Product keys[] = {{&w->wk, r->k, w->wk.rows},
                            {&w->k.by_row, r->k_taps, w->k.by_row.rows}};
    const Product values[] = {{&w->wv, r->v, w->wv.rows},
                              {&w->v.by_row, r->v_taps, w->v.by_row.rows}};
    Product products[9] = {{&w->wq, r->q, w->wq.rows},
                           {&w->relative, r->relative, w->relative.rows}};
    size_t n = 2, of_heads = w->k.by_row.data ? 2 : 1;
    if (w->gate.data) products[n++] = (Product){&w->gate, r->gate, w->gate.rows};
    if (w->sinks.data) products[n++] = (Product){&w->sinks, r->sinks, w->sinks.rows};
    for (size_t i = 0; !apart && i < of_heads; i++) products[n++] = keys[i];
    for (size_t i = 0; !apart && i < of_heads; i++) products[n++] = values[i];
    forward_multiply(m, b->in, pass->n, products, n);
    if (!apart) return;
    forward_multiply(m, relative_key_input(m, b), pass->n, keys, of_heads);
    forward_multiply(m, relative_value_input(m, b), pass->n, values, of_heads);
}

/* Runs attention with the learned bias of distances and the convolutions of relative.h. */
static void relative_run(ForwardPass *pass, const Branch *b) {
    Model *m = pass->model;
    const Config *c = m->config;
    size_t l = b->layer;
    const Relative *w = b->weights;
    const HeadShape h = config_heads(c, l);
    float width = (float)h.head_dim;
    Rows memory = arena_rows(&m->arena);
    const RelativeRows r = relative_take_rows(&memory, m, l, w);
    const RelativeBias bias = {.weights = r.relative,
                               .q = r.q,
                               .profiles = w->profiles,
                               .dim = c->relative.dim,
                               .extent = relative_extent(c, (uint32_t)l)};
    AttentionParams params = forward_attention_params(m->config, &h, l);
    params.value_dim = h.head_dim;
    params.scale /= c->relative.head_clip > 0.0f ? sqrtf(width) : width;
    params.sinks = w->sinks.data ? r.sinks : NULL;
    params.sink_stride = h.n_heads;
    params.relative = &bias;
    forward_add_time(pass, PART_REST);
    relative_project(pass, b, w, &r);
    forward_add_time(pass, PART_PROJECTIONS);
    convolve_keys_and_values(pass, l, w, &r);
    relative_prepare(pass, l, w, &r);
    forward_attend(pass, &params, r.q, r.attended);
    if (w->gate.data) gate_outputs(pass, w, &r);
    forward_add_time(pass, PART_ATTENTION);
    forward_project(pass, &w->wo, r.attended, b->out);
    state_convolve(pass, l, &w->out, b->out, c->dim);
}

const BranchKind relative_kind = {
    .name = "relative attention",
    .has_heads = true,
    .find = relative_find,
    .rows = relative_rows,
    .kept_floats = relative_kept_floats,
    .cached = relative_cached,
    .run = relative_run,
};
