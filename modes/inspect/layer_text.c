#include "modes/inspect/layer_text.h"

#include <math.h>
#include <string.h>

#include "modes/inspect/attention_formula.h"
#include "modes/inspect/attention_text.h"
#include "modes/inspect/layer_lists.h"
#include "modes/inspect/layer_rope.h"

/* ---- Statistics ------------------------------------------------------------------------------ */

static void write_columns(Sheet *out) {
    sheet_printf(out, "  %-24s %-9s %9s %9s %9s %9s %9s\n", "", "shape", "mean", "variance", "size",
                 "smallest", "largest");
}

/* A row of statistics of x[rows * width]; rows 0: of x[width]. NULL: no row. */
static void write_row(const char *name, const float *x, size_t rows, size_t width, Sheet *out) {
    char shape[32];
    if (!x) return;
    const VectorStatistics s = layer_trace_statistics(x, (rows ? rows : 1) * width);
    if (rows)
        snprintf(shape, sizeof shape, "[%zu][%zu]", rows, width);
    else
        snprintf(shape, sizeof shape, "[%zu]", width);
    sheet_printf(out, "  %-24s %-9s %9.4f %9.4f %9.4f %9.4f %9.4f\n", name, shape, s.mean,
                 s.variance, s.size, s.smallest, s.largest);
}

/* ---- Attention ------------------------------------------------------------------------------- */

static double size_of(const float *x, size_t n) {
    return x ? layer_trace_statistics(x, n).size : (double)NAN;
}

/* The keys that the head weighs most, the largest weight first. */
static void write_head(const LayerTrace *t, const TracedBranch *b, const HeadShape *h,
                       uint32_t head, Sheet *out) {
    enum { MOST = 3 };
    const AttentionMaps *m = &t->maps;
    uint32_t kv = attention_maps_kv_head(m, t->layer, head);
    const float *weights = attention_map(m, t->layer, head) + t->position * m->n;
    const float *scores = attention_score_map(m, t->layer, head) + t->position * m->n;
    float above = INFINITY;
    size_t after = 0; /* the next of the keys with the weight `above` */
    for (size_t shown = 0; shown < MOST; shown++) {
        size_t best = SIZE_MAX;
        for (size_t k = m->first[t->layer * m->n + t->position]; k <= t->position; k++) {
            bool is_left = weights[k] < above || (weights[k] == above && k >= after);
            if (is_left && (best == SIZE_MAX || weights[k] > weights[best])) best = k;
        }
        if (best == SIZE_MAX || !(weights[best] > 0.0f)) return;
        above = weights[best], after = best + 1;
        const float *k = b->k ? b->k + (best * h->n_kv_heads + kv) * h->head_dim : NULL;
        const float *v = b->v ? b->v + (best * h->n_kv_heads + kv) * h->value_dim : NULL;
        if (shown == 0)
            sheet_printf(
                out, "  %4u %4u %8.3f %8.3f", head, kv,
                size_of(b->q ? b->q + head * h->head_dim : NULL, h->head_dim),
                size_of(b->attended ? b->attended + head * h->value_dim : NULL, h->value_dim));
        else
            sheet_printf(out, "  %27s", "");
        sheet_printf(out, "  %4zu ", best);
        attention_text_label(m, best, out);
        sheet_printf(out, " %8.3f %9.3f %9.3f %8.4f %8.3f\n", size_of(k, h->head_dim),
                     attention_formula_product(m, t->layer, head, t->position, best),
                     (double)scores[best], (double)weights[best], size_of(v, h->value_dim));
    }
}

static void write_heads(const LayerTrace *t, const TracedBranch *b, Sheet *out) {
    const Config *c = modelfile_config(t->maps.session->file);
    const HeadShape h = config_heads(c, t->layer);
    sheet_printf(out, "\n");
    attention_formula_write(&t->maps, t->layer, "  ", out);
    sheet_printf(out, "  %4s %4s %8s %8s  %4s %13s %8s %9s %9s %8s %8s\n", "head", "keys", "|q|",
                 "|sum|", "", "looks at", "|k|", "q . k", "score", "weight", "|v|");
    for (uint32_t head = 0; head < h.n_heads; head++) write_head(t, b, &h, head, out);
}

/* ---- The feed-forward network ---------------------------------------------------------------- */

/* Writes how many hidden units are above 0 or equal to 0 after the activation, and the five units
 * of the largest magnitude. */
