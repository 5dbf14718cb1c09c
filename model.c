/* The forward pass, in the order of the data: embed; for each layer block, which is attention_block
 * and ffn_block; output_head. Opening and closing: model_setup.c. */
#include "model_internal.h"

#include <omp.h>
#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "experts.h"

/* Below this many multiply-adds a forward pass is done before a second thread has woken up. */
static const double SOLO_WORK = 2e6;

/* ---- A call and its threads ---- */

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

/* ---- Steps that many places take ---- */

/* Every matrix product: of in[n][n_inputs] with each matrix of the list. */
static void multiply(Model *m, const float *in, size_t n, size_t n_inputs, const Product *products,
                     size_t n_products) {
    for (size_t i = 0; m->input_observer && i < n_products; i++)
        m->input_observer->inputs(m->input_observer->context, products[i].w, in, n);
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

/* ---- Embedding ---- */

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

/* ---- Attention ---- */

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
                      m->q, m->attended, m->observer);
    mark(pass, PART_ATTENTION);
    const Product out = {&w->wo.w, y, c->dim};
    multiply(m, m->attended, pass->n, q_dim, &out, 1);
    mark(pass, PART_PROJECTIONS);
}

/* ---- Feed-forward ---- */

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

/* ---- Mixture of experts ---- */

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

/* ---- The stack ---- */

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

/* ---- Output ---- */

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

/* ---- A call: checks, room in the cache, and the way back ---- */

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

/* Room for all weights that the attention observer will see, before any of them is computed. */
static Status reserve_weights(const Model *m, const KvCache *cache, const Row *rows, size_t n,
                              Error *error) {
    size_t most = 0;
    for (size_t i = 0; i < n; i++) {
        size_t positions = (size_t)(rows[i].position - kvcache_start(cache, rows[i].sequence)) + 1;
        most = positions > most ? positions : most;
    }
    if (attention_memory_reserve_weights(m->attention, most)) return STATUS_OK;
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
    if (m->observer && reserve_weights(m, cache, rows, n, error) != STATUS_OK) {
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
