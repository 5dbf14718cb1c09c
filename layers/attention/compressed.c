#include "layers/attention/compressed.h"

#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <string.h>

#include "base/numbers.h"
#include "kvcache/pool_keys.h"
#include "core/forward_steps.h"
#include "layers/attention/compressed_fields.h"
#include "layers/attention/gathered.h"
#include "layers/layer_allocate.h"
#include "layers/pieces.h"
#include "layers/attention/pooling.h"
#include "layers/attention/ranking.h"

/* ---- Weights ---- */

/* What makes the keys of pools: those of the layer, or those of its indexer. */
typedef struct Compressor {
    Matrix kv, gate; /* dim or 2 * dim outputs, where pools overlap; without data: none */
    Norm norm;       /* [dim] */
    Pooling pooling;
    PoolKeyKind kind;
} Compressor;

typedef struct Compressed {
    Matrix wq_a; /* q_lora_rank x dim */
    Norm q_norm;
    Matrix wq;  /* n_heads * head_dim x q_lora_rank */
    Matrix wkv; /* head_dim x dim */
    Norm kv_norm;
    const float *sinks; /* [n_heads] */
    Compressor pools, index;
    Matrix index_q;                     /* index_heads * index_dim x q_lora_rank */
    Matrix index_weights;               /* index_heads x dim */
    Linear wo;                          /* dim x out_groups * out_rank */
    Matrix wo_a[COMPRESSED_MAX_GROUPS]; /* out_rank x n_heads * head_dim / out_groups */
} Compressed;

static bool chooses(const Config *c, size_t l) {
    return c->indexer.layer[l] == INDEXER_OWN;
}

/* Finds a compressor to vectors of `dim` elements. `names`: of kv, gate, bias and norm. */
static Compressor find_compressor(Finder *f, uint32_t l, const char *const *names, size_t dim,
                                  size_t state, PoolKeyKind kind) {
    const Config *c = f->config;
    bool overlaps = chooses(c, l);
    size_t width = overlaps ? 2 * dim : dim, size = c->compressed.pool_rate[l];
    Compressor w = {.kind = kind};
    w.kv = weights_matrix(f, names[0], width, c->dim, true);
    w.gate = weights_matrix(f, names[1], width, c->dim, true);
    w.pooling = (Pooling){.bias = weights_vector(f, names[2], size, width, true),
                          .dim = dim,
                          .size = size,
                          .overlaps = overlaps,
                          .state = state};
    w.norm = weights_norm(f, names[3], dim, true);
    return w;
}

/* Finds a layer's weights: those of its compressor only where it has pools, those of its indexer
 * only where it chooses among them. */
static void *compressed_find(Finder *f, uint32_t l) {
    static const char *const own[] = {"pool_kv", "pool_gate", "pool_bias", "pool_norm"};
    static const char *const index[] = {"indexer.wk", "indexer.pool_gate", "indexer.pool_bias",
                                        "indexer.k_norm"};
    const Config *c = f->config;
    const HeadShape h = config_heads(c, l);
    size_t heads = (size_t)h.n_heads * h.head_dim, latent = c->latent.q_lora_rank;
    Compressed *w = layer_allocate(f, sizeof *w);
    if (!w) return NULL;
    w->wq_a = weights_matrix(f, "wq_a", latent, c->dim, true);
    w->q_norm = weights_norm(f, "q_norm", latent, true);
    w->wq = weights_matrix(f, "wq_b", heads, latent, true);
    w->wkv = weights_matrix(f, "wkv", h.head_dim, c->dim, true);
    w->kv_norm = weights_norm(f, "kv_norm", h.head_dim, true);
    w->sinks = weights_vector(f, "sinks", 1, h.n_heads, true);
    if (c->compressed.pool_rate[l] > 0)
        w->pools = find_compressor(f, l, own, h.head_dim, 0, POOL_KEY);
    if (chooses(c, l)) {
        w->index = find_compressor(f, l, index, c->indexer.head_dim,
                                   pooling_state_floats(h.head_dim, true), POOL_INDEX_KEY);
        w->index_q = weights_matrix(f, "indexer.wq",
                                    (size_t)c->indexer.n_heads * c->indexer.head_dim, latent, true);
        w->index_weights = weights_matrix(f, "indexer.weights", c->indexer.n_heads, c->dim, true);
    }
    for (uint32_t g = 0; g < c->compressed.out_groups; g++) {
        char name[32];
        snprintf(name, sizeof name, "wo_a.%u", g);
        w->wo_a[g] =
            weights_matrix(f, name, c->compressed.out_rank, heads / c->compressed.out_groups, true);
    }
    w->wo = weights_linear(f, "wo", c->dim,
                           (size_t)c->compressed.out_groups * c->compressed.out_rank, true);
    return w;
}

