#include "modes/inspect/attention_numbers.h"

#include <math.h>
#include <string.h>

#include "modes/inspect/attention_formula.h"
#include "modes/inspect/attention_statistics.h"
#include "modes/inspect/attention_page.h"

/* Writes [[...], ...]: a row of numbers for each query, null for those that are not finite. */
static void write_map(const float *map, size_t n, int digits, Sheet *out) {
    sheet_printf(out, "[");
    for (size_t i = 0; i < n; i++) {
        sheet_printf(out, i ? ",[" : "[");
        for (size_t k = 0; k < n; k++) {
            if (k) sheet_add(out, ",", 1);
            if (isfinite(map[i * n + k])) {
                sheet_printf(out, "%.*g", digits, (double)map[i * n + k]);
            } else {
                sheet_add(out, "null", 4);
            }
        }
        sheet_printf(out, "]");
    }
    sheet_printf(out, "]");
}

static void write_string(const char *name, const char *value, Sheet *out) {
    sheet_printf(out, "\"%s\": \"", name);
    sheet_json(out, value, strlen(value));
    sheet_printf(out, "\"");
}

static void write_head(const AttentionMaps *m, size_t layer, uint32_t head,
                       const AttentionStatistics *s, int digits, Sheet *out) {
    double slope = attention_formula_slope(m, head), sink = attention_formula_sink(m, layer, head);
    sheet_printf(out, "   {\"kv_head\": %u, ", attention_maps_kv_head(m, layer, head));
    if (slope != 0.0) sheet_printf(out, "\"slope\": %.9g, ", slope);
    if (isfinite(sink)) sheet_printf(out, "\"sink\": %.9g, ", sink);
    if (attention_formula_has_products(m, layer))
        sheet_printf(out, "\"product_variance\": %.6g, ", s->product_variance);
    sheet_printf(out,
                 "\"score_variance\": %.6g, \"entropy\": %.6g, \"gradient\": %.6g, \"weights\": ",
                 s->score_variance, s->entropy, s->gradient);
    write_map(attention_map(m, layer, head), m->n, digits, out);
    sheet_printf(out, ", \"scores\": ");
    write_map(attention_score_map(m, layer, head), m->n, digits, out);
    sheet_printf(out, "}");
}

static Status write_layer(const AttentionMaps *m, size_t layer, int digits, Sheet *out,
                          Error *error) {
    const Config *c = modelfile_config(m->session->file);
    bool attends = attention_maps_attends(m, layer);
    uint32_t n_heads = attends ? attention_maps_heads(m, layer) : m->n_heads;
    AttentionStatistics s;
    sheet_printf(
        out,
        "  {%s\"scale\": %.9g, \"softcap\": %.9g, \"window\": %u, \"chunk\": %u, \"heads\": [\n",
        attends ? "" : "\"attends\": false, ", attention_formula_scale(m, layer),
        attention_formula_cap(m), c->window[layer], c->chunk[layer]);
    for (uint32_t head = 0; head < n_heads; head++) {
        if (attention_statistics_of(m, layer, head, &s, error) != STATUS_OK) return STATUS_FAILED;
        write_head(m, layer, head, &s, digits, out);
        sheet_printf(out, "%s\n", head + 1 < n_heads ? "," : "");
    }
    sheet_printf(out, "  ]}%s\n", layer + 1 < m->n_layers ? "," : "");
    return STATUS_OK;
}

Status attention_numbers_json(const AttentionMaps *m, int digits, Sheet *out, Error *error) {
    static const char *const positions[POSITION_KINDS] = {[POSITION_NONE] = "none",
                                                          [POSITION_ROPE] = "rope",
                                                          [POSITION_SINUSOIDAL] = "sinusoidal",
                                                          [POSITION_LEARNED] = "learned",
                                                          [POSITION_ALIBI] = "alibi"};
    const Config *c = modelfile_config(m->session->file);
    sheet_printf(out, "{");
    write_string("model", c->name, out);
    sheet_printf(out, ", ");
    write_string("family", c->family, out);
    sheet_printf(out, ", ");
    write_string("position", positions[c->position], out);
    sheet_printf(out, ", ");
    write_string("overridden", m->session->overridden ? m->session->overridden : "", out);
    sheet_printf(out,
                 ",\n \"n_layers\": %u, \"n_heads\": %u, \"n_kv_heads\": %u,%s\n \"tokens\": [",
                 m->n_layers, m->n_heads, m->n_kv_heads,
                 m->session->sees_future ? " \"sees_future\": true," : "");
    for (size_t i = 0; i < m->n; i++) {
        size_t length;
        const char *bytes = tokenizer_token_text(m->session->tokenizer, m->ids.ids[i], &length);
        sheet_printf(out, "%s{\"id\": %d, \"text\": \"", i ? ", " : "", m->ids.ids[i]);
        sheet_json(out, bytes, length);
        sheet_printf(out, "\"}");
    }
    sheet_printf(out, "],\n \"layers\": [\n");
    for (uint32_t layer = 0; layer < m->n_layers; layer++)
        if (write_layer(m, layer, digits, out, error) != STATUS_OK) return STATUS_FAILED;
    sheet_printf(out, " ]}\n");
    return STATUS_OK;
}

Status attention_numbers_page(const AttentionMaps *m, Sheet *out, Error *error) {
    sheet_add(out, attention_page_head, strlen(attention_page_head));
    if (attention_numbers_json(m, 3, out, error) != STATUS_OK) return STATUS_FAILED;
    sheet_add(out, attention_page_tail, strlen(attention_page_tail));
    return STATUS_OK;
}
