#include "layers/attention/indexer.h"

#include <math.h>
#include <omp.h>
#include <string.h>

#include "base/numbers.h"
#include "kvcache/pool_keys.h"
#include "kernels/attention_q8.h"
#include "kernels/bfloat.h"
#include "layers/attention/gathered.h"
#include "layers/attention/ranking.h"

Indexer indexer_find(Finder *f, uint32_t layer, size_t thread_offset) {
    const Config *c = f->config;
    Indexer w = {.attends = c->indexer.layer[layer] != INDEXER_NONE,
                 .chooses = c->indexer.layer[layer] == INDEXER_OWN,
                 .thread_offset = thread_offset};
    if (!w.chooses) return w;
    size_t latent = config_latent(c, layer).q_lora_rank, inputs = latent ? latent : c->dim;
    w.wq = weights_matrix(f, "indexer.wq", c->indexer.n_heads * c->indexer.head_dim, inputs, true);
    if (latent == 0) w.q_norm = weights_norm(f, "indexer.q_norm", c->dim, true);
    w.q_scale = head_scale_find(f, "indexer.", c->indexer.n_heads);
    w.wk = weights_matrix(f, "indexer.wk", c->indexer.head_dim, c->dim, true);
    w.k_norm = weights_norm(f, "indexer.k_norm", c->indexer.head_dim, true);
    w.weights = weights_matrix(f, "indexer.weights", c->indexer.n_heads, c->dim, true);
    if (c->indexer.pool == 0) return w;
    w.pool_gate = weights_matrix(f, "indexer.pool_gate", c->indexer.head_dim, c->dim, true);
    w.pooling = (Pooling){
        .bias = weights_vector(f, "indexer.pool_bias", c->indexer.pool, c->indexer.head_dim, true),
        .dim = c->indexer.head_dim,
        .size = c->indexer.pool};
    return w;
}

/* ---- Working memory ---- */

/* The positions of a pool; single positions are pools of 1. */
static size_t pool_size(const Config *c) {
    return c->indexer.pool > 0 ? c->indexer.pool : 1;
}

/* How many positions, or pools, are chosen. */
static size_t n_best(const Config *c) {
    return c->indexer.topk / pool_size(c);
}

/* What the layers with an indexer store of a position. */
static KvLayer widest_layer(const Config *c) {
    KvLayer widest = {.n_kv_heads = 1, .values_in_keys = true};
    for (uint32_t l = 0; l < c->n_layers; l++) {
        uint32_t latent = config_latent(c, l).kv_lora_rank;
        uint32_t key_dim = latent + config_heads(c, l).rotary_dim;
        if (latent > widest.value_dim) widest.value_dim = latent;
        if (key_dim > widest.key_dim) widest.key_dim = key_dim;
    }
    return widest;
}

/* A thread's part: what ranks positions, then the keys that were gathered for one row. The first
 * thread's also holds the cache that they form. */
typedef struct Section {
    void *cache, *row;
} Section;

static Section section_of(const Model *m, const Indexer *w, int thread) {
    const Config *c = m->config;
    float *at = m->layer_threads + (size_t)thread * m->layer_thread_floats + w->thread_offset +
                ranking_thread_floats(c, n_best(c), c->indexer.pool > 0);
    return (Section){.cache = at, .row = (char *)at + gathered_cache_bytes()};
}

size_t indexer_thread_floats(const Config *c) {
    bool found = false;
    for (uint32_t l = 0; l < c->n_layers; l++) found = found || c->indexer.layer[l] != INDEXER_NONE;
    if (!found) return 0;
    const KvLayer layer = widest_layer(c);
    size_t bytes = gathered_cache_bytes() + gathered_row_bytes(&layer, indexer_most(c));
    return ranking_thread_floats(c, n_best(c), c->indexer.pool > 0) + bytes / sizeof(float);
}

IndexRows indexer_take(Rows *memory, const Model *m) {
    const Config *c = m->config;
    size_t n = m->max_rows;
    IndexRows rows = {.in = NULL};
    rows.q = rows_take(memory, n, (size_t)c->indexer.n_heads * c->indexer.head_dim);
    rows.k = rows_take(memory, n, c->indexer.head_dim);
    rows.gates = rows_take(memory, n, c->indexer.pool > 0 ? c->indexer.head_dim : 0);
    rows.weights = rows_take(memory, n, c->indexer.n_heads);
    rows.normed =
        rows_take(memory, n, c->indexer.n_heads > 0 && c->latent.q_lora_rank == 0 ? c->dim : 0);
    return rows;
}

/* ---- Keys and queries ---- */

