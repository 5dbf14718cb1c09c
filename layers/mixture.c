#include "layers/mixture.h"

#include <omp.h>
#include <string.h>

#include "base/numbers.h"
#include "layers/experts.h"
#include "layers/routing.h"

/* Whether the shared expert goes into the lists of work of the routed experts: it reads what the
 * router reads, has their shape, and no ranks divide it. */
static bool joins_experts(const LayerWeights *w) {
    const FeedForward *shared = &w->shared, *expert = w->experts;
    return shared->up.w.data && shared->width == expert->width &&
           shared->up.w.cols == expert->up.w.cols && shared->down.w.rows == expert->down.w.rows &&
           !expert->down.inputs && !expert->down.outputs && !expert->up.outputs;
}

/* The shared expert's share of a row, shared_scale * sigmoid(its gate), where it has a gate. */
static float shared_share(const Model *m, const LayerWeights *w, const float *gate) {
    if (!w->shared_gate.data) return m->config->shared_scale;
    float exponential = -*gate; /* becomes exp(-x) */
    m->isa->numeric->softmax_sum(&exponential, 0.0f, 1);
    return m->config->shared_scale / (1.0f + exponential);
}

/* Sorts the choices of n rows by expert. */
static void sort(const Model *m, size_t n) {
    size_t used = m->config->n_experts_used;
    experts_sort(m->chosen, n * used, m->config->n_experts, m->expert_first, m->expert_slots);
    for (size_t i = 0; i < n * used; i++)
        m->expert_slots[n * used + i] = (uint32_t)(m->expert_slots[i] / used);
}

/* Routes each row of `in`: chosen, shares, and the choices of all rows sorted by expert. With
 * `shared`, routing[row][0] becomes the row's share of the shared expert. */
static void route(ForwardPass *pass, const LayerWeights *w, const float *in, bool shared) {
    Model *m = pass->model;
    const Config *c = m->config;
    size_t used = c->n_experts_used;
    float *gates = m->expert_out; /* which is free until the experts run */
    const Product products[] = {{&w->router.w, m->routing, c->n_experts},
                                {&w->shared_gate, gates, 1}};
    forward_multiply(m, in, pass->n, products, shared && w->shared_gate.data ? 2 : 1);
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
        if (shared) logits[0] = shared_share(m, w, gates + i);
        if (pass->n == 1) sort(m, 1); /* without another wait */
    }
    forward_wait(pass);
    if (pass->n == 1) return;
#pragma omp single nowait
    sort(m, pass->n);
    forward_wait(pass);
}

/* Some experts, the choices of all their rows, expert after expert, and perhaps the shared expert
 * behind them, for all rows of the pass. */
typedef struct Batch {
    FeedForwardRows parts[FEED_FORWARD_PARTS];
    size_t n_parts, n_routed; /* n_routed: rows of the routed experts */
    const uint32_t *slots;
    bool shared;
} Batch;

/* Whether the part's rows must be copied, because they are changed, or read by someone who does not
 * know of rows that lie apart. */
static bool copies_rows(const Model *m, const FeedForwardRows *part) {
    return m->config->share_on_input || m->partner ||
           tensor_type_info(part->network->up.w.type)->group == 0 ||
           (m->config->gated && tensor_type_info(part->network->gate.w.type)->group == 0);
}

/* Gives each part its rows' inputs. */
static void find_inputs(ForwardPass *pass, Batch *b, const float *in, size_t dim) {
    Model *m = pass->model;
    const uint32_t *rows = b->slots + pass->n * m->config->n_experts_used;
    bool copied = false;
    for (size_t p = 0; p < b->n_parts; p++) {
        FeedForwardRows *part = &b->parts[p];
        part->in = in;
        if (part->first == b->n_routed) break; /* the shared expert */
        if (part->n == 1 && !m->config->share_on_input) {
            part->in = in + rows[part->first] * dim;
        } else if (copies_rows(m, part)) {
            part->in = m->expert_in + part->first * dim;
            copied = true;
        } else {
            part->rows = rows + part->first;
        }
    }
    if (!copied) return;
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < b->n_routed; i++) {
        memcpy(m->expert_in + i * dim, in + rows[i] * dim, dim * sizeof *in);
        if (m->config->share_on_input)
            m->isa->numeric->scale(m->expert_in + i * dim, m->shares[b->slots[i]], dim);
    }
    forward_wait(pass);
}

/* y += the outputs of some experts for the rows that chose them. The outputs, or in Llama 4 the
 * inputs, are multiplied by the shares. Each thread adds up columns of its own, so that a row takes
 * its experts in the order of their numbers; and each rank the columns that its rows of w_down
 * give: y[n][these]. */
