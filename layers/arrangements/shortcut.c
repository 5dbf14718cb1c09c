/* LongCat-Flash: every second layer has a mixture beside its feed-forward, both of one input, and
 * the mixture's output skips the next layer: it is added after that layer's feed-forward. (LongCat
 * calls two such layers one, with two attentions.) */
#include "layers/arrangements/arrangements.h"
#include "layers/experts/mixture.h"

/* The next layer may have no mixture: there is room for one output. */
static void shortcut_find(Finder *f, Weights *weights) {
    for (uint32_t l = 1; f->status == STATUS_OK && l < weights->n_layers; l++)
        if (weights->layers[l].router.w.data && weights->layers[l - 1].router.w.data)
            f->status =
                error_set(f->error, "layers %u and %u of stack 'shortcut' have mixtures", l - 1, l);
}

/* The mixture of layer l whose output the next layer adds; NULL: it has none. */
static Branch *pending_mixture(const Model *m, size_t l) {
    const BranchList *list = &m->branches;
    for (size_t i = list->first[l]; i < list->first[l + 1]; i++)
        if (list->all[i].addition == ADD_LATER) return &list->all[i];
    return NULL;
}

/* Lists the branches of layer l: attention, a mixture where the layer has one, and the
 * feed-forward, which also adds the output of the previous layer's mixture, kept until here. */
static void shortcut_list(Model *m, size_t l) {
    const LayerWeights *w = &m->weights.layers[l];
    branches_append_attention(m, l, &w->attention_norm, m->normed);
    const Branch *pending = l > 0 ? pending_mixture(m, l - 1) : NULL;
    Branch *mixture = NULL;
    if (w->router.w.data) {
        mixture = branches_append(m, l, &mixture_kind);
        branches_set_input(mixture, &w->ffn_norm, m->normed);
        mixture->out = arena_keep(&m->arena, "pending mixture", m->max_rows, m->config->dim);
        mixture->scale = m->config->residual_scale;
        mixture->addition = ADD_LATER;
        mixture->same_x = true;
    }
    Branch *ffn = branches_append(m, l, &forward_ffn_kind);
    branches_set_input(ffn, mixture ? NULL : &w->ffn_norm, m->normed);
    ffn->last_linear = &w->ffn.down;
    ffn->sum_post = w->post_ffn_norm.present ? &w->post_ffn_norm : NULL;
    ffn->scale = m->config->residual_scale;
    ffn->also = pending;
}

const Arrangement shortcut_arrangement = {.find = shortcut_find, .list = shortcut_list};
