#include "ports/cluster/cut.h"

const RankShare *cut_find(Division *d, size_t width, size_t unit, size_t group) {
    const RankShare *found = shares_find(d->shares, width, unit, group, 0);
    if (!found) d->failed = true;
    return found;
}

const RankShare *cut_find_heads(Division *d, size_t n, size_t value_dim, size_t unit,
                                size_t group) {
    const RankShare *found =
        shares_find(d->shares, n * value_dim, unit * value_dim, group, value_dim);
    if (!found) d->failed = true;
    return found;
}

void cut_rows(Matrix *w, size_t first, size_t n) {
    w->data += first / PANEL_ROWS * w->panel_bytes;
    w->rows = n;
}

void cut_projection(Linear *linear, const RankShare *s) {
    if (!linear->w.data) return;
    cut_rows(&linear->w, s->first, s->own);
    if (linear->bias) linear->bias += s->first;
}

void cut_last(Linear *linear, const RankShare *s) {
    cut_rows(&linear->w, s->first, s->own);
    linear->outputs = &s->share;
}

size_t cut_codes(const Division *d, const Linear *linear) {
    return d->floats ? 0 : tensor_type_info(linear->w.type)->group;
}

bool cut_ffn(Division *d, FeedForward *f, const RankShare *out, size_t group) {
    if (!f->up.w.data) return true;
    const RankShare *s = cut_find(d, f->width, WEIGHT_GROUP_MAX, group);
    if (!s) return false;
    cut_last(&f->down, out);
    if (f->inner_norm.present) return false;
    cut_projection(&f->up, s);
    cut_projection(&f->gate, s);
    f->width = s->own;
    f->down.inputs = &s->share;
    return true;
}

bool cut_experts(Division *d, FeedForward *experts, size_t n, const RankShare *out) {
    bool all = true;
    /* The hidden vectors of several experts are gathered at once. */
    size_t group = n > 0 ? cut_codes(d, &experts->down) : 0;
    for (size_t e = 0; e < n; e++)
        if (cut_codes(d, &experts[e].down) != group) group = 0;
    for (size_t e = 0; e < n && !d->failed; e++) {
        all = cut_ffn(d, &experts[e], out, group) && all;
        if (experts[e].down.bias) experts[e].down.bias += out->first;
    }
    return all;
}
