#include "model.h"

#include <omp.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "weights.h"

/* Below this many multiply-adds a forward pass is done before a second thread has woken up. */
static const double SOLO_WORK = 2e6;

struct Model {
    const Config *config;
    const ModelFile *file;
    Weights weights;
    const Isa *isa;
    int n_threads;
    uint32_t context, max_rows;
    double row_work; /* multiply-adds of one row, attention aside */
    const AttentionSink *sink;
    const InputSink *input_sink;
    double *seconds; /* [MODEL_PARTS] */
    Barrier barrier;
    MatmulMemory *matmul;
    AttentionMemory *attention;

    /* The state of the rows in flight, n = max_rows. */
    float *x;                /* [n][dim]      the residual stream */
    float *normed, *normed2; /* [n][dim]      what attention and feed-forward read */
    float *y, *z;            /* [n][dim]      what they give */
    float *q, *attended;     /* [n][n_heads * head_dim] */
    float *k, *v;            /* [n][n_kv_heads * head_dim] */
    float *gate, *up;        /* [n][widest feed-forward] */
    /* Mixtures of experts, k = n_experts_used. */
    float *routing;         /* [n][n_experts]  the router's logits */
    float *shares;          /* [n][k]          of the chosen experts */
    uint32_t *chosen;       /* [n][k]          the experts of each row */
    uint32_t *expert_first; /* [n_experts + 1] where an expert's part of expert_slots begins */
    uint32_t *expert_slots; /* [n * k]         row * k + which of its choices, by expert */
    float *expert_in, *expert_out; /* [n][dim]       the rows of one expert */
    float *cosine[2], *sine[2];    /* [n][rotary_dim / 2], one a frequency table */
    AttentionRow *places;          /* [n] */
    float *scaled_freqs;           /* a RoPE table made when the model was opened; or NULL */
};

/* One call of model_forward, as its threads share it. */
typedef struct Pass {
    Model *model;
    KvCache *cache;
    const Row *rows;
    size_t n;
    float *logits;
    atomic_int bad_layer; /* the first with a non-finite value; n_layers: the logits */
    double last_mark;     /* of the clock; the first thread's */
} Pass;

/* The time since the last mark went into `part`. */
static void mark(Pass *pass, ModelPart part) {
    if (!pass->model->seconds || omp_get_thread_num() != 0) return;
    double now = clock_seconds();
    pass->model->seconds[part] += now - pass->last_mark;
    pass->last_mark = now;
}

/* The threads wait for each other: after each loop over rows. */
static void meet(const Pass *pass) {
    barrier_wait(&pass->model->barrier);
}

/* Every matrix product: of in[n][n_inputs] with each matrix of the list. */
static void multiply(Model *m, const float *in, size_t n, size_t n_inputs, const Product *products,
                     size_t n_products) {
    for (size_t i = 0; m->input_sink && i < n_products; i++)
        m->input_sink->inputs(m->input_sink->context, products[i].w, in, n);
    matmul(m->isa->kernels, m->matmul, in, n, n_inputs, products, n_products);
}

static void normalize(const Model *m, const Norm *norm, float *out, const float *x, size_t n) {
    const Numeric *numeric = m->isa->numeric;
    if (m->config->norm == NORM_RMS) {
        numeric->rms_norm(out, x, norm->weight, n, m->config->norm_eps);
        if (norm->bias) numeric->add_scaled(out, norm->bias, 1.0f, n);
    } else {
        numeric->layer_norm(out, x, norm->weight, norm->bias, n, m->config->norm_eps);
    }
}

static void add_bias(const Model *m, const Linear *linear, float *out) {
    if (linear->bias) m->isa->numeric->add_scaled(out, linear->bias, 1.0f, linear->w.rows);
}

/* Sines and cosines of the row's position for each frequency table: the angle is the float32
 * product, as in transformers. */
static void position_angles(Model *m, size_t row, int32_t position) {
    size_t n_pairs = m->config->rotary_dim / 2;
    for (int table = 0; table < 2; table++) {
        const float *freqs = m->weights.rope_freqs[table];
        if (!freqs) continue;
        float *cosine = m->cosine[table] + row * n_pairs, *sine = m->sine[table] + row * n_pairs;
        for (size_t i = 0; i < n_pairs; i++) {
            sin_cos((float)position * freqs[i], &sine[i], &cosine[i]);
            sine[i] *= m->config->rope_attention_factor;
            cosine[i] *= m->config->rope_attention_factor;
        }
    }
}

