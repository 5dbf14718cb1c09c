#include "core/forward_steps.h"

#include <omp.h>

#include "base/clock.h"
#include "base/numbers.h"
#include "core/layer_kind.h"

void forward_wait(const ForwardPass *pass) {
    barrier_wait(&pass->model->barrier);
}

void forward_add_time(ForwardPass *pass, ModelPart part) {
    if (!(pass->model->watched & PASS_TIMED) || omp_get_thread_num() != 0) return;
    double now = clock_seconds();
    OBSERVERS_CALL(pass->model->observers, timed, part, now - pass->last_time);
    pass->last_time = now;
}

void forward_multiply_sets(Model *m, const ProductSet *sets, size_t n_sets) {
    matmul(m->isa->kernels, m->matmul, sets->products->w->cols, sets, n_sets);
    if (m->watched & PASS_MULTIPLIED) OBSERVERS_CALL(m->observers, multiplied, sets, n_sets);
}

void forward_multiply(Model *m, const float *in, size_t n, const Product *products,
                      size_t n_products) {
    forward_multiply_sets(m, &(ProductSet){in, n, products, n_products, NULL}, 1);
}

void forward_gather(ForwardPass *pass, const Share *share, float *x, size_t n) {
    if (share) share->gather(share, pass, x, n);
}

void forward_normalize(const Model *m, const Norm *norm, float *out, const float *x, size_t n) {
    const Numeric *numeric = m->isa->numeric;
    float eps = norm->eps > 0.0f ? norm->eps : m->config->norm_eps;
    if (m->config->norm == NORM_RMS && !norm->is_layer_norm) {
        numeric->rms_norm(out, x, norm->weight, n, eps);
        if (norm->bias) numeric->add_scaled(out, norm->bias, 1.0f, n);
    } else {
        numeric->layer_norm(out, x, norm->weight, norm->bias, n, eps);
    }
    if (norm->rounds) numeric->round_row(out, n);
}

void forward_add_bias(const Model *m, const Linear *linear, float *out) {
    size_t n = linear->outputs ? linear->outputs->width : linear->w.rows;
    if (linear->bias) m->isa->numeric->add_scaled(out, linear->bias, 1.0f, n);
}

void forward_project(ForwardPass *pass, const Linear *linear, const float *in, float *y) {
    Model *m = pass->model;
    size_t width = linear->w.rows;
    forward_multiply(m, in, pass->n, &(Product){&linear->w, y, width}, 1);
    if (linear->bias) {
#pragma omp for schedule(static) nowait
        for (size_t i = 0; i < pass->n; i++) forward_add_bias(m, linear, y + i * width);
        forward_wait(pass);
    }
    forward_add_time(pass, PART_PROJECTIONS);
}

void forward_rotate(const Model *m, size_t layer, size_t row, float *x) {
    const Config *c = m->config;
    size_t table = c->rope_table[layer];
    if (c->position != POSITION_ROPE || table > 1) return;
    size_t n_pairs = m->n_pairs[table], at = row * n_pairs;
    m->isa->numeric->rotate(x, m->cosine[table] + at, m->sine[table] + at, n_pairs,
                            c->rope_pairing == ROPE_INTERLEAVED);
}

void forward_rotate_heads(const Model *m, size_t layer, size_t row, float *heads, size_t n_heads,
                          size_t head_dim) {
    for (size_t i = 0; i < n_heads; i++) forward_rotate(m, layer, row, heads + i * head_dim);
}

void forward_angles(const Model *m, size_t table, int32_t position, size_t first, size_t n,
                    float *cosine, float *sine) {
    const float *freqs = m->weights.rope_freqs[table] + first;
    float factor =
        table == 0 ? m->config->rope_attention_factor : m->config->rope_local_attention_factor;
    for (size_t i = 0; i < n; i++) {
        float sine_of_angle, cosine_of_angle;
        numbers_sin_cos((float)position * freqs[i], &sine_of_angle, &cosine_of_angle);
        sine[i] = sine_of_angle * factor;
        cosine[i] = cosine_of_angle * factor;
    }
}

void forward_rotate_to(const Model *m, size_t layer, int32_t position, float *x) {
    const Config *c = m->config;
    size_t table = c->rope_table[layer];
    if (c->position != POSITION_ROPE || table > 1) return;
    size_t n_pairs = m->n_pairs[table];
    bool interleaved = c->rope_pairing == ROPE_INTERLEAVED;
    for (size_t i = 0; i < n_pairs; i++) {
        float *first = x + (interleaved ? 2 * i : i), *second = first + (interleaved ? 1 : n_pairs);
        float sine, cosine, pair[2] = {*first, *second};
        forward_angles(m, table, position, i, 1, &cosine, &sine);
        m->isa->numeric->rotate(pair, &cosine, &sine, 1, true);
        *first = pair[0];
        *second = pair[1];
    }
}

