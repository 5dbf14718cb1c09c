#include "layers/experts/head_mixture.h"

#include <omp.h>
#include <stdio.h>
#include <string.h>

#include "base/numbers.h"
#include "core/forward_steps.h"
#include "layers/experts/experts.h"
#include "layers/layer_allocate.h"

enum { MOST_SETS = 128 }; /* experts whose products are one list of work */

/* ---- Weights and sizes ---- */

typedef struct HeadExpert {
    Matrix wq; /* n_kv_heads * head_dim x dim */
    Matrix wo; /* dim x n_kv_heads * head_dim */
} HeadExpert;

typedef struct HeadMixture {
    Matrix router;        /* n_experts x dim */
    Linear wk, wv;        /* n_kv_heads * head_dim x dim */
    const float *bias;    /* [dim], of the sum of the experts' outputs; NULL: none */
    HeadExpert experts[]; /* [n_experts] */
} HeadMixture;

/* Finds the weights of the layer and of its experts. Returns NULL, with f->status set, where
 * memory is short. */
static void *head_mixture_find(Finder *f, uint32_t layer) {
    const Config *c = f->config;
    const HeadShape h = config_heads(c, layer);
    size_t n = c->experts.count, kv = (size_t)h.n_kv_heads * h.head_dim;
    char saved_prefix[sizeof f->prefix];
    HeadMixture *w = layer_allocate(f, sizeof *w + n * sizeof *w->experts);
    if (!w) return NULL;
    w->router = weights_matrix(f, "heads.router", n, c->dim, true);
    w->wk = weights_linear(f, "wk", kv, c->dim, true);
    w->wv = weights_linear(f, "wv", kv, c->dim, true);
    w->bias = weights_vector(f, "heads.bias", 1, c->dim, false);
    memcpy(saved_prefix, f->prefix, sizeof saved_prefix);
    for (uint32_t e = 0; e < n; e++) {
        snprintf(f->prefix, sizeof f->prefix, "layers.%u.heads.%u.", layer, e);
        w->experts[e].wq = weights_matrix(f, "wq", kv, c->dim, true);
        w->experts[e].wo = weights_matrix(f, "wo", c->dim, kv, true);
    }
    memcpy(f->prefix, saved_prefix, sizeof saved_prefix);
    return w;
}

static KvLayer head_mixture_cached(const Config *c, uint32_t l) {
    const HeadShape h = config_heads(c, l);
    return (KvLayer){.n_kv_heads = h.n_kv_heads, .key_dim = h.head_dim, .value_dim = h.value_dim};
}

/* The working memory of a call: n = max_rows, k = n_experts_used, most = Model.ffn_rows, width =
 * n_kv_heads * head_dim. A choice is a row and one of its experts: number row * k + i. */
typedef struct HeadMixtureRows {
    float *routing;         /* [n][n_experts]  the router's logits */
    float *routing_weights; /* [n * k]         of each choice */
    uint32_t *chosen;       /* [n * k]         the expert of each choice */
    uint32_t *first;        /* [n_experts + 1] where each expert's part of `choices` begins */
    uint32_t *choices;      /* [n * k]         sorted by expert */
    uint32_t *place;        /* [n * k]         where each choice stands in `choices` */
    float *sorted;          /* [n * k][width]  queries, then outputs, of `choices` */
    float *q, *attended;    /* [n][k * width]  the heads of a key/value head side by side */
    float *k, *v;           /* [n][width] */
    float *some;            /* [most][dim]     inputs or outputs of some experts */
} HeadMixtureRows;

/* Takes the working memory of a call from the arena. */
static HeadMixtureRows head_mixture_take_rows(Rows *memory, const Model *m, size_t l) {
    const Config *c = m->config;
    const HeadShape h = config_heads(c, l);
    size_t n = m->max_rows, width = (size_t)h.n_kv_heads * h.head_dim;
    size_t n_choices = n * c->experts.per_token;
    HeadMixtureRows rows;
    rows.routing = rows_take(memory, n, c->experts.count);
    rows.routing_weights = rows_take(memory, n_choices, 1);
    rows.chosen = rows_take(memory, n_choices, 1);
    rows.first = rows_take(memory, 1, c->experts.count + 1);
    rows.choices = rows_take(memory, n_choices, 1);
    rows.place = rows_take(memory, n_choices, 1);
    rows.sorted = rows_take(memory, n_choices, width);
    rows.q = rows_take(memory, n_choices, width);
    rows.attended = rows_take(memory, n_choices, width);
    rows.k = rows_take(memory, n, width);
    rows.v = rows_take(memory, n, width);
    rows.some = rows_take(memory, m->ffn_rows, c->dim);
    return rows;
}

