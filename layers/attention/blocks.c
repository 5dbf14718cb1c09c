#include "layers/attention/blocks.h"

#include <math.h>
#include <omp.h>
#include <string.h>

#include "base/numbers.h"
#include "core/forward_steps.h"
#include "layers/attention/indexed_heads.h"
#include "layers/layer_allocate.h"
#include "layers/pieces.h"
#include "layers/attention/selection.h"

/* ---- Weights and sizes ---- */

static void *blocks_find(Finder *f, uint32_t l) {
    IndexedHeads *w = layer_allocate(f, sizeof *w);
    if (!w) return NULL;
    indexed_heads_find(f, l, w);
    return w;
}

static KvLayer blocks_cached(const Config *c, uint32_t l) {
    const HeadShape h = config_heads(c, l);
    return (KvLayer){
        .n_kv_heads = h.n_kv_heads + 1, .key_dim = h.head_dim, .value_dim = h.value_dim};
}

static size_t thread_floats(const Config *c) {
    return pieces_floats(indexed_heads_widest(c, LAYER_BLOCKS)) +
           round_up(selection_words(c->indexer.topk), 16);
}

/* ---- Queries and keys ---- */

/* The working memory of a call, arrays of n rows. */
typedef struct BlockRows {
    float *q, *k, *v;     /* outputs of the projections */
    float *keys, *values; /* the stored ones: of all heads, then the index's */
    float *index_k;       /* [index_dim] */
    float *index_q;       /* [index_heads * index_dim] */
    float *queries;       /* [index_heads * head_dim]: index_q, filled up with zeros */
    float *attended;      /* [n_heads * value_dim] */
} BlockRows;

static BlockRows blocks_take_rows(Rows *memory, const Model *m, size_t l) {
    const Config *c = m->config;
    const HeadShape h = config_heads(c, l);
    size_t n = m->max_rows, heads = h.n_heads, kv = h.n_kv_heads;
    BlockRows r;
    r.q = rows_take(memory, n, heads * h.head_dim);
    r.k = rows_take(memory, n, kv * h.head_dim);
    r.v = rows_take(memory, n, kv * h.value_dim);
    r.keys = rows_take(memory, n, (kv + 1) * h.head_dim);
    r.values = rows_take(memory, n, (kv + 1) * h.value_dim);
    r.index_k = rows_take(memory, n, c->indexer.head_dim);
    r.index_q = rows_take(memory, n, (size_t)c->indexer.n_heads * c->indexer.head_dim);
    r.queries = rows_take(memory, n, (size_t)c->indexer.n_heads * h.head_dim);
    r.attended = rows_take(memory, n, heads * h.value_dim);
    return r;
}

static void blocks_rows(Rows *memory, const Model *m, const Branch *b) {
    blocks_take_rows(memory, m, b->layer);
}

/* to[head_dim] = the normalized and rotated vector x[index_dim], then zeros. */
static void place_index(const Model *m, size_t l, size_t row, const Norm *norm, const float *x,
                        float *to, size_t head_dim) {
    size_t dim = m->config->indexer.head_dim;
    forward_normalize(m, norm, to, x, dim);
    memset(to + dim, 0, (head_dim - dim) * sizeof *to);
    forward_rotate(m, l, row, to);
}

/* Adds the projections' biases, normalizes and rotates queries and keys (the index's as well), and
 * stores keys and values in the cache. The index's key is stored as one more key head, the last,
 * filled up with zeros; that head's value is zero. */
static void blocks_prepare(ForwardPass *pass, size_t l, const IndexedHeads *w, const BlockRows *r) {
    Model *m = pass->model;
    const Config *c = m->config;
    const HeadShape h = config_heads(c, l);
    size_t head = h.head_dim, kv = h.n_kv_heads;
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++) {
        float *q = r->q + i * w->wq.w.rows, *k = r->k + i * w->wk.w.rows;
        float *v = r->v + i * w->wv.w.rows, *keys = r->keys + i * (kv + 1) * head;
        float *values = r->values + i * (kv + 1) * h.value_dim;
        forward_add_bias(m, &w->wq, q);
        forward_add_bias(m, &w->wk, k);
        forward_add_bias(m, &w->wv, v);
        for (size_t j = 0; j < h.n_heads; j++) {
            forward_normalize(m, &w->q_norm, q + j * head, q + j * head, head);
            forward_rotate(m, l, i, q + j * head);
        }
        for (size_t j = 0; j < kv; j++) {
            forward_normalize(m, &w->k_norm, keys + j * head, k + j * head, head);
            forward_rotate(m, l, i, keys + j * head);
        }
        place_index(m, l, i, &w->index_k_norm, r->index_k + i * c->indexer.head_dim,
                    keys + kv * head, head);
        memcpy(values, v, kv * h.value_dim * sizeof *values);
        memset(values + kv * h.value_dim, 0, h.value_dim * sizeof *values);
        for (size_t j = 0; j < c->indexer.n_heads; j++) {
            size_t at = i * c->indexer.n_heads + j;
            place_index(m, l, i, &w->index_q_norm, r->index_q + at * c->indexer.head_dim,
                        r->queries + at * head, head);
        }
        kvcache_store(pass->cache, pass->rows[i].sequence, pass->rows[i].position, l, keys, values);
    }
    forward_wait(pass);
}

/* ---- Choosing blocks ---- */

