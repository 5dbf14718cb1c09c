#include "layers/attention/chosen.h"

#include <omp.h>
#include <string.h>

#include "base/numbers.h"
#include "kvcache/pool_keys.h"
#include "core/forward_steps.h"
#include "layers/attention/indexed_heads.h"
#include "layers/layer_allocate.h"
#include "layers/pieces.h"
#include "layers/attention/pooling.h"
#include "layers/attention/ranking.h"

/* ---- Weights and sizes ---- */

typedef struct Chosen {
    IndexedHeads heads;
    Linear gate;
    Pooling pooling;
    float zeros[]; /* [index_pool][index_dim], Pooling.bias */
} Chosen;

/* Finds a layer's weights. Its pools are means, which layers/attention/pooling.h makes of gates
 * that are 0.
 */
static void *chosen_find(Finder *f, uint32_t l) {
    const Config *c = f->config;
    const HeadShape h = config_heads(c, l);
    size_t out = (size_t)h.n_heads * h.value_dim, index_dim = c->indexer.head_dim;
    Chosen *w = layer_allocate(f, sizeof *w + c->indexer.pool * index_dim * sizeof *w->zeros);
    if (!w) return NULL;
    indexed_heads_find(f, l, &w->heads);
    w->gate = weights_linear(f, "attention_gate", out, c->dim, true);
    w->pooling = (Pooling){.bias = w->zeros, .dim = index_dim, .size = c->indexer.pool};
    return w;
}

static KvLayer chosen_cached(const Config *c, uint32_t l) {
    const HeadShape h = config_heads(c, l);
    return (KvLayer){.n_kv_heads = h.n_kv_heads,
                     .key_dim = h.head_dim,
                     .value_dim = h.value_dim,
                     .pool = c->indexer.pool,
                     .pool_index_dim = c->indexer.head_dim,
                     .state_floats = pooling_state_floats(c->indexer.head_dim, false)};
}

/* How many pools are chosen. */
static size_t n_best(const Config *c) {
    return c->indexer.topk / c->indexer.pool;
}

static size_t thread_floats(const Config *c) {
    return pieces_floats(indexed_heads_widest(c, LAYER_CHOSEN)) +
           ranking_thread_floats(c, n_best(c), true);
}

/* The working memory of a call, arrays of n rows. */
typedef struct ChosenRows {
    float *q, *k, *v;
    float *gate, *attended; /* [n_heads * value_dim] */
    float *index_q;         /* [index_heads * index_dim] */
    float *index_k, *zeros; /* [index_dim]: keys, and the gates of their pools */
    float *weights;         /* [index_heads], ones */
    uint32_t *n_chosen;     /* [1] */
    uint32_t *chosen;       /* [n_best], pools in rising order */
} ChosenRows;

static ChosenRows chosen_take_rows(Rows *memory, const Model *m, size_t l) {
    const Config *c = m->config;
    const HeadShape h = config_heads(c, l);
    size_t n = m->max_rows, out = (size_t)h.n_heads * h.value_dim;
    ChosenRows r;
    r.q = rows_take(memory, n, (size_t)h.n_heads * h.head_dim);
    r.k = rows_take(memory, n, (size_t)h.n_kv_heads * h.head_dim);
    r.v = rows_take(memory, n, (size_t)h.n_kv_heads * h.value_dim);
    r.gate = rows_take(memory, n, out);
    r.attended = rows_take(memory, n, out);
    r.index_q = rows_take(memory, n, (size_t)c->indexer.n_heads * c->indexer.head_dim);
    r.index_k = rows_take(memory, n, c->indexer.head_dim);
    r.zeros = rows_take(memory, n, c->indexer.head_dim);
    r.weights = rows_take(memory, n, c->indexer.n_heads);
    r.n_chosen = rows_take(memory, n, 1);
    r.chosen = rows_take(memory, n, n_best(c));
    return r;
}

static void chosen_rows(Rows *memory, const Model *m, const Branch *b) {
    chosen_take_rows(memory, m, b->layer);
}

/* ---- Queries and keys ---- */

