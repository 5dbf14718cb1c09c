/* The forward pass, in the order of the data: embed; run_branches, which is the one loop over the
 * branches of all layers (core/branch.h); output_head. At the end, model_forward. The lists of
 * branches: core/branches.c. What most branches do: core/self_attention.c, and the feed-forward
 * network in core/forward_steps.c. Opening and closing a model: core/model_setup.c. */
#include "model.h"

#include <math.h>
#include <omp.h>
#include <string.h>

#include "base/call_mode.h"
#include "base/clock.h"
#include "base/numbers.h"
#include "core/forward_steps.h"

/* With fewer multiply-adds one thread is done before a second one has woken up. */
static const double SOLO_WORK = 2e6;

/* ---- Reading the residual stream ---- */

/* Reads row `row` of x for branch b. */
static inline void read_row(const ForwardPass *pass, const Branch *b, size_t row) {
    const Model *m = pass->model;
    size_t dim = m->config->dim;
    float *x = m->x + row * dim, *in = b->in + row * dim;
    if (b->plus) {
        memcpy(in, x, dim * sizeof *in);
        m->isa->numeric->add_scaled(in, b->plus->out + row * dim, 1.0f, dim);
        x = in;
    }
    if (b->pre) forward_normalize(m, b->pre, in, x, dim);
    if (b->pre_replaces_x) memcpy(x, in, dim * sizeof *x);
    if (!b->router_scale) return;
    float *routed = b->routed + row * dim;
    forward_normalize(m, &(Norm){.weight = b->router_scale}, routed, x, dim);
    m->isa->numeric->scale(routed, 1.0f / sqrtf((float)dim), dim);
}

/* Reads row `row` of x for all branches of the group that begins with b. */
static inline void read_group(const ForwardPass *pass, const Branch *b, size_t row) {
    if (b->streams && b->streams->read) b->streams->read(pass, b, row);
    for (;; b++) {
        read_row(pass, b, row);
        if (!b->same_x) return;
    }
}

/* Whether the group can be read as soon as x is there. */
static bool reads_at_once(const Branch *group) {
    return !group->streams || !group->streams->gather;
}

/* ---- Embedding ---- */

/* Computes the sines and cosines that rotate the row's heads, for each frequency table. */
static void position_angles(Model *m, size_t row, int32_t position) {
    for (size_t table = 0; table < 2; table++) {
        size_t n_pairs = m->n_pairs[table];
        if (!m->weights.rope_freqs[table]) continue;
        forward_angles(m, table, position, 0, n_pairs, m->cosine[table] + row * n_pairs,
                       m->sine[table] + row * n_pairs);
    }
}

static void add_sinusoid(const Model *m, float *x, int32_t position) {
    size_t half = m->config->dim / 2;
    bool interleaved = m->config->sinusoid_layout == SINUSOID_INTERLEAVED;
    for (size_t i = 0; i < half; i++) {
        float sine, cosine;
        numbers_sin_cos((float)position * m->weights.sinusoid_freqs[i], &sine, &cosine);
        x[interleaved ? 2 * i : i] += sine;
        x[interleaved ? 2 * i + 1 : half + i] += cosine;
    }
}

/* x = the embedding of row `i`'s token, scaled, plus its position where the model adds positions.
 */
static void embed_row(const ForwardPass *pass, size_t i, float *x) {
    const Model *m = pass->model;
    const Config *c = m->config;
    const Row *row = &pass->rows[i];
    int32_t position = row->position + (int32_t)c->position_offset;
    matrix_row(pass->path->embedding, (size_t)row->token, x);
    if (m->watched & PASS_EMBEDDED) OBSERVERS_CALL(m->observers, embedded, i, x);
    if (c->embedding_scale != 1.0f) m->isa->numeric->scale(x, c->embedding_scale, c->dim);
    if (c->position == POSITION_LEARNED)
        m->isa->numeric->add_scaled(x, m->weights.position_embedding + (size_t)position * c->dim,
                                    1.0f, c->dim);
    if (c->position == POSITION_SINUSOIDAL) add_sinusoid(m, x, position);
    if (m->weights.embedding_norm.present)
        forward_normalize(m, &m->weights.embedding_norm, x, x, c->dim);
}

/* Prepares each row: x, the angles of its position, and what the first branches read, where that
 * needs nothing else. */
static void embed(ForwardPass *pass) {
    Model *m = pass->model;
    const Config *c = m->config;
    const PassPath *path = pass->path;
    const Branch *first = m->branches.all + m->branches.first[path->first_layer];
    bool reads = reads_at_once(first);
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++) {
        const Row *row = &pass->rows[i];
        float *x = m->x + i * c->dim;
        if (path->x)
            memcpy(x, path->x + i * c->dim, c->dim * sizeof *x);
        else
            embed_row(pass, i, x);
        if (c->position == POSITION_ROPE) position_angles(m, i, row->position);
        m->attention_rows[i] = (AttentionRow){row->sequence, row->position};
        if (reads) read_group(pass, first, i);
    }
    forward_wait(pass);
}

/* ---- The layers ---- */