static void run_experts(ForwardPass *pass, Batch *b, const float *in, float *y) {
    Model *m = pass->model;
    const Numeric *numeric = m->isa->numeric;
    const FeedForward *network = b->parts->network;
    size_t used = m->config->n_experts_used, own = network->down.w.rows;
    size_t n = b->n_routed + (b->shared ? pass->n : 0);
    size_t width = round_up((own - 1) / (size_t)omp_get_num_threads() + 1, 16);
    bool on_input = m->config->share_on_input;
    find_inputs(pass, b, in, network->up.w.cols);
    feed_forwards(pass, b->parts, b->n_parts, m->expert_out);
#pragma omp for schedule(static) nowait
    for (size_t at = 0; at < own; at += width) {
        size_t columns = own - at < width ? own - at : width, p = 0;
        for (size_t i = 0; i < n; i++) {
            if (i >= b->parts[p].first + b->parts[p].n) p++;
            const float *bias = b->parts[p].network->down.bias;
            float *out = m->expert_out + i * own + at;
            if (bias) numeric->add_scaled(out, bias + at, 1.0f, columns);
            bool routed = i < b->n_routed;
            size_t row = routed ? b->slots[i] / used : i - b->n_routed;
            float share = !routed    ? m->routing[row * m->config->n_experts]
                          : on_input ? 1.0f
                                     : m->shares[b->slots[i]];
            numeric->add_scaled(y + row * own + at, out, share, columns);
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

/* Runs experts from number `first` on, as many as there is room for; returns the next number. The
 * shared expert, if it is to be joined, is number n_experts. */
static uint32_t run_some_experts(ForwardPass *pass, const LayerWeights *w, uint32_t first,
                                 bool shared, const float *in, float *y) {
    const Model *m = pass->model;
    const uint32_t *begin = m->expert_first;
    Batch b; /* not cleared: it is long */
    size_t n = 0;
    uint32_t e = first, n_experts = m->config->n_experts - m->config->zero_experts;
    b.n_parts = 0, b.shared = false;
    for (; e < n_experts && b.n_parts < FEED_FORWARD_PARTS; e++) {
        size_t rows = begin[e + 1] - begin[e];
        if (n + rows > m->ffn_rows) break;
        if (rows > 0) b.parts[b.n_parts++] = (FeedForwardRows){.network = &w->experts[e], n, rows};
        n += rows;
    }
    b.n_routed = n;
    b.slots = m->expert_slots + begin[first];
    if (shared && e == n_experts && b.n_parts < FEED_FORWARD_PARTS && n + pass->n <= m->ffn_rows) {
        b.parts[b.n_parts++] = (FeedForwardRows){.network = &w->shared, n, pass->n};
        b.shared = true;
        e++;
    }
    if (b.n_parts > 0) run_experts(pass, &b, in, y);
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
        float share = shared_share(m, w, m->routing + i);
        forward_add_bias(m, &w->shared.down, m->expert_out + i * c->dim);
        m->isa->numeric->add_scaled(y + i * c->dim, m->expert_out + i * c->dim, share, c->dim);
    }
    forward_wait(pass);
}

/* mixture_sum, and with `shared` the shared expert's output as well. */
static void sum_experts(ForwardPass *pass, const LayerWeights *w, const float *routed,
                        const float *in, size_t width, bool shared, float *y) {
    const Config *c = pass->model->config;
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++) memset(y + i * width, 0, width * sizeof *y);
    route(pass, w, routed, shared); /* ends in a wait, so that y is zero for all threads */
    uint32_t n_experts = c->n_experts - c->zero_experts + shared;
    for (uint32_t e = 0; e < n_experts;) e = run_some_experts(pass, w, e, shared, in, y);
    forward_gather(pass, w->experts->down.outputs, y, pass->n);
}

void mixture_sum(ForwardPass *pass, const LayerWeights *w, const float *routed, const float *in,
                 size_t width, float *y) {
    sum_experts(pass, w, routed, in, width, false, y);
}

static void mixture_run(ForwardPass *pass, const Branch *b) {
    const Config *c = pass->model->config;
    const LayerWeights *w = &pass->model->weights.layers[b->layer];
    const float *routed = b->routed ? b->routed : b->in;
    bool shared = c->shared_ffn_dim > 0, joined = shared && !b->routed && c->zero_experts == 0;
    forward_add_time(pass, PART_REST);
    joined = joined && joins_experts(w);
    sum_experts(pass, w, routed, b->in, c->dim, joined, b->out);
    if (c->zero_experts > 0) run_zero_experts(pass, b->in, b->out);
    if (shared && !joined) mixture_add_shared(pass, w, b->in, b->out);
    forward_add_time(pass, PART_FEED_FORWARD);
}

const BranchKind *mixture_kind(void) {
    static const BranchKind kind = {.name = "mixture", .run = mixture_run};
    return &kind;
}