/* ---- Sizes ---- */

static KvLayer compressed_cached(const Config *c, uint32_t l) {
    const HeadShape h = config_heads(c, l);
    bool index = chooses(c, l), pools = c->compressed.pool_rate[l] > 0;
    size_t state = pools ? pooling_state_floats(h.head_dim, index) : 0;
    if (index) state += pooling_state_floats(c->indexer.head_dim, true);
    return (KvLayer){.n_kv_heads = 1,
                     .key_dim = h.head_dim,
                     .value_dim = h.head_dim,
                     .window = c->window[l],
                     .pool = c->compressed.pool_rate[l],
                     .pool_dim = pools ? h.head_dim : 0,
                     .pool_index_dim = index ? c->indexer.head_dim : 0,
                     .state_floats = state,
                     .values_in_keys = true};
}

/* The working memory of a call: arrays of n rows each. */
typedef struct CompressedRows {
    float *q;                          /* [n_heads * head_dim]; later the outputs, group by group */
    float *q_latent;                   /* [q_lora_rank] */
    float *kv;                         /* [head_dim] */
    float *values, *gates;             /* of pools */
    float *index_values, *index_gates; /* of the indexer's pools */
    float *index_q;                    /* [index_heads * index_dim] */
    float *index_weights;              /* [index_heads] */
    uint32_t *chosen;                  /* [index_topk], pools in rising order */
    float *attended;                   /* [n_heads * head_dim] */
    float *low;                        /* [out_groups * out_rank] */
} CompressedRows;

/* Takes the working memory of a call from the arena. Arrays of pools and of the index have no
 * elements in layers without them. */
static CompressedRows compressed_take_rows(Rows *memory, const Model *m, size_t l) {
    const Config *c = m->config;
    const HeadShape h = config_heads(c, l);
    size_t n = m->max_rows, heads = (size_t)h.n_heads * h.head_dim, series = chooses(c, l) ? 2 : 1;
    size_t pool = c->compressed.pool_rate[l] > 0 ? series * h.head_dim : 0;
    size_t index = chooses(c, l) ? 2 * c->indexer.head_dim : 0;
    CompressedRows r;
    r.q = rows_take(memory, n, heads);
    r.q_latent = rows_take(memory, n, c->latent.q_lora_rank);
    r.kv = rows_take(memory, n, h.head_dim);
    r.values = rows_take(memory, n, pool);
    r.gates = rows_take(memory, n, pool);
    r.index_values = rows_take(memory, n, index);
    r.index_gates = rows_take(memory, n, index);
    r.index_q = rows_take(memory, n, index ? (size_t)c->indexer.n_heads * c->indexer.head_dim : 0);
    r.index_weights = rows_take(memory, n, index ? c->indexer.n_heads : 0);
    r.chosen = rows_take(memory, n, index ? c->indexer.topk : 0);
    r.attended = rows_take(memory, n, heads);
    r.low = rows_take(memory, n, (size_t)c->compressed.out_groups * c->compressed.out_rank);
    return r;
}

static void compressed_rows(Rows *memory, const Model *m, const Branch *b) {
    compressed_take_rows(memory, m, b->layer);
}

/* The widest head of the kind's layers. */
static size_t widest(const Config *c) {
    size_t most = 0;
    for (uint32_t l = 0; l < c->n_layers; l++)
        if (c->layer_kind[l] == LAYER_COMPRESSED && config_heads(c, l).head_dim > most)
            most = config_heads(c, l).head_dim;
    return most;
}

static KvLayer one_key(size_t dim) {
    return (KvLayer){.n_kv_heads = 1,
                     .key_dim = (uint32_t)dim,
                     .value_dim = (uint32_t)dim,
                     .values_in_keys = true};
}

/* Floats of a thread's memory for attention: for pieces, then for the keys of some pools. What
 * ranks pools comes after it. */
static size_t attending_floats(const Config *c) {
    const KvLayer layer = one_key(widest(c));
    size_t pools = gathered_cache_bytes() + gathered_row_bytes(&layer, KV_PAGE);
    return pieces_floats(layer.key_dim) + pools / sizeof(float);
}

