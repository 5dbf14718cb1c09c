#include "layers/mixture.h"

#include <omp.h>
#include <string.h>

#include "base/numbers.h"
#include "layers/experts.h"
#include "layers/routing.h"

/* Routes each row of `in`: chosen, shares, and the choices of all rows sorted by expert. */
static void route(ForwardPass *pass, const LayerWeights *w, const float *in) {
    Model *m = pass->model;
    const Config *c = m->config;
    size_t used = c->n_experts_used;
    const Product router = {&w->router.w, m->routing, c->n_experts};
    forward_multiply(m, in, pass->n, &router, 1);
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++) {
        float *logits = m->routing + i * c->n_experts;
        forward_add_bias(m, &w->router, logits);
        uint32_t *chosen = m->chosen + i * used;
        float *shares = m->shares + i * used;
        if (c->router <= ROUTER_SOFTMAX_CHOSEN)
            experts_route(m->isa->numeric, c, logits, chosen, shares);
        else
            router_kind_route(m->isa->numeric, c, w->router_correction, logits, chosen, shares);
    }
    forward_wait(pass);
#pragma omp single nowait
    experts_sort(m->chosen, pass->n * used, c->n_experts, m->expert_first, m->expert_slots);
    forward_wait(pass);
}

/* y += the outputs of some experts for the rows that chose them. The outputs, or in Llama 4 the
 * inputs, are multiplied by the shares. slots: the choices of all their rows, expert after expert.
 * Each thread adds up columns of its own, so that a row takes its experts in the order of their
 * numbers; and each rank the columns that its rows of w_down give: y[n][these]. */
static void run_experts(ForwardPass *pass, const FeedForwardRows *parts, size_t n_parts,
                        const uint32_t *slots, const float *in, float *y) {
    Model *m = pass->model;
    const Numeric *numeric = m->isa->numeric;
    size_t dim = parts->network->up.w.cols, used = m->config->n_experts_used;
    size_t n = parts[n_parts - 1].first + parts[n_parts - 1].n;
    size_t own = parts->network->down.w.rows;
    size_t width = round_up((own - 1) / (size_t)omp_get_num_threads() + 1, 16);
    bool on_input = m->config->share_on_input;
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < n; i++) {
        memcpy(m->expert_in + i * dim, in + slots[i] / used * dim, dim * sizeof *in);
        if (on_input) numeric->scale(m->expert_in + i * dim, m->shares[slots[i]], dim);
    }
    forward_wait(pass);
    feed_forwards(pass, parts, n_parts, m->expert_in, m->expert_out);
#pragma omp for schedule(static) nowait
    for (size_t at = 0; at < own; at += width) {
        size_t columns = own - at < width ? own - at : width, p = 0;
        for (size_t i = 0; i < n; i++) {
            if (i >= parts[p].first + parts[p].n) p++;
            const float *bias = parts[p].network->down.bias;
            float *out = m->expert_out + i * own + at;
            if (bias) numeric->add_scaled(out, bias + at, 1.0f, columns);
            float share = on_input ? 1.0f : m->shares[slots[i]];
            numeric->add_scaled(y + slots[i] / used * own + at, out, share, columns);
        }
    }
    forward_wait(pass);
}

/* y += share * in for the rows that chose experts that give their input (zero_experts). */
static void run_zero_experts(ForwardPass *pass, const float *in, float *y) {
    Model *m = pass->model;
    const Config *c = m->config;
    size_t dim = c->dim, width = round_up((dim - 1) / (size_t)omp_get_num_threads() + 1, 16);
    uint32_t first = m->expert_first[c->n_experts - c->zero_experts];
    uint32_t end = m->expert_first[c->n_experts];
#pragma omp for schedule(static) nowait
    for (size_t at = 0; at < dim; at += width) {
        size_t columns = dim - at < width ? dim - at : width;
        for (uint32_t i = first; i < end; i++) {
            uint32_t slot = m->expert_slots[i];
            size_t row = slot / c->n_experts_used * dim + at;
            m->isa->numeric->add_scaled(y + row, in + row, m->shares[slot], columns);
        }
    }
    forward_wait(pass);
}

/* Runs experts from number `first` on, as many as there is room for; returns the next number. */
static uint32_t run_some_experts(ForwardPass *pass, const LayerWeights *w, uint32_t first,
                                 const float *in, float *y) {
    const Model *m = pass->model;
    const uint32_t *begin = m->expert_first;
    FeedForwardRows parts[FEED_FORWARD_PARTS];
    size_t n_parts = 0, n = 0;
    uint32_t e = first, n_experts = m->config->n_experts - m->config->zero_experts;
    for (; e < n_experts && n_parts < FEED_FORWARD_PARTS; e++) {
        size_t rows = begin[e + 1] - begin[e];
        if (n + rows > m->ffn_rows) break;
        if (rows > 0) parts[n_parts++] = (FeedForwardRows){&w->experts[e], n, rows};
        n += rows;
    }
    if (n_parts > 0) run_experts(pass, parts, n_parts, m->expert_slots + begin[first], in, y);
    return e;
}

/* y += shared_scale * sigmoid(shared_gate(in)) * shared(in), the expert that every token uses. */
void mixture_add_shared(ForwardPass *pass, const LayerWeights *w, const float *in, float *y) {
    Model *m = pass->model;
    const Config *c = m->config;
    feed_forward(pass, &w->shared, pass->n, in, m->expert_out);
    if (w->shared_gate.data) {
        const Product gate = {&w->shared_gate, m->routing, 1};
        forward_multiply(m, in, pass->n, &gate, 1);
    }
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++) {
        float share = c->shared_scale;
        if (w->shared_gate.data) {
            float exponential = -m->routing[i]; /* becomes exp(-x) */
            m->isa->numeric->softmax_sum(&exponential, 0.0f, 1);
            share = share / (1.0f + exponential);
        }
        forward_add_bias(m, &w->shared.down, m->expert_out + i * c->dim);
        m->isa->numeric->add_scaled(y + i * c->dim, m->expert_out + i * c->dim, share, c->dim);
    }
    forward_wait(pass);
}

void mixture_sum(ForwardPass *pass, const LayerWeights *w, const float *routed, const float *in,
                 size_t width, float *y) {
    const Config *c = pass->model->config;
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++) memset(y + i * width, 0, width * sizeof *y);
    route(pass, w, routed); /* ends in a wait, so that y is zero for all threads */
    uint32_t n_experts = c->n_experts - c->zero_experts;
    for (uint32_t e = 0; e < n_experts;) e = run_some_experts(pass, w, e, in, y);
    forward_gather(pass, w->experts->down.outputs, y, pass->n);
}

void mixture_forward(ForwardPass *pass, const LayerWeights *w, const float *routed, const float *in,
                     float *y) {
    const Config *c = pass->model->config;
    mixture_sum(pass, w, routed, in, c->dim, y);
    if (c->zero_experts > 0) run_zero_experts(pass, in, y);
    if (c->shared_ffn_dim > 0) mixture_add_shared(pass, w, in, y);
}
