#include "branches.h"

#include <stdlib.h>

#include "self_attention.h"

enum { MOST_BRANCHES = 6 }; /* of one layer */

/* ---- Appending ---- */

static Branch *append(Model *m, size_t l) {
    BranchList *list = &m->branches;
    Branch *b = &list->all[list->n++];
    *b =
        (Branch){.layer = l, .in = m->x, .out = m->y, .share = 1.0f, .before = 1.0f, .after = 1.0f};
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

void branches_read(Branch *b, const Norm *pre, float *in) {
    b->pre = pre;
    b->in = in;
}

Branch *branches_mix(Model *m, size_t l) {
    const Config *c = m->config;
    const LayerWeights *w = &m->weights.layers[l];
    Branch *b = append(m, l);
    b->kind = &self_attention_kind;
    if (c->layer_kind[l] != LAYER_ATTENTION) b->kind = layer_kind(c->layer_kind[l]);
    b->weights = w->own;
    b->last = &w->wo;
    b->post = if_present(&w->post_attention_norm);
    b->scale = c->residual_scale;
    return b;
}

Branch *branches_feed_forward(Model *m, size_t l) {
    const LayerWeights *w = &m->weights.layers[l];
    Branch *b = append(m, l);
    b->kind = w->router.w.data ? mixture_kind() : &feed_forward_kind;
    b->last = &w->ffn.down;
    b->post = if_present(&w->post_ffn_norm);
    b->scale = m->config->residual_scale;
    return b;
}

/* ---- Layers of one stream ---- */

/* Where the layer's norms are: before f, after the sum, or both around f. */
static void place_norm(const Model *m, Branch *b, const Norm *norm) {
    NormPlace place = m->config->norm_place;
    if (place == NORM_AFTER) b->norm_after = norm;
    if (place == NORM_AFTER || place == NORM_OUTPUT) return;
    branches_read(b, norm, m->normed);
    b->pre_replaces_x = place == NORM_STREAM;
}

/* x += attention(norm(x)) and feed-forward(norm(x)), of one norm or of two. */
static void list_parallel(Model *m, size_t l) {
    const LayerWeights *w = &m->weights.layers[l];
    Branch *attention = branches_mix(m, l), *ffn = branches_feed_forward(m, l);
    attention->same_x = true;
    branches_read(attention, &w->attention_norm, m->normed);
    branches_read(ffn, if_present(&w->ffn_norm), w->ffn_norm.present ? m->normed2 : m->normed);
    ffn->out = m->z;
}

void branches_list(Model *m, size_t l) {
    const LayerWeights *w = &m->weights.layers[l];
    if (m->config->parallel_block) {
        list_parallel(m, l);
        return;
    }
    if (m->config->layer_kind[l] != LAYER_NONE)
        place_norm(m, branches_mix(m, l), &w->attention_norm);
    if (!m->config->without_ffn[l]) place_norm(m, branches_feed_forward(m, l), &w->ffn_norm);
}

/* ---- Of a model ---- */

Status branches_make(Model *m, Error *error) {
    BranchList *list = &m->branches;
    const Config *c = m->config;
    list->all = calloc((size_t)c->n_layers * MOST_BRANCHES, sizeof *list->all);
    if (!list->all) return error_set(error, "no memory for the branches of %u layers", c->n_layers);
    for (size_t l = 0; l < c->n_layers; l++) {
        list->first[l] = list->n;
        m->arrangement->list(m, l);
    }
    list->first[c->n_layers] = list->n;
    return STATUS_OK;
}