static void write_hidden(const TracedBranch *b, Sheet *out) {
    enum { MOST = 5 };
    size_t above_zero = 0, zero = 0, best[MOST];
    for (size_t i = 0; i < b->n_hidden; i++) above_zero += b->hidden[i] > 0.0f;
    for (size_t i = 0; i < b->n_hidden; i++) zero += b->hidden[i] == 0.0f;
    sheet_printf(out,
                 "\n  %zu of %zu hidden units are above 0, %zu are 0; the largest:", above_zero,
                 b->n_hidden, zero);
    for (size_t shown = 0; shown < MOST && shown < b->n_hidden; shown++) {
        best[shown] = SIZE_MAX;
        for (size_t i = 0; i < b->n_hidden; i++) {
            bool taken = false;
            for (size_t k = 0; k < shown; k++) taken = taken || best[k] == i;
            if (!taken &&
                (best[shown] == SIZE_MAX || fabsf(b->hidden[i]) > fabsf(b->hidden[best[shown]])))
                best[shown] = i;
        }
        sheet_printf(out, "%s %zu (%.3f)", shown ? "," : "", best[shown],
                     (double)b->hidden[best[shown]]);
    }
    sheet_printf(out, "\n");
}

/* ---- Branches -------------------------------------------------------------------------------- */

/* x when the branch's output has been added: what the next group begins with. */
static const float *after_branch(const LayerTrace *t, size_t i) {
    while (i < t->n_branches && t->branches[i].branch->same_x) i++;
    return i + 1 < t->n_branches ? t->branches[i + 1].before : t->after;
}

/* Writes a branch as text: a row of numbers for each vector, from its input to the residual stream
 * after it. */
static void write_branch(const LayerTrace *t, size_t i, Sheet *out) {
    const TracedBranch *b = &t->branches[i];
    const Config *c = modelfile_config(t->maps.session->file);
    const HeadShape h = config_heads(c, t->layer);
    bool is_last = !b->branch->same_x;
    sheet_printf(out, "\n%s\n", b->branch->kind->name);
    write_columns(out);
    write_row("x", b->before, 0, c->dim, out);
    write_row("norm(x)", b->read, 0, c->dim, out);
    const bool turns = layer_rope_turns(t);
    write_row(turns ? "queries, turned" : "queries", b->q, h.n_heads, h.head_dim, out);
    if (b->k)
        write_row(turns ? "its key, turned" : "its key",
                  b->k + t->position * h.n_kv_heads * h.head_dim, h.n_kv_heads, h.head_dim, out);
    if (b->v)
        write_row("its value", b->v + t->position * h.n_kv_heads * h.value_dim, h.n_kv_heads,
                  h.value_dim, out);
    write_row("sums of values", b->attended, h.n_heads, h.value_dim, out);
    write_row("hidden, activated", b->hidden, 0, b->n_hidden, out);
    write_row(b->branch->post ? "norm(output)" : "output", b->out, 0, c->dim, out);
    write_row("x + output", b->added, 0, c->dim, out);
    if (is_last)
        write_row(b->branch->norm_after ? "norm(x + output)" : "x + output", after_branch(t, i), 0,
                  c->dim, out);
    if (b->q) write_heads(t, b, out);
    layer_rope_write(t, b, out);
    if (b->hidden) write_hidden(b, out);
}

/* ---- Depths ---------------------------------------------------------------------------------- */

/* Writes a cosine, or a dash where there is none. */
static void write_cosine(double cosine, Sheet *out) {
    if (isfinite(cosine))
        sheet_printf(out, " %13.4f", cosine);
    else
        sheet_printf(out, " %13s", "-");
}

static void write_depths(const LayerTrace *t, Sheet *out) {
    uint32_t n_layers = modelfile_config(t->maps.session->file)->n_layers;
    sheet_printf(out, "\nx by layer, and its cosine with\n  %-12s %9s %13s %13s %13s\n", "", "size",
                 "the embedding", "token before", "all pairs");
    for (uint32_t l = 0; l <= n_layers; l++) {
        char name[32];
        if (l < n_layers)
            snprintf(name, sizeof name, "before %u", l);
        else
            snprintf(name, sizeof name, "at the end");
        sheet_printf(out, "  %-12s %9.3f", name, t->depths[l].size);
        write_cosine(t->depths[l].to_embedding, out);
        write_cosine(t->depths[l].to_neighbour, out);
        write_cosine(t->depths[l].between_all, out);
        sheet_printf(out, "\n");
    }
}

void layer_text_write(const LayerTrace *t, Sheet *out) {
    const Session *session = t->maps.session;
    Sheet label = {0};
    TextBuffer lines = {.bytes = NULL};
    attention_maps_describe(&t->maps, out);
    attention_maps_label(&t->maps, t->position, 24, &label);
    sheet_printf(out, "\nlayer %zu at position %zu, ", t->layer, t->position);
    sheet_plain(out, label.bytes, label.length);
    sheet_printf(out, "\n");
    layer_lists_write(&lines, session->model, t->layer);
    if (lines.failed) out->failed = true;
    if (lines.bytes) sheet_add(out, lines.bytes, lines.length);
    for (size_t i = 0; i < t->n_branches; i++) write_branch(t, i, out);
    write_depths(t, out);
    text_free(&lines);
    sheet_free(&label);
}