static void add_sinusoid(const Model *m, float *x, int32_t position) {
    size_t half = m->config->dim / 2;
    bool interleaved = m->config->sinusoid_layout == SINUSOID_INTERLEAVED;
    for (size_t i = 0; i < half; i++) {
        float sine, cosine;
        sin_cos((float)position * m->weights.sinusoid_freqs[i], &sine, &cosine);
        x[interleaved ? 2 * i : i] += sine;
        x[interleaved ? 2 * i + 1 : half + i] += cosine;
    }
}

static bool norm_before(const Config *c) {
    return c->norm_place == NORM_BEFORE || c->norm_place == NORM_AROUND;
}

/* What the first half of layer l reads of a row of the residual stream, and its second half as
 * well in a parallel block. */
static void normalize_for(const Model *m, size_t l, size_t row) {
    const LayerWeights *w = &m->weights.layers[l];
    size_t dim = m->config->dim, at = row * dim;
    if (!norm_before(m->config)) return;
    normalize(m, &w->attention_norm, m->normed + at, m->x + at, dim);
    if (m->config->parallel_block && w->ffn_norm.present)
        normalize(m, &w->ffn_norm, m->normed2 + at, m->x + at, dim);
}

/* token -> x[row], scaled, with its position where positions are added; and the first norm. */
static void embed(Pass *pass) {
    Model *m = pass->model;
    const Config *c = m->config;
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++) {
        const Row *row = &pass->rows[i];
        float *x = m->x + i * c->dim;
        int32_t position = row->position + (int32_t)c->position_offset;
        matrix_row(&m->weights.token_embedding, (size_t)row->token, x);
        if (c->embedding_scale != 1.0f) m->isa->numeric->scale(x, c->embedding_scale, c->dim);
        if (c->position == POSITION_LEARNED)
            m->isa->numeric->add_scaled(
                x, m->weights.position_embedding + (size_t)position * c->dim, 1.0f, c->dim);
        if (c->position == POSITION_SINUSOIDAL) add_sinusoid(m, x, position);
        if (c->position == POSITION_ROPE) position_angles(m, i, row->position);
        if (m->weights.embedding_norm.present)
            normalize(m, &m->weights.embedding_norm, x, x, c->dim);
        m->places[i] = (AttentionRow){row->sequence, row->position};
        normalize_for(m, 0, i);
    }
    meet(pass);
}

static void clip(float *x, size_t n, float limit) {
    for (size_t i = 0; i < n; i++) x[i] = x[i] > limit ? limit : x[i] < -limit ? -limit : x[i];
}

/* Normalizes, clips and rotates the heads of one row's queries or keys. */
static void shape_heads(const Model *m, const Norm *norm, size_t layer, size_t row, float *heads,
                        size_t n_heads) {
    const Config *c = m->config;
    if (norm->present && c->qk_norm == QK_NORM_ALL)
        normalize(m, norm, heads, heads, n_heads * c->head_dim);
    if (c->qkv_clip > 0.0f) clip(heads, n_heads * c->head_dim, c->qkv_clip);
    for (size_t head = 0; head < n_heads; head++) {
        float *x = heads + head * c->head_dim;
        Norm of_head = *norm;
        if (c->qk_norm == QK_NORM_EACH) {
            if (norm->weight) of_head.weight += head * c->head_dim;
            if (norm->bias) of_head.bias += head * c->head_dim;
        }
        if (norm->present && c->qk_norm != QK_NORM_ALL) normalize(m, &of_head, x, x, c->head_dim);
        if (c->position != POSITION_ROPE || c->rope_table[layer] > 1) continue;
        size_t n_pairs = c->rotary_dim / 2, at = row * n_pairs;
        m->isa->numeric->rotate(x, m->cosine[c->rope_table[layer]] + at,
                                m->sine[c->rope_table[layer]] + at, n_pairs,
                                c->rope_pairing == ROPE_INTERLEAVED);
    }
}

