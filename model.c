/* The forward pass, in the order of the data: embed; for each layer `block`, which is
 * attention_block (or what a layer of another kind does, layer_kind.h) and ffn_block; output_head.
 * At the end, model_forward. Steps that are used in many places: forward_pass.c. Opening and
 * closing a model: model_setup.c. */
#include "model.h"

#include <omp.h>
#include <string.h>

#include "base/clock.h"
#include "base/numbers.h"
#include "forward_pass.h"
#include "layer_kind.h"

/* With fewer multiply-adds one thread is done before a second one has woken up. */
static const double SOLO_WORK = 2e6;

/* ---- Embedding ---- */

/* Computes the sines and cosines that rotate the row's heads, for each frequency table. The angle
 * is the float32 product, as in transformers. */
static void position_angles(Model *m, size_t row, int32_t position) {
    for (int table = 0; table < 2; table++) {
        const float *freqs = m->weights.rope_freqs[table];
        size_t n_pairs = m->n_pairs[table];
        if (!freqs) continue;
        float *cosine = m->cosine[table] + row * n_pairs, *sine = m->sine[table] + row * n_pairs;
        float factor =
            table == 0 ? m->config->rope_attention_factor : m->config->rope_local_attention_factor;
        for (size_t i = 0; i < n_pairs; i++) {
            sin_cos((float)position * freqs[i], &sine[i], &cosine[i]);
            sine[i] *= factor;
            cosine[i] *= factor;
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
    return c->norm_place == NORM_BEFORE || c->norm_place == NORM_AROUND ||
           c->norm_place == NORM_STREAM;
}

/* Pre-norm for layer l's attention (and for its FFN in a parallel block). */
static void pre_norm(const Model *m, size_t l, size_t row) {
    const LayerWeights *w = &m->weights.layers[l];
    size_t dim = m->config->dim, at = row * dim;
    if (!norm_before(m->config)) return;
    forward_normalize(m, &w->attention_norm, m->normed + at, m->x + at, dim);
    if (m->config->norm_place == NORM_STREAM) memcpy(m->x + at, m->normed + at, dim * sizeof *m->x);
    if (m->config->parallel_block && w->ffn_norm.present)
        forward_normalize(m, &w->ffn_norm, m->normed2 + at, m->x + at, dim);
}

/* x = the embedding of each row's token, scaled, plus its position where the model adds positions.
 * Also the first layer's pre-norm. */
static void embed(ForwardPass *pass) {
    Model *m = pass->model;
    const Config *c = m->config;
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++) {
        const Row *row = &pass->rows[i];
        float *x = m->x + i * c->dim;
        int32_t position = row->position + (int32_t)c->position_offset;
        matrix_row(&m->weights.token_embedding, (size_t)row->token, x);
        if (m->partner && m->partner->embedded) m->partner->embedded(m->partner, i, x);
        if (c->embedding_scale != 1.0f) m->isa->numeric->scale(x, c->embedding_scale, c->dim);
        if (c->position == POSITION_LEARNED)
            m->isa->numeric->add_scaled(
                x, m->weights.position_embedding + (size_t)position * c->dim, 1.0f, c->dim);
        if (c->position == POSITION_SINUSOIDAL) add_sinusoid(m, x, position);
        if (c->position == POSITION_ROPE) position_angles(m, i, row->position);
        if (m->weights.embedding_norm.present)
            forward_normalize(m, &m->weights.embedding_norm, x, x, c->dim);
        m->attention_rows[i] = (AttentionRow){row->sequence, row->position};
        pre_norm(m, 0, i);
    }
    forward_wait(pass);
}

/* ---- Attention ---- */

/* Normalizes x[pass->n][width] in place. */
static void normalize_rows(ForwardPass *pass, const Norm *norm, float *x, size_t width) {
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++)
        forward_normalize(pass->model, norm, x + i * width, x + i * width, width);
    forward_wait(pass);
}

static void normalize_head(const Model *m, const Norm *norm, size_t head, size_t head_dim,
                           float *x) {
    size_t own = m->config->qk_norm == QK_NORM_EACH ? head * head_dim : 0;
    const Norm of_head = {.weight = norm->weight ? norm->weight + own : NULL,
                          .bias = norm->bias ? norm->bias + own : NULL};
    forward_normalize(m, &of_head, x, x, head_dim);
}

