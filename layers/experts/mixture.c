#include "layers/experts/mixture.h"

#include <omp.h>
#include <string.h>

#include "base/numbers.h"
#include "layers/experts/experts.h"
#include "layers/experts/routing.h"

/* Takes the rows of the router: logits, routing weights, and the chosen experts. */
static MixtureRows take_choices(Rows *memory, const Model *m) {
    const Config *c = m->config;
    size_t n = m->max_rows, k = c->experts.per_token;
    MixtureRows rows = {.most = m->ffn_rows};
    rows.routing = rows_take(memory, n, c->experts.count);
    rows.routing_weights = rows_take(memory, n, k);
    rows.chosen = rows_take(memory, n, k);
    rows.first = rows_take(memory, 1, c->experts.count + 1);
    rows.slots = rows_take(memory, n, 2 * k);
    return rows;
}

MixtureRows mixture_take(Rows *memory, const Model *m, const LayerWeights *w) {
    size_t width = w->experts->down.w.cols, shared = w->shared.down.w.cols;
    MixtureRows rows = take_choices(memory, m);
    rows.in = rows_take(memory, rows.most, m->config->dim);
    rows.out = rows_take(memory, rows.most, m->config->dim);
    rows.hidden = hidden_rows(memory, rows.most, width > shared ? width : shared);
    return rows;
}

MixtureRows mixture_choices(const Model *m) {
    Rows memory = arena_rows(&m->arena);
    return take_choices(&memory, m);
}

/* Whether the shared expert goes into the lists of work of the routed experts: it reads what the
 * router reads, has their shape, and no ranks divide it. */
static bool joins_experts(const LayerWeights *w) {
    const FeedForward *shared = &w->shared, *expert = w->experts;
    return shared->up.w.data && shared->width == expert->width &&
           shared->up.w.cols == expert->up.w.cols && shared->down.w.rows == expert->down.w.rows &&
           !expert->down.inputs && !expert->down.outputs && !expert->up.outputs;
}

/* The shared expert's weight for a row: shared_scale, or shared_scale * sigmoid(its gate) where it
 * has a gate. */
static float shared_weight(const Model *m, const LayerWeights *w, const float *gate) {
    if (!w->shared_gate.data) return m->config->experts.shared_scale;
    float exponential = -*gate; /* becomes exp(-x) */
    m->isa->numeric->softmax_sum(&exponential, 0.0f, 1);
    return m->config->experts.shared_scale / (1.0f + exponential);
}

/* Sorts the choices of n rows by expert. */
static void sort(const Model *m, const MixtureRows *r, size_t n) {
    size_t used = m->config->experts.per_token;
    experts_sort(r->chosen, n * used, m->config->experts.count, r->first, r->slots);
    for (size_t i = 0; i < n * used; i++) r->slots[n * used + i] = (uint32_t)(r->slots[i] / used);
}

/* Routes each row of `in`: chosen, routing weights, and the choices of all rows sorted by expert.
 * With `shared`, routing[row][0] becomes the shared expert's weight for the row. */
static void route(ForwardPass *pass, const LayerWeights *w, const MixtureRows *r, const float *in,
                  bool shared) {
    Model *m = pass->model;
    const Config *c = m->config;
    size_t used = c->experts.per_token;
    float *gates = r->out; /* which is free until the experts run */
    const Product products[] = {{&w->router.w, r->routing, c->experts.count},
                                {&w->shared_gate, gates, 1}};
    forward_multiply(m, in, pass->n, products, shared && w->shared_gate.data ? 2 : 1);
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++) {
        float *logits = r->routing + i * c->experts.count;
        forward_add_bias(m, &w->router, logits);
        uint32_t *chosen = r->chosen + i * used;
        float *routing_weights = r->routing_weights + i * used;
        if (w->router_table)
            routing_weigh(m->isa->numeric, c, w->router_table + (size_t)pass->rows[i].token * used,
                          logits, chosen, routing_weights);
        else if (c->router.kind <= ROUTER_SOFTMAX_CHOSEN)
            experts_route(m->isa->numeric, c, logits, chosen, routing_weights);
        else
            routing_route(m->isa->numeric, c, w->router_correction, logits, chosen,
                          routing_weights);
        if (shared) logits[0] = shared_weight(m, w, gates + i);
        if (pass->n == 1) sort(m, r, 1); /* without another wait */
    }
    forward_wait(pass);
    if (pass->n == 1) return;
#pragma omp single nowait
    sort(m, r, pass->n);
    forward_wait(pass);
}

/* Some experts, the choices of all their rows, expert after expert, and perhaps the shared expert
 * after them, for all rows of the pass. */
typedef struct Batch {
    FeedForwardRows parts[FEED_FORWARD_PARTS];
    size_t n_parts, n_routed; /* n_routed: rows of the routed experts */
    const uint32_t *slots;
    bool shared;
} Batch;

/* Whether the part's rows must be copied, because they are changed, or read by someone who does not
 * know of rows that lie apart. */
