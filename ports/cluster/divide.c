#include "ports/cluster/divide.h"

#include <stdlib.h>

#include "ports/cluster/divide_layers.h"

/* ---- Heads ---- */

/* The layer whose keys and values layer l reads. */
static size_t source_of(const Config *c, size_t l) {
    return l - c->kv_distance[l];
}

/* Whether the layer can be cut between every `unit` of its key/value heads. */
static bool cuts_at(const Division *d, size_t l, size_t unit) {
    const Config *c = d->whole;
    const LayerWeights *w = &d->model->weights.layers[l];
    const HeadShape h = config_heads(c, l), source = config_heads(c, source_of(c, l));
    size_t group = h.n_heads / h.n_kv_heads;
    bool narrow = w->attention_gate.w.data && w->attention_gate.w.rows == h.n_heads;
    if (h.n_kv_heads != source.n_kv_heads || h.head_dim != source.head_dim) return false;
    if (c->layer_kind[l] != LAYER_ATTENTION || c->qk_norm == QK_NORM_ALL) return false;
    if (c->position == POSITION_ALIBI && (h.n_heads != c->n_heads || h.n_kv_heads != c->n_kv_heads))
        return false;
    return h.n_kv_heads % unit == 0 && unit * h.head_dim % PANEL_ROWS == 0 &&
           unit * h.value_dim % PANEL_ROWS == 0 && (!narrow || unit * group % PANEL_ROWS == 0);
}

/* The fewest key/value heads between which the layer, and the layers that share its cache, can be
 * cut; all of them where they cannot. */
static size_t head_unit(const Division *d, size_t l) {
    const Config *c = d->whole;
    size_t n = config_heads(c, l).n_kv_heads, source = source_of(c, l);
    for (size_t unit = 1; unit < n; unit++) {
        bool fits = true;
        for (size_t k = source; k < c->n_layers && fits; k++)
            if (source_of(c, k) == source) fits = cuts_at(d, k, unit);
        if (fits) return unit;
    }
    return n;
}

/* Whether the model has layers that take the heads of its first layer for their own
 * (layers/attention/attention_part.h). */
static bool has_parts(const Config *c) {
    for (size_t l = 0; l < c->n_layers; l++)
        if (c->layer_kind[l] == LAYER_PARALLEL_MAMBA || c->layer_kind[l] == LAYER_SHARED ||
            c->layer_kind[l] == LAYER_SHARED_MAMBA)
            return true;
    return false;
}

/* The same unit for all layers where the model has one list of slopes. */
static size_t alibi_unit(const Division *d) {
    const Config *c = d->whole;
    for (size_t l = 0; l < c->n_layers; l++)
        if (head_unit(d, l) == config_heads(c, l).n_kv_heads) return c->n_kv_heads;
    return head_unit(d, 0);
}

static void cut_norm(Norm *norm, QkNorm kind, size_t first) {
    if (kind != QK_NORM_EACH) return;
    if (norm->weight) norm->weight += first;
    if (norm->bias) norm->bias += first;
}

/* Cuts the gate of n of n_heads heads, or of their elements. */
static void cut_gate(Linear *gate, size_t n_heads, size_t first, size_t n, const RankShare *out) {
    bool narrow = gate->w.rows == n_heads;
    size_t from = narrow ? first : out->first;
    cut_rows(&gate->w, from, narrow ? n : out->own);
    if (gate->bias) gate->bias += from;
}

/* Cuts the attention of layer l down to the heads of this process, in units of `unit` key/value
 * heads, by pointing the weights at its rows. A unit of all heads leaves the layer whole. */