static void clip(float *x, size_t n, float limit) {
    for (size_t i = 0; i < n; i++) x[i] = x[i] > limit ? limit : x[i] < -limit ? -limit : x[i];
}

/* Normalizes, clips and rotates the heads of one row's queries or keys. */
static void shape_heads(const Model *m, const Norm *norm, size_t layer, size_t row, float *heads,
                        size_t n_heads) {
    const Config *c = m->config;
    size_t head_dim = config_heads(c, layer).head_dim;
    bool norms_all = norm->present && c->qk_norm == QK_NORM_ALL;
    if (norms_all) forward_normalize(m, norm, heads, heads, n_heads * head_dim);
    if (c->qkv_clip > 0.0f) clip(heads, n_heads * head_dim, c->qkv_clip);
    for (size_t head = 0; head < n_heads; head++) {
        float *x = heads + head * head_dim;
        bool is_normed = norm->present && !norms_all, after = c->qk_norm_after_rope;
        if (is_normed && !after) normalize_head(m, norm, head, head_dim, x);
        forward_rotate(m, layer, row, x);
        if (is_normed && after && c->rope_table[layer] != 2)
            normalize_head(m, norm, head, head_dim, x);
    }
}

/* Gives queries and keys their final form, and stores keys and values in the cache. */
static void prepare_heads(ForwardPass *pass, size_t l) {
    Model *m = pass->model;
    const Config *c = m->config;
    const LayerWeights *w = &m->weights.layers[l];
    const HeadShape h = config_heads(c, l);
    size_t q_dim = w->wq.w.rows, k_dim = w->wk.w.rows, v_dim = (size_t)h.n_kv_heads * h.value_dim;
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++) {
        float *q = m->q + i * q_dim, *k = m->k + i * k_dim, *v = m->v + i * v_dim;
        forward_add_bias(m, &w->wq, q);
        shape_heads(m, &w->q_norm, l, i, q, h.n_heads);
        float scale = forward_query_scale(c, l, pass->rows[i].position);
        if (scale != 1.0f) m->isa->numeric->scale(q, scale, q_dim);
        if (c->kv_distance[l] > 0) continue;
        forward_add_bias(m, &w->wk, k);
        if (!w->wv.w.data) memcpy(v, k, v_dim * sizeof *v);
        forward_add_bias(m, &w->wv, v);
        if (c->qkv_clip > 0.0f) clip(v, v_dim, c->qkv_clip);
        if (c->value_scale != 1.0f) m->isa->numeric->scale(v, c->value_scale, v_dim);
        for (size_t head = 0; c->value_norm && head < h.n_kv_heads; head++)
            forward_normalize(m, &(Norm){0}, v + head * h.value_dim, v + head * h.value_dim,
                              h.value_dim);
        shape_heads(m, &w->k_norm, l, i, k, h.n_kv_heads);
        kvcache_store(pass->cache, pass->rows[i].sequence, pass->rows[i].position, l, k, v);
    }
    forward_wait(pass);
}

/* Multiplies each head's output by its activated gate, or each element by its own. */
static void gate_heads(ForwardPass *pass, const HeadShape *h, const Linear *w) {
    Model *m = pass->model;
    const Numeric *numeric = m->isa->numeric;
    size_t width = (size_t)h->n_heads * h->value_dim, n_gates = w->w.rows;
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++) {
        float *gate = m->attention_gate + i * n_gates, *out = m->attended + i * width;
        forward_add_bias(m, w, gate);
        numeric->activate(pass->model->config->gate_activation, gate, n_gates == width ? out : NULL,
                          n_gates);
        if (n_gates == width) memcpy(out, gate, width * sizeof *out);
        for (size_t head = 0; n_gates != width && head < h->n_heads; head++)
            numeric->scale(out + head * h->value_dim, gate[head], h->value_dim);
    }
    forward_wait(pass);
}

/* Computes the attention block of layer l: projections of `in` to q, k and v, attention over the KV
 * cache, and the output projection without its bias into y. */
