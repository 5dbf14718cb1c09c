#include "modes/inspect/attention_formula.h"

#include <float.h>
#include <math.h>

/* ---- The numbers ----------------------------------------------------------------------------- */

static const Config *config_of(const AttentionMaps *m) {
    return modelfile_config(m->session->file);
}

double attention_formula_scale(const AttentionMaps *m, size_t layer) {
    const Config *c = config_of(m);
    if (c->layer_kind[layer] == LAYER_LATENT)
        return (double)config_latent(c, layer).attention_scale;
    return (double)c->attention_scale / (c->attention_scale_falls ? (double)layer + 1.0 : 1.0);
}

double attention_formula_cap(const AttentionMaps *m) {
    return (double)config_of(m)->attention_softcap;
}

/* The vector that the file has under `name`; NULL: none of n numbers. */
static const float *vector_of(const AttentionMaps *m, const char *name, size_t n) {
    const FileTensor *tensor = modelfile_find(m->session->file, name);
    if (!tensor || tensor->type != TENSOR_VECTOR || tensor->rows * tensor->cols != n) return NULL;
    return modelfile_data(m->session->file, tensor);
}

static const float *slopes_of(const AttentionMaps *m) {
    const Config *c = config_of(m);
    return c->position == POSITION_ALIBI ? vector_of(m, "alibi.slopes", c->n_heads) : NULL;
}

double attention_formula_slope(const AttentionMaps *m, size_t head) {
    const float *slopes = slopes_of(m);
    return slopes && head < config_of(m)->n_heads ? fabs((double)slopes[head]) : 0.0;
}

double attention_formula_sink(const AttentionMaps *m, size_t layer, size_t head) {
    char name[64];
    snprintf(name, sizeof name, "layers.%zu.sinks", layer);
    const float *sinks = vector_of(m, name, attention_maps_heads(m, layer));
    return sinks ? (double)sinks[head] : (double)NAN;
}

bool attention_formula_has_products(const AttentionMaps *m, size_t layer) {
    return attention_formula_scale(m, layer) != 0.0 &&
           config_of(m)->layer_kind[layer] != LAYER_RELATIVE;
}

/* What ALiBi takes from a head's score. */
static double alibi_of(const AttentionMaps *m, size_t head, size_t query, size_t key) {
    size_t distance = query > key ? query - key : key - query;
    return attention_formula_slope(m, head) * (double)distance;
}

double attention_formula_product(const AttentionMaps *m, size_t layer, size_t head, size_t query,
                                 size_t key) {
    double score = (double)attention_score_map(m, layer, head)[query * m->n + key];
    double cap = attention_formula_cap(m);
    if (!attention_formula_has_products(m, layer)) return score;
    score += alibi_of(m, head, query, key);
    if (cap > 0.0 && isfinite(score)) {
        double most = 1.0 - (double)FLT_EPSILON / 2.0; /* the last float before 1 */
        score = cap * atanh(fmin(fmax(score / cap, -most), most));
    }
    return score / attention_formula_scale(m, layer);
}

double attention_formula_score(const AttentionMaps *m, double product, double scale, size_t head,
                               size_t query, size_t key) {
    double cap = attention_formula_cap(m), score = product * scale;
    if (cap > 0.0) score = cap * tanh(score / cap);
    return score - alibi_of(m, head, query, key);
}

/* ---- The sentence ---------------------------------------------------------------------------- */

void attention_formula_write_score(const AttentionMaps *m, double scale, Sheet *out) {
    double cap = attention_formula_cap(m);
    if (cap > 0.0) sheet_printf(out, "%.6g * tanh(", cap);
    sheet_printf(out, "q . k");
    if (scale != 1.0) sheet_printf(out, " times %.6g", scale);
    if (cap > 0.0) sheet_printf(out, " / %.6g)", cap);
    if (slopes_of(m)) sheet_printf(out, " - slope of the head * distance");
}

/* Writes a line of one number for each head of the layer. */
static void write_by_head(const AttentionMaps *m, size_t layer, const char *indent,
                          const char *what, bool sinks, Sheet *out) {
    sheet_printf(out, "%s%s of heads 0, 1, ...:", indent, what);
    for (uint32_t head = 0; head < attention_maps_heads(m, layer); head++)
        sheet_printf(out, "%s %.6g", head ? "," : "",
                     sinks ? attention_formula_sink(m, layer, head)
                           : attention_formula_slope(m, head));
    sheet_printf(out, "\n");
}

void attention_formula_write_rounding(const AttentionMaps *m, const char *indent, Sheet *out) {
    switch (m->session->kv_type) {
    case KV_BF16:
        sheet_printf(out,
                     "%sthe cache is bf16: q and k are rounded before q . k; each weight is "
                     "rounded before it multiplies v, and shown as it was before\n",
                     indent);
        break;
    case KV_Q8:
        sheet_printf(out,
                     "%sthe cache is q8: q . k is of q and k in 8 bits, and the sum of v in 8 "
                     "bits\n",
                     indent);
        break;
    default:
        break; /* f32 keeps all, and f16 rounds k and v a little */
    }
}

void attention_formula_write(const AttentionMaps *m, size_t layer, const char *indent, Sheet *out) {
    const Config *c = config_of(m);
    bool has_slopes = slopes_of(m) != NULL,
         has_sinks = isfinite(attention_formula_sink(m, layer, 0));
    sheet_printf(out, "%sscore = ", indent);
    attention_formula_write_score(m, attention_formula_scale(m, layer), out);
    sheet_printf(out, "; weight = softmax of the scores%s",
                 has_sinks ? " and the head's sink" : "");
    if (c->window[layer])
        sheet_printf(out, ", of the last %u tokens", c->window[layer]);
    else if (c->chunk[layer])
        sheet_printf(out, ", of tokens in the same %u", c->chunk[layer]);
    sheet_printf(out, "; the sum is of weight times v\n");
    if (has_slopes) write_by_head(m, layer, indent, "slopes", false, out);
    if (has_sinks) write_by_head(m, layer, indent, "sinks", true, out);
    attention_formula_write_rounding(m, indent, out);
}
