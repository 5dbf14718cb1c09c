#include "layers/attention/attention_part.h"

void attention_part_find(Finder *f, uint32_t layer, size_t inputs, AttentionPart *part) {
    const Config *c = f->config;
    const HeadShape h = config_heads(c, layer);
    part->wq = weights_linear(f, "wq", (size_t)h.n_heads * h.head_dim, inputs, true);
    part->wk = weights_linear(f, "wk", (size_t)h.n_kv_heads * h.head_dim, inputs, true);
    part->wv = weights_linear(f, "wv", (size_t)h.n_kv_heads * h.value_dim, inputs, true);
    part->wo = weights_linear(f, "wo", c->dim, (size_t)h.n_heads * h.value_dim, true);
    part->scales = weights_vector(f, "attention.scales", 1, ATTENTION_SCALES, false);
}

AttentionPartRows attention_part_take(Rows *memory, const Model *m, size_t layer) {
    const HeadShape h = config_heads(m->config, layer);
    size_t n = m->max_rows, heads = h.n_heads, kv = h.n_kv_heads;
    AttentionPartRows rows;
    rows.q = rows_take(memory, n, heads * h.head_dim);
    rows.k = rows_take(memory, n, kv * h.head_dim);
    rows.v = rows_take(memory, n, kv * h.value_dim);
    rows.attended = rows_take(memory, n, heads * h.value_dim);
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

static void scale_and_add_bias(const Model *m, const AttentionPart *part, const Linear *linear,
                               float *x) {
    if (part->scales) m->isa->numeric->scale(x, part->scales[ATTENTION_IN], linear->w.rows);
    forward_add_bias(m, linear, x);
}

void attention_part_complete(const Model *m, size_t layer, size_t row, const AttentionPart *part,
                             float *q, float *k, float *v) {
    const HeadShape h = config_heads(m->config, layer);
    scale_and_add_bias(m, part, &part->wq, q);
    scale_and_add_bias(m, part, &part->wk, k);
    scale_and_add_bias(m, part, &part->wv, v);
    if (part->scales) m->isa->numeric->scale(k, part->scales[ATTENTION_KEY], part->wk.w.rows);
    forward_rotate_heads(m, layer, row, q, h.n_heads, h.head_dim);
    forward_rotate_heads(m, layer, row, k, h.n_kv_heads, h.head_dim);
}

/* Completes all rows, and stores keys and values. */
static void attention_part_prepare(ForwardPass *pass, size_t layer, const AttentionPart *part,
                                   const AttentionPartRows *rows) {
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++) {
        float *k = rows->k + i * part->wk.w.rows, *v = rows->v + i * part->wv.w.rows;
        attention_part_complete(pass->model, layer, i, part, rows->q + i * part->wq.w.rows, k, v);
        kvcache_store(pass->cache, pass->rows[i].sequence, pass->rows[i].position, layer, k, v);
    }
    forward_wait(pass);
}

/* Completes the queries, keys and values that attention_part_project made, attends,
 * and projects the result to y[n][dim]. */
void attention_part_attend(ForwardPass *pass, size_t layer, const AttentionPart *part,
                           const AttentionPartRows *rows, float *y) {
    Model *m = pass->model;
    const HeadShape h = config_heads(m->config, layer);
    AttentionParams params = forward_attention_params(m->config, &h, layer);
    const Product out = {&part->wo.w, y, part->wo.w.rows};
    params.window = 0;
    forward_add_time(pass, PART_PROJECTIONS);
    attention_part_prepare(pass, layer, part, rows);
    forward_attend(pass, &params, rows->q, rows->attended);
    forward_add_time(pass, PART_ATTENTION);
    forward_multiply(m, rows->attended, pass->n, &out, 1);
    forward_add_time(pass, PART_PROJECTIONS);
}

static void attention_part_rows(Rows *memory, const Model *m, const Branch *b) {
    attention_part_take(memory, m, b->layer);
}

static void attention_part_run(ForwardPass *pass, const Branch *b) {
    Rows memory = arena_rows(&pass->model->arena);
    const AttentionPartRows rows = attention_part_take(&memory, pass->model, b->layer);
    forward_add_time(pass, PART_REST);
    attention_part_project(pass, b->weights, b->in, &rows);
    attention_part_attend(pass, b->layer, b->weights, &rows, b->out);
}

const BranchKind attention_part_kind = {
    .name = "attention", .run = attention_part_run, .rows = attention_part_rows};