/* Rotates x by the angles of row `row`, in pairs of the indexer's own. */
static void rotate(const Model *m, size_t layer, size_t row, float *x) {
    const Config *c = m->config;
    size_t table = c->rope_table[layer];
    if (c->position != POSITION_ROPE || table > 1) return;
    size_t n_pairs = m->n_pairs[table];
    if (c->indexer.rotates_end) x += c->indexer.head_dim - 2 * n_pairs;
    m->isa->numeric->rotate(x, m->cosine[table] + row * n_pairs, m->sine[table] + row * n_pairs,
                            n_pairs, c->indexer.interleaved);
}

/* Writes a key to position `slot` of a page, as the cache writes others. */
static void store_key(KvType type, void *keys, size_t dim, size_t slot, const float *key) {
    if (type == KV_Q8) {
        attention_q8_reference.store_key(keys, dim, slot, key);
    } else if (type == KV_F32) {
        for (size_t i = 0; i < dim; i++) ((float *)keys)[i * KV_PAGE + slot] = key[i];
    } else if (type == KV_BF16) {
        for (size_t i = 0; i < dim; i++)
            ((uint16_t *)keys)[bf16_key_place(dim, i, slot)] = bfloat_round_floored(key[i]);
    } else {
        for (size_t i = 0; i < dim; i++)
            ((uint16_t *)keys)[i * KV_PAGE + slot] = numbers_float_to_half(key[i]);
    }
}

void indexer_store(ForwardPass *pass, size_t layer, const Indexer *w, const IndexRows *rows,
                   size_t row) {
    const Model *m = pass->model;
    const Numeric *numeric = m->isa->numeric;
    size_t dim = m->config->indexer.head_dim, n_heads = m->config->indexer.n_heads;
    size_t index = ranking_seen(pass, row) - 1;
    float *key = rows->k + row * dim;
    float eps = m->config->indexer.norm_eps > 0.0f ? m->config->indexer.norm_eps : 1e-6f;
    numeric->layer_norm(key, key, w->k_norm.weight, w->k_norm.bias, dim, eps);
    rotate(m, layer, row, key);
    if (w->q_norm.present) {
        size_t at = row * m->config->dim;
        numeric->layer_norm(rows->normed + at, rows->in + at, w->q_norm.weight, w->q_norm.bias,
                            m->config->dim, eps);
    }
    numeric->scale(rows->weights + row * n_heads, 1.0f / sqrtf((float)n_heads), n_heads);
    if (m->config->indexer.pool > 0) return;
    store_key(kvcache_shape(pass->cache)->type, ranking_keys(pass, layer, row, index / KV_PAGE),
              dim, index % KV_PAGE, key);
}

void indexer_store_pools(ForwardPass *pass, size_t layer, const Indexer *w, const IndexRows *rows) {
    pooling_run(pass, layer, &w->pooling, rows->k, rows->gates);
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++) {
        int64_t pool = pooling_completes(pass, i, w->pooling.size);
        if (pool >= 0)
            pool_keys_store(pass->cache, pass->rows[i].sequence, layer, POOL_INDEX_KEY,
                            (size_t)pool, rows->k + i * w->pooling.dim);
    }
    forward_wait(pass);
}

void indexer_rotate(const ForwardPass *pass, size_t layer, const Indexer *w, const IndexRows *rows,
                    size_t row) {
    size_t dim = pass->model->config->indexer.head_dim,
           n_heads = pass->model->config->indexer.n_heads;
    head_scale_apply(pass->model, &w->q_scale, pass->rows[row].position,
                     rows->q + row * n_heads * dim, n_heads, dim);
    for (size_t head = 0; head < n_heads; head++)
        rotate(pass->model, layer, row, rows->q + (row * n_heads + head) * dim);
}

/* ---- Choosing positions ---- */

size_t indexer_most(const Config *c) {
    return c->indexer.topk + pool_size(c) - 1;
}

/* How many of `seen` positions a row attends to: the chosen ones, and those after the last pool. */
static size_t n_chosen(const Config *c, size_t seen) {
    return c->indexer.topk + seen % pool_size(c);
}

/* A row that sees so many positions attends to all of them. */
static bool sees_all(const Config *c, size_t seen) {
    return seen / pool_size(c) <= c->indexer.topk / pool_size(c);
}

/* chosen = the positions of the best pools, in order, and those after the last pool. */
static void list_chosen(const Config *c, const Selection *best, size_t seen, uint32_t *chosen) {
    size_t size = pool_size(c), n = 0;
    for (size_t i = 0; i < best->n; i++)
        for (size_t k = 0; k < size; k++) chosen[n++] = (uint32_t)(best->positions[i] * size + k);
    for (size_t at = seen - seen % size; at < seen; at++) chosen[n++] = (uint32_t)at;
}