/* x[dim] = norm_after(after * (before * x + scale * y)). */
static inline void add_to_residual(const Model *m, const Branch *b, float *x, const float *y) {
    const Numeric *numeric = m->isa->numeric;
    size_t dim = m->config->dim;
    if (b->before != 1.0f) numeric->scale(x, b->before, dim);
    numeric->add_scaled(x, y, b->scale, dim);
    if (b->after != 1.0f) numeric->scale(x, b->after, dim);
    if (b->norm_after) forward_normalize(m, b->norm_after, x, x, dim);
}

/* Adds row `row` of the outputs of the branches from b to `end`, which are a group. */
static inline void add_group(ForwardPass *pass, const Branch *b, const Branch *end, size_t row) {
    const Model *m = pass->model;
    const Numeric *numeric = m->isa->numeric;
    size_t dim = m->config->dim, at = row * dim;
    float *x = m->x + at;
    float *sum = NULL; /* of the outputs so far that are added as one */
    bool to_x = false;
    for (; b < end; b++) {
        float *y = b->out + at;
        if (b->last_linear) forward_add_bias(m, b->last_linear, y);
        if (b->post) forward_normalize(m, b->post, y, y, dim);
        if (b->adds_input) numeric->add_scaled(y, b->in + at, 1.0f, dim);
        if (sum) {
            numeric->add_scaled(sum, y, b->part_scale, dim);
            y = sum;
        } else if (b->part_scale != 1.0f) {
            numeric->scale(y, b->part_scale, dim);
        }
        sum = b->addition == ADD_TO_NEXT ? y : NULL;
        if (b->addition != ADD_TO_X) continue;
        if (b->sum_post) forward_normalize(m, b->sum_post, y, y, dim);
        if (b->streams && b->streams->add) {
            b->streams->add(pass, b, row, y);
            continue;
        }
        add_to_residual(m, b, x, y);
        if (b->also) add_to_residual(m, b->also, x, b->also->out + at);
        to_x = true;
    }
    if (to_x && !numeric->all_finite(x, dim)) forward_not_finite(pass, end[-1].layer);
}

/* Runs the group of branches that begins with b. Returns its end. */
static const Branch *run_group(ForwardPass *pass, const Branch *b) {
    for (;; b++) {
        if (b->gate) b->gate->apply(pass, b);
        b->kind->run(pass, b);
        if (!b->same_x) return b + 1;
    }
}

/* This part of the pass, the layers from pass->first_layer to end_layer. One loop over rows adds
 * the outputs of a group of branches and reads what the next group needs, of the next layer as
 * well, because every loop over rows ends in a wait. */
static void run_branches(ForwardPass *pass) {
    const Model *m = pass->model;
    const BranchList *list = &m->branches;
    bool tells = pass->path->is_whole && m->watched & PASS_REACHED;
    const Branch *b = list->all + list->first[pass->first_layer];
    const Branch *end = list->all + list->first[pass->end_layer];
    const Branch *path_end = list->all + list->first[pass->path->end_layer];
    while (b < end) {
        if (!reads_at_once(b)) {
            b->streams->gather(pass, b);
#pragma omp for schedule(static) nowait
            for (size_t i = 0; i < pass->n; i++) read_group(pass, b, i);
            forward_wait(pass);
        }
        const Branch *group = b, *next = run_group(pass, b);
        bool reads = next < path_end && reads_at_once(next);
        bool reaches = tells && next < path_end && next->layer != group->layer;
#pragma omp for schedule(static) nowait
        for (size_t i = 0; i < pass->n; i++) {
            add_group(pass, group, next, i);
            if (reaches)
                OBSERVERS_CALL(m->observers, reached, next->layer, i, m->x + i * m->config->dim);
            if (reads) read_group(pass, next, i);
        }
        forward_wait(pass);
        b = next;
    }
}

/* ---- Output ---- */

/* Computes the logits of the rows with wants_logits, whose x is first copied to the front of
 * m->normed. Without room for logits the normalized rows stay there: model_final_states. */
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
            forward_normalize(m, pass->path->final_norm, m->normed + i * c->dim,
                              m->normed + i * c->dim, c->dim);
        forward_wait(pass);
    }
    if (!pass->logits) return;
    const Linear *output = pass->path->output;
    const Product product = {&output->w, pass->logits, output->w.rows};
    forward_multiply(m, m->normed, n, &product, 1);
    forward_gather(pass, output->outputs, pass->logits, n);
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < n; i++) {
        float *logits = pass->logits + i * c->vocab_size;
        forward_add_bias(m, output, logits);
        if (c->logit_scale != 1.0f) m->isa->numeric->scale(logits, c->logit_scale, c->vocab_size);
        if (c->logit_softcap > 0.0f)
            m->isa->numeric->softcap(logits, c->logit_softcap, c->vocab_size);
        if (!m->isa->numeric->all_finite(logits, c->vocab_size))
            forward_not_finite(pass, c->n_layers);
    }
    forward_wait(pass);
}

/* Computes the layers from pass->first_layer to end_layer, with what lies before the first and
 * after the last. */