static void divide_heads(Division *d, size_t l, size_t unit) {
    Config *c = d->config;
    LayerWeights *w = &d->model->weights.layers[l];
    const HeadShape h = config_heads(d->whole, l);
    size_t group = h.n_heads / h.n_kv_heads, codes = cut_codes(d, &w->wo);
    if (unit == h.n_kv_heads) return;
    /* The outputs travel as codes where wo alone reads them, and none of its groups is cut. */
    if (w->inner_norm.present || (codes && unit * group * h.value_dim % codes != 0)) codes = 0;
    const RankShare *q = cut_find(d, (size_t)h.n_heads * h.head_dim, unit * group * h.head_dim, 0);
    const RankShare *k = cut_find(d, (size_t)h.n_kv_heads * h.head_dim, unit * h.head_dim, 0);
    const RankShare *v = cut_find(d, (size_t)h.n_kv_heads * h.value_dim, unit * h.value_dim, 0);
    const RankShare *out = cut_find_heads(d, h.n_heads, h.value_dim, unit * group, codes);
    if (d->failed) return;
    size_t first_kv = k->first_unit * unit, own_kv = k->own_units * unit;
    cut_projection(&w->wq, q);
    cut_projection(&w->wk, k);
    cut_projection(&w->wv, v);
    if (w->attention_gate.w.data)
        cut_gate(&w->attention_gate, h.n_heads, first_kv * group, own_kv * group, out);
    cut_norm(&w->q_norm, c->qk_norm, q->first);
    cut_norm(&w->k_norm, c->qk_norm, k->first);
    if (w->sinks) w->sinks += first_kv * group;
    w->wo.inputs = &out->share;
    c->layer_n_heads[l] = (uint32_t)(own_kv * group);
    c->layer_n_kv_heads[l] = (uint32_t)own_kv;
    d->divided->attention++;
}

static void divide_attention(Division *d) {
    Model *m = d->model;
    const Config *c = d->whole;
    bool slopes = c->position == POSITION_ALIBI;
    size_t of_all = slopes ? alibi_unit(d) : 0;
    for (size_t l = 0; l < c->n_layers && !d->failed; l++) {
        if (c->layer_kind[l] != LAYER_ATTENTION) {
            divide_own_weights(d, l);
            continue;
        }
        if (!has_parts(c)) divide_heads(d, l, slopes ? of_all : head_unit(d, l));
        if (d->dim) cut_last(&m->weights.layers[l].wo, d->dim);
    }
    if (!slopes || of_all == c->n_kv_heads || d->failed) return;
    size_t group = c->n_heads / c->n_kv_heads;
    const RankShare *kv = cut_find(d, (size_t)c->n_kv_heads * c->head_dim, of_all * c->head_dim, 0);
    if (kv) m->weights.alibi_slopes += kv->first_unit * of_all * group;
}

/* ---- Feed-forwards, experts, output ---- */

/* Leaves this rank its rows of the layer's feed-forward, experts and shared expert; one that cannot
 * be divided is computed whole by every rank. */
static void divide_layer_ffns(Division *d, size_t l) {
    const Config *c = d->whole;
    LayerWeights *w = &d->model->weights.layers[l];
    /* AltUp models: gate_cutoff takes the mean of a whole hidden vector, of which a rank has a
     * part. */
    if (c->stack == STACK_ALTUP || c->without_ffn[l]) return;
    if (w->expert_scale) return; /* each expert's whole output is normalized */
    bool divided = cut_ffn(d, &w->ffn, d->dim, w->ffn.up.w.data ? cut_codes(d, &w->ffn.down) : 0);
    size_t n = w->router.w.data ? c->experts.count - c->experts.identity : 0;
    divided = cut_experts(d, w->experts, n, d->dim) && divided;
    if (w->shared.up.w.data)
        divided = cut_ffn(d, &w->shared, d->dim, cut_codes(d, &w->shared.down)) && divided;
    if (divided) d->divided->ffn++;
}

static Status divide(Division *d, Error *error) {
    Weights *w = &d->model->weights;
    const Config *c = d->whole;
    d->dim = cut_find(d, c->dim, PANEL_ROWS, 0);
    const RankShare *vocab = cut_find(d, c->vocab_size, PANEL_ROWS, 0);
    if (!d->failed) divide_attention(d);
    for (size_t l = 0; l < c->n_layers && !d->failed; l++) divide_layer_ffns(d, l);
    if (d->failed || shares_reserve(d->shares, error) != STATUS_OK)
        return error_set(error, "no memory to divide the model among ranks");
    if (w->output.w.data) cut_last(&w->output, vocab);
    return STATUS_OK;
}

Status divide_model(Model *model, Shares *shares, bool floats, Config **config, Divided *divided,
                    Error *error) {
    *config = malloc(sizeof **config);
    if (!*config) return error_set(error, "no memory for a rank's configuration");
    **config = *model->config;
    *divided = (Divided){.n_layers = model->config->n_layers};
    Division d = {.model = model,
                  .shares = shares,
                  .config = *config,
                  .whole = model->config,
                  .divided = divided,
                  .floats = floats};
    Status status = divide(&d, error);
    model->config = *config;
    return status;
}