/* y = attention of `in`, through the cache. */
static void attention_block(Pass *pass, size_t l, const float *in, float *y) {
    Model *m = pass->model;
    const Config *c = m->config;
    const LayerWeights *w = &m->weights.layers[l];
    size_t q_dim = w->wq.w.rows, kv_dim = w->wk.w.rows;
    const Product qkv[] = {
        {&w->wq.w, m->q, q_dim}, {&w->wk.w, m->k, kv_dim}, {&w->wv.w, m->v, kv_dim}};
    mark(pass, PART_REST);
    multiply(m, in, pass->n, c->dim, qkv, 3);
    mark(pass, PART_PROJECTIONS);
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++) {
        float *q = m->q + i * q_dim, *k = m->k + i * kv_dim, *v = m->v + i * kv_dim;
        add_bias(m, &w->wq, q);
        add_bias(m, &w->wk, k);
        add_bias(m, &w->wv, v);
        if (c->qkv_clip > 0.0f) clip(v, kv_dim, c->qkv_clip);
        shape_heads(m, &w->q_norm, l, i, q, c->n_heads);
        shape_heads(m, &w->k_norm, l, i, k, c->n_kv_heads);
        kvcache_store(pass->cache, pass->rows[i].sequence, pass->rows[i].position, l, k, v);
    }
    meet(pass);
    const AttentionParams params = {
        .layer = l,
        .n_heads = c->n_heads,
        .n_kv_heads = c->n_kv_heads,
        .head_dim = c->head_dim,
        .scale = c->attention_scale / (c->attention_scale_falls ? (float)(l + 1) : 1.0f),
        .softcap = c->attention_softcap,
        .window = c->window[l],
        .alibi_slopes = m->weights.alibi_slopes,
        .sinks = w->sinks,
    };
    attention_forward(m->isa->attention, m->attention, &params, pass->cache, m->places, pass->n,
                      m->q, m->attended, m->sink);
    mark(pass, PART_ATTENTION);
    const Product out = {&w->wo.w, y, c->dim};
    multiply(m, m->attended, pass->n, q_dim, &out, 1);
    mark(pass, PART_PROJECTIONS);
}

/* The gate's and the other half's limits of GPT-OSS. */
static void limit_gate(float *gate, float *up, size_t n, float limit) {
    for (size_t i = 0; i < n; i++) gate[i] = gate[i] > limit ? limit : gate[i];
    clip(up, n, limit);
    for (size_t i = 0; i < n; i++) up[i] += 1.0f;
}

/* y[n] = feed-forward of in[n], without the bias of its last projection. */
static void feed_forward(Pass *pass, const FeedForward *f, size_t n, const float *in, float *y) {
    Model *m = pass->model;
    const Config *c = m->config;
    const Product inner[] = {{&f->up.w, m->up, f->width}, {&f->gate.w, m->gate, f->width}};
    multiply(m, in, n, c->dim, inner, c->gated ? 2 : 1);
    float *hidden = c->gated ? m->gate : m->up;
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < n; i++) {
        float *up = m->up + i * f->width, *gate = m->gate + i * f->width;
        add_bias(m, &f->up, up);
        if (c->gated) add_bias(m, &f->gate, gate);
        if (c->swiglu_limit > 0.0f) limit_gate(gate, up, f->width, c->swiglu_limit);
        m->isa->numeric->activate(c->activation, c->gated ? gate : up, c->gated ? up : NULL,
                                  f->width);
    }
    meet(pass);
    const Product out = {&f->down.w, y, c->dim};
    multiply(m, hidden, n, f->width, &out, 1);
}

/* Sorts the rows' choices by expert: those of expert e are expert_slots[expert_first[e]] up to
 * [expert_first[e + 1]], in the order of the rows. */
static void sort_choices(Model *m, size_t n) {
    uint32_t n_experts = m->config->n_experts, used = m->config->n_experts_used;
    uint32_t *first = m->expert_first;
    memset(first, 0, (n_experts + 1) * sizeof *first);
    for (size_t i = 0; i < n * used; i++) first[m->chosen[i] + 1]++;
    for (uint32_t e = 0; e < n_experts; e++) first[e + 1] += first[e];
    for (uint32_t i = 0; i < n * used; i++) m->expert_slots[first[m->chosen[i]]++] = i;
    for (uint32_t e = n_experts; e > 0; e--) first[e] = first[e - 1];
    first[0] = 0;
}