static void head_mixture_rows(Rows *memory, const Model *m, const Branch *b) {
    head_mixture_take_rows(memory, m, b->layer);
}

/* ---- Choosing experts ---- */

static void sort_choices(const Config *c, const HeadMixtureRows *r, size_t n) {
    size_t n_choices = n * c->experts.per_token;
    experts_sort(r->chosen, n_choices, c->experts.count, r->first, r->choices);
    for (size_t i = 0; i < n_choices; i++) r->place[r->choices[i]] = (uint32_t)i;
}

/* Chooses each row's experts by the router's logits, and sorts the choices of all rows. */
static void choose_heads(ForwardPass *pass, const HeadMixtureRows *r) {
    Model *m = pass->model;
    const Config *c = m->config;
    size_t k = c->experts.per_token;
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++)
        experts_route(m->isa->numeric, c, r->routing + i * c->experts.count, r->chosen + i * k,
                      r->routing_weights + i * k);
    forward_wait(pass);
#pragma omp single nowait
    sort_choices(c, r, pass->n);
    forward_wait(pass);
}

/* ---- Products of some experts ---- */

/* The experts `begin` to `end` - 1, and their choices. */
typedef struct HeadBatch {
    uint32_t begin, end;
    size_t first, n; /* of HeadMixtureRows.choices */
} HeadBatch;

/* As many experts from `begin` on as there is room for. */
static HeadBatch next_batch(const Model *m, const HeadMixtureRows *r, uint32_t begin) {
    uint32_t n_experts = m->config->experts.count, end = begin;
    while (end < n_experts && end - begin < MOST_SETS &&
           r->first[end + 1] - r->first[begin] <= m->ffn_rows)
        end++;
    return (HeadBatch){begin, end, r->first[begin], r->first[end] - r->first[begin]};
}

/* Multiplies in[choices of the batch][inputs] with the experts' wq or wo. */
static void multiply_batch(ForwardPass *pass, const HeadMixture *w, const HeadMixtureRows *r,
                           const HeadBatch *batch, bool queries, const float *in, float *out) {
    ProductSet sets[MOST_SETS];
    Product products[MOST_SETS];
    size_t n_sets = 0;
    for (uint32_t e = batch->begin; e < batch->end; e++) {
        const Matrix *matrix = queries ? &w->experts[e].wq : &w->experts[e].wo;
        size_t at = r->first[e] - batch->first, n = r->first[e + 1] - r->first[e];
        if (n == 0) continue;
        products[n_sets] = (Product){matrix, out + at * matrix->rows, matrix->rows};
        sets[n_sets] = (ProductSet){in + at * matrix->cols, n, &products[n_sets], 1, NULL};
        n_sets++;
    }
    forward_multiply_sets(pass->model, sets, n_sets);
}

/* sorted = the queries of all choices. */
static void project_queries(ForwardPass *pass, const HeadMixture *w, const HeadMixtureRows *r,
                            const float *in, size_t width) {
    const Config *c = pass->model->config;
    size_t dim = c->dim, k = c->experts.per_token;
    HeadBatch batch;
    for (uint32_t e = 0; e < c->experts.count; e = batch.end) {
        batch = next_batch(pass->model, r, e);
        if (batch.n == 0) continue;
#pragma omp for schedule(static) nowait
        for (size_t i = 0; i < batch.n; i++)
            memcpy(r->some + i * dim, in + r->choices[batch.first + i] / k * dim, dim * sizeof *in);
        forward_wait(pass);
        multiply_batch(pass, w, r, &batch, true, r->some, r->sorted + batch.first * width);
    }
}

/* y += routing weight * the output of each choice. Each thread adds up columns of its own, so that
 * a row takes its experts in the order of their numbers. */
static void add_outputs(ForwardPass *pass, const HeadMixture *w, const HeadMixtureRows *r,
                        size_t width, float *y) {
    Model *m = pass->model;
    const Config *c = m->config;
    size_t dim = c->dim, k = c->experts.per_token;
    size_t part = round_up((dim - 1) / (size_t)omp_get_num_threads() + 1, 16);
    HeadBatch batch;
    for (uint32_t e = 0; e < c->experts.count; e = batch.end) {
        batch = next_batch(m, r, e);
        if (batch.n == 0) continue;
        multiply_batch(pass, w, r, &batch, false, r->sorted + batch.first * width, r->some);
#pragma omp for schedule(static) nowait
        for (size_t at = 0; at < dim; at += part) {
            size_t n = dim - at < part ? dim - at : part;
            for (size_t i = 0; i < batch.n; i++) {
                uint32_t choice = r->choices[batch.first + i];
                m->isa->numeric->add_scaled(y + choice / k * dim + at, r->some + i * dim + at,
                                            r->routing_weights[choice], n);
            }
        }
        forward_wait(pass);
    }
}

