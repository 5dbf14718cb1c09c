#include "modes/inspect/attention_text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "modes/inspect/attention_formula.h"
#include "modes/inspect/attention_statistics.h"
#include "modes/inspect/singular_values.h"

/* ---- Maps ------------------------------------------------------------------------------------ */

void attention_text_label(const AttentionMaps *m, size_t i, Sheet *out) {
    Sheet label = {0}, plain = {0};
    attention_maps_label(m, i, 12, &label);
    sheet_plain(&plain, label.bytes, label.length);
    size_t columns = utf8_count(plain.bytes, plain.length);
    sheet_printf(out, "%*s", columns < 13 ? (int)(13 - columns) : 0, "");
    sheet_add(out, plain.bytes, plain.length);
    sheet_free(&label);
    sheet_free(&plain);
}

/* Draws one map up to its diagonal: a token is two columns wide, in one of five shades; dots are
 * masked. */
static void write_map(const AttentionMaps *m, size_t layer, const float *map, Sheet *out) {
    static const char *const shades[] = {"  ", "\xE2\x96\x91\xE2\x96\x91",
                                         "\xE2\x96\x92\xE2\x96\x92", "\xE2\x96\x93\xE2\x96\x93",
                                         "\xE2\x96\x88\xE2\x96\x88"};
    static const double above[] = {0.0, 0.03, 0.1, 0.25, 0.5};
    for (size_t i = 0; i < m->n; i++) {
        sheet_printf(out, "%4zu ", i);
        attention_text_label(m, i, out);
        sheet_printf(out, " \xE2\x94\x82");
        for (size_t k = 0; k < attention_maps_end(m, i); k++) {
            size_t shade = 4;
            while (shade > 0 && !((double)map[i * m->n + k] >= above[shade])) shade--;
            const char *cell = k < m->first[layer * m->n + i] ? "\xC2\xB7\xC2\xB7" : shades[shade];
            sheet_add(out, cell, strlen(cell));
        }
        sheet_printf(out, "\n");
    }
}

static void write_limits(const AttentionMaps *m, size_t layer, Sheet *out) {
    const Config *c = modelfile_config(m->session->file);
    if (c->window[layer]) sheet_printf(out, ", window of %u", c->window[layer]);
    if (c->chunk[layer]) sheet_printf(out, ", chunks of %u", c->chunk[layer]);
    sheet_printf(out, "\n");
}

static const char legend[] =
    "weights: \xE2\x96\x91 from 0.03, \xE2\x96\x92 0.1, \xE2\x96\x93 0.25, "
    "\xE2\x96\x88 0.5 on; column i is token i\n";

void attention_text_maps(const AttentionMaps *m, Sheet *out) {
    float *mean = malloc(m->n * m->n * sizeof *mean);
    if (!mean) {
        out->failed = true;
        return;
    }
    attention_maps_describe(m, out);
    sheet_printf(out, "\n%s", legend);
    for (uint32_t layer = 0; layer < m->n_layers; layer++) {
        if (!attention_maps_attends(m, layer)) {
            sheet_printf(out, "\nlayer %u %s\n", layer, attention_maps_absence(m, layer));
            continue;
        }
        attention_maps_mean(m, layer, 1, mean);
        sheet_printf(out, "\nlayer %u, mean of %u heads", layer, attention_maps_heads(m, layer));
        write_limits(m, layer, out);
        write_map(m, layer, mean, out);
    }
    free(mean);
}

/* ---- One head -------------------------------------------------------------------------------- */

/* Lists the keys that the last token looks at most, the largest weight first. */
static void list_keys(const AttentionMaps *m, size_t layer, uint32_t head, double *unscaled,
                      Sheet *out) {
    enum { MOST = 12 };
    size_t last = m->n - 1, first = attention_statistics_unscaled(m, layer, head, last, unscaled);
    const float *weights = attention_map(m, layer, head) + last * m->n;
    const float *scores = attention_score_map(m, layer, head) + last * m->n;
    float above = INFINITY;
    size_t after = 0; /* the next of the keys with the weight `above` */
    sheet_printf(out, "\n");
    attention_formula_write(m, layer, "", out);
    sheet_printf(out, "the last token looks at\n%4s %13s %9s %9s %8s  %s\n", "", "token", "q . k",
                 "score", "weight", "without the scale");
    for (size_t shown = 0; shown < MOST && shown + first < m->n; shown++) {
        size_t best = m->n;
        for (size_t k = first; k < m->n; k++) {
            bool is_left = weights[k] < above || (weights[k] == above && k >= after);
            if (is_left && (best == m->n || weights[k] > weights[best])) best = k;
        }
        if (best == m->n) break;
        above = weights[best], after = best + 1;
        sheet_printf(out, "%4zu ", best);
        attention_text_label(m, best, out);
        sheet_printf(out, " %9.3f %9.3f %8.4f %8.4f\n",
                     attention_formula_product(m, layer, head, last, best), (double)scores[best],
                     (double)weights[best], unscaled[best]);
    }
}

void attention_text_head(const AttentionMaps *m, size_t layer, uint32_t head, Sheet *out) {
    double *unscaled = malloc((m->n + 1) * sizeof *unscaled);
    if (!unscaled) {
        out->failed = true;
        return;
    }
    attention_maps_describe(m, out);
    sheet_printf(out, "\n%s\nlayer %zu, head %u, which reads keys and values %u", legend, layer,
                 head, attention_maps_kv_head(m, layer, head));
    write_limits(m, layer, out);
    write_map(m, layer, attention_map(m, layer, head), out);
    if (m->n > 0) list_keys(m, layer, head, unscaled, out);
    free(unscaled);
}

