#include "ports/cluster/divide.h"

#include <stdlib.h>

#include "layers/attention/latent.h"
#include "layers/experts/latent_moe.h"

/* ---- Latent attention ---- */

/* The fewest heads between which the layer can be cut: their queries and their gates, `gates` for
 * each head, fill panels, and their outputs groups of `codes` numbers. All heads where it cannot
 * be. */
static size_t latent_unit(const HeadShape *h, size_t gates, size_t codes) {
    for (size_t unit = 1; unit < h->n_heads; unit++)
        if (h->n_heads % unit == 0 && unit * h->head_dim % PANEL_ROWS == 0 &&
            unit * gates % PANEL_ROWS == 0 && (codes == 0 || unit * h->value_dim % codes == 0))
            return unit;
    return h->n_heads;
}

/* Leaves a rank its part of a layer of latent attention. Every rank makes the latents of all
 * positions, which is little work, and has their cache; but it computes queries, the matrices that
 * take them to the latent's space and back, and attention for its own heads only. */
static void divide_latent(Division *d, size_t l, Latent *w) {
    const HeadShape h = config_heads(d->whole, l);
    size_t n = h.n_heads, gates = w->gate.rows / n, codes = cut_codes(d, &w->wo);
    size_t unit = latent_unit(&h, gates, codes);
    cut_last(&w->wo, d->dim);
    if (unit == n) return;
    const RankShare *q = cut_find(d, n * h.head_dim, unit * h.head_dim, 0);
    const RankShare *out = cut_find_heads(d, n, h.value_dim, unit, codes);
    if (d->failed) return;
    size_t first = q->first_unit * unit;
    cut_rows(&w->wq, q->first, q->own);
    if (gates > 0) cut_rows(&w->gate, first * gates, q->own_units * unit * gates);
    if (w->sinks) w->sinks += first;
    if (w->q_scale.scale) {
        w->q_scale.scale += first;
        w->q_scale.offset += first;
    }
    w->k_b += first;
    w->v_b += first;
    w->wo.inputs = &out->share;
    d->config->layer_n_heads[l] = (uint32_t)(q->own_units * unit);
    d->divided->attention++;
    d->divided->latents++;
}

/* ---- Mixtures of experts after a narrower vector (LatentMoE) ---- */

static void divide_latent_moe(Division *d, LatentMoe *w) {
    LayerWeights *mixture = w->mixture;
    const RankShare *inner = cut_find(d, d->whole->experts.dim, PANEL_ROWS, 0);
    if (!inner) return;
    cut_last(&w->in, inner);
    bool all = cut_experts(d, mixture->experts, d->whole->experts.count, inner);
    if (mixture->shared.up.w.data)
        all = cut_ffn(d, &mixture->shared, d->dim, cut_codes(d, &mixture->shared.down)) && all;
    cut_last(&w->out, d->dim);
    d->divided->ffn += all;
}

/* Divides the layers that have weights of their own (core/layer_kind.h). The others are computed
 * whole by every rank, with their states. */
static void divide_own_weights(Division *d, size_t l) {
    const LayerWeights *layer = &d->model->weights.layers[l];
    Latent *latent = latent_weights(layer);
    LatentMoe *experts = latent_moe_weights(layer);
    if (latent) divide_latent(d, l, latent);
    if (experts) divide_latent_moe(d, experts);
}

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

/* What this rank computes of a layer's attention: some key/value heads, and the query heads that
 * read them. */
typedef struct HeadCut {
    const RankShare *q, *k, *v; /* its rows of wq, wk and wv */
    const RankShare *outputs;   /* of its query heads; wo reads the outputs of all ranks */
    size_t first_kv, n_kv;      /* its key/value heads */
    size_t first, n;            /* its query heads */
} HeadCut;

/* The group in which the outputs of heads travel as codes: where wo alone reads them, and the
 * `own` outputs that stay together are whole groups. 0: they travel as floats. */
static size_t output_codes(const Division *d, const LayerWeights *w, size_t own) {
    size_t codes = cut_codes(d, &w->wo);
    return w->inner_norm.present || (codes && own % codes != 0) ? 0 : codes;
}

/* Finds this rank's heads of layer l, where `unit` key/value heads stay together. */
static HeadCut find_heads(Division *d, size_t l, size_t unit) {
    const HeadShape h = config_heads(d->whole, l);
    const size_t group = h.n_heads / h.n_kv_heads; /* query heads that share a key/value head */
    const size_t queries = unit * group;
    const size_t codes = output_codes(d, &d->model->weights.layers[l], queries * h.value_dim);
    HeadCut cut = {0};
    cut.q = cut_find(d, (size_t)h.n_heads * h.head_dim, queries * h.head_dim, 0);
    cut.k = cut_find(d, (size_t)h.n_kv_heads * h.head_dim, unit * h.head_dim, 0);
    cut.v = cut_find(d, (size_t)h.n_kv_heads * h.value_dim, unit * h.value_dim, 0);
    cut.outputs = cut_find_heads(d, h.n_heads, h.value_dim, queries, codes);
    if (d->failed) return cut;
    cut.first_kv = cut.k->first_unit * unit;
    cut.n_kv = cut.k->own_units * unit;
    cut.first = cut.first_kv * group;
    cut.n = cut.n_kv * group;
    return cut;
}

/* Cuts a gate down to this rank's heads: it has a row for each of the n_heads, or for each element
 * of their outputs. */
static void cut_gate(Linear *gate, size_t n_heads, const HeadCut *cut) {
    bool a_row_each = gate->w.rows == n_heads;
    size_t from = a_row_each ? cut->first : cut->outputs->first;
    cut_rows(&gate->w, from, a_row_each ? cut->n : cut->outputs->own);
    if (gate->bias) gate->bias += from;
}

/* Leaves this rank its heads of layer l: points the weights at their rows, and makes Config count
 * them alone. `unit` key/value heads stay together; where that is all of them, each rank computes
 * the whole layer. */
static void divide_heads(Division *d, size_t l, size_t unit) {
    Config *c = d->config;
    LayerWeights *w = &d->model->weights.layers[l];
    const HeadShape h = config_heads(d->whole, l);
    if (unit == h.n_kv_heads) return;
    const HeadCut cut = find_heads(d, l, unit);
    if (d->failed) return;
    cut_projection(&w->wq, cut.q);
    cut_projection(&w->wk, cut.k);
    cut_projection(&w->wv, cut.v);
    if (w->attention_gate.w.data) cut_gate(&w->attention_gate, h.n_heads, &cut);
    cut_norm(&w->q_norm, c->qk_norm, cut.q->first);
    cut_norm(&w->k_norm, c->qk_norm, cut.k->first);
    if (w->sinks) w->sinks += cut.first;
    w->wo.inputs = &cut.outputs->share;
    c->layer_n_heads[l] = (uint32_t)cut.n;
    c->layer_n_kv_heads[l] = (uint32_t)cut.n_kv;
    d->divided->attention++;
}

/* Leaves this rank its heads of every attention layer, and of ALiBi's one list of slopes. */
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
    /* AltUp models: gate_cutoff takes the mean of a whole hidden vector, but a rank has a part. */
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
