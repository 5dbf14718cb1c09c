#include "layers/shared_block.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "layers/attention_part.h"
#include "layers/mamba2.h"

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
    Mamba2 mamba;
} SharedBlock;

/* The working memory of a call: arrays of n rows each. `memory` serves one step after another. */
typedef struct BlockRows {
    float *joined; /* [2 dim]  the input of attention */
    float *t;      /* [dim] */
    float *memory;
} BlockRows;

/* What a feed-forward needs in `memory`. */
typedef struct BlockFfn {
    float *gate, *up;     /* [ffn_dim] */
    float *narrow, *wide; /* [adapter_rank], [ffn_dim] */
    float *y;             /* [dim] */
} BlockFfn;

static BlockFfn ffn_rows(const Model *m, float *memory) {
    const Config *c = m->config;
    BlockFfn rows = {.gate = memory};
    rows.up = rows.gate + m->max_rows * c->ffn_dim;
    rows.wide = rows.up + m->max_rows * c->ffn_dim;
    rows.narrow = rows.wide + m->max_rows * c->ffn_dim;
    rows.y = rows.narrow + m->max_rows * c->adapter_rank;
    return rows;
}

static size_t larger(size_t a, size_t b) {
    return a > b ? a : b;
}

static size_t row_floats(const Config *c) {
    const HeadShape h = config_heads(c, 0);
    size_t attention = attention_part_row_floats(c) + c->adapter_rank +
                       (size_t)h.n_heads * larger(h.head_dim, h.value_dim);
    size_t ffn = 3 * (size_t)c->ffn_dim + c->adapter_rank + c->dim;
    size_t mamba = c->dim + mamba2_row_floats(c);
    return 3 * (size_t)c->dim + larger(attention, larger(ffn, mamba));
}

static BlockRows rows_of(const Model *m) {
    BlockRows rows = {.joined = m->layer_rows};
    rows.t = rows.joined + m->max_rows * 2 * m->config->dim;
    rows.memory = rows.t + m->max_rows * m->config->dim;
    return rows;
}

/* ---- Weights ---- */

static Adapter find_adapter(Finder *f, const char *in, const char *out, size_t outputs,
                            size_t inputs, bool required) {
    Adapter found = {.in = weights_matrix(f, in, f->config->adapter_rank, inputs, required)};
    if (found.in.data) found.out = weights_matrix(f, out, outputs, f->config->adapter_rank, true);
    return found;
}

/* Blocks take turns: the layer's number among its kind chooses. */
static uint32_t block_of(const Config *c, uint32_t layer) {
    uint32_t n = 0;
    for (uint32_t l = 0; l < layer; l++) n += c->layer_kind[l] == LAYER_SHARED;
    return n % c->shared_blocks;
}

static void find_block(Finder *f, uint32_t layer, SharedBlock *w) {
    const Config *c = f->config;
    char own[sizeof f->prefix];
    memcpy(own, f->prefix, sizeof own);
    snprintf(f->prefix, sizeof f->prefix, "blocks.%u.", block_of(c, layer));
    w->norm = weights_norm(f, "norm", 2 * (size_t)c->dim, true);
    attention_part_find(f, layer, 2 * (size_t)c->dim, &w->attention);
    w->ffn_norm = weights_norm(f, "ffn_norm", c->dim, true);
    w->gate = weights_linear(f, "w_gate", c->ffn_dim, c->dim, true);
    w->up = weights_linear(f, "w_up", c->ffn_dim, c->dim, true);
    w->down = weights_linear(f, "w_down", c->dim, c->ffn_dim, true);
    memcpy(f->prefix, own, sizeof own);
}

static void *find(Finder *f, uint32_t layer) {
    static const char *const names[3][2] = {{"adapter.q.in", "adapter.q.out"},
                                            {"adapter.k.in", "adapter.k.out"},
                                            {"adapter.v.in", "adapter.v.out"}};
    const Config *c = f->config;
    SharedBlock *w = calloc(1, sizeof *w);
    if (!w) {
        f->status = error_set(f->error, "no memory for a layer");
        return NULL;
    }
    find_block(f, layer, w);
    const Linear *projections[3] = {&w->attention.wq, &w->attention.wk, &w->attention.wv};
    for (size_t i = 0; i < 3; i++)
        w->adapters[i] = find_adapter(f, names[i][0], names[i][1], projections[i]->w.rows,
                                      2 * (size_t)c->dim, i > 0 && w->adapters[0].in.data);
    w->gate_adapter =
        find_adapter(f, "adapter.ffn.in", "adapter.gate.out", c->ffn_dim, c->dim, true);
    w->up_adapter = find_adapter(f, "adapter.ffn.in", "adapter.up.out", c->ffn_dim, c->dim, true);
    w->out = weights_matrix(f, "block_out", c->dim, c->dim, true);
    mamba2_find(f, &w->mamba);
    return w;
}

