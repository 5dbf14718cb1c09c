#include "layers/attention/indexed_heads.h"

void indexed_heads_find(Finder *f, uint32_t layer, IndexedHeads *heads) {
    const Config *c = f->config;
    const HeadShape h = config_heads(c, layer);
    size_t queries = (size_t)h.n_heads * h.head_dim, out = (size_t)h.n_heads * h.value_dim;
    size_t index_dim = c->indexer.head_dim;
    heads->wq = weights_linear(f, "wq", queries, c->dim, true);
    heads->wk = weights_linear(f, "wk", (size_t)h.n_kv_heads * h.head_dim, c->dim, true);
    heads->wv = weights_linear(f, "wv", (size_t)h.n_kv_heads * h.value_dim, c->dim, true);
    heads->wo = weights_linear(f, "wo", c->dim, out, true);
    heads->q_norm = weights_norm(f, "q_norm", h.head_dim, true);
    heads->k_norm = weights_norm(f, "k_norm", h.head_dim, true);
    heads->index_q = weights_matrix(f, "indexer.wq", c->indexer.n_heads * index_dim, c->dim, true);
    heads->index_k = weights_matrix(f, "indexer.wk", index_dim, c->dim, true);
    heads->index_q_norm = weights_norm(f, "indexer.q_norm", index_dim, true);
    heads->index_k_norm = weights_norm(f, "indexer.k_norm", index_dim, true);
}

AttentionParams indexed_heads_params(const Config *c, uint32_t layer) {
    const HeadShape h = config_heads(c, layer);
    return (AttentionParams){.layer = layer,
                             .cache_layer = layer,
                             .n_heads = h.n_heads,
                             .n_kv_heads = h.n_kv_heads,
                             .head_dim = h.head_dim,
                             .value_dim = h.value_dim,
                             .scale = c->attention_scale};
}

size_t indexed_heads_widest(const Config *c, LayerKindNumber kind) {
    size_t most = 0;
    for (uint32_t l = 0; l < c->n_layers; l++) {
        const HeadShape h = config_heads(c, l);
        size_t wide = h.head_dim > h.value_dim ? h.head_dim : h.value_dim;
        if (c->layer_kind[l] == kind && wide > most) most = wide;
    }
    return most;
}