/* The share of the expert that all tokens use: y += sigmoid(shared_gate(in)) * shared(in). */
static void shared_expert(Pass *pass, const LayerWeights *w, const float *in, float *y) {
    Model *m = pass->model;
    const Config *c = m->config;
    feed_forward(pass, &w->shared, pass->n, in, m->expert_out);
    if (w->shared_gate.data) {
        const Product gate = {&w->shared_gate, m->routing, 1};
        multiply(m, in, pass->n, c->dim, &gate, 1);
    }
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++) {
        float share = 1.0f;
        if (w->shared_gate.data) {
            float exponential = -m->routing[i]; /* becomes exp(-x) */
            m->isa->numeric->softmax_sum(&exponential, 0.0f, 1);
            share = 1.0f / (1.0f + exponential);
        }
        add_bias(m, &w->shared.down, m->expert_out + i * c->dim);
        m->isa->numeric->add_scaled(y + i * c->dim, m->expert_out + i * c->dim, share, c->dim);
    }
    meet(pass);
}

/* y = each row's experts, added up in the order of their numbers. */
static void mixture(Pass *pass, const LayerWeights *w, const float *in, float *y) {
    Model *m = pass->model;
    const Config *c = m->config;
    const Numeric *numeric = m->isa->numeric;
    size_t used = c->n_experts_used;
    const Product router = {&w->router.w, m->routing, c->n_experts};
    multiply(m, in, pass->n, c->dim, &router, 1);
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++) {
        float *logits = m->routing + i * c->n_experts;
        add_bias(m, &w->router, logits);
        experts_route(numeric, c->router, c->router_jitter, logits, c->n_experts, used,
                      m->chosen + i * used, m->shares + i * used);
        memset(y + i * c->dim, 0, c->dim * sizeof *y);
    }
    meet(pass);
#pragma omp single nowait
    sort_choices(m, pass->n);
    meet(pass);
    for (uint32_t e = 0; e < c->n_experts; e++) {
        const uint32_t *slots = m->expert_slots + m->expert_first[e];
        size_t n = m->expert_first[e + 1] - m->expert_first[e];
        if (n == 0) continue;
#pragma omp for schedule(static) nowait
        for (size_t i = 0; i < n; i++)
            memcpy(m->expert_in + i * c->dim, in + slots[i] / used * c->dim, c->dim * sizeof *in);
        meet(pass);
        feed_forward(pass, &w->experts[e], n, m->expert_in, m->expert_out);
#pragma omp for schedule(static) nowait
        for (size_t i = 0; i < n; i++) {
            float *out = m->expert_out + i * c->dim;
            add_bias(m, &w->experts[e].down, out);
            numeric->add_scaled(y + slots[i] / used * c->dim, out, m->shares[slots[i]], c->dim);
        }
        meet(pass);
    }
    if (c->shared_ffn_dim > 0) shared_expert(pass, w, in, y);
}

/* y = the layer's feed-forward or mixture of experts. */
static void ffn_block(Pass *pass, size_t l, const float *in, float *y) {
    const LayerWeights *w = &pass->model->weights.layers[l];
    mark(pass, PART_REST);
    if (w->router.w.data) {
        mixture(pass, w, in, y);
    } else {
        feed_forward(pass, &w->ffn, pass->n, in, y);
    }
    mark(pass, PART_FEED_FORWARD);
}

/* Keeps the first layer after which a value was not finite. */
static void check_row_finite(Pass *pass, int layer, const float *x, size_t n) {
    if (pass->model->isa->numeric->all_finite(x, n)) return;
    int seen = atomic_load(&pass->bad_layer);
    while (layer < seen && !atomic_compare_exchange_weak(&pass->bad_layer, &seen, layer)) {
    }
}

/* The residual stream takes what a half block of layer l gave, with bias, norms and scale where
 * the family has them: x += y. `after`: the norm of the sum where it comes last. */