static bool copies_rows(const Model *m, const FeedForwardRows *part) {
    return m->config->experts.weight_on_input || m->watched & PASS_INPUTS ||
           tensor_type_info(part->network->up.w.type)->group == 0 ||
           (m->config->gated && tensor_type_info(part->network->gate.w.type)->group == 0);
}

/* Gives each part its rows' inputs. */
static void find_inputs(ForwardPass *pass, Batch *b, const MixtureRows *r, const float *in,
                        size_t dim) {
    Model *m = pass->model;
    const uint32_t *rows = b->slots + pass->n * m->config->experts.per_token;
    bool copied = false;
    for (size_t p = 0; p < b->n_parts; p++) {
        FeedForwardRows *part = &b->parts[p];
        part->in = in;
        if (part->first == b->n_routed) break; /* the shared expert */
        if (part->n == 1 && !m->config->experts.weight_on_input) {
            part->in = in + rows[part->first] * dim;
        } else if (copies_rows(m, part)) {
            part->in = r->in + part->first * dim;
            copied = true;
        } else {
            part->rows = rows + part->first;
        }
    }
    if (!copied) return;
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < b->n_routed; i++) {
        memcpy(r->in + i * dim, in + rows[i] * dim, dim * sizeof *in);
        if (m->config->experts.weight_on_input)
            m->isa->numeric->scale(r->in + i * dim, r->routing_weights[b->slots[i]], dim);
    }
    forward_wait(pass);
}

/* x[n][width] = norm(scale * x), without weights. */
static void normalize_outputs(ForwardPass *pass, const float *scale, float *x, size_t n,
                              size_t width) {
    Model *m = pass->model;
    const Norm norm = {.eps = m->config->post_norm_eps};
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < n; i++) {
        float *row = x + i * width;
        for (size_t k = 0; k < width; k++) row[k] *= scale[k];
        forward_normalize(m, &norm, row, row, width);
    }
    forward_wait(pass);
}

/* y += the outputs of some experts for the rows that chose them. The outputs, or in Llama 4 the
 * inputs, are multiplied by the routing weights. Each thread adds up columns of its own, so that a
 * row takes its experts in the order of their numbers; and each rank the columns that its rows of
 * w_down give: y[n][these]. */
static void run_experts(ForwardPass *pass, const LayerWeights *w, Batch *b, const MixtureRows *r,
                        const float *in, float *y) {
    Model *m = pass->model;
    const Numeric *numeric = m->isa->numeric;
    const FeedForward *network = b->parts->network;
    size_t used = m->config->experts.per_token, own = network->down.w.rows;
    size_t n = b->n_routed + (b->shared ? pass->n : 0);
    size_t width = round_up((own - 1) / (size_t)omp_get_num_threads() + 1, 16);
    bool on_input = m->config->experts.weight_on_input;
    find_inputs(pass, b, r, in, network->up.w.cols);
    forward_ffns(pass, b->parts, b->n_parts, &r->hidden, r->out);
    if (w->expert_scale) normalize_outputs(pass, w->expert_scale, r->out, b->n_routed, own);
#pragma omp for schedule(static) nowait
    for (size_t at = 0; at < own; at += width) {
        size_t columns = own - at < width ? own - at : width, p = 0;
        for (size_t i = 0; i < n; i++) {
            if (i >= b->parts[p].first + b->parts[p].n) p++;
            const float *bias = b->parts[p].network->down.bias;
            float *out = r->out + i * own + at;
            if (bias) numeric->add_scaled(out, bias + at, 1.0f, columns);
            bool routed = i < b->n_routed;
            size_t row = routed ? b->slots[i] / used : i - b->n_routed;
            float weight = !routed    ? r->routing[row * m->config->experts.count]
                           : on_input ? 1.0f
                                      : r->routing_weights[b->slots[i]];
            numeric->add_scaled(y + row * own + at, out, weight, columns);
        }
    }
    forward_wait(pass);
}

/* y += routing weight * in for each identity expert (the key zero_experts) that a row chose. */
static void run_identity_experts(ForwardPass *pass, const MixtureRows *r, const float *in,
                                 float *y) {
    Model *m = pass->model;
    const Config *c = m->config;
    size_t dim = c->dim, width = round_up((dim - 1) / (size_t)omp_get_num_threads() + 1, 16);
    uint32_t first = r->first[c->experts.count - c->experts.identity];
    uint32_t end = r->first[c->experts.count];
#pragma omp for schedule(static) nowait
    for (size_t at = 0; at < dim; at += width) {
        size_t columns = dim - at < width ? dim - at : width;
        for (uint32_t i = first; i < end; i++) {
            uint32_t slot = r->slots[i];
            size_t row = slot / c->experts.per_token * dim + at;
            m->isa->numeric->add_scaled(y + row, in + row, r->routing_weights[slot], columns);
        }
    }
    forward_wait(pass);
}

/* Runs experts from number `first` on, as many as there is room for; returns the next number. The
 * shared expert, if it is to be joined, is number n_experts. */
