#include "core/self_attention.h"

#include <omp.h>
#include <string.h>

SelfAttentionRows self_attention_take_rows(Rows *memory, const Model *m, size_t l) {
    const LayerWeights *w = &m->weights.layers[l];
    const HeadShape h = config_heads(m->config, l);
    SelfAttentionRows rows;
    rows.q = rows_take(memory, m->max_rows, w->wq.w.rows);
    rows.k = rows_take(memory, m->max_rows, w->wk.w.rows);
    rows.v = rows_take(memory, m->max_rows, w->wk.w.rows ? (size_t)h.n_kv_heads * h.value_dim : 0);
    rows.attended = rows_take(memory, m->max_rows, w->wo.w.cols);
    rows.gate = rows_take(memory, m->max_rows, w->attention_gate.w.rows);
    return rows;
}

static void self_attention_rows(Rows *memory, const Model *m, const Branch *b) {
    self_attention_take_rows(memory, m, b->layer);
}

/* Normalizes x[n][width] in place. */
static void normalize_rows(ForwardPass *pass, const Norm *norm, float *x, size_t n, size_t width) {
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < n; i++)
        forward_normalize(pass->model, norm, x + i * width, x + i * width, width);
    forward_wait(pass);
}

static void normalize_head(const Model *m, const Norm *norm, size_t head, size_t head_dim,
                           float *x) {
    size_t own = m->config->qk_norm == QK_NORM_EACH ? head * head_dim : 0;
    const Norm of_head = {.weight = norm->weight ? norm->weight + own : NULL,
                          .bias = norm->bias ? norm->bias + own : NULL,
                          .eps = norm->eps,
                          .is_layer_norm = norm->is_layer_norm};
    forward_normalize(m, &of_head, x, x, head_dim);
}

static void clip(float *x, size_t n, float limit) {
    for (size_t i = 0; i < n; i++) x[i] = x[i] > limit ? limit : x[i] < -limit ? -limit : x[i];
}

/* Normalizes, clips and rotates the heads of one row's queries or keys. */
static void shape_heads(const Model *m, const Norm *norm, size_t layer, size_t row, float *heads,
                        size_t n_heads) {
    const Config *c = m->config;
    size_t head_dim = config_heads(c, layer).head_dim;
    bool norms_all = norm->present && c->qk_norm == QK_NORM_ALL;
    if (norms_all) forward_normalize(m, norm, heads, heads, n_heads * head_dim);
    if (c->qkv_clip > 0.0f) clip(heads, n_heads * head_dim, c->qkv_clip);
    for (size_t head = 0; head < n_heads; head++) {
        float *x = heads + head * head_dim;
        bool is_normed = norm->present && !norms_all, after = c->qk_norm_after_rope;
        if (is_normed && !after) normalize_head(m, norm, head, head_dim, x);
        forward_rotate(m, layer, row, x);
        if (is_normed && after && c->rope_table[layer] != 2)
            normalize_head(m, norm, head, head_dim, x);
    }
}

/* Prepares: adds biases to queries, keys and values, normalizes and rotates heads as the model has
 * it, and stores keys and values in the cache. */
static void prepare_heads(ForwardPass *pass, size_t l, const SelfAttentionRows *rows) {
    Model *m = pass->model;
    const Config *c = m->config;
    const LayerWeights *w = &m->weights.layers[l];
    const HeadShape h = config_heads(c, l);
    size_t q_dim = w->wq.w.rows, k_dim = w->wk.w.rows, v_dim = (size_t)h.n_kv_heads * h.value_dim;
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++) {
        float *q = rows->q + i * q_dim, *k = rows->k + i * k_dim, *v = rows->v + i * v_dim;
        forward_add_bias(m, &w->wq, q);
        shape_heads(m, &w->q_norm, l, i, q, h.n_heads);
        float scale = forward_query_scale(c, l, pass->rows[i].position);
        if (scale != 1.0f) m->isa->numeric->scale(q, scale, q_dim);
        if (c->kv_distance[l] > 0) continue;
        forward_add_bias(m, &w->wk, k);
        if (!w->wv.w.data) memcpy(v, k, v_dim * sizeof *v);
        forward_add_bias(m, &w->wv, v);
        if (c->qkv_clip > 0.0f) clip(v, v_dim, c->qkv_clip);
        if (c->value_scale != 1.0f) m->isa->numeric->scale(v, c->value_scale, v_dim);
        for (size_t head = 0; c->value_norm && head < h.n_kv_heads; head++)
            forward_normalize(m, &(Norm){0}, v + head * h.value_dim, v + head * h.value_dim,
                              h.value_dim);
        shape_heads(m, &w->k_norm, l, i, k, h.n_kv_heads);
        kvcache_store(pass->cache, pass->rows[i].sequence, pass->rows[i].position, l, k, v);
    }
    forward_wait(pass);
}