static void attention_block(ForwardPass *pass, size_t l, const float *in, float *y) {
    Model *m = pass->model;
    const Config *c = m->config;
    const LayerWeights *w = &m->weights.layers[l];
    const HeadShape h = config_heads(c, l);
    const Product qkv[] = {{&w->wq.w, m->q, w->wq.w.rows},
                           {&w->wk.w, m->k, w->wk.w.rows},
                           {&w->wv.w, m->v, w->wv.w.rows}};
    const AttentionParams params = {
        .layer = l,
        .cache_layer = l - c->kv_distance[l],
        .n_heads = h.n_heads,
        .n_kv_heads = h.n_kv_heads,
        .head_dim = h.head_dim,
        .value_dim = h.value_dim,
        .scale = c->attention_scale / (c->attention_scale_falls ? (float)(l + 1) : 1.0f),
        .softcap = c->attention_softcap,
        .window = c->window[l],
        .chunk = c->chunk[l],
        .alibi_slopes = m->weights.alibi_slopes,
        .sinks = w->sinks,
    };
    const Product out = {&w->wo.w, y, w->wo.w.rows};
    forward_add_time(pass, PART_REST);
    forward_multiply(m, in, pass->n, qkv, c->kv_distance[l] > 0 ? 1 : w->wv.w.data ? 3 : 2);
    if (w->attention_gate.w.data) {
        const Product gate = {&w->attention_gate.w, m->attention_gate, w->attention_gate.w.rows};
        forward_multiply(m, in, pass->n, &gate, 1);
    }
    forward_add_time(pass, PART_PROJECTIONS);
    prepare_heads(pass, l);
    attention_forward(m->isa->attention, m->attention, &params, pass->cache, m->attention_rows,
                      pass->n, m->q, m->attended, m->observer);
    if (w->attention_gate.w.data) gate_heads(pass, &h, &w->attention_gate);
    forward_gather(pass, w->wo.inputs, m->attended, pass->n);
    if (w->inner_norm.present) normalize_rows(pass, &w->inner_norm, m->attended, w->wo.w.cols);
    forward_add_time(pass, PART_ATTENTION);
    forward_multiply(m, m->attended, pass->n, &out, 1);
    forward_gather(pass, w->wo.outputs, y, pass->n);
    forward_add_time(pass, PART_PROJECTIONS);
}

/* ---- The stack ---- */

/* y = the layer's feed-forward or mixture of experts, without the bias of the last projection. */
static void ffn_block(ForwardPass *pass, size_t l, const float *in, float *y) {
    const LayerWeights *w = &pass->model->weights.layers[l];
    forward_add_time(pass, PART_REST);
    if (w->router.w.data) {
        mixture_forward(pass, w, in, in, y);
    } else {
        feed_forward(pass, &w->ffn, pass->n, in, y);
    }
    forward_add_time(pass, PART_FEED_FORWARD);
}

/* Records the layer if x[n] holds a non-finite value and no earlier layer is recorded. */
static void check_finite(ForwardPass *pass, int layer, const float *x, size_t n) {
    if (pass->model->isa->numeric->all_finite(x, n)) return;
    int seen = atomic_load(&pass->bad_layer);
    while (layer < seen && !atomic_compare_exchange_weak(&pass->bad_layer, &seen, layer)) {
    }
}

/* Adds y, the output of layer l's attention or FFN, to a row of the residual stream: x += y, with
 * the bias of the last projection, the norm of y (`post`) or of the sum (`after`), and the scale
 * that the family has. */
static void add_to_residual(ForwardPass *pass, size_t l, size_t row, const Linear *last,
                            const Norm *post, const Norm *after, float *y) {
    Model *m = pass->model;
    const Config *c = m->config;
    float *x_row = m->x + row * c->dim, *y_row = y + row * c->dim;
    forward_add_bias(m, last, y_row);
    if (post->present) forward_normalize(m, post, y_row, y_row, c->dim);
    m->isa->numeric->add_scaled(x_row, y_row, c->residual_scale, c->dim);
    if (c->norm_place == NORM_AFTER) forward_normalize(m, after, x_row, x_row, c->dim);
    check_finite(pass, (int)l, x_row, c->dim);
}

/* One block of the stack, x -> x. The norms are in the loops that add to the residual stream, not
 * in loops of their own, because every loop over rows ends in a wait. */
