#include "core/branches.h"

#include <stdlib.h>

#include "core/self_attention.h"

/* ---- Appending ---- */

static Branch *append(Model *m, size_t l) {
    BranchList *list = &m->branches;
    Branch *b = &list->all[list->n++];
    *b = (Branch){
        .layer = l, .in = m->x, .out = m->y, .part_scale = 1.0f, .before = 1.0f, .after = 1.0f};
    b->scale = 1.0f;
    return b;
}

Branch *branches_append(Model *m, size_t l, const BranchKind *kind) {
    Branch *b = append(m, l);
    b->kind = kind;
    return b;
}

/* The norm, or NULL where the model does not apply it. */
static const Norm *if_present(const Norm *norm) {
    return norm->present ? norm : NULL;
}

void branches_set_input(Branch *b, const Norm *pre, float *in) {
    b->pre = pre;
    b->in = in;
}

float *branches_second_input(Model *m) {
    return arena_keep(&m->arena, "second input", m->max_rows, m->config->dim);
}

float *branches_second_output(Model *m) {
    return arena_keep(&m->arena, "second output", m->max_rows, m->config->dim);
}

Branch *branches_last(Model *m) {
    return &m->branches.all[m->branches.n - 1];
}

/* The layer's one branch that is not a feed-forward network. */
static void list_one(Model *m, size_t l, const BranchKind *kind, const Norm *pre, float *in) {
    const LayerWeights *w = &m->weights.layers[l];
    Branch *b = branches_append(m, l, kind);
    branches_set_input(b, pre, in);
    b->weights = w->own;
    b->last_linear = &w->wo;
    if (kind->kept_floats)
        b->kept = arena_keep(&m->arena, kind->name, m->max_rows, kind->kept_floats(m->config));
}

Branch *branches_append_attention(Model *m, size_t l, const Norm *pre, float *in) {
    const LayerWeights *w = &m->weights.layers[l];
    const BranchKind *kind = w->kind ? w->kind : &self_attention_kind;
    size_t first = m->branches.n;
    if (kind->list)
        kind->list(m, l, pre, in);
    else
        list_one(m, l, kind, pre, in);
    branches_last(m)->sum_post = if_present(&w->post_attention_norm);
    branches_last(m)->scale *= m->config->residual_scale;
    return &m->branches.all[first];
}

Branch *branches_append_feed_forward(Model *m, size_t l, const Norm *pre, float *in) {
    const LayerWeights *w = &m->weights.layers[l];
    Branch *b = append(m, l);
    b->kind = w->router.w.data ? m->layers->mixture : &forward_ffn_kind;
    branches_set_input(b, pre, in);
    b->last_linear = &w->ffn.down;
    b->sum_post = if_present(&w->post_ffn_norm);
    b->scale = m->config->residual_scale;
    return b;
}

/* ---- Layers of one stream ---- */

/* x += attention(norm(x)) and feed-forward(norm(x)), of one norm or of two. */
static void list_parallel(Model *m, size_t l) {
    const LayerWeights *w = &m->weights.layers[l];
    bool two = w->ffn_norm.present;
    branches_append_attention(m, l, &w->attention_norm, m->normed);
    branches_last(m)->same_x = true;
    Branch *ffn = branches_append_feed_forward(m, l, if_present(&w->ffn_norm),
                                               two ? branches_second_input(m) : m->normed);
    ffn->out = arena_keep(&m->arena, "feed-forward output", m->max_rows, m->config->dim);
}

/* One half of a layer, f = branches_append_attention or branches_append_feed_forward, with its norm
 * before f, after the sum, or neither (sum_post is there where the norm is after f). */
static void list_half(Model *m, size_t l,
                      Branch *(*f)(Model *m, size_t l, const Norm *pre, float *in),
                      const Norm *norm) {
    NormPlace place = m->config->norm_place;
    bool before = place != NORM_AFTER && place != NORM_OUTPUT;
    Branch *first = f(m, l, before ? norm : NULL, before ? m->normed : m->x);
    first->pre_replaces_x = place == NORM_STREAM && first->pre;
    if (place == NORM_AFTER) branches_last(m)->norm_after = norm;
}

void branches_append_layer(Model *m, size_t l) {
    const Config *c = m->config;
    const LayerWeights *w = &m->weights.layers[l];
    if (c->parallel_block) {
        list_parallel(m, l);
        return;
    }
    if (c->layer_kind[l] != LAYER_NONE)
        list_half(m, l, branches_append_attention, &w->attention_norm);
    if (!c->without_ffn[l]) list_half(m, l, branches_append_feed_forward, &w->ffn_norm);
}

/* ---- A model's branches ---- */

Status branches_new(Model *m, Error *error) {
    size_t n_layers = m->config->n_layers;
    m->branches.all = calloc(n_layers * MOST_BRANCHES, sizeof *m->branches.all);
    if (m->branches.all) return STATUS_OK;
    return error_set(error, "no memory for the branches of %zu layers", n_layers);
}

void branches_make(Model *m) {
    BranchList *list = &m->branches;
    if (m->arrangement->keep) m->arrangement->keep(m);
    list->n = 0;
    for (size_t l = 0; l < m->config->n_layers; l++) {
        list->first[l] = list->n;
        m->arrangement->list(m, l);
    }
    list->first[m->config->n_layers] = list->n;
    for (const Branch *b = list->all; b < list->all + list->n; b++) {
        Rows memory = arena_rows(&m->arena);
        if (b->kind->rows) b->kind->rows(&memory, m, b);
        arena_count(&m->arena, &memory);
    }
}
