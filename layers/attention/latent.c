#include "layers/attention/latent.h"

#include <omp.h>
#include <stdio.h>
#include <string.h>

#include "core/forward_steps.h"
#include "layers/layer_allocate.h"

/* ---- Weights ---- */

static size_t head_floats(const Config *c);

static Norm latent_norm(Finder *f, const char *name, size_t n) {
    return (Norm){.weight = weights_vector(f, name, 1, n, true), .present = true};
}

/* What queries are made from: the layer's input, or its latent, once or twice. */
static size_t query_inputs(const Config *c, size_t l) {
    size_t rank = config_latent(c, l).q_lora_rank;
    return rank == 0 ? c->dim : (c->latent.q_twice ? 2 : 1) * rank;
}

/* The optional matrix "attention_gate": it has a row for each head, or for each element. */
static Matrix find_gate(Finder *f, uint32_t l, const HeadShape *h) {
    char name[MODELFILE_NAME_BYTES];
    snprintf(name, sizeof name, "%.48sattention_gate", f->prefix);
    const FileTensor *tensor = modelfile_find(f->file, name);
    bool each_head = tensor && tensor->rows == h->n_heads;
    size_t rows = each_head ? h->n_heads : (size_t)h->n_heads * h->value_dim;
    size_t inputs = f->config->latent.q_twice ? query_inputs(f->config, l) : f->config->dim;
    return weights_matrix(f, "attention_gate", rows, inputs, f->config->latent.q_twice);
}

/* Finds the weights of the layer, with one k_b and one v_b for each head. Returns NULL, with
 * f->status set, where memory is short. */
static void *latent_find(Finder *f, uint32_t l) {
    const Config *c = f->config;
    const HeadShape h = config_heads(c, l);
    const LatentShape latent = config_latent(c, l);
    Latent *w = layer_allocate(f, sizeof *w + 2 * (size_t)h.n_heads * sizeof *w->list);
    if (!w) return NULL;
    size_t q_dim = (size_t)h.n_heads * h.head_dim;
    w->k_b = w->list;
    w->v_b = w->list + h.n_heads;
    if (latent.q_lora_rank > 0) {
        w->wq_a = weights_linear(f, "wq_a", latent.q_lora_rank, c->dim, true);
        w->q_norm = latent_norm(f, "q_norm", latent.q_lora_rank);
        w->wq = weights_matrix(f, "wq_b", q_dim, query_inputs(c, l), true);
    } else {
        w->wq = weights_matrix(f, "wq", q_dim, c->dim, true);
    }
    w->q_scale = head_scale_find(f, "", h.n_heads);
    if (c->kv_distance[l] == 0) {
        w->wkv_a = weights_linear(f, "wkv_a", latent.kv_lora_rank + h.rotary_dim, c->dim, true);
        w->kv_norm = latent_norm(f, "kv_norm", latent.kv_lora_rank);
        w->shared_key_norm = weights_vector(f, "shared_key_norm", 1, h.rotary_dim, false);
    }
    w->wo = weights_linear(f, "wo", c->dim, (size_t)h.n_heads * h.value_dim, true);
    w->gate = find_gate(f, l, &h);
    w->sinks = weights_vector(f, "sinks", 1, h.n_heads, false);
    w->indexer = indexer_find(f, l, head_floats(c));
    for (uint32_t i = 0; i < h.n_heads; i++) {
        char name[32];
        snprintf(name, sizeof name, "k_b.%u", i);
        w->k_b[i] = weights_matrix(f, name, latent.kv_lora_rank, h.head_dim - h.rotary_dim, true);
        snprintf(name, sizeof name, "v_b.%u", i);
        w->v_b[i] = weights_matrix(f, name, h.value_dim, latent.kv_lora_rank, true);
    }
    return w;
}

/* ---- Sizes ---- */

/* What the layer caches: its latents as one key head, unless it reads those of an earlier layer;
 * and the keys of its own indexer, or its pools' state and keys, if it has one. */