static void block(ForwardPass *pass, size_t l) {
    Model *m = pass->model;
    const Config *c = m->config;
    const LayerWeights *w = &m->weights.layers[l];
    const float *in = norm_before(c) ? m->normed : m->x;
    float *ffn_out = c->parallel_block ? m->z : m->y;
    if (c->layer_kind[l] == LAYER_ATTENTION) {
        attention_block(pass, l, in, m->y);
    } else {
        layer_kind(c->layer_kind[l])->forward(pass, l, in, m->y);
    }
    if (c->parallel_block) {
        ffn_block(pass, l, w->ffn_norm.present ? m->normed2 : in, ffn_out);
    } else {
#pragma omp for schedule(static) nowait
        for (size_t i = 0; i < pass->n; i++) {
            size_t at = i * c->dim;
            add_to_residual(pass, l, i, &w->wo, &w->post_attention_norm, &w->attention_norm, m->y);
            if (c->without_ffn[l] && l + 1 < c->n_layers)
                pre_norm(m, l + 1, i);
            else if (norm_before(c))
                forward_normalize(m, &w->ffn_norm, m->normed + at, m->x + at, c->dim);
            if (c->norm_place == NORM_STREAM)
                memcpy(m->x + at, m->normed + at, c->dim * sizeof *m->x);
        }
        forward_wait(pass);
        if (c->without_ffn[l]) return;
        ffn_block(pass, l, in, ffn_out);
    }
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++) {
        if (c->parallel_block)
            add_to_residual(pass, l, i, &w->wo, &w->post_attention_norm, &w->attention_norm, m->y);
        add_to_residual(pass, l, i, &w->ffn.down, &w->post_ffn_norm, &w->ffn_norm, ffn_out);
        if (l + 1 < c->n_layers) pre_norm(m, l + 1, i);
    }
    forward_wait(pass);
}

/* ---- Output ---- */

/* Computes the logits of the rows with wants_logits, whose x is first copied to the front of
 * m->normed. Without room for logits the normalized rows stay there: final_states.h. */
static void output_head(ForwardPass *pass) {
    Model *m = pass->model;
    const Config *c = m->config;
    size_t n = 0;
    for (size_t i = 0; i < pass->n; i++) n += pass->rows[i].wants_logits;
    if (n == 0) return;
#pragma omp single nowait
    for (size_t i = 0, k = 0; i < pass->n; i++)
        if (pass->rows[i].wants_logits)
            memcpy(m->normed + k++ * c->dim, m->x + i * c->dim, c->dim * sizeof(float));
    forward_wait(pass);
    if (c->final_norm) {
#pragma omp for schedule(static) nowait
        for (size_t i = 0; i < n; i++)
            forward_normalize(m, &m->weights.final_norm, m->normed + i * c->dim,
                              m->normed + i * c->dim, c->dim);
        forward_wait(pass);
    }
    if (!pass->logits) return;
    const Product out = {&m->weights.output.w, pass->logits, m->weights.output.w.rows};
    forward_multiply(m, m->normed, n, &out, 1);
    forward_gather(pass, m->weights.output.outputs, pass->logits, n);
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < n; i++) {
        float *logits = pass->logits + i * c->vocab_size;
        forward_add_bias(m, &m->weights.output, logits);
        if (c->logit_scale != 1.0f) m->isa->numeric->scale(logits, c->logit_scale, c->vocab_size);
        if (c->logit_softcap > 0.0f)
            m->isa->numeric->softcap(logits, c->logit_softcap, c->vocab_size);
        check_finite(pass, (int)c->n_layers, logits, c->vocab_size);
    }
    forward_wait(pass);
}

/* Computes the layers from pass->first_layer to end_layer, with what lies before the first and
 * after the last. */
static void forward(ForwardPass *pass) {
    const Config *c = pass->model->config;
    if (pass->first_layer == 0) embed(pass);
    if (c->stack == STACK_PLAIN) {
        for (size_t l = pass->first_layer; l < pass->end_layer; l++) block(pass, l);
    } else {
        stack_kind(c->stack)->forward(pass);
    }
    forward_add_time(pass, PART_REST);
    if (pass->end_layer < c->n_layers) return;
    output_head(pass);
    forward_add_time(pass, PART_OUTPUT);
}