static void shape_heads(const Model *m, size_t l, size_t row, const Norm *norm, float *x, size_t n,
                        size_t dim) {
    for (size_t head = 0; head < n; head++) {
        forward_normalize(m, norm, x + head * dim, x + head * dim, dim);
        forward_rotate(m, l, row, x + head * dim);
    }
}

/* Prepares: adds biases, normalizes and rotates heads, those of the index too, and stores keys and
 * values. */
static void chosen_prepare(ForwardPass *pass, size_t l, const Chosen *w, const ChosenRows *r) {
    const Model *m = pass->model;
    const Config *c = m->config;
    const HeadShape h = config_heads(c, l);
    size_t n_index = c->indexer.n_heads, index_dim = c->indexer.head_dim;
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++) {
        float *q = r->q + i * w->heads.wq.w.rows, *k = r->k + i * w->heads.wk.w.rows;
        float *v = r->v + i * w->heads.wv.w.rows;
        forward_add_bias(m, &w->heads.wq, q);
        forward_add_bias(m, &w->heads.wk, k);
        forward_add_bias(m, &w->heads.wv, v);
        shape_heads(m, l, i, &w->heads.q_norm, q, h.n_heads, h.head_dim);
        shape_heads(m, l, i, &w->heads.k_norm, k, h.n_kv_heads, h.head_dim);
        shape_heads(m, l, i, &w->heads.index_q_norm, r->index_q + i * n_index * index_dim, n_index,
                    index_dim);
        memset(r->zeros + i * index_dim, 0, index_dim * sizeof *r->zeros);
        for (size_t head = 0; head < n_index; head++) r->weights[i * n_index + head] = 1.0f;
        kvcache_store(pass->cache, pass->rows[i].sequence, pass->rows[i].position, l, k, v);
    }
    forward_wait(pass);
}

/* Takes the rows into their pools, and stores the keys of those that they complete. */
static void store_pools(ForwardPass *pass, size_t l, const Chosen *w, const ChosenRows *r) {
    const Model *m = pass->model;
    size_t dim = w->pooling.dim, size = w->pooling.size;
    pooling_run(pass, l, &w->pooling, r->index_k, r->zeros);
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++) {
        const Row *row = &pass->rows[i];
        int64_t pool = pooling_completes(pass, i, size);
        float *key = r->index_k + i * dim;
        if (pool < 0) continue;
        forward_normalize(m, &w->heads.index_k_norm, key, key, dim);
        forward_rotate_to(m, l, row->position - (int32_t)(size - 1), key);
        pool_keys_store(pass->cache, row->sequence, l, POOL_INDEX_KEY, (size_t)pool, key);
    }
    forward_wait(pass);
}

/* ---- Choosing pools ---- */

static void list_pools(void *context, size_t row, const Selection *best) {
    const ChosenRows *r = context;
    uint32_t *chosen = r->chosen + row * best->k;
    r->n_chosen[row] = (uint32_t)best->n;
    memcpy(chosen, best->positions, best->n * sizeof *chosen);
}

static void choose_pools(ForwardPass *pass, size_t l, ChosenRows *r) {
    const Config *c = pass->model->config;
    size_t team = (size_t)omp_get_num_threads();
    const Ranking ranking = {.layer = l,
                             .q = r->index_q,
                             .weights = r->weights,
                             .k = n_best(c),
                             .pool = c->indexer.pool,
                             .thread_offset = pieces_floats(indexed_heads_widest(c, LAYER_CHOSEN))};
    for (size_t first = 0; first < pass->n; first += team)
        ranking_choose(pass, &ranking, first, pass->n - first < team ? pass->n - first : team,
                       list_pools, r);
}

/* ---- Attention ---- */

/* Attention of one row's heads that share a key/value head. Neighbouring chosen pools are one
 * piece; a run that reaches the last whole pool is joined with the positions after it. */
