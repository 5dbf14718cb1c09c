#include "modes/inspect/layer_trace.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "core/prefill.h"
#include "core/self_attention.h"

/* What the trace needs while the text runs. */
typedef struct Recorder {
    LayerTrace *trace;
    Model *model;
    struct ObservedKind *observed; /* [branches] */
    double *sums;                  /* [n_layers + 1][dim], of x / |x| of all positions */
    float *own, *neighbour;        /* [n_layers + 1][dim], x at the position and the one before */
    size_t base;                   /* the text's token that is row 0 of the running forward pass */
} Recorder;

/* The kind that a branch gets: Branch.kind points to its first member. */
typedef struct ObservedKind {
    BranchKind kind;
    const BranchKind *original;
    Recorder *recorder;
} ObservedKind;

VectorStatistics layer_trace_statistics(const float *x, size_t n) {
    VectorStatistics s = {.largest = -INFINITY, .smallest = INFINITY};
    double squares = 0.0;
    for (size_t i = 0; i < n; i++) {
        s.mean += (double)x[i] / (double)n;
        squares += (double)x[i] * (double)x[i];
        s.largest = fmax(s.largest, (double)x[i]);
        s.smallest = fmin(s.smallest, (double)x[i]);
    }
    for (size_t i = 0; i < n; i++)
        s.variance += ((double)x[i] - s.mean) * ((double)x[i] - s.mean) / (double)n;
    s.size = sqrt(squares);
    return s;
}

/* ---- Depths ---------------------------------------------------------------------------------- */

/* Records the residual stream before layer `depth` for all rows of the pass: adds x / |x| to the
 * sums, and copies x of the position and of the one before. */
static void record_depth(Recorder *r, size_t depth, size_t n_rows) {
    size_t dim = r->model->config->dim, position = r->trace->position;
    for (size_t row = 0; row < n_rows; row++) {
        const float *x = r->model->x + row * dim;
        double size = layer_trace_statistics(x, dim).size;
        for (size_t i = 0; i < dim && size > 0.0; i++)
            r->sums[depth * dim + i] += (double)x[i] / size;
        if (r->base + row == position) memcpy(r->own + depth * dim, x, dim * sizeof *x);
        if (r->base + row + 1 == position) memcpy(r->neighbour + depth * dim, x, dim * sizeof *x);
    }
}

static double cosine(const float *a, const float *b, size_t n) {
    double product = 0.0;
    for (size_t i = 0; i < n; i++) product += (double)a[i] * (double)b[i];
    return product / (layer_trace_statistics(a, n).size * layer_trace_statistics(b, n).size);
}

/* The mean cosine of all pairs follows from the sum of the unit vectors: |sum|^2 counts each pair
 * twice and each vector with itself once. */
static void finish_depths(Recorder *r) {
    size_t dim = r->model->config->dim, n = r->trace->maps.n;
    for (size_t l = 0; l <= r->model->config->n_layers; l++) {
        const float *own = r->own + l * dim;
        double squares = 0.0;
        for (size_t i = 0; i < dim; i++) squares += r->sums[l * dim + i] * r->sums[l * dim + i];
        r->trace->depths[l] = (StreamDepth){
            .size = layer_trace_statistics(own, dim).size,
            .to_embedding = cosine(own, r->own, dim),
            .to_neighbour =
                r->trace->position > 0 ? cosine(own, r->neighbour + l * dim, dim) : (double)NAN,
            .between_all =
                n > 1 ? (squares - (double)n) / ((double)n * ((double)n - 1.0)) : (double)NAN};
    }
}

/* ---- Branches -------------------------------------------------------------------------------- */

static float *copy_of(const float *x, size_t n) {
    float *copy = malloc((n + 1) * sizeof *copy);
    if (copy) memcpy(copy, x, n * sizeof *copy);
    return copy;
}

static TracedBranch *traced(const Recorder *r, const Branch *b) {
    const Branch *first = r->model->branches.all + r->model->branches.first[b->layer];
    return b->layer == r->trace->layer ? &r->trace->branches[b - first] : NULL;
}

/* The row of the pass that is the position; SIZE_MAX: it is in another pass. */
static size_t own_row(const Recorder *r, const ForwardPass *pass) {
    size_t position = r->trace->position;
    return position >= r->base && position < r->base + pass->n ? position - r->base : SIZE_MAX;
}

static void record_input(Recorder *r, const ForwardPass *pass, const Branch *b) {
    size_t dim = r->model->config->dim, row = own_row(r, pass);
    TracedBranch *t = traced(r, b);
    if (b == r->model->branches.all + r->model->branches.first[b->layer])
        record_depth(r, b->layer, pass->n);
    if (!t || row == SIZE_MAX) return;
    t->before = copy_of(r->model->x + row * dim, dim);
    if (b->in != r->model->x) t->read = copy_of(b->in + row * dim, dim);
}

