#include "modes/inspect/attention_maps.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "core/prefill.h"
#include "layers/model_watch.h"
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

/* Whether the maps have room for the numbers. Layers that attend in other ways show weights, too,
 * but for more heads, or for things other than positions of the text. */
static bool is_kept(const AttentionMaps *m, size_t layer, size_t row, size_t head, int32_t first,
                    size_t n) {
    return attention_maps_attends(m, layer) && head < m->n_heads && m->base + row < m->n &&
           first >= 0 && (size_t)first <= m->n && n <= m->n - (size_t)first;
}

static void keep_weights(PassObserver *observer, size_t layer, size_t row, size_t head,
                         int32_t first, float *weights, size_t n) {
    AttentionMaps *m = ((MapObserver *)observer)->maps;
    size_t query = m->base + row;
    if (!is_kept(m, layer, row, head, first, n)) return;
    memcpy(m->weights + map_at(m, layer, head) + query * m->n + first, weights,
           n * sizeof *weights);
    if (head == 0) m->first[layer * m->n + query] = (uint32_t)first;
}

static void keep_scores(PassObserver *observer, size_t layer, size_t row, size_t head,
                        int32_t first, float *scores, size_t n) {
    AttentionMaps *m = ((MapObserver *)observer)->maps;
    if (!is_kept(m, layer, row, head, first, n)) return;
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
           kind == LAYER_HEAD_MIXTURE || kind == LAYER_CCA;
}

const char *attention_maps_absence(const AttentionMaps *m, size_t layer) {
    switch (modelfile_config(m->session->file)->layer_kind[layer]) {
    case LAYER_BLOCKS:
    case LAYER_COMPRESSED:
    case LAYER_CHOSEN:
    case LAYER_DYNAMIC_MASK:
        return "attends to positions that it chooses, which is not shown";
    case LAYER_RELATIVE:
        return "attends with a bias of distances, which is not shown";
    case LAYER_NONE:
    case LAYER_LATENT_MOE:
        return "has no attention";
    default:
        return "keeps a state and does not attend";
    }
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
