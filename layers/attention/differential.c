#include "layers/attention/differential.h"

#include <omp.h>
#include <string.h>

#include "layers/attention/attention_part.h"
#include "layers/layer_allocate.h"

/* ---- Weights and sizes ---- */

typedef struct Differential {
    AttentionPart part;
    const float *factor; /* [1] */
    const float *norm;   /* [2 * head_dim] */
} Differential;

static void *differential_find(Finder *f, uint32_t l) {
    const HeadShape h = config_heads(f->config, l);
    size_t q = (size_t)h.n_heads * h.head_dim, kv = (size_t)h.n_kv_heads * h.head_dim;
    Differential *w = layer_allocate(f, sizeof *w);
    if (!w) return NULL;
    w->part.wq = weights_linear(f, "wq", q, f->config->dim, true);
    w->part.wk = weights_linear(f, "wk", kv, f->config->dim, true);
    w->part.wv = weights_linear(f, "wv", kv, f->config->dim, true);
    w->part.wo = weights_linear(f, "wo", f->config->dim, q, true);
    w->factor = weights_vector(f, "differential_factor", 1, 1, true);
    w->norm = weights_vector(f, "differential_norm", 1, 2 * (size_t)h.head_dim, true);
    return w;
}

static KvLayer differential_cached(const Config *c, uint32_t l) {
    const HeadShape h = config_heads(c, l);
    return (KvLayer){
        .n_kv_heads = h.n_kv_heads, .key_dim = h.head_dim, .value_dim = 2 * h.head_dim};
}

/* The working memory of a call, arrays of n rows. */
typedef struct DifferentialRows {
    AttentionPartRows part; /* q later holds the output's heads; attended has twice as many elements
                             * as q */
    float *values;          /* [n_kv_heads * 2 * head_dim]: what is stored */
} DifferentialRows;

static DifferentialRows differential_take_rows(Rows *memory, const Model *m, size_t l) {
    const HeadShape h = config_heads(m->config, l);
    size_t n = m->max_rows, q = (size_t)h.n_heads * h.head_dim,
           kv = (size_t)h.n_kv_heads * h.head_dim;
    DifferentialRows rows;
    rows.part.q = rows_take(memory, n, q);
    rows.part.k = rows_take(memory, n, kv);
    rows.part.v = rows_take(memory, n, kv);
    rows.values = rows_take(memory, n, 2 * kv);
    rows.part.attended = rows_take(memory, n, 2 * q);
    return rows;
}

static void differential_rows(Rows *memory, const Model *m, const Branch *b) {
    differential_take_rows(memory, m, b->layer);
}

/* ---- The layer ---- */

/* Completes all rows, puts the values beside each other, and stores keys and values. */
static void differential_prepare(ForwardPass *pass, size_t l, const Differential *w,
                                 const DifferentialRows *r) {
    Model *m = pass->model;
    const HeadShape h = config_heads(m->config, l);
    size_t head = h.head_dim, half = h.n_kv_heads / 2, width = w->part.wk.w.rows;
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++) {
        float *key = r->part.k + i * width, *value = r->part.v + i * width;
        float *wide = r->values + i * 2 * width;
        attention_part_complete(m, l, i, &w->part, r->part.q + i * w->part.wq.w.rows, key, value);
        for (size_t j = 0; j < h.n_kv_heads; j++) {
            memcpy(wide + 2 * j * head, value + j % half * head, head * sizeof *wide);
            memcpy(wide + (2 * j + 1) * head, value + (j % half + half) * head,
                   head * sizeof *wide);
        }
        kvcache_store(pass->cache, pass->rows[i].sequence, pass->rows[i].position, l, key, wide);
    }
    forward_wait(pass);
}

/* out = the norm of the first half of the heads less the second. */
static void subtract(ForwardPass *pass, size_t l, const Differential *w, const float *attended,
                     float *out) {
    Model *m = pass->model;
    const HeadShape h = config_heads(m->config, l);
    size_t pairs = h.n_heads / 2, width = 2 * (size_t)h.head_dim;
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n * pairs; i++) {
        const float *first = attended + (i / pairs * 2 * pairs + i % pairs) * width;
        const float *second = first + pairs * width;
        float *x = out + i * width;
        for (size_t e = 0; e < width; e++) x[e] = first[e] - w->factor[0] * second[e];
        m->isa->numeric->rms_norm(x, x, w->norm, width, m->config->norm_eps);
    }
    forward_wait(pass);
}

/* Runs a layer: plain attention with n_heads heads over the wide values, then the difference of
 * each pair of heads. */
static void differential_run(ForwardPass *pass, const Branch *b) {
    const Model *m = pass->model;
    const Differential *w = b->weights;
    const HeadShape h = config_heads(m->config, b->layer);
    Rows memory = arena_rows(&m->arena);
    const DifferentialRows rows = differential_take_rows(&memory, m, b->layer);
    float *q = rows.part.q, *attended = rows.part.attended;
    AttentionParams params = forward_attention_params(m->config, &h, b->layer);
    params.value_dim = 2 * h.head_dim;
    params.softcap = m->config->attention_softcap;
    forward_add_time(pass, PART_REST);
    attention_part_project(pass, &w->part, b->in, &rows.part);
    forward_add_time(pass, PART_PROJECTIONS);
    differential_prepare(pass, b->layer, w, &rows);
    forward_attend(pass, &params, q, attended);
    subtract(pass, b->layer, w, attended, q);
    forward_add_time(pass, PART_ATTENTION);
    forward_project(pass, &w->part.wo, q, b->out);
}

const BranchKind differential_kind = {
    .name = "differential attention",
    .has_heads = true,
    .find = differential_find,
    .rows = differential_rows,
    .cached = differential_cached,
    .run = differential_run,
};