/* What attention holds when it has run: keys and values of every row, so that those of the whole
 * text come together pass by pass. */
static void record_heads(Recorder *r, const ForwardPass *pass, TracedBranch *t) {
    const Model *m = r->model;
    size_t l = r->trace->layer, row = own_row(r, pass), n = r->trace->maps.n;
    const HeadShape h = config_heads(m->config, l);
    size_t k_dim = (size_t)h.n_kv_heads * h.head_dim, v_dim = (size_t)h.n_kv_heads * h.value_dim;
    Rows memory = arena_rows(&m->arena);
    const SelfAttentionRows rows = self_attention_take_rows(&memory, m, l);
    if (m->config->kv_distance[l] == 0) {
        if (!t->k) t->k = calloc(n * k_dim + 1, sizeof *t->k);
        if (!t->v) t->v = calloc(n * v_dim + 1, sizeof *t->v);
        if (t->k) memcpy(t->k + r->base * k_dim, rows.k, pass->n * k_dim * sizeof *t->k);
        if (t->v) memcpy(t->v + r->base * v_dim, rows.v, pass->n * v_dim * sizeof *t->v);
    }
    if (row == SIZE_MAX) return;
    size_t q_dim = (size_t)h.n_heads * h.head_dim, width = (size_t)h.n_heads * h.value_dim;
    t->q = copy_of(rows.q + row * q_dim, q_dim);
    t->attended = copy_of(rows.attended + row * width, width);
}

/* Copies what a branch of the traced layer has computed for the traced row: heads or hidden
 * activations, its output, and the residual stream after it. */
static void record_output(Recorder *r, const ForwardPass *pass, const Branch *b) {
    const Model *m = r->model;
    size_t dim = m->config->dim, row = own_row(r, pass);
    TracedBranch *t = traced(r, b);
    if (!t) return;
    const BranchKind *kind = ((const ObservedKind *)b->kind)->original;
    /* Also where a kind of its own leaves heads out. */
    if (kind->rows == self_attention_kind.rows) record_heads(r, pass, t);
    if (row == SIZE_MAX) return;
    if (kind == &forward_ffn_kind) {
        Rows memory = arena_rows(&m->arena);
        const HiddenRows hidden = forward_ffn_take_rows(&memory, m, b->layer);
        t->n_hidden = m->weights.layers[b->layer].ffn.down.w.cols;
        t->hidden =
            copy_of((m->config->gated ? hidden.gate : hidden.up) + row * t->n_hidden, t->n_hidden);
    }
    t->out = copy_of(b->out + row * dim, dim);
    if (!t->out || !t->before) return;
    if (b->last_linear) forward_add_bias(m, b->last_linear, t->out);
    if (b->post) forward_normalize(m, b->post, t->out, t->out, dim);
    if (!b->norm_after) return;
    t->added = copy_of(t->before, dim);
    if (!t->added) return;
    if (b->before != 1.0f) m->isa->numeric->scale(t->added, b->before, dim);
    m->isa->numeric->add_scaled(t->added, t->out, b->scale, dim);
}

/* All threads run it; the others wait until thread 0 has its copies. */
static void observed_run(ForwardPass *pass, const Branch *b) {
    const ObservedKind *observed = (const ObservedKind *)b->kind;
    bool copies = omp_get_thread_num() == 0;
    if (copies) record_input(observed->recorder, pass, b);
    Branch own = *b; /* a kind may hold more after its BranchKind (modes/open/branches_off.c) */
    own.kind = observed->original;
    own.kind->run(pass, &own);
    if (copies) record_output(observed->recorder, pass, b);
    forward_wait(pass);
}

/* Gives the branches of the layer, and the first one of every other layer, a kind that records. */
static void observe_branches(Recorder *r) {
    BranchList *list = &r->model->branches;
    for (size_t i = 0; i < list->n; i++) {
        Branch *b = &list->all[i];
        if (b->layer != r->trace->layer && i != list->first[b->layer]) continue;
        r->observed[i] = (ObservedKind){.kind = *b->kind, .original = b->kind, .recorder = r};
        r->observed[i].kind.run = observed_run;
        b->kind = &r->observed[i].kind;
    }
}

static void restore_branches(Recorder *r) {
    BranchList *list = &r->model->branches;
    for (size_t i = 0; i < list->n; i++)
        if (r->observed[i].original) list->all[i].kind = r->observed[i].original;
}

/* ---- The text -------------------------------------------------------------------------------- */