static void add_row(Pass *pass, size_t l, size_t row, const Linear *last, const Norm *post,
                    const Norm *after, float *y) {
    Model *m = pass->model;
    const Config *c = m->config;
    float *x_row = m->x + row * c->dim, *y_row = y + row * c->dim;
    add_bias(m, last, y_row);
    if (post->present) normalize(m, post, y_row, y_row, c->dim);
    m->isa->numeric->add_scaled(x_row, y_row, c->residual_scale, c->dim);
    if (c->norm_place == NORM_AFTER) normalize(m, after, x_row, x_row, c->dim);
    check_row_finite(pass, (int)l, x_row, c->dim);
}

/* One block of the stack, x -> x. Norms come with the sums before them, not in loops of their
 * own: every loop over the rows ends in a barrier. */
static void block(Pass *pass, size_t l) {
    Model *m = pass->model;
    const Config *c = m->config;
    const LayerWeights *w = &m->weights.layers[l];
    const float *in = norm_before(c) ? m->normed : m->x;
    attention_block(pass, l, in, m->y);
    if (c->parallel_block) {
        ffn_block(pass, l, norm_before(c) && w->ffn_norm.present ? m->normed2 : in, m->z);
    } else {
#pragma omp for schedule(static) nowait
        for (size_t i = 0; i < pass->n; i++) {
            add_row(pass, l, i, &w->wo, &w->post_attention_norm, &w->attention_norm, m->y);
            if (norm_before(c))
                normalize(m, &w->ffn_norm, m->normed + i * c->dim, m->x + i * c->dim, c->dim);
        }
        meet(pass);
        ffn_block(pass, l, in, m->y);
    }
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++) {
        if (c->parallel_block)
            add_row(pass, l, i, &w->wo, &w->post_attention_norm, &w->attention_norm, m->y);
        add_row(pass, l, i, &w->ffn.down, &w->post_ffn_norm, &w->ffn_norm,
                c->parallel_block ? m->z : m->y);
        if (l + 1 < c->n_layers) normalize_for(m, l + 1, i);
    }
    meet(pass);
}

/* The last norm and the output head, for the rows that want logits; their x moves to the
 * front first. */
static void output_head(Pass *pass) {
    Model *m = pass->model;
    const Config *c = m->config;
    size_t n = 0;
    for (size_t i = 0; i < pass->n; i++) n += pass->rows[i].wants_logits;
    if (n == 0) return;
#pragma omp single nowait
    for (size_t i = 0, k = 0; i < pass->n; i++)
        if (pass->rows[i].wants_logits)
            memcpy(m->normed + k++ * c->dim, m->x + i * c->dim, c->dim * sizeof(float));
    meet(pass);
    if (c->final_norm) {
#pragma omp for schedule(static) nowait
        for (size_t i = 0; i < n; i++)
            normalize(m, &m->weights.final_norm, m->normed + i * c->dim, m->normed + i * c->dim,
                      c->dim);
        meet(pass);
    }
    const Product out = {&m->weights.output.w, pass->logits, c->vocab_size};
    multiply(m, m->normed, n, c->dim, &out, 1);
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < n; i++) {
        float *logits = pass->logits + i * c->vocab_size;
        add_bias(m, &m->weights.output, logits);
        if (c->logit_scale != 1.0f) m->isa->numeric->scale(logits, c->logit_scale, c->vocab_size);
        if (c->logit_softcap > 0.0f)
            m->isa->numeric->softcap(logits, c->logit_softcap, c->vocab_size);
        check_row_finite(pass, (int)c->n_layers, logits, c->vocab_size);
    }
    meet(pass);
}

static void forward(Pass *pass) {
    const Config *c = pass->model->config;
    embed(pass);
    for (size_t l = 0; l < c->n_layers; l++) block(pass, l);
    mark(pass, PART_REST);
    output_head(pass);
    mark(pass, PART_OUTPUT);
}

