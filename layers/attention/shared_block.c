#include "layers/attention/shared_block.h"

#include <stdio.h>
#include <string.h>

#include "core/branches.h"
#include "layers/attention/attention_part.h"
#include "layers/layer_allocate.h"
#include "layers/state/mamba.h"
#include "layers/state/mamba2.h"

typedef struct Adapter {
    Matrix in, out; /* adapter_rank x inputs, outputs x adapter_rank */
} Adapter;

typedef struct SharedBlock {
    /* The block's, which other layers have as well. */
    Norm norm, ffn_norm; /* [2 dim], [dim] */
    AttentionPart attention;
    Linear gate, up, down;
    /* The layer's own. */
    Adapter adapters[3]; /* of q, k and v; without data: none */
    Adapter gate_adapter, up_adapter;
    Matrix out; /* dim x dim */
    /* A Mamba2 or, of shared_mamba_kind, a Mamba, which lies after this struct. */
    void *mamba;
} SharedBlock;

/* The working memory of a call: arrays of n rows each. Attention and the feed-forward network work
 * one after the other in the same memory. */
typedef struct SharedRows {
    float *joined; /* [2 dim]  the input of attention */
    float *t;      /* [dim]    its output, and the feed-forward network's input */
    AttentionPartRows attention;
    float *narrow, *wide; /* [adapter_rank], [n_heads * the wider of head_dim and value_dim] */
    struct {
        float *gate, *up;     /* [ffn_dim] */
        float *narrow, *wide; /* [adapter_rank], [ffn_dim] */
        float *y;             /* [dim] */
    } ffn;
} SharedRows;

static SharedRows shared_block_take_rows(Rows *memory, const Model *m, size_t layer) {
    const Config *c = m->config;
    const HeadShape h = config_heads(c, layer);
    size_t n = m->max_rows, each = h.head_dim > h.value_dim ? h.head_dim : h.value_dim;
    SharedRows rows;
    rows.joined = rows_take(memory, n, 2 * (size_t)c->dim);
    rows.t = rows_take(memory, n, c->dim);
    Rows again = *memory;
    rows.attention = attention_part_take(memory, m, layer);
    rows.narrow = rows_take(memory, n, c->adapter_rank);
    rows.wide = rows_take(memory, n, h.n_heads * each);
    rows.ffn.gate = rows_take(&again, n, c->ffn_dim);
    rows.ffn.up = rows_take(&again, n, c->ffn_dim);
    rows.ffn.narrow = rows_take(&again, n, c->adapter_rank);
    rows.ffn.wide = rows_take(&again, n, c->ffn_dim);
    rows.ffn.y = rows_take(&again, n, c->dim);
    if (again.used > memory->used) *memory = again;
    return rows;
}

static void shared_rows(Rows *memory, const Model *m, const Branch *b) {
    shared_block_take_rows(memory, m, b->layer);
}

/* ---- Weights ---- */

static Adapter find_adapter(Finder *f, const char *in, const char *out, size_t outputs,
                            size_t inputs, bool required) {
    Adapter found = {.in = weights_matrix(f, in, f->config->adapter_rank, inputs, required)};
    if (found.in.data) found.out = weights_matrix(f, out, outputs, f->config->adapter_rank, true);
    return found;
}

/* Which of the shared blocks a layer uses: its layers take them in turn. */
static uint32_t block_of(const Config *c, uint32_t layer) {
    uint32_t n = 0;
    for (uint32_t l = 0; l < layer; l++)
        n += c->layer_kind[l] == LAYER_SHARED || c->layer_kind[l] == LAYER_SHARED_MAMBA;
    return n % c->shared_blocks;
}

static void find_block(Finder *f, uint32_t layer, SharedBlock *w) {
    const Config *c = f->config;
    char saved_prefix[sizeof f->prefix];
    memcpy(saved_prefix, f->prefix, sizeof saved_prefix);
    snprintf(f->prefix, sizeof f->prefix, "blocks.%u.", block_of(c, layer));
    w->norm = weights_norm(f, "norm", 2 * (size_t)c->dim, true);
    attention_part_find(f, layer, 2 * (size_t)c->dim, &w->attention);
    w->ffn_norm = weights_norm(f, "ffn_norm", c->dim, true);
    w->gate = weights_linear(f, "w_gate", c->ffn_dim, c->dim, true);
    w->up = weights_linear(f, "w_up", c->ffn_dim, c->dim, true);
    w->down = weights_linear(f, "w_down", c->dim, c->ffn_dim, true);
    memcpy(f->prefix, saved_prefix, sizeof saved_prefix);
}