float forward_query_scale(const Config *c, size_t layer, int32_t position) {
    uint32_t from_one = c->query_scaling_unrotated, unit = c->query_scaling_floor;
    if (c->query_scaling == 0.0f || (from_one && c->rope_table[layer] != 2)) return 1.0f;
    if (c->query_power)
        return (float)numbers_power(1.0 + (position + 1.0) / unit, c->query_scaling);
    return 1.0f + c->query_scaling *
                      (float)numbers_logarithm(1.0 + ((uint32_t)position + from_one) / unit);
}

void forward_not_finite(ForwardPass *pass, size_t layer) {
    int seen = atomic_load(&pass->bad_layer);
    while ((int)layer < seen &&
           !atomic_compare_exchange_weak(&pass->bad_layer, &seen, (int)layer)) {
    }
}

/* ---- Attention ---- */

void forward_attend(ForwardPass *pass, const AttentionParams *params, const float *q,
                    float *attended) {
    const Model *m = pass->model;
    attention_forward(m->isa->attention, m->attention, params, pass->cache, m->attention_rows,
                      pass->n, q, attended, forward_attention_observers(m));
}

/* ---- The feed-forward network ---- */

HiddenRows hidden_rows(Rows *memory, size_t n, size_t widest) {
    HiddenRows rows;
    rows.gate = rows_take(memory, n, widest);
    rows.up = rows_take(memory, n, widest);
    return rows;
}

void forward_ffns(ForwardPass *pass, const FeedForwardRows *parts, size_t n_parts,
                  const HiddenRows *r, float *y) {
    Model *m = pass->model;
    const Config *c = m->config;
    size_t width = parts->network->width, inputs = parts->network->down.w.cols;
    size_t outputs = parts->network->down.w.rows;
    float *hidden = c->gated ? r->gate : r->up;
    Product inner[FEED_FORWARD_PARTS][2], outer[FEED_FORWARD_PARTS];
    ProductSet sets[FEED_FORWARD_PARTS];
    for (size_t p = 0; p < n_parts; p++) {
        const FeedForward *f = parts[p].network;
        size_t at = parts[p].first * width;
        inner[p][0] = (Product){&f->gate.w, r->gate + at, width}; /* in the order of the file */
        inner[p][1] = (Product){&f->up.w, r->up + at, width};
        outer[p] = (Product){&f->down.w, y + parts[p].first * outputs, outputs};
        sets[p] = (ProductSet){parts[p].in, parts[p].n, inner[p] + !c->gated, 1 + c->gated,
                               parts[p].rows};
    }
    forward_multiply_sets(m, sets, n_parts);
    size_t n = parts[n_parts - 1].first + parts[n_parts - 1].n, p = 0;
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < n; i++) {
        while (i >= parts[p].first + parts[p].n) p++; /* a thread's rows are in rising order */
        const FeedForward *f = parts[p].network;
        float *up = r->up + i * width, *gate = r->gate + i * width;
        forward_add_bias(m, &f->up, up);
        if (c->gated) forward_add_bias(m, &f->gate, gate);
        if (c->experts.swiglu_limit > 0.0f || c->experts.gate_softcap > 0.0f || f->limit ||
            f->cutoff)
            m->layers->activate_limited(m->isa->numeric, c, f, gate, up);
        else if (c->activation == ACTIVATION_XIELU)
            m->isa->numeric->xielu(up, f->xielu, width);
        else
            m->isa->numeric->activate(c->activation, c->gated ? gate : up, c->gated ? up : NULL,
                                      width);
        float *row = hidden + i * width;
        if (f->inner_norm.present) forward_normalize(m, &f->inner_norm, row, row, width);
    }
    forward_wait(pass);
    forward_gather(pass, parts->network->down.inputs, hidden, n);
    for (size_t k = 0; k < n_parts; k++)
        sets[k] = (ProductSet){hidden + parts[k].first * inputs, parts[k].n, &outer[k], 1, NULL};
    forward_multiply_sets(m, sets, n_parts);
}

void forward_ffn(ForwardPass *pass, const FeedForward *f, size_t n, const float *in,
                 const HiddenRows *hidden, float *y) {
    forward_ffns(pass, &(FeedForwardRows){f, 0, n, in, NULL}, 1, hidden, y);
    forward_gather(pass, f->down.outputs, y, n);
}

HiddenRows forward_ffn_take_rows(Rows *memory, const Model *m, size_t l) {
    return hidden_rows(memory, m->max_rows, m->weights.layers[l].ffn.down.w.cols);
}

static void feed_forward_rows(Rows *memory, const Model *m, const Branch *b) {
    forward_ffn_take_rows(memory, m, b->layer);
}

static void feed_forward_run(ForwardPass *pass, const Branch *b) {
    const Model *m = pass->model;
    Rows memory = arena_rows(&m->arena);
    const HiddenRows hidden = forward_ffn_take_rows(&memory, m, b->layer);
    forward_add_time(pass, PART_REST);
    forward_ffn(pass, &m->weights.layers[b->layer].ffn, pass->n, b->in, &hidden, b->out);
    forward_add_time(pass, PART_FEED_FORWARD);
}

const BranchKind forward_ffn_kind = {
    .name = "feed-forward", .run = feed_forward_run, .rows = feed_forward_rows};
