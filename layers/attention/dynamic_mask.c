#include "layers/attention/dynamic_mask.h"

#include <string.h>

#include "base/numbers.h"
#include "core/forward_steps.h"
#include "layers/attention/indexed_heads.h"
#include "layers/layer_allocate.h"
#include "layers/pieces.h"
#include "layers/attention/selection.h"

/* ---- Weights and sizes ---- */

typedef struct DynamicMask {
    Linear wq, wk, wv, wo;
    Norm q_norm, k_norm;  /* [head_dim], of each head */
    Linear step;          /* n_kv_heads x n_kv_heads * head_dim */
    const float *factors; /* [n_kv_heads], A */
} DynamicMask;

static void *dynamic_mask_find(Finder *f, uint32_t layer) {
    const Config *c = f->config;
    const HeadShape h = config_heads(c, layer);
    size_t kv = (size_t)h.n_kv_heads * h.head_dim, heads = (size_t)h.n_heads * h.head_dim;
    DynamicMask *w = layer_allocate(f, sizeof *w);
    if (!w) return NULL;
    w->wq = weights_linear(f, "wq", heads, c->dim, true);
    w->wk = weights_linear(f, "wk", kv, c->dim, true);
    w->wv = weights_linear(f, "wv", kv, c->dim, true);
    w->wo = weights_linear(f, "wo", c->dim, heads, true);
    w->q_norm = weights_norm(f, "q_norm", h.head_dim, true);
    w->k_norm = weights_norm(f, "k_norm", h.head_dim, true);
    w->step = weights_linear(f, "mask.step", h.n_kv_heads, kv, true);
    w->factors = weights_vector(f, "mask.factors", 1, h.n_kv_heads, true);
    return w;
}

/* A key has its weight after it. */
static KvLayer dynamic_mask_cached(const Config *c, uint32_t l) {
    const HeadShape h = config_heads(c, l);
    return (KvLayer){.n_kv_heads = h.n_kv_heads,
                     .key_dim = h.head_dim + 1,
                     .value_dim = h.value_dim,
                     .window = c->window[l]};
}

static size_t widest(const Config *c) {
    return indexed_heads_widest(c, LAYER_DYNAMIC_MASK) + 1;
}

static size_t dynamic_mask_thread_floats(const Config *c) {
    return pieces_floats(widest(c)) + round_up(selection_words(c->mask_keep), 16);
}

/* ---- Queries and keys ---- */

/* The working memory of a call, arrays of n rows. */
typedef struct MaskRows {
    float *q, *k, *v;      /* outputs of the projections */
    float *weights;        /* [n_kv_heads] */
    float *queries, *keys; /* [heads * (head_dim + 1)] */
    float *attended;       /* [n_heads * head_dim] */
} MaskRows;

static MaskRows mask_take_rows(Rows *memory, const Model *m, size_t l) {
    const HeadShape h = config_heads(m->config, l);
    size_t n = m->max_rows, heads = h.n_heads, kv = h.n_kv_heads;
    MaskRows r;
    r.q = rows_take(memory, n, heads * h.head_dim);
    r.k = rows_take(memory, n, kv * h.head_dim);
    r.v = rows_take(memory, n, kv * h.head_dim);
    r.weights = rows_take(memory, n, kv);
    r.queries = rows_take(memory, n, heads * (h.head_dim + 1));
    r.keys = rows_take(memory, n, kv * (h.head_dim + 1));
    r.attended = rows_take(memory, n, heads * h.head_dim);
    return r;
}

static void dynamic_mask_rows(Rows *memory, const Model *m, const Branch *b) {
    mask_take_rows(memory, m, b->layer);
}

/* to[n_heads][head_dim + 1] = the normalized and rotated heads x[n_heads][head_dim], each with
 * last[head], or with `same` where last is NULL. */
static void place_heads(const Model *m, size_t l, size_t row, const Norm *norm, const float *x,
                        size_t n_heads, size_t head_dim, const float *last, float same, float *to) {
    for (size_t j = 0; j < n_heads; j++, x += head_dim, to += head_dim + 1) {
        forward_normalize(m, norm, to, x, head_dim);
        forward_rotate(m, l, row, to);
        to[head_dim] = last ? last[j] : same;
    }
}