/* Runs all layers, in parts where they take long. Returns false when the control ended the pass. */
static bool run_layers(ForwardPass *pass) {
    Model *m = pass->model;
    PassControl *control = m->control;
    size_t n_layers = m->config->n_layers;
    double work = m->row_work * (double)pass->n, of_layer = work / (double)n_layers;
    bool in_parts = control && !m->exchange && work > control->part_work;
    size_t n = in_parts ? (size_t)(control->part_work / of_layer) + 1 : n_layers;
    while (pass->end_layer < n_layers) {
        double done = (double)pass->end_layer / (double)n_layers;
        pass->first_layer = pass->end_layer;
        pass->end_layer = n < n_layers - pass->first_layer ? pass->first_layer + n : n_layers;
        double part = of_layer * (double)(pass->end_layer - pass->first_layer);
        int n_threads = part < SOLO_WORK ? 1 : m->n_threads;
        if (control) n_threads = control->begin(control, n_threads, pass->n, part, done);
        if (n_threads == 0) return false;
        if (n_threads == 1) {
            forward(pass); /* without a parallel region, whose barriers are system calls */
        } else {
#pragma omp parallel num_threads(n_threads)
            forward(pass);
        }
        if (control) control->end(control);
    }
    return true;
}

/* ---- A call: checks, room in the cache, errors ---- */

static Status check_row(const Model *m, const KvCache *cache, const Row *rows, size_t i,
                        Error *error) {
    const Row *row = &rows[i];
    bool is_first = i == 0 || rows[i - 1].sequence != row->sequence;
    int32_t expected = is_first ? kvcache_next(cache, row->sequence) : rows[i - 1].position + 1;
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

/* The end of the run of rows of one sequence that begins at `first`. */
static size_t sequence_end(const Row *rows, size_t n, size_t first) {
    size_t end = first + 1;
    while (end < n && rows[end].sequence == rows[first].sequence) end++;
    return end;
}

/* Gives back what reserve_pages took for the rows. */
static void release_pages(KvCache *cache, const Row *rows, size_t n, bool ran) {
    for (size_t i = 0; i < n; i = sequence_end(rows, n, i))
        kvcache_cancel(cache, rows[i].sequence, ran);
}

static Status reserve_pages(KvCache *cache, const Row *rows, size_t n, Error *error) {
    for (size_t first = 0, end; first < n; first = end) {
        end = sequence_end(rows, n, first);
        if (kvcache_reserve(cache, rows[first].sequence, end - first, error) != STATUS_OK) {
            release_pages(cache, rows, first, false);
            return STATUS_FAILED;
        }
    }
    return STATUS_OK;
}

static Status bad_value(const Model *m, int layer, Error *error) {
    if (layer == (int)m->config->n_layers)
        return error_set(error, "%s: a logit is not a finite number", modelfile_path(m->file));
    return error_set(error, "%s: layer %d gives a value that is not a finite number",
                     modelfile_path(m->file), layer);
}

Status model_forward(Model *m, KvCache *cache, const Row *rows, size_t n, float *logits,
                     Error *error) {
    if (n == 0 || n > m->max_rows)
        return error_set(error, "%zu rows, but a call takes 1 to %u", n, m->max_rows);
    for (size_t i = 0; i < n; i++)
        if (check_row(m, cache, rows, i, error) != STATUS_OK) return STATUS_FAILED;
    Status status = reserve_pages(cache, rows, n, error);
    static const ForwardSteps steps = {attention_block, add_to_residual};
    ForwardPass pass = {
        .model = m, .cache = cache, .rows = rows, .n = n, .logits = logits, .steps = &steps};
    if (m->exchange) m->exchange->begin(m->exchange, &pass, status == STATUS_OK);
    if (status != STATUS_OK) return status;
    if (m->partner && m->partner->begin) m->partner->begin(m->partner, rows, n);
    atomic_init(&pass.bad_layer, INT32_MAX);
    if (m->seconds) pass.last_time = clock_seconds();
    bool completed = run_layers(&pass);
    int bad_layer = atomic_load(&pass.bad_layer);
    if (bad_layer != INT32_MAX || !completed) {
        release_pages(cache, rows, n, true);
        return completed ? bad_value(m, bad_layer, error) : STATUS_INTERRUPTED;
    }
    for (size_t first = 0, end; first < n; first = end) {
        end = sequence_end(rows, n, first);
        kvcache_commit(cache, rows[first].sequence, end - first);
    }
    return STATUS_OK;
}