static KvLayer latent_cached(const Config *c, uint32_t l) {
    bool own_latents = c->kv_distance[l] == 0, chooses = c->indexer.layer[l] == INDEXER_OWN;
    bool pools = chooses && c->indexer.pool > 0;
    uint32_t rank = config_latent(c, l).kv_lora_rank;
    return (KvLayer){.n_kv_heads = own_latents || chooses,
                     .key_dim = own_latents ? rank + config_heads(c, l).rotary_dim : 0,
                     .value_dim = own_latents ? rank : 0,
                     .index_dim = chooses && !pools ? c->indexer.head_dim : 0,
                     .state_floats = pools ? pooling_state_floats(c->indexer.head_dim, false) : 0,
                     .pool = pools ? c->indexer.pool : 0,
                     .pool_index_dim = pools ? c->indexer.head_dim : 0,
                     .values_in_keys = true};
}

/* The working memory of a call: arrays of n rows each. */
typedef struct LatentRows {
    float *q;        /* [n_heads * head_dim]; later the heads' outputs, [n_heads * value_dim] */
    float *q_latent; /* [q_lora_rank] */
    float *q_both;   /* where latent.q_twice: the normed latent, then as it was */
    float *kv;       /* [kv_lora_rank + rotary_dim]: what is stored */
    float *queries;  /* [n_heads * (kv_lora_rank + rotary_dim)]; later the gates */
    float *attended; /* [n_heads * kv_lora_rank] */
    IndexRows index;
} LatentRows;

static size_t padded(size_t width) {
    return round_up(width, 16);
}

/* Reserves a call's working memory in the arena. `q` and `queries` are as wide as the wider of the
 * two things that they hold one after the other (LatentRows). */
static LatentRows latent_take_rows(Rows *memory, const Model *m, const Branch *b) {
    const Config *c = m->config;
    const Latent *w = b->weights;
    const HeadShape h = config_heads(c, b->layer);
    const LatentShape latent = config_latent(c, b->layer);
    size_t n = m->max_rows, heads = h.n_heads, key = latent.kv_lora_rank + h.rotary_dim;
    size_t q = heads * h.head_dim, gates = heads * h.value_dim;
    LatentRows rows;
    rows.q = rows_take(memory, n, q > w->wo.w.cols ? q : w->wo.w.cols);
    rows.q_latent = rows_take(memory, n, latent.q_lora_rank);
    rows.q_both = rows_take(memory, n, c->latent.q_twice ? query_inputs(c, b->layer) : 0);
    rows.kv = rows_take(memory, n, key);
    rows.queries = rows_take(memory, n, heads * key > gates ? heads * key : gates);
    rows.attended = rows_take(memory, n, heads * latent.kv_lora_rank);
    rows.index = indexer_take(memory, m);
    rows.index.in = b->in;
    rows.index.chosen = b->kept;
    return rows;
}

static void latent_rows(Rows *memory, const Model *m, const Branch *b) {
    latent_take_rows(memory, m, b);
}

/* Floats of a row that a layer leaves to the next ones: the positions that its indexer chose. */
static size_t kept_floats(const Config *c) {
    return indexer_most(c);
}

/* The rows of one head that are multiplied at once. */
enum { TILE_ROWS = 64 };

/* A thread's memory for products of single heads: TILE_ROWS rows of one head, and their packed
 * form, which takes at most 8 bytes for each padded input. */
static size_t rows_floats(size_t cols) {
    return TILE_ROWS * padded(cols);
}

static size_t packed_floats(size_t cols) {
    return 2 * (padded(cols) + 64) * (TILE_ROWS + 64);
}

/* A thread's memory for products of single heads; a multiple of 16. */
static size_t head_floats(const Config *c) {
    size_t widest = 0;
    for (uint32_t l = 0; l < c->n_layers; l++) {
        size_t head_dim = config_heads(c, l).head_dim, latent = config_latent(c, l).kv_lora_rank;
        widest = head_dim > widest ? head_dim : widest;
        widest = latent > widest ? latent : widest;
    }
    return rows_floats(widest) + packed_floats(widest);
}

static size_t thread_floats(const Config *c) {
    return head_floats(c) + indexer_thread_floats(c);
}

/* ---- Products of single heads ---- */

/* Vectors of all heads of all rows: head h of row i is at data + i * stride + h * width. */
typedef struct Heads {
    float *data;
    size_t width, stride;
} Heads;