static Status check_row(const Model *m, const KvCache *cache, const Row *rows, size_t i,
                        Error *error) {
    const Row *row = &rows[i];
    bool first = i == 0 || rows[i - 1].sequence != row->sequence;
    int32_t expected = first ? kvcache_next(cache, row->sequence) : rows[i - 1].position + 1;
    if (row->token < 0 || (uint32_t)row->token >= m->config->vocab_size)
        return error_set(error, "token %d is outside the vocabulary of %u", row->token,
                         m->config->vocab_size);
    if (row->position != expected)
        return error_set(error, "position %d does not follow: expected %d", row->position,
                         expected);
    if ((uint32_t)(row->position - kvcache_start(cache, row->sequence)) >= m->context)
        return error_set(error, "position %d is past the context of %u", row->position, m->context);
    if (m->weights.position_embedding &&
        (size_t)row->position + m->config->position_offset >= m->weights.n_positions)
        return error_set(error, "position %d is past the %zu that the model has", row->position,
                         m->weights.n_positions);
    return STATUS_OK;
}

/* The number of rows of one sequence from row i on. */
static size_t run_length(const Row *rows, size_t n, size_t i) {
    size_t length = 1;
    while (i + length < n && rows[i + length].sequence == rows[i].sequence) length++;
    return length;
}

static void cancel(KvCache *cache, const Row *rows, size_t n) {
    for (size_t i = 0; i < n; i += run_length(rows, n, i))
        kvcache_truncate(cache, rows[i].sequence, kvcache_next(cache, rows[i].sequence));
}

/* Room for all weights that the attention sink will see, before any of them is computed. */
static Status reserve_shown(const Model *m, const KvCache *cache, const Row *rows, size_t n,
                            Error *error) {
    size_t most = 0;
    for (size_t i = 0; i < n; i++) {
        size_t positions = (size_t)(rows[i].position - kvcache_start(cache, rows[i].sequence)) + 1;
        most = positions > most ? positions : most;
    }
    if (attention_memory_show(m->attention, most)) return STATUS_OK;
    return error_set(error, "no memory for the attention weights of %zu positions", most);
}

static Status reserve(const Model *m, KvCache *cache, const Row *rows, size_t n, Error *error) {
    if (n == 0 || n > m->max_rows)
        return error_set(error, "%zu rows, but a call takes 1 to %u", n, m->max_rows);
    for (size_t i = 0; i < n; i++)
        if (check_row(m, cache, rows, i, error) != STATUS_OK) return STATUS_FAILED;
    for (size_t i = 0; i < n; i += run_length(rows, n, i)) {
        if (kvcache_reserve(cache, rows[i].sequence, run_length(rows, n, i), error) != STATUS_OK) {
            cancel(cache, rows, i);
            return STATUS_FAILED;
        }
    }
    if (m->sink && reserve_shown(m, cache, rows, n, error) != STATUS_OK) {
        cancel(cache, rows, n);
        return STATUS_FAILED;
    }
    return STATUS_OK;
}

Status model_forward(Model *m, KvCache *cache, const Row *rows, size_t n, float *logits,
                     Error *error) {
    if (reserve(m, cache, rows, n, error) != STATUS_OK) return STATUS_FAILED;
    Pass pass = {.model = m, .cache = cache, .rows = rows, .n = n, .logits = logits};
    atomic_init(&pass.bad_layer, INT32_MAX);
    if (m->seconds) pass.last_mark = clock_seconds();
    int n_threads = m->row_work * (double)n < SOLO_WORK ? 1 : m->n_threads;
    if (n_threads == 1) {
        forward(&pass); /* outside of a region, where every barrier is a system call */
    } else {
#pragma omp parallel num_threads(n_threads)
        forward(&pass);
    }
    int bad = atomic_load(&pass.bad_layer);
    if (bad != INT32_MAX) {
        cancel(cache, rows, n);
        if (bad == (int)m->config->n_layers)
            return error_set(error, "%s: a logit is not a finite number", modelfile_path(m->file));
        return error_set(error, "%s: layer %d gives a value that is not a finite number",
                         modelfile_path(m->file), bad);
    }
    for (size_t i = 0; i < n; i += run_length(rows, n, i))
        kvcache_commit(cache, rows[i].sequence, run_length(rows, n, i));
    return STATUS_OK;
}

static size_t widest_ffn(const Config *c) {
    size_t widest = c->ffn_dim;
    if (c->n_experts > 0 && c->expert_ffn_dim > widest) widest = c->expert_ffn_dim;
    if (c->n_experts > 0 && c->shared_ffn_dim > widest) widest = c->shared_ffn_dim;
    return widest;
}