static size_t thread_floats(const Config *c) {
    bool index = false;
    for (uint32_t l = 0; l < c->n_layers; l++) index = index || chooses(c, l);
    return attending_floats(c) + (index ? ranking_thread_floats(c, c->indexer.topk, true) : 0);
}

/* ---- Queries and keys ---- */

/* The elements of x[dim] that are rotated, the last rotary_dim. */
static float *end_of(const Model *m, size_t l, float *x, size_t dim) {
    return x + dim - config_heads(m->config, l).rotary_dim;
}

/* Rotates the last rotary_dim elements of x[dim] by the angles of row `row`. */
static void rotate_end(const Model *m, size_t l, size_t row, float *x, size_t dim) {
    forward_rotate(m, l, row, end_of(m, l, x, dim));
}

/* Undoes rotate_end: it rotates pairs (a, b) as (a, -b), which turns the other way. */
static void rotate_back(const Model *m, size_t l, size_t row, float *x, size_t dim) {
    size_t n_pairs = config_heads(m->config, l).rotary_dim / 2;
    bool interleaved = m->config->rope_pairing == ROPE_INTERLEAVED;
    float *second = x + dim - 2 * n_pairs + (interleaved ? 1 : n_pairs);
    size_t step = interleaved ? 2 : 1;
    for (size_t i = 0; i < n_pairs; i++) second[i * step] = -second[i * step];
    rotate_end(m, l, row, x, dim);
    for (size_t i = 0; i < n_pairs; i++) second[i * step] = -second[i * step];
}

/* Takes the rows into their pools, and stores the keys of those that they complete. */
static void store_pools(ForwardPass *pass, size_t l, const Compressor *w, float *values,
                        float *gates) {
    const Model *m = pass->model;
    size_t size = w->pooling.size,
           width = w->pooling.overlaps ? 2 * w->pooling.dim : w->pooling.dim;
    pooling_run(pass, l, &w->pooling, values, gates);
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++) {
        const Row *row = &pass->rows[i];
        int64_t pool = pooling_completes(pass, i, size);
        if (pool < 0) continue;
        float *key = values + i * width;
        forward_normalize(m, &w->norm, key, key, w->pooling.dim);
        forward_rotate_to(m, l, row->position - (int32_t)(size - 1),
                          end_of(m, l, key, w->pooling.dim));
        pool_keys_store(pass->cache, row->sequence, l, w->kind, (size_t)pool, key);
    }
    forward_wait(pass);
}

/* Prepares keys and the latents of queries: normalizes both, rotates the end of each key and stores
 * it as key and value. */
static void store_keys(ForwardPass *pass, size_t l, const Compressed *w, const CompressedRows *r) {
    const Model *m = pass->model;
    const Config *c = m->config;
    size_t dim = config_heads(c, l).head_dim, latent = c->latent.q_lora_rank;
    size_t n_index = c->indexer.n_heads;
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++) {
        float *kv = r->kv + i * dim, *q = r->q_latent + i * latent;
        forward_normalize(m, &w->q_norm, q, q, latent);
        forward_normalize(m, &w->kv_norm, kv, kv, dim);
        rotate_end(m, l, i, kv, dim);
        kvcache_store(pass->cache, pass->rows[i].sequence, pass->rows[i].position, l, kv, kv);
        if (chooses(c, l))
            m->isa->numeric->scale(r->index_weights + i * n_index, 1.0f / sqrtf((float)n_index),
                                   n_index);
    }
    forward_wait(pass);
}

static void finish_queries(ForwardPass *pass, size_t l, const CompressedRows *r) {
    const Model *m = pass->model;
    const Config *c = m->config;
    const HeadShape h = config_heads(c, l);
    size_t index_dim = c->indexer.head_dim, n_index = chooses(c, l) ? c->indexer.n_heads : 0;
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++) {
        for (size_t head = 0; head < h.n_heads; head++) {
            float *q = r->q + (i * h.n_heads + head) * h.head_dim;
            m->isa->numeric->rms_norm(q, q, NULL, h.head_dim, c->norm_eps);
            rotate_end(m, l, i, q, h.head_dim);
        }
        for (size_t head = 0; head < n_index; head++)
            rotate_end(m, l, i, r->index_q + (i * n_index + head) * index_dim, index_dim);
    }
    forward_wait(pass);
}

/* ---- Choosing pools ---- */