static void attend(ForwardPass *pass, const AttentionParams *params, const ChosenRows *r,
                   size_t row, size_t kv_head, const Pieces *pieces) {
    const Model *m = pass->model;
    size_t size = m->config->indexer.pool, n = params->n_heads / params->n_kv_heads;
    size_t at = row * params->n_heads + kv_head * n, seen = ranking_seen(pass, row);
    const uint32_t *chosen = r->chosen + row * n_best(m->config);
    const PieceHeads heads = {.params = params,
                              .sequence = pass->rows[row].sequence,
                              .kv_head = kv_head,
                              .q = r->q + at * params->head_dim,
                              .n = n};
    size_t last_begin = seen - seen % size, n_chosen = r->n_chosen[row];
    pieces_begin(pieces, n);
    for (size_t i = 0, end; i < n_chosen; i = end) {
        for (end = i + 1; end < n_chosen && chosen[end] == chosen[end - 1] + 1;) end++;
        size_t to = ((size_t)chosen[end - 1] + 1) * size;
        if (to == last_begin)
            last_begin = chosen[i] * size;
        else
            pieces_add(m, pieces, &heads, pass->cache, chosen[i] * size, to);
    }
    pieces_add(m, pieces, &heads, pass->cache, last_begin, seen);
    pieces_finish(m, pieces, &heads, NULL, r->attended + at * params->value_dim);
}

static void attend_all(ForwardPass *pass, const AttentionParams *params, const ChosenRows *r) {
    const Model *m = pass->model;
    size_t n_kv = params->n_kv_heads;
    const Pieces pieces = pieces_of(m, indexed_heads_widest(m->config, LAYER_CHOSEN), 0);
#pragma omp for schedule(dynamic, 1) nowait
    for (size_t item = 0; item < pass->n * n_kv; item++)
        attend(pass, params, r, pass->n - 1 - item / n_kv, item % n_kv, &pieces);
    forward_wait(pass);
}

/* attended = attended * sigmoid(gate) */
static void gate_heads(ForwardPass *pass, const Chosen *w, const ChosenRows *r) {
    const Model *m = pass->model;
    size_t n = w->gate.w.rows;
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++) {
        float *gate = r->gate + i * n, *out = r->attended + i * n;
        forward_add_bias(m, &w->gate, gate);
        m->isa->numeric->activate(ACTIVATION_SIGMOID, gate, out, n);
    }
    forward_wait(pass);
}

/* Runs a layer: projections, then pools, ranks and attends as chosen.h says. Pools are stored
 * before any query chooses, since a row sees those that earlier rows of the call complete. */
static void chosen_run(ForwardPass *pass, const Branch *b) {
    size_t l = b->layer;
    Model *m = pass->model;
    const Config *c = m->config;
    const Chosen *w = b->weights;
    Rows memory = arena_rows(&m->arena);
    ChosenRows r = chosen_take_rows(&memory, m, l);
    const Product projections[] = {{&w->heads.wq.w, r.q, w->heads.wq.w.rows},
                                   {&w->heads.wk.w, r.k, w->heads.wk.w.rows},
                                   {&w->heads.wv.w, r.v, w->heads.wv.w.rows},
                                   {&w->gate.w, r.gate, w->gate.w.rows},
                                   {&w->heads.index_q, r.index_q, w->heads.index_q.rows},
                                   {&w->heads.index_k, r.index_k, w->heads.index_k.rows}};
    const AttentionParams params = indexed_heads_params(c, (uint32_t)l);
    forward_add_time(pass, PART_REST);
    forward_multiply(m, b->in, pass->n, projections, 6);
    forward_add_time(pass, PART_PROJECTIONS);
    chosen_prepare(pass, l, w, &r);
    store_pools(pass, l, w, &r);
    choose_pools(pass, l, &r);
    attend_all(pass, &params, &r);
    gate_heads(pass, w, &r);
    forward_add_time(pass, PART_ATTENTION);
    forward_project(pass, &w->heads.wo, r.gate, b->out);
}

const BranchKind chosen_kind = {
    .name = "attention to chosen pools",
    .has_heads = true,
    .find = chosen_find,
    .rows = chosen_rows,
    .thread_floats = thread_floats,
    .cached = chosen_cached,
    .run = chosen_run,
};