/* Largest input of any product. */
static size_t widest_input(const Config *c) {
    size_t widest = c->dim, q_dim = (size_t)c->n_heads * c->head_dim;
    if (q_dim > widest) widest = q_dim;
    return widest_ffn(c) > widest ? widest_ffn(c) : widest;
}

/* n rows of `width` floats, 64-byte aligned; sets *failed when there is no memory. */
static float *rows_of(size_t n, size_t width, bool *failed) {
    size_t bytes;
    if (!size_mul(n, width, &bytes) || !size_mul(bytes, sizeof(float), &bytes) ||
        bytes > SIZE_MAX / 2) {
        *failed = true;
        return NULL;
    }
    float *rows = aligned_alloc(64, round_up(bytes ? bytes : 1, 64));
    if (!rows) {
        *failed = true;
        return NULL;
    }
    return rows;
}

static Status allocate(Model *m, Error *error) {
    const Config *c = m->config;
    size_t n = m->max_rows, q_dim = (size_t)c->n_heads * c->head_dim;
    size_t kv_dim = (size_t)c->n_kv_heads * c->head_dim;
    bool failed = false;
    m->x = rows_of(n, c->dim, &failed);
    m->normed = rows_of(n, c->dim, &failed);
    m->normed2 = rows_of(c->parallel_block ? n : 0, c->dim, &failed);
    m->y = rows_of(n, c->dim, &failed);
    m->z = rows_of(c->parallel_block ? n : 0, c->dim, &failed);
    m->q = rows_of(n, q_dim, &failed);
    m->attended = rows_of(n, q_dim, &failed);
    m->k = rows_of(n, kv_dim, &failed);
    m->v = rows_of(n, kv_dim, &failed);
    m->gate = rows_of(n, widest_ffn(c), &failed);
    m->up = rows_of(n, widest_ffn(c), &failed);
    size_t n_slots = n * c->n_experts_used;
    m->routing = rows_of(n, c->n_experts, &failed);
    m->shares = rows_of(n, c->n_experts_used, &failed);
    m->expert_in = rows_of(c->n_experts ? n : 0, c->dim, &failed);
    m->expert_out = rows_of(c->n_experts ? n : 0, c->dim, &failed);
    m->chosen = calloc(n_slots + 1, sizeof *m->chosen);
    m->expert_slots = calloc(n_slots + 1, sizeof *m->expert_slots);
    m->expert_first = calloc(c->n_experts + 1, sizeof *m->expert_first);
    for (int table = 0; table < 2; table++) {
        size_t width = m->weights.rope_freqs[table] ? c->rotary_dim / 2 : 0;
        m->cosine[table] = rows_of(n, width, &failed);
        m->sine[table] = rows_of(n, width, &failed);
    }
    m->places = calloc(n, sizeof *m->places);
    m->matmul = matmul_memory_new(m->isa->kernels, n, widest_input(c), m->n_threads);
    m->attention = attention_memory_new(c->head_dim, m->n_threads);
    if (failed || !m->places || !m->matmul || !m->attention || !m->chosen || !m->expert_slots ||
        !m->expert_first)
        return error_set(error,
                         "%s: no memory for the activations of %zu rows (a smaller --chunk "
                         "needs less)",
                         modelfile_path(m->file), n);
    return STATUS_OK;
}

static double count_work(const Config *c) {
    double q_dim = (double)c->n_heads * c->head_dim, kv_dim = (double)c->n_kv_heads * c->head_dim;
    double width = c->ffn_dim;
    if (c->n_experts > 0) width = (double)c->n_experts_used * c->expert_ffn_dim + c->shared_ffn_dim;
    double layer = c->dim * (2 * q_dim + 2 * kv_dim + (c->gated ? 3.0 : 2.0) * width);
    return layer * c->n_layers + (double)c->dim * c->vocab_size;
}