typedef struct ChosenPools {
    uint32_t *chosen;
    size_t stride;
} ChosenPools;

static void list_pools(void *context, size_t row, const Selection *best) {
    const ChosenPools *o = context;
    memcpy(o->chosen + row * o->stride, best->positions, best->n * sizeof *best->positions);
}

static void choose_pools(ForwardPass *pass, size_t l, const CompressedRows *r) {
    const Config *c = pass->model->config;
    size_t team = (size_t)omp_get_num_threads();
    const Ranking ranking = {.layer = l,
                             .q = r->index_q,
                             .weights = r->index_weights,
                             .k = c->indexer.topk,
                             .pool = c->compressed.pool_rate[l],
                             .thread_offset = attending_floats(c)};
    ChosenPools chosen = {r->chosen, c->indexer.topk};
    for (size_t first = 0; first < pass->n; first += team)
        ranking_choose(pass, &ranking, first, pass->n - first < team ? pass->n - first : team,
                       list_pools, &chosen);
}

/* ---- Attention ---- */

/* Adds the pieces of n of the row's pools: of chosen[n], or, if it is NULL, of the first n. */
static void add_pools(const ForwardPass *pass, const Pieces *pieces, const PieceHeads *heads,
                      const uint32_t *chosen, size_t n) {
    const Model *m = pass->model;
    size_t dim = heads->params->head_dim;
    const KvLayer layer = one_key(dim);
    void *memory = pieces->scratch + pieces_floats(widest(m->config));
    KvCache *pools = gathered_begin(memory, kvcache_shape(pass->cache)->type, &layer);
    gathered_place(pools, 0, (char *)memory + gathered_cache_bytes(), KV_PAGE);
    void *keys = kvcache_keys(pools, 0, 0, 0, 0);
    AttentionParams params = *heads->params;
    PieceHeads of_pools = *heads;
    params.cache_layer = 0;
    of_pools.params = &params;
    of_pools.sequence = 0;
    for (size_t first = 0; first < n; first += KV_PAGE) {
        uint32_t some[KV_PAGE];
        size_t k = n - first < KV_PAGE ? n - first : KV_PAGE;
        for (size_t i = 0; i < k; i++) some[i] = chosen ? chosen[first + i] : (uint32_t)(first + i);
        /* Attention reads whole pages; no lane may hold NaN. */
        if (k < KV_PAGE) memset(keys, 0, KV_PAGE * kv_key_bytes(kvcache_shape(pools)->type, dim));
        pool_keys_copy(pass->cache, heads->sequence, params.layer, POOL_KEY, some, k, keys, 0);
        pieces_add(m, pieces, &of_pools, pools, 0, k);
    }
}

/* Computes the attention of one row's heads [first, first + n) into r->attended. */
static void attend(ForwardPass *pass, const AttentionParams *params, const CompressedRows *r,
                   size_t row, size_t first, size_t n, const Pieces *pieces) {
    const Model *m = pass->model;
    const Config *c = m->config;
    size_t dim = params->head_dim, at = (row * params->n_heads + first) * dim;
    size_t rate = c->compressed.pool_rate[params->layer], seen = ranking_seen(pass, row);
    size_t n_pools = rate > 0 ? seen / rate : 0;
    const uint32_t *chosen = NULL;
    const PieceHeads heads = {
        .params = params, .sequence = pass->rows[row].sequence, .q = r->q + at, .n = n};
    if (chooses(c, params->layer)) {
        chosen = r->chosen + row * c->indexer.topk;
        if (n_pools > c->indexer.topk) n_pools = c->indexer.topk;
    }
    pieces_begin(pieces, n);
    if (n_pools > 0) add_pools(pass, pieces, &heads, chosen, n_pools);
    pieces_add(m, pieces, &heads, pass->cache, seen > params->window ? seen - params->window : 0,
               seen);
    pieces_finish(m, pieces, &heads, params->sinks + first, r->attended + at);
    for (size_t i = 0; i < n; i++)
        rotate_back(m, params->layer, row, r->attended + at + i * dim, dim);
}

/* Attention of all rows. With few rows the threads also share the heads of a row. The last rows,
 * which see the most positions, come first, so that no thread ends with a long one. */