/* Panels [begin, end) of out[row][head] = w in[row][head], for n rows from `row` on. */
static void multiply_head(const Model *m, const Matrix *w, const Heads *in, const Heads *out,
                          size_t head, size_t row, size_t n, size_t begin, size_t end) {
    const Kernels *kernels = m->isa->kernels;
    size_t form = type_input_form(w->type), thread = (size_t)omp_get_thread_num();
    float *rows = m->layer_threads + thread * m->layer_thread_floats;
    float *packed = rows + rows_floats(w->cols);
    const void *input = rows;
    for (size_t i = 0; i < n; i++)
        memcpy(rows + i * w->cols, in->data + (row + i) * in->stride + head * in->width,
               w->cols * sizeof *rows);
    if (kernels->input_bytes(form, n, w->cols) > 0) {
        size_t tasks = kernels->pack_tasks(form, n);
        for (size_t task = 0; task < tasks; task++)
            kernels->pack(form, rows, n, w->cols, task, packed);
        input = packed;
    }
    const Product product = {w, out->data + row * out->stride + head * out->width, out->stride};
    kernels->multiply(&product, input, n, begin, end, matmul_scratch(m->matmul, thread));
}

/* out[row][head] = w[head] in[row][head]. The threads share heads, tiles of rows and, where there
 * are few of these, stripes of panels; the caller waits. With one row each thread reads through its
 * share of the heads' matrices, which follow each other: that is faster, though a thread that is
 * held up gets no help. */
static void multiply_heads(ForwardPass *pass, const Matrix *w, size_t n_heads, const Heads *in,
                           const Heads *out) {
    const Model *m = pass->model;
    size_t tiles = (pass->n + TILE_ROWS - 1) / TILE_ROWS, stripe = m->isa->kernels->stripe;
    size_t panels = matrix_panels(w), units = (panels + stripe - 1) / stripe;
    size_t team = (size_t)omp_get_num_threads(), parts = 8 * team / (n_heads * tiles) + 1;
    if (team == 1) parts = 1;
    if (parts > units) parts = units;
    size_t items = n_heads * tiles * parts, at_a_time = pass->n > 1 ? 1 : (items - 1) / team + 1;
#pragma omp for schedule(dynamic, at_a_time) nowait
    for (size_t i = 0; i < items; i++) {
        size_t part = i % parts, head = i / parts % n_heads, row = i / parts / n_heads * TILE_ROWS;
        size_t n = pass->n - row < TILE_ROWS ? pass->n - row : TILE_ROWS;
        size_t begin = units * part / parts * stripe, end = units * (part + 1) / parts * stripe;
        multiply_head(m, &w[head], in, out, head, row, n, begin, end < panels ? end : panels);
    }
}

/* ---- The layer ---- */

/* x[n] = norm(x) * scale (0: 1), after adding the bias of `linear` to all of its outputs. */
static void normalize(const Model *m, const Linear *linear, const Norm *norm, float scale, float *x,
                      size_t n) {
    forward_add_bias(m, linear, x);
    m->isa->numeric->rms_norm(x, x, norm->weight, n, m->config->latent.norm_eps);
    if (scale != 0.0f) m->isa->numeric->scale(x, scale, n);
}

/* Normalizes a row's latent of queries, and makes both[2 * q_lora_rank] of it where queries are
 * made from that. */
static void normalize_queries(const Model *m, const Latent *w, float *latent, float *both) {
    const Config *c = m->config;
    size_t n = w->wq_a.w.rows;
    if (!c->latent.q_twice) {
        normalize(m, &w->wq_a, &w->q_norm, 0.0f, latent, n);
        return;
    }
    forward_add_bias(m, &w->wq_a, latent);
    memcpy(both + n, latent, n * sizeof *both);
    m->isa->numeric->rms_norm(latent, latent, w->q_norm.weight, n, c->latent.norm_eps);
    memcpy(both, latent, n * sizeof *both);
}

/* Prepares: normalizes the latents of queries and keys, rotates the part that all heads share, and
 * stores keys. */