static KvLayer cached(const Config *c, uint32_t layer) {
    KvLayer stored = attention_part_cached(c, layer);
    stored.state_floats = mamba2_state_floats(c);
    return stored;
}

/* ---- The block ---- */

/* joined = the norm of the residual stream beside the tokens' embeddings. */
static void join(ForwardPass *pass, const SharedBlock *w, float *joined) {
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

/* t = attention of the joined rows. */
static void attend(ForwardPass *pass, size_t layer, const SharedBlock *w, const BlockRows *rows) {
    Model *m = pass->model;
    const AttentionPartRows parts = attention_part_rows(m, rows->memory);
    float *narrow = parts.end, *wide = narrow + m->max_rows * m->config->adapter_rank;
    float *const projected[3] = {parts.q, parts.k, parts.v};
    attention_part_project(pass, &w->attention, rows->joined, &parts);
    for (size_t i = 0; i < 3; i++)
        add_adapter(pass, &w->adapters[i], rows->joined, narrow, wide, projected[i]);
    attention_part_attend(pass, layer, &w->attention, &parts, rows->t);
}

/* t = out(feed-forward of the norm of t). */
static void feed(ForwardPass *pass, const SharedBlock *w, const BlockRows *rows) {
    Model *m = pass->model;
    const Numeric *numeric = m->isa->numeric;
    size_t dim = m->config->dim, width = m->config->ffn_dim;
    const BlockFfn ffn = ffn_rows(m, rows->memory);
    const Product inner[] = {{&w->gate.w, ffn.gate, width}, {&w->up.w, ffn.up, width}};
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++)
        forward_normalize(m, &w->ffn_norm, rows->t + i * dim, rows->t + i * dim, dim);
    forward_wait(pass);
    forward_multiply(m, rows->t, pass->n, inner, 2);
    add_adapter(pass, &w->gate_adapter, rows->t, ffn.narrow, ffn.wide, ffn.gate);
    add_adapter(pass, &w->up_adapter, rows->t, ffn.narrow, ffn.wide, ffn.up);
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++) {
        float *gate = ffn.gate + i * width, *up = ffn.up + i * width;
        forward_add_bias(m, &w->gate, gate);
        forward_add_bias(m, &w->up, up);
        numeric->activate(m->config->activation, gate, up, width);
    }
    forward_wait(pass);
    forward_multiply(m, ffn.gate, pass->n, &(Product){&w->down.w, ffn.y, dim}, 1);
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++) forward_add_bias(m, &w->down, ffn.y + i * dim);
    forward_wait(pass);
    forward_multiply(m, ffn.y, pass->n, &(Product){&w->out, rows->t, dim}, 1);
    forward_add_time(pass, PART_FEED_FORWARD);
}

/* The layer's input `in`, the norm of the residual stream alone, is not needed. */
static void shared_block_run(ForwardPass *pass, const Branch *b) {
    size_t layer = b->layer;
    float *y = b->out;
    Model *m = pass->model;
    const SharedBlock *w = b->weights;
    const BlockRows rows = rows_of(m);
    size_t dim = m->config->dim;
    join(pass, w, rows.joined);
    forward_add_time(pass, PART_REST);
    attend(pass, layer, w, &rows);
    feed(pass, w, &rows);
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++) {
        float *row = rows.memory + i * dim;
        memcpy(row, m->x + i * dim, dim * sizeof *row);
        m->isa->numeric->add_scaled(row, rows.t + i * dim, 1.0f, dim);
        forward_normalize(m, &m->weights.layers[layer].attention_norm, row, row, dim);
    }
    forward_wait(pass);
    mamba2_run(pass, layer, &w->mamba, rows.memory, rows.memory + m->max_rows * dim, y);
}

const BranchKind shared_block_layer = {
    .name = "shared block",
    .find = find,
    .row_floats = row_floats,
    .cached = cached,
    .run = shared_block_run,
};