typedef struct ChosenRows {
    const ForwardPass *pass;
    const IndexRows *rows;
} ChosenRows;

static void list_row(void *context, size_t row, const Selection *best) {
    const ChosenRows *o = context;
    const Config *c = o->pass->model->config;
    list_chosen(c, best, ranking_seen(o->pass, row), o->rows->chosen + row * indexer_most(c));
}

/* Fills rows->chosen of n rows from `first` on. */
static void indexer_choose(ForwardPass *pass, const Indexer *w, const IndexRows *rows, size_t layer,
                           size_t first, size_t n) {
    const Config *c = pass->model->config;
    const Ranking ranking = {.layer = layer,
                             .q = rows->q,
                             .weights = rows->weights,
                             .k = n_best(c),
                             .pool = c->indexer.pool,
                             .thread_offset = w->thread_offset};
    ChosenRows own = {pass, rows};
    ranking_choose(pass, &ranking, first, n, list_row, &own);
}

/* ---- Attention ---- */

/* Passes scores and weights on to the model's observers: of the pass's own rows, and of all
 * positions that a row sees. */
typedef struct RowObserver {
    PassObserver observer;
    const ForwardPass *pass;
    size_t first;           /* row */
    const uint32_t *chosen; /* of the rows from `first` on; NULL: all positions */
} RowObserver;

/* The memory of the weights holds those of a whole context (core/attention.h). A position comes
 * after as many as were chosen before it, so that nothing is overwritten before it is moved. The
 * others receive `absent`. */
static void spread(float *weights, size_t n, const uint32_t *chosen, size_t seen, float absent) {
    size_t end = seen;
    for (size_t i = n; i-- > 0; end = chosen[i]) {
        float weight = weights[i];
        for (size_t at = chosen[i] + 1; at < end; at++) weights[at] = absent;
        weights[chosen[i]] = weight;
    }
    for (size_t at = 0; at < end; at++) weights[at] = absent;
}

/* Where a query's scores or weights come from, in the pass. */
typedef struct Shown {
    size_t row, n;
    int32_t first;
} Shown;

/* Finds the place of row `row` of the observed call, and spreads its n numbers if they are of
 * chosen positions. */
static Shown show_all(const RowObserver *o, size_t row, int32_t first, float *numbers, size_t n,
                      float absent) {
    const ForwardPass *pass = o->pass;
    size_t at = o->first + row, seen = ranking_seen(pass, at);
    if (!o->chosen) return (Shown){at, n, first};
    spread(numbers, n, o->chosen + row * indexer_most(pass->model->config), seen, absent);
    return (Shown){at, seen, kvcache_start(pass->cache, pass->rows[at].sequence)};
}

/* Undoes the spread. */
static void gather_back(const RowObserver *o, size_t row, float *numbers, size_t n) {
    if (!o->chosen) return;
    const uint32_t *chosen = o->chosen + row * indexer_most(o->pass->model->config);
    for (size_t i = 0; i < n; i++) numbers[i] = numbers[chosen[i]];
}

static void show_scores(PassObserver *own, size_t layer, size_t row, size_t head, int32_t first,
                        float *scores, size_t n) {
    const RowObserver *o = (const RowObserver *)own;
    const Shown s = show_all(o, row, first, scores, n, -INFINITY);
    OBSERVERS_CALL(o->pass->model->observers, scored, layer, s.row, head, s.first, scores, s.n);
    gather_back(o, row, scores, n);
}

static void show_weights(PassObserver *own, size_t layer, size_t row, size_t head, int32_t first,
                         float *weights, size_t n) {
    const RowObserver *o = (const RowObserver *)own;
    const Shown s = show_all(o, row, first, weights, n, 0.0f);
    OBSERVERS_CALL(o->pass->model->observers, attended, layer, s.row, head, s.first, weights, s.n);
    gather_back(o, row, weights, n);
}

/* The observer of a call of attention_forward, whose rows are those of the pass from `first` on. */
static RowObserver row_observer(const ForwardPass *pass, size_t first, const uint32_t *chosen) {
    unsigned watched = pass->model->watched;
    return (RowObserver){.observer = {.scored = watched & PASS_SCORED ? show_scores : NULL,
                                      .attended = watched & PASS_ATTENDED ? show_weights : NULL},
                         .pass = pass,
                         .first = first,
                         .chosen = chosen};
}