/* rows->weights = the weights of each row's position. */
static void weigh_positions(ForwardPass *pass, const DynamicMask *w, const MaskRows *r) {
    Model *m = pass->model;
    const Numeric *numeric = m->isa->numeric;
    size_t kv = w->step.w.rows;
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++) forward_add_bias(m, &w->wv, r->v + i * w->step.w.cols);
    forward_wait(pass);
    forward_multiply(m, r->v, pass->n, &(Product){&w->step.w, r->weights, kv}, 1);
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++) {
        float *weight = r->weights + i * kv;
        forward_add_bias(m, &w->step, weight);
        numeric->activate(ACTIVATION_SOFTPLUS, weight, NULL, kv);
        for (size_t j = 0; j < kv; j++) weight[j] *= w->factors[j];
        numeric->softmax_sum(weight, 0.0f, kv); /* becomes exp(weight) */
    }
    forward_wait(pass);
}

/* Prepares: adds biases, normalizes and rotates heads, puts after each key the weight of its
 * position and after each query 1 / attention_scale, so that the product adds the weight to the
 * score, and stores keys and values. */
static void mask_prepare(ForwardPass *pass, size_t l, const DynamicMask *w, const MaskRows *r) {
    Model *m = pass->model;
    const HeadShape h = config_heads(m->config, l);
    size_t head = h.head_dim, heads = h.n_heads, kv = h.n_kv_heads;
    float unscaled = 1.0f / m->config->attention_scale;
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++) {
        float *q = r->q + i * heads * head, *k = r->k + i * kv * head;
        float *keys = r->keys + i * kv * (head + 1);
        forward_add_bias(m, &w->wq, q);
        forward_add_bias(m, &w->wk, k);
        place_heads(m, l, i, &w->q_norm, q, heads, head, NULL, unscaled,
                    r->queries + i * heads * (head + 1));
        place_heads(m, l, i, &w->k_norm, k, kv, head, r->weights + i * kv, 0.0f, keys);
        kvcache_store(pass->cache, pass->rows[i].sequence, pass->rows[i].position, l, keys,
                      r->v + i * kv * head);
    }
    forward_wait(pass);
}

/* ---- Choosing positions ---- */

/* Positions begin ... end - 1, counted from the sequence's start. */
typedef struct Seen {
    size_t begin, end;
} Seen;

/* The positions that a row attends to in the layer. */
static Seen seen_by_row(const ForwardPass *pass, size_t l, size_t row) {
    const Row *at = &pass->rows[row];
    size_t end = (size_t)(at->position - kvcache_start(pass->cache, at->sequence)) + 1;
    size_t window = pass->model->config->window[l];
    return (Seen){window > 0 && end > window ? end - window : 0, end};
}

static bool sees_all(const ForwardPass *pass, size_t l, size_t row) {
    const Seen seen = seen_by_row(pass, l, row);
    return seen.end - seen.begin <= pass->model->config->mask_keep;
}

/* Element e of the key in slot `slot` of a page, as attention reads it. */
static float key_element(KvType type, const void *keys, size_t key_dim, size_t e, size_t slot) {
    if (type == KV_F32) return ((const float *)keys)[e * KV_PAGE + slot];
    if (type == KV_F16) return numbers_half_to_float(((const uint16_t *)keys)[e * KV_PAGE + slot]);
    if (type == KV_BF16)
        return bfloat_to_float(((const uint16_t *)keys)[bf16_key_place(key_dim, e, slot)]);
    const int8_t *codes = keys;
    const float *scales = (const float *)(const void *)(codes + round_up(key_dim, 4) * KV_PAGE);
    return scales[e / Q8_GROUP * KV_PAGE + slot] *
           (float)codes[(e / 4 * KV_PAGE + slot) * 4 + e % 4];
}

/* Chooses the mask_keep positions with the largest weights of those that a row sees. */
static Selection choose_positions(const ForwardPass *pass, size_t l, int32_t sequence,
                                  size_t kv_head, Seen seen, uint32_t *memory) {
    const KvShape *shape = kvcache_shape(pass->cache);
    size_t key_dim = shape->layers[l].key_dim;
    Selection chosen = selection_begin(memory, pass->model->config->mask_keep);
    for (size_t p = seen.begin; p < seen.end;) {
        const void *keys = kvcache_keys(pass->cache, sequence, p / KV_PAGE, l, kv_head);
        float weights[KV_PAGE];
        size_t first = p, stop = (p / KV_PAGE + 1) * KV_PAGE;
        for (; p < stop && p < seen.end; p++)
            weights[p - first] = key_element(shape->type, keys, key_dim, key_dim - 1, p % KV_PAGE);
        selection_add(&chosen, weights, first, p - first);
    }
    selection_finish(&chosen);
    return chosen;
}