static void prepare_latents(ForwardPass *pass, size_t l, const Latent *w, const LatentRows *rows) {
    Model *m = pass->model;
    const Config *c = m->config;
    const LatentShape latent = config_latent(c, l);
    size_t key = w->wkv_a.w.rows; /* 0: the keys are an earlier layer's */
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++) {
        float *stored = rows->kv + i * key;
        if (latent.q_lora_rank > 0)
            normalize_queries(m, w, rows->q_latent + i * latent.q_lora_rank,
                              rows->q_both + i * query_inputs(c, l));
        if (key > 0) {
            float *shared = stored + latent.kv_lora_rank;
            normalize(m, &w->wkv_a, &w->kv_norm, latent.scale, stored, latent.kv_lora_rank);
            if (w->shared_key_norm)
                m->isa->numeric->rms_norm(shared, shared, w->shared_key_norm,
                                          key - latent.kv_lora_rank, c->latent.norm_eps);
            forward_rotate(m, l, i, shared);
            kvcache_store(pass->cache, pass->rows[i].sequence, pass->rows[i].position, l, stored,
                          stored);
        }
        if (w->indexer.chooses) indexer_store(pass, l, &w->indexer, &rows->index, i);
    }
    forward_wait(pass);
}

/* Multiplies the queries by what grows with their position, where the model has that. */
static void scale_queries(ForwardPass *pass, size_t l, const Latent *w, const Heads *q) {
    Model *m = pass->model;
    if (m->config->query_scaling == 0.0f && !w->q_scale.scale) return;
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++) {
        float *x = q->data + i * q->stride;
        float scale = forward_query_scale(m->config, l, pass->rows[i].position);
        if (scale != 1.0f) m->isa->numeric->scale(x, scale, q->stride);
        head_scale_apply(m, &w->q_scale, pass->rows[i].position, x, q->stride / q->width, q->width);
    }
    forward_wait(pass);
}

/* The queries' rotated parts: from the end of each head of q to the end of each query. Also rotates
 * those of the indexer. */
static void rotate_queries(ForwardPass *pass, size_t l, const Latent *w, const Heads *q,
                           const Heads *queries, const IndexRows *index) {
    Model *m = pass->model;
    const HeadShape h = config_heads(m->config, l);
    size_t rest = h.head_dim - h.rotary_dim, latent = config_latent(m->config, l).kv_lora_rank;
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++) {
        for (size_t head = 0; head < h.n_heads; head++) {
            float *out = queries->data + i * queries->stride + head * queries->width + latent;
            memcpy(out, q->data + i * q->stride + head * q->width + rest,
                   h.rotary_dim * sizeof *out);
            forward_rotate(m, l, i, out);
        }
        if (w->indexer.chooses) indexer_rotate(pass, l, &w->indexer, index, i);
    }
}

/* out[head] = out[head] * the activated gates that follow from in[n][w->gate.cols], which replace
 * the queries in `gates`: one for each head, or for each of its elements. */
static void gate_heads(ForwardPass *pass, const Latent *w, const float *in, const Heads *out,
                       size_t n_heads, float *gates) {
    const Model *m = pass->model;
    const Numeric *numeric = m->isa->numeric;
    size_t n_gates = w->gate.rows;
    const Product product = {&w->gate, gates, n_gates};
    forward_multiply(pass->model, in, pass->n, &product, 1);
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++) {
        float *gate = gates + i * n_gates, *x = out->data + i * out->stride;
        bool each = n_gates == out->stride;
        numeric->activate(m->config->gate_activation, gate, each ? x : NULL, n_gates);
        if (each) memcpy(x, gate, n_gates * sizeof *x);
        for (size_t head = 0; !each && head < n_heads; head++)
            numeric->scale(x + head * out->width, gate[head], out->width);
    }
    forward_wait(pass);
}

static void add_output_bias(ForwardPass *pass, const Linear *wo, float *y) {
    if (!wo->bias) return;
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++)
        forward_add_bias(pass->model, wo, y + i * pass->model->config->dim);
    forward_wait(pass);
}

/* Latent attention of a pass: projections to the latent (and to the indexer's queries and keys),
 * queries times k_b, attention to the cached latents (all, or those that the indexer chooses),
 * times v_b, gates, and the output projection. */