/* The layer's own adapters of the block. */
static void find_adapters(Finder *f, SharedBlock *w) {
    static const char *const names[3][2] = {{"adapter.q.in", "adapter.q.out"},
                                            {"adapter.k.in", "adapter.k.out"},
                                            {"adapter.v.in", "adapter.v.out"}};
    const Config *c = f->config;
    const Linear *projections[3] = {&w->attention.wq, &w->attention.wk, &w->attention.wv};
    for (size_t i = 0; i < 3; i++)
        w->adapters[i] = find_adapter(f, names[i][0], names[i][1], projections[i]->w.rows,
                                      2 * (size_t)c->dim, i > 0 && w->adapters[0].in.data);
    w->gate_adapter =
        find_adapter(f, "adapter.ffn.in", "adapter.gate.out", c->ffn_dim, c->dim, true);
    w->up_adapter = find_adapter(f, "adapter.ffn.in", "adapter.up.out", c->ffn_dim, c->dim, true);
}

/* Finds every weight but the Mamba block's, for whose struct it allocates mamba_size bytes. */
static SharedBlock *find_around(Finder *f, uint32_t layer, size_t mamba_size) {
    SharedBlock *w = layer_allocate(f, sizeof *w + mamba_size);
    if (!w) return NULL;
    w->mamba = w + 1;
    find_block(f, layer, w);
    if (f->config->adapter_rank > 0) find_adapters(f, w);
    w->out = weights_matrix(f, "block_out", f->config->dim, f->config->dim, true);
    return w;
}

static void *shared_block_find(Finder *f, uint32_t layer) {
    SharedBlock *w = find_around(f, layer, sizeof(Mamba2));
    if (w) mamba2_find(f, w->mamba);
    return w;
}

static void *shared_mamba_find(Finder *f, uint32_t layer) {
    SharedBlock *w = find_around(f, layer, mamba_bytes(f->config));
    if (w) mamba_find(f, w->mamba);
    return w;
}

static KvLayer shared_block_cached(const Config *c, uint32_t layer) {
    KvLayer stored = attention_part_cached(c, layer);
    stored.state_floats = mamba2_state_floats(c);
    return stored;
}

static KvLayer shared_mamba_cached(const Config *c, uint32_t layer) {
    KvLayer stored = attention_part_cached(c, layer);
    stored.state_floats = mamba_state_floats(c);
    return stored;
}

/* ---- The block ---- */

/* joined = the norm of the residual stream beside the tokens' embeddings. */
static void shared_block_join(ForwardPass *pass, const SharedBlock *w, float *joined) {
    Model *m = pass->model;
    size_t dim = m->config->dim;
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++) {
        float *row = joined + i * 2 * dim;
        memcpy(row, m->x + i * dim, dim * sizeof *row);
        matrix_row(pass->path->embedding, (size_t)pass->rows[i].token, row + dim);
        if (m->config->embedding_scale != 1.0f)
            m->isa->numeric->scale(row + dim, m->config->embedding_scale, dim);
        forward_normalize(m, &w->norm, row, row, 2 * dim);
    }
    forward_wait(pass);
}

/* x[n][outputs] += what the adapter makes of in[n][inputs]; narrow and wide are working memory. */
static void add_adapter(ForwardPass *pass, const Adapter *a, const float *in, float *narrow,
                        float *wide, float *x) {
    Model *m = pass->model;
    size_t width = a->out.rows;
    if (!a->in.data) return;
    forward_multiply(m, in, pass->n, &(Product){&a->in, narrow, a->in.rows}, 1);
    forward_multiply(m, narrow, pass->n, &(Product){&a->out, wide, width}, 1);
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++)
        m->isa->numeric->add_scaled(x + i * width, wide + i * width, 1.0f, width);
    forward_wait(pass);
}