/* ---- Attention ---- */

/* Attention of the queries of one key/value head of a row to chosen positions. */
static void attend_chosen(ForwardPass *pass, const AttentionParams *params, const MaskRows *r,
                          size_t row, size_t kv_head) {
    const Model *m = pass->model;
    size_t wide = widest(m->config), group = params->n_heads / params->n_kv_heads;
    size_t at = row * params->n_heads + kv_head * group;
    const Pieces pieces = pieces_of(m, wide, 0);
    uint32_t *memory = (uint32_t *)(pieces.scratch + pieces_floats(wide)); /* after the pieces' */
    const PieceHeads heads = {.params = params,
                              .sequence = pass->rows[row].sequence,
                              .kv_head = kv_head,
                              .q = r->queries + at * params->head_dim,
                              .n = group};
    const Selection chosen = choose_positions(pass, params->layer, heads.sequence, kv_head,
                                              seen_by_row(pass, params->layer, row), memory);
    pieces_begin(&pieces, group);
    for (size_t i = 0, end; i < chosen.n; i = end) {
        for (end = i + 1; end < chosen.n && chosen.positions[end] == chosen.positions[end - 1] + 1;)
            end++;
        pieces_add(m, &pieces, &heads, pass->cache, chosen.positions[i],
                   (size_t)chosen.positions[end - 1] + 1);
    }
    pieces_finish(m, &pieces, &heads, NULL, r->attended + at * params->value_dim);
}

/* Attention of rows that see no more than mask_keep positions, run by run, and of all others. */
static void mask_attend(ForwardPass *pass, const AttentionParams *params, const MaskRows *r) {
    Model *m = pass->model;
    size_t l = params->layer, kv = params->n_kv_heads;
    for (size_t i = 0, end; i < pass->n; i = end) {
        bool all = sees_all(pass, l, i);
        for (end = i + 1; end < pass->n && sees_all(pass, l, end) == all;) end++;
        if (!all) continue;
        attention_forward(m->isa->attention, m->attention, params, pass->cache,
                          m->attention_rows + i, end - i,
                          r->queries + i * params->n_heads * params->head_dim,
                          r->attended + i * params->n_heads * params->value_dim, NULL);
    }
#pragma omp for schedule(dynamic, 1) nowait
    for (size_t item = 0; item < pass->n * kv; item++)
        if (!sees_all(pass, l, item / kv)) attend_chosen(pass, params, r, item / kv, item % kv);
    forward_wait(pass);
}

/* Runs attention with a dynamic mask (dynamic_mask.h). A key is one element longer than its head,
 * because the position's weight lies after it. */
static void dynamic_mask_run(ForwardPass *pass, const Branch *b) {
    size_t l = b->layer;
    Model *m = pass->model;
    const Config *c = m->config;
    const DynamicMask *w = b->weights;
    const HeadShape h = config_heads(c, l);
    Rows memory = arena_rows(&m->arena);
    const MaskRows r = mask_take_rows(&memory, m, l);
    const Product projections[] = {{&w->wq.w, r.q, w->wq.w.rows},
                                   {&w->wk.w, r.k, w->wk.w.rows},
                                   {&w->wv.w, r.v, w->wv.w.rows}};
    AttentionParams params = forward_attention_params(m->config, &h, l);
    params.head_dim = h.head_dim + 1;
    forward_add_time(pass, PART_REST);
    forward_multiply(m, b->in, pass->n, projections, 3);
    weigh_positions(pass, w, &r);
    mask_prepare(pass, l, w, &r);
    forward_add_time(pass, PART_PROJECTIONS);
    mask_attend(pass, &params, &r);
    forward_add_time(pass, PART_ATTENTION);
    forward_project(pass, &w->wo, r.attended, b->out);
}

const BranchKind dynamic_mask_kind = {
    .name = "dynamic mask attention",
    .has_heads = true,
    .find = dynamic_mask_find,
    .rows = dynamic_mask_rows,
    .thread_floats = dynamic_mask_thread_floats,
    .cached = dynamic_mask_cached,
    .run = dynamic_mask_run,
};
