#include "modes/inspect/attention_statistics.h"

#include <math.h>
#include <stdlib.h>

#include "modes/inspect/attention_formula.h"

size_t attention_statistics_unscaled(const AttentionMaps *m, size_t layer, size_t head,
                                     size_t query, double *out) {
    size_t first = m->first[layer * m->n + query], end = attention_maps_end(m, query);
    double sink = attention_formula_sink(m, layer, head), max = isnan(sink) ? -INFINITY : sink;
    for (size_t k = first; k < end; k++) {
        out[k] = attention_formula_product(m, layer, head, query, k);
        if (attention_formula_has_products(m, layer))
            out[k] = attention_formula_score(m, out[k], 1.0, head, query, k);
        if (out[k] > max) max = out[k];
    }
    double sum = isnan(sink) ? 0.0 : exp(sink - max);
    for (size_t k = first; k < end; k++) sum += out[k] = exp(out[k] - max);
    for (size_t k = first; k < end; k++) out[k] /= sum;
    return first;
}

/* The mean and the variance of a growing number of values. */
typedef struct Spread {
    double n, mean, squares;
} Spread;

static void spread_add(Spread *s, double x) {
    double from_mean = x - s->mean;
    s->n++;
    s->mean += from_mean / s->n;
    s->squares += from_mean * (x - s->mean);
}

static double spread_variance(const Spread *s) {
    return s->n > 0.0 ? s->squares / s->n : 0.0;
}

/* Computes the statistics of one head: entropy, gradient of the softmax and largest weight, as
 * means over the queries, each also for scores without the scale; and the variances of scores and
 * products. */
Status attention_statistics_of(const AttentionMaps *m, size_t layer, size_t head,
                               AttentionStatistics *out, Error *error) {
    double *unscaled = malloc((m->n + 1) * sizeof *unscaled), n = m->n ? (double)m->n : 1.0;
    Spread products = {0}, scores = {0};
    *out = (AttentionStatistics){0};
    if (!unscaled) return error_set(error, "no memory for the scores");
    for (size_t query = 0; query < m->n; query++) {
        const float *weights = attention_map(m, layer, head) + query * m->n;
        const float *row = attention_score_map(m, layer, head) + query * m->n;
        size_t first = attention_statistics_unscaled(m, layer, head, query, unscaled), n_seen = 0;
        size_t end = attention_maps_end(m, query);
        double largest = 0.0, unscaled_largest = 0.0;
        for (size_t k = first; k < end; k++) {
            if (!(row[k] > -INFINITY)) continue; /* an indexer did not choose it */
            double weight = (double)weights[k];
            n_seen++;
            spread_add(&scores, (double)row[k]);
            spread_add(&products, attention_formula_product(m, layer, head, query, k));
            if (weight > 0.0) out->entropy -= weight * log(weight) / n;
            if (unscaled[k] > 0.0) out->unscaled_entropy -= unscaled[k] * log(unscaled[k]) / n;
            out->gradient += weight * (1.0 - weight) / n;
            out->unscaled_gradient += unscaled[k] * (1.0 - unscaled[k]) / n;
            largest = fmax(largest, weight);
            unscaled_largest = fmax(unscaled_largest, unscaled[k]);
        }
        if (n_seen) out->most_entropy += log((double)n_seen) / n;
        out->largest += largest / n;
        out->unscaled_largest += unscaled_largest / n;
    }
    out->product_variance = spread_variance(&products);
    out->score_variance = spread_variance(&scores);
    free(unscaled);
    return STATUS_OK;
}