/* ---- All heads ------------------------------------------------------------------------------- */

/* Writes how scores and weights are made: once, and once more for each layer with another scale. */
static void write_formulas(const AttentionMaps *m, Sheet *out) {
    const Config *c = modelfile_config(m->session->file);
    double first = NAN;
    bool sinks = false;
    for (size_t layer = 0; layer < m->n_layers; layer++) {
        if (!attention_maps_attends(m, layer)) continue;
        double scale = attention_formula_scale(m, layer),
               sink = attention_formula_sink(m, layer, 0);
        sinks = sinks || isfinite(sink);
        if (scale == first) continue;
        if (isfinite(first)) sheet_printf(out, "in layer %zu ", layer);
        sheet_printf(out, "scores = ");
        attention_formula_write_score(m, scale, out);
        if (!isfinite(first))
            sheet_printf(out, " (1 / sqrt of a head's width of %u is %.6g)", c->head_dim,
                         1.0 / sqrt((double)(c->head_dim ? c->head_dim : 1)));
        sheet_printf(out, "\n");
        if (!isfinite(first)) first = scale;
    }
    sheet_printf(out, "weights = softmax(scores%s); without the scale: softmax(",
                 sinks ? ", the head's sink" : "");
    attention_formula_write_score(m, 1.0, out);
    sheet_printf(out, ")\n");
    attention_formula_write_rounding(m, "", out);
}

Status attention_text_scores(const AttentionMaps *m, Sheet *out, Error *error) {
    AttentionStatistics s = {0};
    attention_maps_describe(m, out);
    sheet_printf(out, "\n");
    write_formulas(m, out);
    sheet_printf(out,
                 "\n%5s %4s %4s %21s %21s %21s %21s\n"
                 "%5s %4s %4s %10s %10s %10s %10s %10s %10s %10s %10s\n",
                 "", "", "", "variance of", "entropy of weights", "largest weight", "sum of y(1-y)",
                 "layer", "head", "keys", "q . k", "scores", "scaled", "without", "scaled",
                 "without", "scaled", "without");
    for (size_t layer = 0; layer < m->n_layers; layer++) {
        if (!attention_maps_attends(m, layer)) continue;
        for (uint32_t head = 0; head < attention_maps_heads(m, layer); head++) {
            if (attention_statistics_of(m, layer, head, &s, error) != STATUS_OK)
                return STATUS_FAILED;
            sheet_printf(out,
                         "%5zu %4u %4u %10.3f %10.3f %10.3f %10.3f %10.3f %10.3f %10.3f %10.3f\n",
                         layer, head, attention_maps_kv_head(m, layer, head), s.product_variance,
                         s.score_variance, s.entropy, s.unscaled_entropy, s.largest,
                         s.unscaled_largest, s.gradient, s.unscaled_gradient);
        }
    }
    sheet_printf(out, "entropy is in nats; with equal weights it would be %.3f\n", s.most_entropy);
    return STATUS_OK;
}

/* ---- Ranks ----------------------------------------------------------------------------------- */

enum { RANKS_MOST = 512 }; /* tokens: the time grows with their cube */

/* Whether each of the n queries has a score with each of the n keys. */
static bool is_whole(const float *scores, size_t n) {
    for (size_t i = 0; i < n * n; i++)
        if (!isfinite(scores[i])) return false;
    return n > 0;
}

/* Adds two columns: how many singular values of map[n][n] hold 90 and 99% of the sum of their
 * squares; dashes for NULL. `memory` has room for n * (n + 1) numbers. */
static void write_ranks(const float *map, size_t n, double *memory, Sheet *out) {
    double *values = memory + n * n;
    if (!map) {
        sheet_printf(out, " %8s %8s", "-", "-");
        return;
    }
    for (size_t i = 0; i < n * n; i++) memory[i] = (double)map[i];
    singular_values(memory, n, n, values);
    sheet_printf(out, " %8zu %8zu", singular_values_holding(values, n, 0.90),
                 singular_values_holding(values, n, 0.99));
}

Status attention_text_ranks(const AttentionMaps *m, Sheet *out, Error *error) {
    if (m->n > RANKS_MOST)
        return error_set(error, "--attention ranks: the text has %zu tokens, and %d are the most",
                         m->n, RANKS_MOST);
    double *memory = malloc((m->n + 1) * (m->n + 1) * sizeof *memory);
    if (!memory) return error_set(error, "no memory for the singular values");
    attention_maps_describe(m, out);
    sheet_printf(out,
                 "\nsingular values that hold 90%% and 99%% of the sum of squares, of %zu\n\n"
                 "%5s %4s %4s %17s %17s\n%5s %4s %4s %8s %8s %8s %8s\n",
                 m->n, "", "", "", "weights", "scores", "layer", "head", "keys", "90%", "99%",
                 "90%", "99%");
    for (size_t layer = 0; layer < m->n_layers; layer++)
        for (uint32_t head = 0; head < attention_maps_heads(m, layer); head++) {
            if (!attention_maps_attends(m, layer) || *m->session->interrupted) continue;
            const float *scores = attention_score_map(m, layer, head);
            sheet_printf(out, "%5zu %4u %4u", layer, head, attention_maps_kv_head(m, layer, head));
            write_ranks(attention_map(m, layer, head), m->n, memory, out);
            write_ranks(is_whole(scores, m->n) ? scores : NULL, m->n, memory, out);
            sheet_printf(out, "\n");
        }
    sheet_printf(out, "scores have singular values where every token sees every other: with "
                      "--override mask=none\n");
    free(memory);
    return STATUS_OK;
}