/* A table of plain RoPE: base^(-2i / rotary_dim). */
static Status make_frequencies(Model *m, float base, Error *error) {
    const Config *c = m->config;
    size_t n = c->rotary_dim / 2;
    m->scaled_freqs = malloc(n * sizeof *m->scaled_freqs);
    if (!m->scaled_freqs) return error_set(error, "no memory for RoPE frequencies");
    for (size_t i = 0; i < n; i++)
        m->scaled_freqs[i] =
            1.0f / (float)power((double)base, (double)((float)(2 * i) / (float)c->rotary_dim));
    m->weights.rope_freqs[0] = m->scaled_freqs;
    return STATUS_OK;
}

/* RoPE tables that depend on the context: LongRoPE's choice between two, and the dynamic
 * scaling by "neural tangent kernel", as transformers has it for a text that fills the context. */
static Status scale_positions(Model *m, float theta, Error *error) {
    const Config *c = m->config;
    double original = c->rope_original_context, factor = (double)c->rope_dynamic_factor;
    bool is_long = m->context > c->rope_original_context;
    if (c->position != POSITION_ROPE) return STATUS_OK;
    if (theta != 0.0f) return make_frequencies(m, theta, error);
    if (original == 0) return STATUS_OK;
    if (factor == 0 && !is_long) m->weights.rope_freqs[0] = m->weights.rope_freqs_short;
    if (factor == 0 || !is_long) return STATUS_OK;
    double dim = c->rotary_dim, stretch = factor * m->context / original - (factor - 1);
    return make_frequencies(m, (float)((double)c->rope_theta * power(stretch, dim / (dim - 2))),
                            error);
}

Status model_open(Model **out, const ModelFile *file, const ModelOptions *options, Error *error) {
    Model *m = calloc(1, sizeof *m);
    if (!m) return error_set(error, "no memory for a model");
    m->file = file;
    m->config = modelfile_config(file);
    m->isa = options->isa ? options->isa : isa_choose(NULL, error);
    m->n_threads = options->n_threads > 0 ? options->n_threads : threads_default();
    m->context = options->context ? options->context : m->config->context;
    m->max_rows = options->max_rows ? options->max_rows : MATMUL_MAX_ROWS;
    if (m->max_rows > MATMUL_MAX_ROWS) m->max_rows = MATMUL_MAX_ROWS;
    if (m->max_rows > m->context && !options->max_rows) m->max_rows = m->context;
    m->row_work = count_work(m->config);
    if (weights_find(&m->weights, file, error) != STATUS_OK || allocate(m, error) != STATUS_OK) {
        model_close(m);
        return STATUS_FAILED;
    }
    if (scale_positions(m, options->rope_theta, error) != STATUS_OK) {
        model_close(m);
        return STATUS_FAILED;
    }
    *out = m;
    return STATUS_OK;
}

void model_close(Model *m) {
    if (!m) return;
    float *buffers[] = {m->x,       m->normed,    m->normed2,   m->y,         m->z,
                        m->q,       m->attended,  m->k,         m->v,         m->gate,
                        m->up,      m->cosine[0], m->cosine[1], m->sine[0],   m->sine[1],
                        m->routing, m->shares,    m->expert_in, m->expert_out};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++) free(buffers[i]);
    free(m->places);
    free(m->scaled_freqs);
    free(m->chosen);
    free(m->expert_slots);
    free(m->expert_first);
    matmul_memory_free(m->matmul);
    attention_memory_free(m->attention);
    weights_free(&m->weights);
    free(m);
}

const Config *model_config(const Model *m) {
    return m->config;
}
uint32_t model_context(const Model *m) {
    return m->context;
}
uint32_t model_max_rows(const Model *m) {
    return m->max_rows;
}
const Isa *model_isa(const Model *m) {
    return m->isa;
}
int model_threads(const Model *m) {
    return m->n_threads;
}

KvShape model_kv_shape(const Model *m, KvType type) {
    const Config *c = m->config;
    return (KvShape){c->n_layers, c->n_kv_heads, c->head_dim, type};
}

KvType model_kv_type(const Model *m) {
    return m->weights.layers[0].wq.w.type == TENSOR_F32 ? KV_F32 : KV_F16;
}

void model_set_attention_sink(Model *m, const AttentionSink *sink) {
    m->sink = sink;
}

void model_set_input_sink(Model *m, const InputSink *sink) {
    m->input_sink = sink;
}

void model_set_clock(Model *m, double *seconds) {
    m->seconds = seconds;
}