static void latent_run(ForwardPass *pass, const Branch *b) {
    size_t l = b->layer;
    const float *in = b->in;
    float *y = b->out;
    Model *m = pass->model;
    const Config *c = m->config;
    const Latent *w = b->weights;
    const HeadShape h = config_heads(c, l);
    const LatentShape latent = config_latent(c, l);
    Rows memory = arena_rows(&m->arena);
    const LatentRows rows = latent_take_rows(&memory, m, b);
    const IndexRows *index = &rows.index;
    size_t n_heads = h.n_heads, key = latent.kv_lora_rank + h.rotary_dim;
    const Heads q = {rows.q, h.head_dim, n_heads * h.head_dim};
    const Heads queries = {rows.queries, key, n_heads * key};
    const Heads attended = {rows.attended, latent.kv_lora_rank, n_heads * latent.kv_lora_rank};
    const Heads out = {rows.q, h.value_dim, n_heads * h.value_dim};
    const Matrix *first = latent.q_lora_rank > 0 ? &w->wq_a.w : &w->wq;
    Product projections[5] = {
        {first, latent.q_lora_rank > 0 ? rows.q_latent : rows.q, first->rows}};
    size_t n_projections = 1;
    const Product from_latent[] = {
        {&w->wq, rows.q, q.stride},
        {&w->indexer.wq, index->q, (size_t)c->indexer.n_heads * c->indexer.head_dim}};
    const Product last = {&w->wo.w, y, w->wo.w.rows};
    bool chooses = w->indexer.chooses, pools = chooses && c->indexer.pool > 0;
    AttentionParams params = forward_attention_params(m->config, &h, l);
    params.cache_layer -= c->kv_distance[l];
    params.n_kv_heads = 1;
    params.head_dim = (uint32_t)key;
    params.value_dim = latent.kv_lora_rank;
    params.scale = latent.attention_scale;
    params.softcap = c->attention_softcap;
    params.sinks = w->sinks;
    if (w->wkv_a.w.data) projections[n_projections++] = (Product){&w->wkv_a.w, rows.kv, key};
    if (chooses) {
        projections[n_projections++] = (Product){&w->indexer.wk, index->k, c->indexer.head_dim};
        projections[n_projections++] =
            (Product){&w->indexer.weights, index->weights, c->indexer.n_heads};
    }
    forward_add_time(pass, PART_REST);
    if (pools)
        projections[n_projections++] =
            (Product){&w->indexer.pool_gate, index->gates, c->indexer.head_dim};
    forward_multiply(m, in, pass->n, projections, n_projections);
    prepare_latents(pass, l, w, &rows);
    if (pools) indexer_store_pools(pass, l, &w->indexer, index);
    if (c->latent.q_twice) {
        forward_multiply(m, rows.q_both, pass->n, from_latent, 1);
        if (chooses) forward_multiply(m, rows.q_latent, pass->n, from_latent + 1, 1);
    } else if (latent.q_lora_rank > 0) {
        forward_multiply(m, rows.q_latent, pass->n, from_latent, chooses ? 2 : 1);
    } else if (chooses) {
        forward_multiply(m, index->normed, pass->n, from_latent + 1, 1);
    }
    scale_queries(pass, l, w, &q);
    rotate_queries(pass, l, w, &q, &queries, index);
    multiply_heads(pass, w->k_b, n_heads, &q, &queries);
    forward_wait(pass);
    forward_add_time(pass, PART_PROJECTIONS);
    if (w->indexer.attends) {
        indexer_attend(pass, &w->indexer, index, &params, queries.data, attended.data);
    } else {
        forward_attend(pass, &params, queries.data, attended.data);
    }
    forward_add_time(pass, PART_ATTENTION);
    multiply_heads(pass, w->v_b, n_heads, &attended, &out);
    forward_wait(pass);
    if (w->gate.data)
        gate_heads(pass, w, c->latent.q_twice ? rows.q_both : in, &out, n_heads, queries.data);
    forward_gather(pass, w->wo.inputs, out.data, pass->n);
    forward_multiply(m, out.data, pass->n, &last, 1);
    forward_gather(pass, w->wo.outputs, y, pass->n);
    add_output_bias(pass, &w->wo, y);
    forward_add_time(pass, PART_PROJECTIONS);
}

const BranchKind latent_kind = {
    .name = "latent attention",
    .find = latent_find,
    .kept_floats = kept_floats,
    .rows = latent_rows,
    .thread_floats = thread_floats,
    .cached = latent_cached,
    .run = latent_run,
};

Latent *latent_weights(const LayerWeights *layer) {
    return layer->kind == &latent_kind ? layer->own : NULL;
}
