#include "modes/open/branches_off.h"

#include <stdlib.h>
#include <string.h>

#include "core/self_attention.h"

/* The kind that attention with some heads off gets: Branch.kind points to its first member. */
typedef struct HeadlessKind {
    BranchKind kind;
    const BranchKind *original;
    const BranchOffList *list;
} HeadlessKind;

struct BranchesOff {
    BranchOffList list;
    HeadlessKind *kinds; /* [branches of the model] */
};

/* ---- Reading --------------------------------------------------------------------------------- */

/* Reads up to six digits at *text, and moves it past them. */
static bool read_number(const char **text, size_t *out) {
    size_t n = strspn(*text, "0123456789");
    if (n == 0 || n > 6) return false;
    *out = strtoul(*text, NULL, 10);
    *text += n;
    return true;
}

bool branches_off_read(const char *value, bool attention, BranchOff *off) {
    *off = (BranchOff){attention, SIZE_MAX, SIZE_MAX};
    if (strncmp(value, "off", 3) != 0) return false;
    value += 3;
    if (*value == '\0') return true;
    if (*value++ != ':' || !read_number(&value, &off->layer)) return false;
    if (*value == '\0') return true;
    return attention && *value++ == '.' && read_number(&value, &off->head) && *value == '\0';
}

/* ---- Heads ----------------------------------------------------------------------------------- */

/* Runs attention as it is, then the output matrix once more with zeros for the sums of the heads
 * that are off. */
static void headless_run(ForwardPass *pass, const Branch *b) {
    const HeadlessKind *kind = (const HeadlessKind *)b->kind;
    Model *m = pass->model;
    const Linear *wo = &m->weights.layers[b->layer].wo;
    const Product out = {&wo->w, b->out, wo->w.rows};
    const HeadShape h = config_heads(m->config, b->layer);
    kind->original->run(pass, b);
    Rows memory = arena_rows(&m->arena);
    const SelfAttentionRows rows = self_attention_take_rows(&memory, m, b->layer);
    forward_wait(pass);
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++)
        for (size_t k = 0; k < kind->list->n; k++) {
            const BranchOff *off = &kind->list->items[k];
            if (off->head == SIZE_MAX || off->layer != b->layer) continue;
            float *sum = rows.attended + (i * h.n_heads + off->head) * h.value_dim;
            memset(sum, 0, h.value_dim * sizeof *sum);
        }
    forward_wait(pass);
    forward_multiply(m, rows.attended, pass->n, &out, 1);
}

/* Gives the layer's attention a kind that leaves heads out. */
static Status switch_head(BranchesOff *all, Model *m, const BranchOff *off, Branch *b,
                          Error *error) {
    const LayerWeights *w = &m->weights.layers[off->layer];
    const HeadShape h = config_heads(m->config, off->layer);
    HeadlessKind *kind = &all->kinds[b - m->branches.all];
    if (off->head >= h.n_heads)
        return error_set(error, "--override attention=off:%zu.%zu: the layer has heads 0 to %u",
                         off->layer, off->head, h.n_heads - 1);
    if (b->kind == &kind->kind) return STATUS_OK; /* an earlier head's */
    if (b->kind != &self_attention_kind || w->inner_norm.present || m->exchange)
        return error_set(error,
                         "--override attention=off:%zu.%zu: single heads are switched off in plain "
                         "attention alone, without other masks and in one process",
                         off->layer, off->head);
    *kind = (HeadlessKind){.kind = *b->kind, .original = b->kind, .list = &all->list};
    kind->kind.run = headless_run;
    b->kind = &kind->kind;
    return STATUS_OK;
}

/* ---- Branches -------------------------------------------------------------------------------- */

static bool is_of(const Model *m, const Branch *b, bool attention) {
    bool ffn = b->kind == &forward_ffn_kind || b->kind == m->layers->mixture;
    bool attends = b->kind->has_heads || strstr(b->kind->name, "attention");
    return attention ? attends && !ffn : ffn;
}

/* Switches off the branches that `off` means; a branch that adds 0 times its output adds nothing.
 */
static Status switch_off(BranchesOff *all, Model *m, const BranchOff *off, Error *error) {
    const char *name = off->attention ? "attention" : "ffn";
    size_t n = 0;
    if (off->layer != SIZE_MAX && off->layer >= m->config->n_layers)
        return error_set(error, "--override %s=off:%zu: the model has layers 0 to %u", name,
                         off->layer, m->config->n_layers - 1);
    for (size_t i = 0; i < m->branches.n; i++) {
        Branch *b = &m->branches.all[i];
        if (!is_of(m, b, off->attention) || (off->layer != SIZE_MAX && b->layer != off->layer))
            continue;
        n++;
        if (off->head != SIZE_MAX) {
            if (switch_head(all, m, off, b, error) != STATUS_OK) return STATUS_FAILED;
            continue;
        }
        if (b->addition != ADD_TO_X || b->also || (b->streams && b->streams->add))
            return error_set(error,
                             "--override %s=off: layer %zu does not add its output to x alone",
                             name, b->layer);
        b->scale = 0.0f;
    }
    if (n > 0) return STATUS_OK;
    return error_set(error, "--override %s=off: no such branch there (--layers prints them)", name);
}

Status branches_off_apply(BranchesOff **out, Model *model, const BranchOffList *list,
                          Error *error) {
    BranchesOff *all = calloc(1, sizeof *all);
    *out = all;
    if (!all) return error_set(error, "no memory for branches");
    all->list = *list;
    all->kinds = calloc(model->branches.n + 1, sizeof *all->kinds);
    if (!all->kinds) return error_set(error, "no memory for branches");
    Status status = STATUS_OK;
    for (size_t i = 0; i < list->n && status == STATUS_OK; i++)
        status = switch_off(all, model, &all->list.items[i], error);
    return status;
}

void branches_off_free(BranchesOff *off) {
    if (!off) return;
    free(off->kinds);
    free(off);
}