static void attend_all(ForwardPass *pass, const AttentionParams *params, const CompressedRows *r) {
    size_t heads = params->n_heads, team = (size_t)omp_get_num_threads();
    size_t parts = pass->n < 2 * team ? (2 * team - 1) / pass->n + 1 : 1;
    size_t each = (heads - 1) / (parts < heads ? parts : heads) + 1;
    if (each > ATTENTION_QUERIES) each = ATTENTION_QUERIES;
    parts = (heads - 1) / each + 1;
    const Pieces pieces = pieces_of(pass->model, widest(pass->model->config), 0);
#pragma omp for schedule(dynamic, 1) nowait
    for (size_t item = 0; item < pass->n * parts; item++) {
        size_t row = pass->n - 1 - item / parts, first = item % parts * each;
        attend(pass, params, r, row, first, heads - first < each ? heads - first : each, &pieces);
    }
    forward_wait(pass);
}

/* ---- The output ---- */

/* Multiplies the heads' outputs, group by group, and what comes of that: y. */
static void project(ForwardPass *pass, size_t l, const Compressed *w, const CompressedRows *r,
                    float *y) {
    Model *m = pass->model;
    const Config *c = m->config;
    const HeadShape h = config_heads(c, l);
    size_t groups = c->compressed.out_groups, rank = c->compressed.out_rank, n = pass->n;
    size_t heads = (size_t)h.n_heads * h.head_dim, width = heads / groups;
    Product products[COMPRESSED_MAX_GROUPS];
    ProductSet sets[COMPRESSED_MAX_GROUPS];
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < n; i++)
        for (size_t g = 0; g < groups; g++)
            memcpy(r->q + (g * n + i) * width, r->attended + i * heads + g * width,
                   width * sizeof *r->q);
    forward_wait(pass);
    for (size_t g = 0; g < groups; g++) {
        products[g] = (Product){&w->wo_a[g], r->low + g * rank, groups * rank};
        sets[g] = (ProductSet){r->q + g * n * width, n, &products[g], 1, NULL};
    }
    forward_multiply_sets(m, sets, groups);
    forward_project(pass, &w->wo, r->low, y);
}

/* Runs a layer. Keys and pools of all rows are stored before any query attends, since a row sees
 * those of earlier rows of the call. */
static void compressed_run(ForwardPass *pass, const Branch *b) {
    size_t l = b->layer;
    Model *m = pass->model;
    const Config *c = m->config;
    const Compressed *w = b->weights;
    const HeadShape h = config_heads(c, l);
    bool pools = c->compressed.pool_rate[l] > 0, index = chooses(c, l);
    Rows memory = arena_rows(&m->arena);
    const CompressedRows r = compressed_take_rows(&memory, m, l);
    /* In the order of need: 2 products in every layer, 4 with pools, all with an indexer. */
    const Product from_input[] = {{&w->wq_a, r.q_latent, w->wq_a.rows},
                                  {&w->wkv, r.kv, w->wkv.rows},
                                  {&w->pools.kv, r.values, w->pools.kv.rows},
                                  {&w->pools.gate, r.gates, w->pools.gate.rows},
                                  {&w->index.kv, r.index_values, w->index.kv.rows},
                                  {&w->index.gate, r.index_gates, w->index.gate.rows},
                                  {&w->index_weights, r.index_weights, w->index_weights.rows}};
    const Product from_latent[] = {{&w->wq, r.q, w->wq.rows},
                                   {&w->index_q, r.index_q, w->index_q.rows}};
    AttentionParams params = forward_attention_params(m->config, &h, l);
    params.n_kv_heads = 1;
    params.value_dim = h.head_dim;
    params.sinks = w->sinks;
    forward_add_time(pass, PART_REST);
    forward_multiply(m, b->in, pass->n, from_input, index ? 7 : pools ? 4 : 2);
    store_keys(pass, l, w, &r);
    if (pools) store_pools(pass, l, &w->pools, r.values, r.gates);
    if (index) store_pools(pass, l, &w->index, r.index_values, r.index_gates);
    forward_multiply(m, r.q_latent, pass->n, from_latent, index ? 2 : 1);
    finish_queries(pass, l, &r);
    forward_add_time(pass, PART_PROJECTIONS);
    if (index) choose_pools(pass, l, &r);
    attend_all(pass, &params, &r);
    forward_add_time(pass, PART_ATTENTION);
    project(pass, l, w, &r, b->out);
}

const BranchKind compressed_kind = {
    .name = "compressed attention",
    .has_heads = true,
    .find = compressed_find,
    .rows = compressed_rows,
    .thread_floats = thread_floats,
    .cached = compressed_cached,
    .run = compressed_run,
};