/* t = attention of the joined rows, without the bias of wo. */
static void shared_block_attend(ForwardPass *pass, size_t layer, const SharedBlock *w,
                                const SharedRows *rows) {
    const AttentionPartRows *parts = &rows->attention;
    float *const projected[3] = {parts->q, parts->k, parts->v};
    attention_part_project(pass, &w->attention, rows->joined, parts);
    for (size_t i = 0; i < 3; i++)
        add_adapter(pass, &w->adapters[i], rows->joined, rows->narrow, rows->wide, projected[i]);
    attention_part_attend(pass, layer, &w->attention, parts, rows->t);
}

/* out[n][dim] = block_out * feed-forward(norm(t + the bias of wo)), where t is the output of
 * shared_block_attend. */
static void shared_block_feed_forward(ForwardPass *pass, const SharedBlock *w,
                                      const SharedRows *rows, float *out) {
    Model *m = pass->model;
    const Numeric *numeric = m->isa->numeric;
    size_t dim = m->config->dim, width = m->config->ffn_dim;
    const Product inner[] = {{&w->gate.w, rows->ffn.gate, width}, {&w->up.w, rows->ffn.up, width}};
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++) {
        float *t = rows->t + i * dim;
        forward_add_bias(m, &w->attention.wo, t);
        forward_normalize(m, &w->ffn_norm, t, t, dim);
    }
    forward_wait(pass);
    forward_multiply(m, rows->t, pass->n, inner, 2);
    add_adapter(pass, &w->gate_adapter, rows->t, rows->ffn.narrow, rows->ffn.wide, rows->ffn.gate);
    add_adapter(pass, &w->up_adapter, rows->t, rows->ffn.narrow, rows->ffn.wide, rows->ffn.up);
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++) {
        float *gate = rows->ffn.gate + i * width, *up = rows->ffn.up + i * width;
        forward_add_bias(m, &w->gate, gate);
        forward_add_bias(m, &w->up, up);
        numeric->activate(m->config->activation, gate, up, width);
    }
    forward_wait(pass);
    forward_multiply(m, rows->ffn.gate, pass->n, &(Product){&w->down.w, rows->ffn.y, dim}, 1);
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++) forward_add_bias(m, &w->down, rows->ffn.y + i * dim);
    forward_wait(pass);
    forward_multiply(m, rows->ffn.y, pass->n, &(Product){&w->out, out, dim}, 1);
    forward_add_time(pass, PART_FEED_FORWARD);
}

static void shared_block_run(ForwardPass *pass, const Branch *b) {
    const SharedBlock *w = b->weights;
    Rows memory = arena_rows(&pass->model->arena);
    const SharedRows rows = shared_block_take_rows(&memory, pass->model, b->layer);
    shared_block_join(pass, w, rows.joined);
    forward_add_time(pass, PART_REST);
    shared_block_attend(pass, b->layer, w, &rows);
    shared_block_feed_forward(pass, w, &rows, b->out);
}

/* x += mamba(pre(x + block(x and the tokens' embeddings))) */
static void shared_block_list(Model *m, size_t l, const Norm *pre, float *in) {
    static const BranchKind kind = {
        .name = "shared block", .run = shared_block_run, .rows = shared_rows};
    const SharedBlock *w = m->weights.layers[l].own;
    bool is_mamba2 = m->config->layer_kind[l] == LAYER_SHARED;
    Branch *block = branches_append(m, l, &kind);
    block->weights = w;
    block->out = branches_second_output(m);
    block->addition = ADD_TO_INPUT;
    Branch *mamba = branches_append(m, l, is_mamba2 ? &mamba2_kind : &mamba_kind);
    branches_set_input(mamba, pre, in);
    mamba->weights = w->mamba;
    mamba->plus = block;
}

const BranchKind shared_block_kind = {
    .find = shared_block_find, .cached = shared_block_cached, .list = shared_block_list};

const BranchKind shared_mamba_kind = {
    .find = shared_mamba_find, .cached = shared_mamba_cached, .list = shared_block_list};