static void forward(ForwardPass *pass) {
    const Model *m = pass->model;
    if (pass->first_layer == pass->path->first_layer) {
        embed(pass);
        if (m->arrangement->begin) m->arrangement->begin(pass);
    }
    run_branches(pass);
    bool ends = pass->end_layer == pass->path->end_layer;
    if (ends && m->arrangement->end) m->arrangement->end(pass);
    forward_add_time(pass, PART_REST);
    if (!ends) return;
    output_head(pass);
    forward_add_time(pass, PART_OUTPUT);
}

/* Returns how many threads of at most `most` run the part of the pass; 0: it ends here. */
static int ask_threads(const ForwardPass *pass, int most, double work, double done) {
    for (PassObserver *o = pass->model->observers; o && most > 0; o = o->next)
        if (o->part_begins) most = o->part_begins(o, most, pass->n, work, done);
    return most;
}

/* The multiply-adds of a part of a pass: the fewest that an observer wants. */
static double part_work(const Model *m) {
    double least = INFINITY;
    for (const PassObserver *o = m->observers; o; o = o->next)
        if (o->part_begins && o->part_work < least) least = o->part_work;
    return least;
}

static void end_part(const Model *m) {
    for (PassObserver *o = m->observers; o; o = o->next)
        if (o->part_ends) o->part_ends(o);
}

/* Runs all layers, in parts where they take long. Returns false when an observer ended the pass. */
static bool run_layers(ForwardPass *pass) {
    Model *m = pass->model;
    size_t begin = pass->path->first_layer, end = pass->path->end_layer, n_layers = end - begin;
    double work = m->row_work * (double)pass->n, of_layer = work / (double)n_layers;
    bool asks = m->watched & PASS_PARTS;
    double most = asks && !m->exchange ? part_work(m) : INFINITY;
    size_t n = work > most ? (size_t)(most / of_layer) + 1 : n_layers;
    for (pass->end_layer = begin; pass->end_layer < end;) {
        double done = (double)(pass->end_layer - begin) / (double)n_layers;
        pass->first_layer = pass->end_layer;
        pass->end_layer = n < end - pass->first_layer ? pass->first_layer + n : end;
        double part = of_layer * (double)(pass->end_layer - pass->first_layer);
        int n_threads = part < SOLO_WORK ? 1 : m->n_threads;
        if (asks) n_threads = ask_threads(pass, n_threads, part, done);
        if (n_threads == 0) return false;
        if (n_threads == 1) {
            forward(pass); /* without a parallel region, whose barriers are system calls */
        } else {
            CallSetting setting = call_mode_setting();
#pragma omp parallel num_threads(n_threads)
            {
                CallMode before;
                call_mode_enter(&before, setting);
                forward(pass);
                call_mode_leave(&before);
            }
        }
        if (asks) end_part(m);
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

/* Tells the observers that the pass begins. One of them may let it begin at a later layer, along
 * *path then. */
static void begin_pass(ForwardPass *pass, PassPath *path) {
    *path = *pass->path;
    pass->path = path;
    for (PassObserver *o = pass->model->observers; o; o = o->next) {
        const float *x = NULL;
        if (!o->begin) continue;
        size_t layer = o->begin(o, pass->rows, pass->n, path->is_whole ? &x : NULL);
        if (!path->is_whole || layer == 0) continue;
        path->first_layer = layer;
        path->x = x;
    }
}

/* Runs the layers for n rows: checks the rows, reserves cache pages, computes, and commits the
 * rows to the cache. After a failure the pages are given back. */
Status model_forward_along(Model *m, const PassPath *path, KvCache *cache, const Row *rows,
                           size_t n, float *logits, Error *error) {
    if (n == 0 || n > m->max_rows)
        return error_set(error, "%zu rows, but a call takes 1 to %u", n, m->max_rows);
    for (size_t i = 0; i < n; i++)
        if (check_row(m, cache, rows, i, error) != STATUS_OK) return STATUS_FAILED;
    Status status = reserve_pages(cache, rows, n, error);
    PassPath resumed;
    ForwardPass pass = {
        .model = m, .path = path, .cache = cache, .rows = rows, .n = n, .logits = logits};
    /* Also without pages: the other ranks wait for this call, and then fail likewise. */
    if (m->exchange) m->exchange->begin(m->exchange, &pass, status == STATUS_OK);
    if (status != STATUS_OK) return status;
    if (m->watched & PASS_BEGIN) begin_pass(&pass, &resumed);
    atomic_init(&pass.bad_layer, INT32_MAX);
    if (m->watched & PASS_TIMED) pass.last_time = clock_seconds();
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

Status model_forward(Model *m, KvCache *cache, const Row *rows, size_t n, float *logits,
                     Error *error) {
    const PassPath path = {.end_layer = m->config->n_layers,
                           .embedding = &m->weights.token_embedding,
                           .final_norm = &m->weights.final_norm,
                           .output = &m->weights.output,
                           .is_whole = true};
    return model_forward_along(m, &path, cache, rows, n, logits, error);
}