static Status next_chunk(void *context, const PrefillChunk *chunk, Error *error) {
    Recorder *r = context;
    (void)error;
    record_depth(r, r->model->config->n_layers, chunk->n);
    r->base = chunk->done;
    return STATUS_OK;
}

static Status run_text(Recorder *r, Session *session, Error *error) {
    const KvShape shape = model_kv_shape(r->model, session->kv_type);
    const Prefill p = {.ids = r->trace->maps.ids.ids,
                       .n = r->trace->maps.n,
                       .first_wanted = r->trace->maps.n,
                       .interrupted = session->interrupted,
                       .after_chunk = next_chunk,
                       .context = r};
    KvCache *cache;
    if (kvcache_new(&cache, &shape, 1, 0, error) != STATUS_OK) return STATUS_FAILED;
    observe_branches(r);
    Status status = prefill(r->model, cache, &p, error);
    restore_branches(r);
    kvcache_free(cache);
    return status;
}

/* Whether every branch has what it was to be given. */
static bool is_complete(const LayerTrace *t) {
    for (size_t i = 0; i < t->n_branches; i++) {
        const TracedBranch *b = &t->branches[i];
        if (!b->before || !b->out || (b->branch->norm_after && !b->added)) return false;
    }
    return true;
}

/* Allocates the trace, runs the text with observed branches, and sums up the residual stream after
 * each layer. */
static Status record(Recorder *r, Session *session, Error *error) {
    LayerTrace *t = r->trace;
    const Model *m = r->model;
    size_t dim = m->config->dim, depths = (size_t)m->config->n_layers + 1;
    t->n_branches = m->branches.first[t->layer + 1] - m->branches.first[t->layer];
    t->branches = calloc(t->n_branches + 1, sizeof *t->branches);
    t->depths = calloc(depths, sizeof *t->depths);
    t->after = calloc(dim, sizeof *t->after);
    r->observed = calloc(m->branches.n + 1, sizeof *r->observed);
    r->sums = calloc(depths * dim, sizeof *r->sums);
    r->own = calloc(depths * dim, sizeof *r->own);
    r->neighbour = calloc(depths * dim, sizeof *r->neighbour);
    if (!t->branches || !t->depths || !t->after || !r->observed || !r->sums || !r->own ||
        !r->neighbour)
        return error_set(error, "no memory for what layer %zu holds", t->layer);
    for (size_t i = 0; i < t->n_branches; i++)
        t->branches[i].branch = m->branches.all + m->branches.first[t->layer] + i;
    Status status = run_text(r, session, error);
    if (status != STATUS_OK) return status;
    if (!is_complete(t)) return error_set(error, "no memory for what layer %zu holds", t->layer);
    finish_depths(r);
    memcpy(t->after, r->own + (t->layer + 1) * dim, dim * sizeof *t->after);
    return STATUS_OK;
}

static Status check_place(const LayerTrace *t, const Session *session, Error *error) {
    uint32_t n_layers = modelfile_config(session->file)->n_layers;
    if (session->ranks)
        return error_set(error, "--layer looks into one process: run it without mpirun");
    if (t->layer >= n_layers)
        return error_set(error, "--layer %zu: the model has layers 0 to %u", t->layer,
                         n_layers - 1);
    if (t->position >= t->maps.n)
        return error_set(error, "--position %zu: the text has tokens 0 to %zu", t->position,
                         t->maps.n - 1);
    return STATUS_OK;
}

Status layer_trace_collect(LayerTrace *t, Session *session, size_t layer, size_t position,
                           Error *error) {
    *t = (LayerTrace){.layer = layer, .position = position};
    Recorder r = {.trace = t, .model = session->model};
    Status status = attention_maps_collect(&t->maps, session, true, error);
    if (status != STATUS_OK) return status;
    if (t->maps.n == 0) return error_set(error, "--layer: the text has no token");
    if (position == SIZE_MAX) t->position = t->maps.n - 1;
    status = check_place(t, session, error);
    if (status == STATUS_OK) status = record(&r, session, error);
    free(r.observed);
    free(r.sums);
    free(r.own);
    free(r.neighbour);
    return status;
}

void layer_trace_free(LayerTrace *t) {
    for (size_t i = 0; t->branches && i < t->n_branches; i++) {
        TracedBranch *b = &t->branches[i];
        float *all[] = {b->before, b->read, b->out,      b->added, b->q,
                        b->k,      b->v,    b->attended, b->hidden};
        for (size_t k = 0; k < sizeof all / sizeof *all; k++) free(all[k]);
    }
    free(t->branches);
    free(t->depths);
    free(t->after);
    attention_maps_free(&t->maps);
}
