#include "modes/inspect/attention_maps.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "core/prefill.h"
#include "layers/model_watch.h"
#include "modes/inspect/attention_formula.h"
#include "session/generate.h"

/* ---- Collecting ------------------------------------------------------------------------------ */

uint32_t attention_maps_heads(const AttentionMaps *m, size_t layer) {
    return config_heads(modelfile_config(m->session->file), layer).n_heads;
}

uint32_t attention_maps_kv_heads(const AttentionMaps *m, size_t layer) {
    return config_heads(modelfile_config(m->session->file), layer).n_kv_heads;
}

uint32_t attention_maps_kv_head(const AttentionMaps *m, size_t layer, uint32_t head) {
    uint64_t n_kv_heads = attention_maps_kv_heads(m, layer);
    return (uint32_t)(head * n_kv_heads / attention_maps_heads(m, layer));
}

static size_t map_at(const AttentionMaps *m, size_t layer, size_t head) {
    return (layer * m->n_heads + head) * m->n * m->n;
}

const float *attention_map(const AttentionMaps *m, size_t layer, size_t head) {
    return m->weights + map_at(m, layer, head);
}

const float *attention_score_map(const AttentionMaps *m, size_t layer, size_t head) {
    return m->scores + map_at(m, layer, head);
}

/* Stores rows of maps. */
typedef struct MapObserver {
    PassObserver observer;
    AttentionMaps *maps;
} MapObserver;

static void keep_weights(PassObserver *observer, size_t layer, size_t row, size_t head,
                         int32_t first, float *weights, size_t n) {
    AttentionMaps *m = ((MapObserver *)observer)->maps;
    size_t query = m->base + row;
    memcpy(m->weights + map_at(m, layer, head) + query * m->n + first, weights,
           n * sizeof *weights);
    if (head == 0) m->first[layer * m->n + query] = (uint32_t)first;
}

static void keep_scores(PassObserver *observer, size_t layer, size_t row, size_t head,
                        int32_t first, float *scores, size_t n) {
    AttentionMaps *m = ((MapObserver *)observer)->maps;
    memcpy(m->scores + map_at(m, layer, head) + (m->base + row) * m->n + first, scores,
           n * sizeof *scores);
}

static Status next_chunk(void *context, const PrefillChunk *chunk, Error *error) {
    AttentionMaps *m = context;
    (void)error;
    m->base = chunk->done;
    return STATUS_OK;
}

/* Runs the text while the model shows `observer` its rows. */
static Status observe(AttentionMaps *m, PassObserver *observer, Error *error) {
    Model *model = m->session->model;
    const KvShape shape = model_kv_shape(model, m->session->kv_type);
    const Prefill p = {.ids = m->ids.ids,
                       .n = m->n,
                       .first_wanted = m->n,
                       .interrupted = m->session->interrupted,
                       .after_chunk = next_chunk,
                       .context = m};
    KvCache *cache;
    m->base = 0;
    if (kvcache_new(&cache, &shape, 1, 0, error) != STATUS_OK) return STATUS_FAILED;
    model_add_observer(model, observer);
    Status status = prefill(model, cache, &p, error);
    model_remove_observer(model, observer);
    kvcache_free(cache);
    return status;
}

/* Allocates the maps, and fills the scores with "not seen". */
static Status maps_allocate(AttentionMaps *m, bool with_scores, Error *error) {
    const double most_bytes = 1 << 30;
    double cells = (double)m->n_layers * m->n_heads * (double)m->n * (double)m->n;
    double bytes = (with_scores ? 8.0 : 4.0) * cells;
    if (bytes > most_bytes)
        return error_set(error, "the weights of %zu tokens would be %.1f GiB: give a shorter text",
                         m->n, bytes / most_bytes);
    size_t n = (size_t)cells;
    m->weights = calloc(n + 1, sizeof *m->weights);
    m->first = calloc(m->n_layers * m->n + 1, sizeof *m->first);
    if (with_scores) m->scores = malloc((n + 1) * sizeof *m->scores);
    if (!m->weights || !m->first || (with_scores && !m->scores))
        return error_set(error, "no memory for the weights of %zu tokens", m->n);
    for (size_t i = 0; with_scores && i < n; i++) m->scores[i] = -INFINITY;
    return STATUS_OK;
}