/* Chooses the topk blocks of positions with the largest scores of the index's head `index_head`,
 * for a row that sees n positions. The last local_blocks blocks are always among them. */
static Selection blocks_choose(ForwardPass *pass, const AttentionParams *params, const BlockRows *r,
                               size_t row, size_t index_head, size_t n, const Pieces *pieces) {
    const Config *c = pass->model->config;
    size_t size = c->indexer.block, own = (n - 1) / size,
           wide = indexed_heads_widest(c, LAYER_BLOCKS);
    uint32_t *candidates =
        (uint32_t *)(pieces->scratch + pieces_floats(wide)); /* after the pieces' memory */
    AttentionParams of_index = *params;
    of_index.scale = 1.0f;
    const PieceHeads query = {.params = &of_index,
                              .sequence = pass->rows[row].sequence,
                              .kv_head = params->n_kv_heads,
                              .q = r->queries +
                                   (row * c->indexer.n_heads + index_head) * params->head_dim,
                              .n = 1};
    Selection chosen = selection_begin(candidates, c->indexer.topk);
    for (size_t b = 0; b <= own; b++) {
        size_t end = b == own ? n : (b + 1) * size;
        bool sure = own - b < c->indexer.local_blocks || own < c->indexer.topk;
        float score = INFINITY;
        if (!sure) score = pieces_largest(pass->model, pieces, &query, pass->cache, b * size, end);
        selection_add(&chosen, &score, b, 1);
    }
    selection_finish(&chosen);
    return chosen;
}

/* ---- Attention ---- */

/* Attention of n heads from `first` on over the chosen blocks of the n_seen positions. */
static void attend(ForwardPass *pass, const AttentionParams *params, const BlockRows *r, size_t row,
                   size_t first, size_t n, const Selection *chosen, size_t n_seen,
                   const Pieces *pieces) {
    const Model *m = pass->model;
    size_t size = m->config->indexer.block, at = row * params->n_heads + first;
    const PieceHeads heads = {.params = params,
                              .sequence = pass->rows[row].sequence,
                              .kv_head = first / (params->n_heads / params->n_kv_heads),
                              .q = r->q + at * params->head_dim,
                              .n = n};
    pieces_begin(pieces, n);
    for (size_t i = 0, end; i < chosen->n; i = end) {
        for (end = i + 1;
             end < chosen->n && chosen->positions[end] == chosen->positions[end - 1] + 1;)
            end++;
        size_t to = ((size_t)chosen->positions[end - 1] + 1) * size;
        pieces_add(m, pieces, &heads, pass->cache, chosen->positions[i] * size,
                   to < n_seen ? to : n_seen);
    }
    pieces_finish(m, pieces, &heads, NULL, r->attended + at * params->value_dim);
}

/* Attention of all rows, for the query heads of each index head apart. */
static void attend_all(ForwardPass *pass, const AttentionParams *params, const BlockRows *r) {
    const Model *m = pass->model;
    size_t n_index = m->config->indexer.n_heads, heads = params->n_heads / n_index;
    size_t group = params->n_heads / params->n_kv_heads;
    const Pieces pieces = pieces_of(m, indexed_heads_widest(m->config, LAYER_BLOCKS), 0);
#pragma omp for schedule(dynamic, 1) nowait
    for (size_t item = 0; item < pass->n * n_index; item++) {
        size_t row = item / n_index, first = item % n_index * heads, end = first + heads;
        const Row *at = &pass->rows[row];
        size_t n_seen = (size_t)(at->position - kvcache_start(pass->cache, at->sequence)) + 1;
        const Selection chosen =
            blocks_choose(pass, params, r, row, item % n_index, n_seen, &pieces);
        for (size_t next; first < end; first = next) {
            next = (first / group + 1) * group < end ? (first / group + 1) * group : end;
            attend(pass, params, r, row, first, next - first, &chosen, n_seen, &pieces);
        }
    }
    forward_wait(pass);
}

/* Runs attention over chosen blocks of keys (blocks.h): projections, norms and RoPE, choice and
 * attention, output projection. */
static void blocks_run(ForwardPass *pass, const Branch *b) {
    size_t l = b->layer;
    const float *in = b->in;
    float *y = b->out;
    Model *m = pass->model;
    const Config *c = m->config;
    const IndexedHeads *w = b->weights;
    Rows memory = arena_rows(&m->arena);
    const BlockRows r = blocks_take_rows(&memory, m, l);
    const Product projections[] = {{&w->wq.w, r.q, w->wq.w.rows},
                                   {&w->wk.w, r.k, w->wk.w.rows},
                                   {&w->wv.w, r.v, w->wv.w.rows},
                                   {&w->index_q, r.index_q, w->index_q.rows},
                                   {&w->index_k, r.index_k, w->index_k.rows}};
    const AttentionParams params = indexed_heads_params(c, (uint32_t)l);
    forward_add_time(pass, PART_REST);
    forward_multiply(m, in, pass->n, projections, 5);
    blocks_prepare(pass, l, w, &r);
    forward_add_time(pass, PART_PROJECTIONS);
    attend_all(pass, &params, &r);
    forward_add_time(pass, PART_ATTENTION);
    forward_project(pass, &w->wo, r.attended, y);
}

const BranchKind blocks_kind = {
    .name = "block attention",
    .has_heads = true,
    .find = blocks_find,
    .rows = blocks_rows,
    .thread_floats = thread_floats,
    .cached = blocks_cached,
    .run = blocks_run,
};