/* Attention of n rows from `first` on over all positions. */
static void attend_to_all(ForwardPass *pass, const AttentionParams *params, const float *q,
                          float *out, size_t first, size_t n) {
    Model *m = pass->model;
    RowObserver own = row_observer(pass, first, NULL);
    attention_forward(m->isa->attention, m->attention, params, pass->cache,
                      m->attention_rows + first, n, q + first * params->n_heads * params->head_dim,
                      out + first * params->n_heads * params->value_dim,
                      m->watched & PASS_ATTENTION ? &own.observer : NULL);
}

/* Copies the chosen keys of n rows from `first` on into a cache with a sequence for each row. */
static KvCache *indexer_gather(ForwardPass *pass, const Indexer *w, const IndexRows *rows,
                               const AttentionParams *params, size_t first, size_t n) {
    const Model *m = pass->model;
    size_t most = indexer_most(m->config), n_pages = (most + KV_PAGE - 1) / KV_PAGE;
    KvCache *gathered = section_of(m, w, 0).cache;
#pragma omp single nowait
    {
        const KvLayer layer = {.n_kv_heads = 1,
                               .key_dim = params->head_dim,
                               .value_dim = params->value_dim,
                               .values_in_keys = true};
        gathered_begin(gathered, kvcache_shape(pass->cache)->type, &layer);
        for (size_t i = 0; i < n; i++)
            gathered_place(gathered, i, section_of(m, w, (int)i).row, most);
    }
    forward_wait(pass);
#pragma omp for schedule(dynamic, 1) nowait
    for (size_t i = 0; i < n * n_pages; i++) {
        size_t row = i / n_pages, at = i % n_pages * KV_PAGE;
        const uint32_t *chosen = rows->chosen + (first + row) * most + at;
        size_t k = n_chosen(m->config, ranking_seen(pass, first + row));
        if (at >= k) continue;
        gathered_fill(gathered, row, i % n_pages, pass->cache, pass->rows[first + row].sequence,
                      params->cache_layer, chosen, k - at < KV_PAGE ? k - at : KV_PAGE);
    }
    forward_wait(pass);
    return gathered;
}

enum { HEAD_PARTS = 8 };

/* Attention of n rows from `first` on, at most GATHERED_ROWS and one a thread, over the positions
 * chosen for them. Where rows are few, parts of their heads pass as rows of their own. */
static void attend_to_chosen(ForwardPass *pass, const Indexer *w, const IndexRows *rows,
                             const AttentionParams *params, const float *q, float *out,
                             size_t first, size_t n) {
    Model *m = pass->model;
    AttentionRow attending[GATHERED_ROWS * HEAD_PARTS];
    size_t parts = 1;
    if (w->chooses) indexer_choose(pass, w, rows, params->layer, first, n);
    const KvCache *gathered = indexer_gather(pass, w, rows, params, first, n);
    while (!(m->watched & PASS_ATTENTION) && !params->sinks && 2 * parts <= HEAD_PARTS &&
           params->n_heads % (2 * parts) == 0 && n * parts < 2 * (size_t)omp_get_num_threads())
        parts *= 2;
    AttentionParams of_chosen = *params;
    of_chosen.cache_layer = 0;
    of_chosen.n_heads = params->n_heads / (uint32_t)parts;
    for (size_t i = 0; i < n * parts; i++)
        attending[i] =
            (AttentionRow){(int32_t)(i / parts),
                           (int32_t)n_chosen(m->config, ranking_seen(pass, first + i / parts)) - 1};
    RowObserver own = row_observer(pass, first, rows->chosen + first * indexer_most(m->config));
    attention_forward(m->isa->attention, m->attention, &of_chosen, gathered, attending, n * parts,
                      q + first * params->n_heads * params->head_dim,
                      out + first * params->n_heads * params->value_dim,
                      m->watched & PASS_ATTENTION ? &own.observer : NULL);
}

void indexer_attend(ForwardPass *pass, const Indexer *w, const IndexRows *rows,
                    const AttentionParams *params, const float *q, float *out) {
    const Config *c = pass->model->config;
    size_t most = (size_t)omp_get_num_threads();
    if (most > GATHERED_ROWS) most = GATHERED_ROWS;
    for (size_t first = 0, end; first < pass->n; first = end) {
        bool all = sees_all(c, ranking_seen(pass, first));
        end = first + 1;
        while (end < pass->n && (all || end - first < most) &&
               sees_all(c, ranking_seen(pass, end)) == all)
            end++;
        if (all) {
            attend_to_all(pass, params, q, out, first, end - first);
        } else {
            attend_to_chosen(pass, w, rows, params, q, out, first, end - first);
        }
    }
}
