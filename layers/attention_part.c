#include "layers/attention_part.h"

void attention_part_find(Finder *f, uint32_t layer, size_t inputs, AttentionPart *part) {
    const Config *c = f->config;
    const HeadShape h = config_heads(c, layer);
    part->wq = weights_linear(f, "wq", (size_t)h.n_heads * h.head_dim, inputs, true);
    part->wk = weights_linear(f, "wk", (size_t)h.n_kv_heads * h.head_dim, inputs, true);
    part->wv = weights_linear(f, "wv", (size_t)h.n_kv_heads * h.value_dim, inputs, true);
    part->wo = weights_linear(f, "wo", c->dim, (size_t)h.n_heads * h.value_dim, true);
    part->scales = weights_vector(f, "attention.scales", 1, ATTENTION_SCALES, false);
}

/* All layers of a model with such parts have the same heads. */
static HeadShape heads_of(const Config *c) {
    return config_heads(c, 0);
}

size_t attention_part_row_floats(const Config *c) {
    const HeadShape h = heads_of(c);
    return ((size_t)h.n_heads + h.n_kv_heads) * ((size_t)h.head_dim + h.value_dim);
}

AttentionPartRows attention_part_rows(const Model *m, float *memory) {
    const HeadShape h = heads_of(m->config);
    AttentionPartRows rows = {.q = memory};
    rows.k = rows.q + m->max_rows * h.n_heads * h.head_dim;
    rows.v = rows.k + m->max_rows * h.n_kv_heads * h.head_dim;
    rows.attended = rows.v + m->max_rows * h.n_kv_heads * h.value_dim;
    rows.end = rows.attended + m->max_rows * h.n_heads * h.value_dim;
    return rows;
}

KvLayer attention_part_cached(const Config *c, uint32_t layer) {
    const HeadShape h = config_heads(c, layer);
    return (KvLayer){.n_kv_heads = h.n_kv_heads, .key_dim = h.head_dim, .value_dim = h.value_dim};
}

void attention_part_project(ForwardPass *pass, const AttentionPart *part, const float *in,
                            const AttentionPartRows *rows) {
    const Product products[] = {{&part->wq.w, rows->q, part->wq.w.rows},
                                {&part->wk.w, rows->k, part->wk.w.rows},
                                {&part->wv.w, rows->v, part->wv.w.rows}};
    forward_multiply(pass->model, in, pass->n, products, 3);
}

static void complete(const Model *m, const AttentionPart *part, const Linear *linear, float *x) {
    if (part->scales) m->isa->numeric->scale(x, part->scales[ATTENTION_IN], linear->w.rows);
    forward_add_bias(m, linear, x);
}

/* Gives queries, keys and values their final form, and stores keys and values. */
static void prepare(ForwardPass *pass, size_t layer, const AttentionPart *part,
                    const AttentionPartRows *rows) {
    Model *m = pass->model;
    const HeadShape h = config_heads(m->config, layer);
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++) {
        float *q = rows->q + i * part->wq.w.rows, *k = rows->k + i * part->wk.w.rows;
        float *v = rows->v + i * part->wv.w.rows;
        complete(m, part, &part->wq, q);
        complete(m, part, &part->wk, k);
        complete(m, part, &part->wv, v);
        if (part->scales) m->isa->numeric->scale(k, part->scales[ATTENTION_KEY], part->wk.w.rows);
        for (size_t head = 0; head < h.n_heads; head++)
            forward_rotate(m, layer, i, q + head * h.head_dim);
        for (size_t head = 0; head < h.n_kv_heads; head++)
            forward_rotate(m, layer, i, k + head * h.head_dim);
        kvcache_store(pass->cache, pass->rows[i].sequence, pass->rows[i].position, layer, k, v);
    }
    forward_wait(pass);
}

void attention_part_attend(ForwardPass *pass, size_t layer, const AttentionPart *part,
                           const AttentionPartRows *rows, float *y) {
    Model *m = pass->model;
    const HeadShape h = config_heads(m->config, layer);
    const AttentionParams params = {.layer = layer,
                                    .cache_layer = layer,
                                    .n_heads = h.n_heads,
                                    .n_kv_heads = h.n_kv_heads,
                                    .head_dim = h.head_dim,
                                    .value_dim = h.value_dim,
                                    .scale = m->config->attention_scale};
    const Product out = {&part->wo.w, y, part->wo.w.rows};
    forward_add_time(pass, PART_PROJECTIONS);
    prepare(pass, layer, part, rows);
    attention_forward(m->isa->attention, m->attention, &params, pass->cache, m->attention_rows,
                      pass->n, rows->q, rows->attended, m->observer);
    forward_add_time(pass, PART_ATTENTION);
    forward_multiply(m, rows->attended, pass->n, &out, 1);
    if (part->wo.bias) {
#pragma omp for schedule(static) nowait
        for (size_t i = 0; i < pass->n; i++)
            forward_add_bias(m, &part->wo, y + i * part->wo.w.rows);
        forward_wait(pass);
    }
    forward_add_time(pass, PART_PROJECTIONS);
}
