#include "ports/cluster/divide_layers.h"

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
 * positions, which is little work, and has their cache; the queries, the matrices that take them
 * to the latent's space, attention, and the matrices that take it back are those of its heads. */
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

void divide_own_weights(Division *d, size_t l) {
    const LayerWeights *layer = &d->model->weights.layers[l];
    Latent *latent = latent_weights(layer);
    LatentMoe *experts = latent_moe_weights(layer);
    if (latent) divide_latent(d, l, latent);
    if (experts) divide_latent_moe(d, experts);
}