/* Multiplies each head's output by its activated gate, or each element by its own. */
static void gate_heads(ForwardPass *pass, const HeadShape *h, const Linear *w,
                       const SelfAttentionRows *rows) {
    Model *m = pass->model;
    const Numeric *numeric = m->isa->numeric;
    size_t width = (size_t)h->n_heads * h->value_dim, n_gates = w->w.rows;
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++) {
        float *gate = rows->gate + i * n_gates, *out = rows->attended + i * width;
        forward_add_bias(m, w, gate);
        numeric->activate(pass->model->config->gate_activation, gate, n_gates == width ? out : NULL,
                          n_gates);
        if (n_gates == width) memcpy(out, gate, width * sizeof *out);
        for (size_t head = 0; n_gates != width && head < h->n_heads; head++)
            numeric->scale(out + head * h->value_dim, gate[head], h->value_dim);
    }
    forward_wait(pass);
}

/* Runs a layer's attention: q, k, v and the gate, rotation and the cache (prepare_heads),
 * attention, gate, inner norm, output. A layer that reads an earlier layer's keys and values
 * (kv_distance) computes only q; one without wv takes its keys for values. Inputs and outputs of
 * wo are gathered where several ranks share the heads (ports/cluster); else forward_gather does
 * nothing. */
static void self_attention_run(ForwardPass *pass, const Branch *b) {
    Model *m = pass->model;
    size_t l = b->layer;
    const float *in = b->in;
    float *y = b->out;
    const Config *c = m->config;
    const LayerWeights *w = &m->weights.layers[l];
    const HeadShape h = config_heads(c, l);
    Rows memory = arena_rows(&m->arena);
    const SelfAttentionRows rows = self_attention_take_rows(&memory, m, l);
    const Product qkv[] = {{&w->wq.w, rows.q, w->wq.w.rows},
                           {&w->wk.w, rows.k, w->wk.w.rows},
                           {&w->wv.w, rows.v, w->wv.w.rows}};
    AttentionParams params = forward_attention_params(m->config, &h, l);
    const Product out = {&w->wo.w, y, w->wo.w.rows};
    params.cache_layer -= c->kv_distance[l];
    if (c->attention_scale_falls) params.scale /= (float)(l + 1);
    params.softcap = c->attention_softcap;
    params.chunk = c->chunk[l];
    params.alibi_slopes = m->weights.alibi_slopes;
    params.sinks = w->sinks;
    forward_add_time(pass, PART_REST);
    forward_multiply(m, in, pass->n, qkv, c->kv_distance[l] > 0 ? 1 : w->wv.w.data ? 3 : 2);
    if (w->attention_gate.w.data) {
        const Product gate = {&w->attention_gate.w, rows.gate, w->attention_gate.w.rows};
        forward_multiply(m, in, pass->n, &gate, 1);
    }
    forward_add_time(pass, PART_PROJECTIONS);
    prepare_heads(pass, l, &rows);
    forward_attend(pass, &params, rows.q, rows.attended);
    if (c->head_output_norm)
        normalize_rows(pass, &(Norm){0}, rows.attended, pass->n * h.n_heads, h.value_dim);
    if (w->attention_gate.w.data) gate_heads(pass, &h, &w->attention_gate, &rows);
    forward_gather(pass, w->wo.inputs, rows.attended, pass->n);
    if (w->inner_norm.present)
        normalize_rows(pass, &w->inner_norm, rows.attended, pass->n, w->wo.w.cols);
    forward_add_time(pass, PART_ATTENTION);
    forward_multiply(m, rows.attended, pass->n, &out, 1);
    forward_gather(pass, w->wo.outputs, y, pass->n);
    forward_add_time(pass, PART_PROJECTIONS);
}

const BranchKind self_attention_kind = {
    .name = "attention", .has_heads = true, .run = self_attention_run, .rows = self_attention_rows};