Status attention_maps_collect(AttentionMaps *m, Session *session, bool with_scores, Error *error) {
    const Config *c = modelfile_config(session->file);
    *m = (AttentionMaps){.session = session,
                         .n_layers = c->n_layers,
                         .n_heads = c->n_heads,
                         .n_kv_heads = c->n_kv_heads};
    MapObserver rows = {
        .observer = {.scored = with_scores ? keep_scores : NULL, .attended = keep_weights},
        .maps = m};
    Status status = generate_prompt_ids(session, &m->ids, error);
    m->n = m->ids.length;
    for (uint32_t l = 0; l < c->n_layers; l++)
        if (attention_maps_attends(m, l) && attention_maps_heads(m, l) > m->n_heads)
            m->n_heads = attention_maps_heads(m, l);
    if (status == STATUS_OK) status = maps_allocate(m, with_scores, error);
    if (status == STATUS_OK) status = observe(m, &rows.observer, error);
    return status;
}

void attention_maps_free(AttentionMaps *m) {
    free(m->weights);
    free(m->scores);
    free(m->first);
    token_list_free(&m->ids);
}

size_t attention_maps_end(const AttentionMaps *m, size_t query) {
    return m->session->sees_future ? m->n : query + 1;
}

bool attention_maps_attends(const AttentionMaps *m, size_t layer) {
    uint32_t kind = modelfile_config(m->session->file)->layer_kind[layer];
    return kind == LAYER_ATTENTION || kind == LAYER_LATENT || kind == LAYER_DIFFERENCE ||
           kind == LAYER_PARALLEL_MAMBA || kind == LAYER_SHARED || kind == LAYER_SHARED_MAMBA ||
           kind == LAYER_HEAD_MIXTURE;
}

void attention_maps_mean(const AttentionMaps *m, size_t first, size_t n_layers, float *out) {
    size_t cells = m->n * m->n, n_maps = n_layers * m->n_heads, n_attend = 0;
    for (size_t l = 0; l < n_layers; l++)
        n_attend += attention_maps_attends(m, first + l) ? attention_maps_heads(m, first + l) : 0;
    for (size_t i = 0; i < cells; i++) {
        double sum = 0.0;
        for (size_t k = 0; k < n_maps; k++) sum += (double)attention_map(m, first, k)[i];
        out[i] = n_attend ? (float)(sum / (double)n_attend) : 0.0f;
    }
}

/* ---- Labels ---------------------------------------------------------------------------------- */

void attention_maps_label(const AttentionMaps *m, size_t i, size_t max_characters, Sheet *out) {
    size_t length, shown = 0;
    const char *bytes = tokenizer_token_text(m->session->tokenizer, m->ids.ids[i], &length);
    out->length = 0;
    sheet_add(out, "", 0);
    for (size_t k = 0; k < length; shown++) {
        uint32_t code;
        size_t n = utf8_decode(bytes + k, length - k, &code);
        size_t end = k + (n ? n : utf8_bad_length(bytes + k, length - k));
        if (shown == max_characters) {
            sheet_add(out, "\xE2\x80\xA6", 3); /* an ellipsis */
            return;
        }
        bool is_space =
            bytes[k] == ' ' || (end - k == 3 && memcmp(bytes + k, "\xE2\x96\x81", 3) == 0);
        if (is_space) {
            sheet_add(out, "\xE2\x90\xA3", 3); /* an open box */
        } else {
            sheet_add(out, bytes + k, end - k);
        }
        k = end;
    }
}

void attention_maps_describe(const AttentionMaps *m, Sheet *out) {
    const char *name = modelfile_config(m->session->file)->name;
    sheet_printf(out, "%.60s%s%zu tokens, %u layers, %u heads on %u of keys and values", name,
                 name[0] ? ": " : "", m->n, m->n_layers, m->n_heads, m->n_kv_heads);
    if (m->session->overridden) sheet_printf(out, "; overridden: %.200s", m->session->overridden);
}

/* ---- Scores ---------------------------------------------------------------------------------- */

size_t attention_maps_unscaled(const AttentionMaps *m, size_t layer, size_t head, size_t query,
                               double *out) {
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
Status attention_maps_statistics(const AttentionMaps *m, size_t layer, size_t head,
                                 AttentionStatistics *out, Error *error) {
    double *unscaled = malloc((m->n + 1) * sizeof *unscaled), n = m->n ? (double)m->n : 1.0;
    Spread products = {0}, scores = {0};
    *out = (AttentionStatistics){0};
    if (!unscaled) return error_set(error, "no memory for the scores");
    for (size_t query = 0; query < m->n; query++) {
        const float *weights = attention_map(m, layer, head) + query * m->n;
        const float *row = attention_score_map(m, layer, head) + query * m->n;
        size_t first = attention_maps_unscaled(m, layer, head, query, unscaled), n_seen = 0;
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
