#include "modes/inspect/layer_numbers.h"

#include <math.h>
#include <string.h>

#include "modes/inspect/attention_formula.h"

static void write_number(double x, Sheet *out) {
    if (isfinite(x))
        sheet_printf(out, "%.9g", x);
    else
        sheet_add(out, "null", 4);
}

static void write_vector(const float *x, size_t n, Sheet *out) {
    sheet_printf(out, "[");
    for (size_t i = 0; i < n; i++) {
        if (i) sheet_add(out, ",", 1);
        write_number((double)x[i], out);
    }
    sheet_printf(out, "]");
}

/* Writes name: x[n] and its statistics; x NULL: nothing. */
static void write_stage(const char *name, const float *x, size_t n, Sheet *out) {
    if (!x) return;
    const VectorStatistics s = layer_trace_statistics(x, n);
    sheet_printf(out,
                 ",\n   \"%s\": {\"mean\": %.9g, \"variance\": %.9g, \"size\": %.9g, \"values\": ",
                 name, s.mean, s.variance, s.size);
    write_vector(x, n, out);
    sheet_printf(out, "}");
}

/* Writes a head's x[position + 1][width] of cached rows of n_kv_heads * width. */
static void write_cached(const char *name, const LayerTrace *t, const float *x, uint32_t n_kv_heads,
                         uint32_t kv, uint32_t width, Sheet *out) {
    if (!x) return;
    sheet_printf(out, ", \"%s\": [", name);
    for (size_t p = 0; p <= t->position; p++) {
        if (p) sheet_add(out, ",", 1);
        write_vector(x + (p * n_kv_heads + kv) * width, width, out);
    }
    sheet_printf(out, "]");
}

/* Writes an attention branch as JSON: each head's query, scores, weights and output, then the
 * cached keys and values. */
static void write_heads(const LayerTrace *t, const TracedBranch *b, Sheet *out) {
    const AttentionMaps *m = &t->maps;
    const HeadShape h = config_heads(modelfile_config(m->session->file), t->layer);
    sheet_printf(out, ",\n   \"scale\": %.9g, \"softcap\": %.9g, \"first_key\": %u, \"heads\": [",
                 attention_formula_scale(m, t->layer), attention_formula_cap(m),
                 m->first[t->layer * m->n + t->position]);
    for (uint32_t head = 0; head < h.n_heads; head++) {
        size_t row = t->position * m->n;
        double slope = attention_formula_slope(m, head);
        double sink = attention_formula_sink(m, t->layer, head);
        sheet_printf(out, "%s\n    {\"kv_head\": %u", head ? "," : "",
                     attention_maps_kv_head(m, t->layer, head));
        if (slope != 0.0) sheet_printf(out, ", \"slope\": %.9g", slope);
        if (isfinite(sink)) sheet_printf(out, ", \"sink\": %.9g", sink);
        sheet_printf(out, ", \"query\": ");
        write_vector(b->q + (size_t)head * h.head_dim, h.head_dim, out);
        sheet_printf(out, ", \"scores\": ");
        write_vector(attention_score_map(m, t->layer, head) + row, t->position + 1, out);
        sheet_printf(out, ", \"weights\": ");
        write_vector(attention_map(m, t->layer, head) + row, t->position + 1, out);
        sheet_printf(out, ", \"sum\": ");
        write_vector(b->attended + (size_t)head * h.value_dim, h.value_dim, out);
        sheet_printf(out, "}");
    }
    sheet_printf(out, "],\n   \"kv_heads\": [");
    for (uint32_t kv = 0; kv < h.n_kv_heads; kv++) {
        sheet_printf(out, "%s\n    {\"kv_head\": %u", kv ? "," : "", kv);
        write_cached("keys", t, b->k, h.n_kv_heads, kv, h.head_dim, out);
        write_cached("values", t, b->v, h.n_kv_heads, kv, h.value_dim, out);
        sheet_printf(out, "}");
    }
    sheet_printf(out, "]");
}

static void write_branch(const LayerTrace *t, const TracedBranch *b, Sheet *out) {
    size_t dim = modelfile_config(t->maps.session->file)->dim;
    sheet_printf(out, "  {\"kind\": \"%s\"", b->branch->kind->name);
    write_stage("x", b->before, dim, out);
    write_stage("norm_x", b->read, dim, out);
    write_stage("hidden", b->hidden, b->n_hidden, out);
    write_stage("output", b->out, dim, out);
    write_stage("sum_before_norm", b->added, dim, out);
    if (b->q && b->attended) write_heads(t, b, out);
    sheet_printf(out, "}");
}

static void write_depths(const LayerTrace *t, Sheet *out) {
    uint32_t n_layers = modelfile_config(t->maps.session->file)->n_layers;
    for (uint32_t l = 0; l <= n_layers; l++) {
        sheet_printf(out, "%s\n  {\"size\": %.9g, \"to_embedding\": ", l ? "," : "",
                     t->depths[l].size);
        write_number(t->depths[l].to_embedding, out);
        sheet_printf(out, ", \"to_token_before\": ");
        write_number(t->depths[l].to_neighbour, out);
        sheet_printf(out, ", \"between_all\": ");
        write_number(t->depths[l].between_all, out);
        sheet_printf(out, "}");
    }
}

void layer_numbers_write(const LayerTrace *t, Sheet *out) {
    const AttentionMaps *m = &t->maps;
    const char *overridden = m->session->overridden ? m->session->overridden : "";
    sheet_printf(out, "{\"layer\": %zu, \"position\": %zu, \"overridden\": \"", t->layer,
                 t->position);
    sheet_json(out, overridden, strlen(overridden));
    sheet_printf(out, "\", \"tokens\": [");
    for (size_t i = 0; i < m->n; i++) {
        size_t length;
        const char *bytes = tokenizer_token_text(m->session->tokenizer, m->ids.ids[i], &length);
        sheet_printf(out, "%s{\"id\": %d, \"text\": \"", i ? ", " : "", m->ids.ids[i]);
        sheet_json(out, bytes, length);
        sheet_printf(out, "\"}");
    }
    sheet_printf(out, "],\n \"branches\": [\n");
    for (size_t i = 0; i < t->n_branches; i++) {
        if (i) sheet_printf(out, ",\n");
        write_branch(t, &t->branches[i], out);
    }
    sheet_printf(out, "],\n \"x_after\": ");
    write_vector(t->after, modelfile_config(m->session->file)->dim, out);
    sheet_printf(out, ",\n \"depths\": [");
    write_depths(t, out);
    sheet_printf(out, "]}\n");
}