static uint32_t run_some_experts(ForwardPass *pass, const LayerWeights *w, const MixtureRows *r,
                                 uint32_t first, bool shared, const float *in, float *y) {
    const Model *m = pass->model;
    const uint32_t *begin = r->first;
    Batch b; /* not cleared: it is long */
    size_t n = 0;
    uint32_t e = first, n_experts = m->config->experts.count - m->config->experts.identity;
    b.n_parts = 0, b.shared = false;
    for (; e < n_experts && b.n_parts < FEED_FORWARD_PARTS; e++) {
        size_t rows = begin[e + 1] - begin[e];
        if (n + rows > r->most) break;
        if (rows > 0) b.parts[b.n_parts++] = (FeedForwardRows){.network = &w->experts[e], n, rows};
        n += rows;
    }
    b.n_routed = n;
    b.slots = r->slots + begin[first];
    if (shared && e == n_experts && b.n_parts < FEED_FORWARD_PARTS && n + pass->n <= r->most) {
        b.parts[b.n_parts++] = (FeedForwardRows){.network = &w->shared, n, pass->n};
        b.shared = true;
        e++;
    }
    if (b.n_parts > 0) run_experts(pass, w, &b, r, in, y);
    return e;
}

/* y += shared_scale * sigmoid(shared_gate(in)) * shared(in), the expert that every token uses. */
void mixture_add_shared(ForwardPass *pass, const LayerWeights *w, const MixtureRows *r,
                        const float *in, float *y) {
    Model *m = pass->model;
    const Config *c = m->config;
    forward_ffn(pass, &w->shared, pass->n, in, &r->hidden, r->out);
    if (w->shared_gate.data) {
        const Product gate = {&w->shared_gate, r->routing, 1};
        forward_multiply(m, in, pass->n, &gate, 1);
    }
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++) {
        float weight = shared_weight(m, w, r->routing + i);
        forward_add_bias(m, &w->shared.down, r->out + i * c->dim);
        m->isa->numeric->add_scaled(y + i * c->dim, r->out + i * c->dim, weight, c->dim);
    }
    forward_wait(pass);
}

/* mixture_sum, and with `shared` the shared expert's output as well. */
static void sum_experts(ForwardPass *pass, const LayerWeights *w, const MixtureRows *r,
                        const float *routed, const float *in, size_t width, bool shared, float *y) {
    const Config *c = pass->model->config;
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++) memset(y + i * width, 0, width * sizeof *y);
    route(pass, w, r, routed, shared); /* ends in a wait, so that y is zero for all threads */
    uint32_t n_routed = c->experts.count - c->experts.identity, n_experts = n_routed + shared;
    if (pass->model->watched & PASS_CHOSEN)
        OBSERVERS_CALL(pass->model->observers, chosen, w->experts, r->first, n_routed);
    for (uint32_t e = 0; e < n_experts;) e = run_some_experts(pass, w, r, e, shared, in, y);
    forward_gather(pass, w->experts->down.outputs, y, pass->n);
}

void mixture_sum(ForwardPass *pass, const LayerWeights *w, const MixtureRows *r,
                 const float *routed, const float *in, size_t width, float *y) {
    sum_experts(pass, w, r, routed, in, width, false, y);
}

static void mixture_rows(Rows *memory, const Model *m, const Branch *b) {
    mixture_take(memory, m, &m->weights.layers[b->layer]);
}

/* Runs the mixture of a layer: the chosen experts, the identity experts, the shared expert and the
 * bias. The shared expert runs together with the chosen ones where that is possible (`joined`). */
static void mixture_run(ForwardPass *pass, const Branch *b) {
    const Config *c = pass->model->config;
    const LayerWeights *w = &pass->model->weights.layers[b->layer];
    Rows memory = arena_rows(&pass->model->arena);
    const MixtureRows rows = mixture_take(&memory, pass->model, w);
    const float *routed = b->routed ? b->routed : b->in;
    bool shared = c->experts.shared_ffn_dim > 0,
         joined = shared && !b->routed && c->experts.identity == 0;
    forward_add_time(pass, PART_REST);
    joined = joined && joins_experts(w);
    sum_experts(pass, w, &rows, routed, b->in, c->dim, joined, b->out);
    if (c->experts.identity > 0 && !c->experts.identity_skips)
        run_identity_experts(pass, &rows, b->in, b->out);
    if (shared && !joined) mixture_add_shared(pass, w, &rows, b->in, b->out);
    if (w->experts_bias) {
#pragma omp for schedule(static) nowait
        for (size_t i = 0; i < pass->n; i++)
            pass->model->isa->numeric->add_scaled(b->out + i * c->dim, w->experts_bias, 1.0f,
                                                  c->dim);
        forward_wait(pass);
    }
    forward_add_time(pass, PART_FEED_FORWARD);
}

const BranchKind mixture_kind = {
    .name = "mixture",
    .run = mixture_run,
    .rows = mixture_rows,
};