/* ---- The layer ---- */

/* Brings each row's queries from the order of choices into that of key/value heads and rotates
 * them, rotates the keys, and stores keys and values. */
static void head_mixture_prepare(ForwardPass *pass, size_t l, const HeadMixture *w,
                                 const HeadMixtureRows *r) {
    Model *m = pass->model;
    const HeadShape h = config_heads(m->config, l);
    size_t k = m->config->experts.per_token, head = h.head_dim, width = h.n_kv_heads * head;
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++) {
        float *key = r->k + i * width, *value = r->v + i * width;
        forward_add_bias(m, &w->wk, key);
        forward_add_bias(m, &w->wv, value);
        for (size_t j = 0; j < k * h.n_kv_heads; j++) {
            size_t kv_head = j / k, choice = i * k + j % k;
            float *q = r->q + (i * k * h.n_kv_heads + j) * head;
            memcpy(q, r->sorted + r->place[choice] * width + kv_head * head, head * sizeof *q);
            forward_rotate(m, l, i, q);
        }
        forward_rotate_heads(m, l, i, key, h.n_kv_heads, head);
        kvcache_store(pass->cache, pass->rows[i].sequence, pass->rows[i].position, l, key, value);
    }
    forward_wait(pass);
}

/* sorted = the outputs of the heads, in the order of choices. `attended` of a row is
 * [n_kv_heads][k][head]: the heads of one choice are k * head apart. */
static void sort_outputs(ForwardPass *pass, const HeadShape *h, const HeadMixtureRows *r) {
    size_t k = pass->model->config->experts.per_token;
    size_t head = h->value_dim, width = h->n_kv_heads * head;
#pragma omp for schedule(static) nowait
    for (size_t choice = 0; choice < pass->n * k; choice++) {
        const float *from = r->attended + choice / k * k * width + choice % k * head;
        float *to = r->sorted + r->place[choice] * width;
        for (size_t j = 0; j < h->n_kv_heads; j++)
            memcpy(to + j * head, from + j * k * head, head * sizeof *to);
    }
    forward_wait(pass);
}

/* Runs the mixture of attention heads: chooses each row's experts, projects their queries expert
 * by expert, attends with all rows, and adds the outputs' projections expert by expert. */
static void head_mixture_run(ForwardPass *pass, const Branch *b) {
    size_t l = b->layer;
    Model *m = pass->model;
    const Config *c = m->config;
    const HeadMixture *w = b->weights;
    const HeadShape h = config_heads(c, l);
    size_t dim = c->dim, width = (size_t)h.n_kv_heads * h.head_dim;
    Rows memory = arena_rows(&m->arena);
    const HeadMixtureRows r = head_mixture_take_rows(&memory, m, l);
    const Product products[] = {
        {&w->router, r.routing, c->experts.count}, {&w->wk.w, r.k, width}, {&w->wv.w, r.v, width}};
    AttentionParams params = forward_attention_params(m->config, &h, l);
    params.softcap = c->attention_softcap;
    forward_add_time(pass, PART_REST);
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++) memset(b->out + i * dim, 0, dim * sizeof *b->out);
    forward_multiply(m, b->in, pass->n, products, 3);
    choose_heads(pass, &r);
    project_queries(pass, w, &r, b->in, width);
    forward_add_time(pass, PART_PROJECTIONS);
    head_mixture_prepare(pass, l, w, &r);
    forward_attend(pass, &params, r.q, r.attended);
    sort_outputs(pass, &h, &r);
    forward_add_time(pass, PART_ATTENTION);
    add_outputs(pass, w, &r, width, b->out);
    if (w->bias) {
#pragma omp for schedule(static) nowait
        for (size_t i = 0; i < pass->n; i++)
            m->isa->numeric->add_scaled(b->out + i * dim, w->bias, 1.0f, dim);
        forward_wait(pass);
    }
    forward_add_time(pass, PART_PROJECTIONS);
}

const BranchKind head_mixture_kind = {
    .name = "mixture of heads",
    .has_heads = true,
    .find = head_mixture_find,
    .rows = head_mixture_rows,
    .cached = head_mixture_cached,
    .run = head_mixture_run,
};
