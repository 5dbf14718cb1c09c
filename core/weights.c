#include "core/weights.h"

#include <stdio.h>
#include <stdlib.h>

/* Finds a tensor and checks its shape and whether it is a vector or a matrix. NULL when it is
 * absent, which is a failure if it is required. */
static const FileTensor *find(Finder *f, const char *name, bool is_vector, size_t rows, size_t cols,
                              bool required) {
    char full[MODELFILE_NAME_BYTES];
    if (f->status != STATUS_OK) return NULL;
    int length = snprintf(full, sizeof full, "%s%s", f->prefix, name);
    const FileTensor *tensor = length < (int)sizeof full ? modelfile_find(f->file, full) : NULL;
    if (!tensor && !required) return NULL;
    if (!tensor) {
        f->status = error_set(f->error, "tensor '%s' is missing", full);
    } else if ((tensor->type == TENSOR_VECTOR) != is_vector) {
        f->status = error_set(f->error, "tensor '%s' must be a %s", full,
                              is_vector ? "float32 vector" : "matrix, not a vector");
    } else if (tensor->rows != rows || tensor->cols != cols || tensor->count != 1) {
        f->status = error_set(f->error, "tensor '%s' is %zu x %zu, expected %zu x %zu", full,
                              (size_t)tensor->rows, (size_t)tensor->cols, rows, cols);
    }
    return f->status == STATUS_OK ? tensor : NULL;
}

const float *weights_vector(Finder *f, const char *name, size_t rows, size_t cols, bool required) {
    const FileTensor *tensor = find(f, name, true, rows, cols, required);
    return tensor ? modelfile_data(f->file, tensor) : NULL;
}

/* The vector NAME.bias[n], which is always optional. */
static const float *bias(Finder *f, const char *name, size_t n) {
    char full[MODELFILE_NAME_BYTES];
    snprintf(full, sizeof full, "%s.bias", name);
    return weights_vector(f, full, 1, n, false);
}

Matrix weights_matrix(Finder *f, const char *name, size_t rows, size_t cols, bool required) {
    const FileTensor *tensor = find(f, name, false, rows, cols, required);
    return tensor ? modelfile_matrix(f->file, tensor, 0) : (Matrix){0};
}

Linear weights_linear(Finder *f, const char *name, size_t rows, size_t cols, bool required) {
    Linear l = {.w = weights_matrix(f, name, rows, cols, required)};
    if (l.w.data) l.bias = bias(f, name, rows);
    return l;
}

Norm weights_norm(Finder *f, const char *name, size_t n, bool applied) {
    Norm found = {.weight = weights_vector(f, name, 1, n, false), .bias = bias(f, name, n)};
    found.present = applied || found.weight || found.bias;
    found.rounds = f->config->round_inputs && f->prefix[0] != '\0';
    return found;
}

/* The optional matrix "attention_gate" of `wide` or `narrow` rows. */
static Linear weights_gate(Finder *f, size_t wide, size_t narrow) {
    char full[MODELFILE_NAME_BYTES];
    snprintf(full, sizeof full, "%.48sattention_gate", f->prefix);
    const FileTensor *tensor = modelfile_find(f->file, full);
    bool is_narrow = tensor && tensor->rows == narrow;
    return weights_linear(f, "attention_gate", is_narrow ? narrow : wide, f->config->dim, false);
}

static FeedForward find_ffn(Finder *f, size_t width, size_t dim) {
    FeedForward found = {.width = width};
    if (f->config->gated) found.gate = weights_linear(f, "w_gate", width, dim, true);
    found.up = weights_linear(f, "w_up", width, dim, true);
    found.down = weights_linear(f, "w_down", dim, width, true);
    found.inner_norm = weights_norm(f, "ffn_inner_norm", width, false);
    found.xielu = weights_vector(f, "xielu", 1, 4, f->config->activation == ACTIVATION_XIELU);
    if (found.gate.w.data && f->config->experts.count > 0) /* as limits_activate needs */
        found.limit = weights_vector(f, "gate_limit", 1, 1, false);
    return found;
}

/* The optional table of each token's experts. Their numbers are checked here, because they become
 * indices. */
static const float *find_router_table(Finder *f) {
    const Config *c = f->config;
    size_t n = (size_t)c->vocab_size * c->experts.per_token; /* at most 2^24 * 64 */
    const float *table = weights_vector(f, "router.table", 1, n, false);
    for (size_t i = 0; table && i < n; i++) {
        if (table[i] >= 0.0f && table[i] < (float)c->experts.count &&
            table[i] == (float)(uint32_t)table[i])
            continue;
        f->status = error_set(f->error, "tensor '%srouter.table' names expert %g for token %zu",
                              f->prefix, (double)table[i], i / c->experts.per_token);
        return NULL;
    }
    return table;
}

/* Finds the layer's router and experts; f->prefix is the layer's. A layer without a router has no
 * experts. */
static void find_experts(Finder *f, uint32_t l, LayerWeights *layer) {
    const Config *c = f->config;
    layer->router = weights_linear(f, "router", c->experts.count,
                                   c->router.dim > 0 ? c->router.dim : c->dim, false);
    if (!layer->router.w.data) return;
    layer->router_correction = weights_vector(f, "router.correction", 1, c->experts.count, false);
    layer->router_table = find_router_table(f);
    layer->experts_bias = weights_vector(f, "experts.bias", 1, c->dim, false);
    if (c->experts.shared_ffn_dim > 0)
        layer->shared_gate = weights_matrix(f, "shared.router", 1, c->dim, false);
    /* Muse's experts read and write narrower rows. */
    size_t dim = c->stack == STACK_RESIDUAL_GATES ? c->experts.dim : c->dim;
    for (uint32_t i = 0; i < c->experts.count - c->experts.identity; i++) {
        snprintf(f->prefix, sizeof f->prefix, "layers.%u.experts.%u.", l, i);
        layer->experts[i] = find_ffn(f, c->experts.ffn_dim, dim);
    }
    snprintf(f->prefix, sizeof f->prefix, "layers.%u.shared.", l);
    if (c->experts.shared_ffn_dim > 0)
        layer->shared = find_ffn(f, c->experts.shared_ffn_dim, c->dim);
}

/* Finds the weights of plain attention in layer l. A layer that reads the keys of another one
 * (kv_distance) has no wk, wv and k_norm. */
static void find_attention(Finder *f, uint32_t l, LayerWeights *layer) {
    const Config *c = f->config;
    const HeadShape h = config_heads(c, l);
    size_t q_dim = (size_t)h.n_heads * h.head_dim, k_dim = (size_t)h.n_kv_heads * h.head_dim;
    size_t v_dim = (size_t)h.n_kv_heads * h.value_dim, out_dim = (size_t)h.n_heads * h.value_dim;
    bool has_keys = c->kv_distance[l] == 0;
    bool head = c->qk_norm == QK_NORM_HEAD; /* one set of weights for all heads */
    layer->wq = weights_linear(f, "wq", q_dim, c->dim, true);
    if (has_keys) layer->wk = weights_linear(f, "wk", k_dim, c->dim, true);
    /* Keys may be values as well, before the norms of both. */
    bool is_own = !c->value_norm || h.value_dim != h.head_dim;
    if (has_keys) layer->wv = weights_linear(f, "wv", v_dim, c->dim, is_own);
    layer->wo = weights_linear(f, "wo", c->dim, out_dim, true);
    if (c->qk_norm != QK_NORM_NONE)
        layer->q_norm = weights_norm(f, "q_norm", head ? h.head_dim : q_dim, true);
    if (c->qk_norm != QK_NORM_NONE && has_keys)
        layer->k_norm = weights_norm(f, "k_norm", head ? h.head_dim : k_dim, true);
    layer->q_norm.is_layer_norm = layer->k_norm.is_layer_norm = c->qk_layer_norm_eps > 0.0f;
    layer->q_norm.eps = layer->k_norm.eps = c->qk_layer_norm_eps;
    layer->inner_norm = weights_norm(f, "attention_inner_norm", out_dim, false);
    layer->sinks = weights_vector(f, "sinks", 1, h.n_heads, false);
    /* The gate is as wide as the output, or has one row for each head. */
    layer->attention_gate = weights_gate(f, out_dim, h.n_heads);
}

static void find_layer(Finder *f, uint32_t l, LayerWeights *layer) {
    const Config *c = f->config;
    snprintf(f->prefix, sizeof f->prefix, "layers.%u.", l);
    bool at_start = c->norm_place != NORM_OUTPUT;
    bool at_end = c->norm_place == NORM_OUTPUT || c->norm_place == NORM_AROUND;
    layer->attention_norm = weights_norm(f, "attention_norm", c->dim, at_start);
    if (c->layer_kind[l] == LAYER_ATTENTION) find_attention(f, l, layer);
    layer->post_attention_norm = weights_norm(f, "post_attention_norm", c->dim, at_end);
    layer->ffn_norm = weights_norm(f, "ffn_norm", c->dim, at_start && !c->parallel_block);
    layer->post_ffn_norm = weights_norm(f, "post_ffn_norm", c->dim, at_end);
    layer->post_attention_norm.eps = layer->post_ffn_norm.eps = c->post_norm_eps;
    if (c->without_ffn[l]) return;
    if (c->experts.count > 0) find_experts(f, l, layer);
    if (!layer->router.w.data || c->stack == STACK_GEMMA4 || c->stack == STACK_SHORTCUT) {
        snprintf(f->prefix, sizeof f->prefix, "layers.%u.", l);
        layer->ffn = find_ffn(f, config_ffn_dim(c, l), c->dim);
    }
}

/* Finds the weights of the position encoding: learned embeddings, the frequencies of sinusoids or
 * of RoPE, or the slopes of ALiBi. */
static void find_positions(Finder *f, Weights *weights) {
    const Config *c = f->config;
    if (c->position == POSITION_LEARNED) {
        weights->n_positions = (size_t)c->context + c->position_offset;
        weights->position_embedding =
            weights_vector(f, "position_embedding", weights->n_positions, c->dim, true);
    }
    if (c->position == POSITION_SINUSOIDAL)
        weights->sinusoid_freqs = weights_vector(f, "sinusoid.freqs", 1, c->dim / 2, true);
    if (c->position == POSITION_ALIBI)
        weights->alibi_slopes = weights_vector(f, "alibi.slopes", 1, c->n_heads, true);
    if (c->position == POSITION_ROPE) {
        bool second = false;
        for (size_t i = 0; i < c->n_layers; i++) second = second || c->rope_table[i] == 1;
        weights->rope_freqs[0] = weights_vector(f, "rope.freqs", 1, c->rotary_dim / 2, true);
        weights->rope_freqs_short =
            weights_vector(f, "rope.freqs.short", 1, c->rotary_dim / 2,
                           c->rope_original_context > 0 && c->rope_dynamic_factor == 0.0f);
        weights->rope_freqs[1] = weights_vector(
            f, "rope.freqs.1", 1,
            (c->rope_local_rotary_dim ? c->rope_local_rotary_dim : c->rotary_dim) / 2, second);
    }
}

Status weights_find(Weights *weights, const ModelFile *file, const Config *c, Error *error) {
    Finder f = {.file = file, .config = c, .error = error};
    *weights = (Weights){0};
    if (modelfile_n_tensors(file) == 0)
        return error_set(error,
                         "%s: holds a vocabulary but no weights: it can tokenize, not generate",
                         modelfile_path(file));
    weights->layers = calloc(c->n_layers, sizeof *weights->layers);
    if (!weights->layers) return error_set(error, "no memory for %u layers", c->n_layers);
    weights->n_layers = c->n_layers;
    if (c->experts.count > 0) {
        /* At most 512 x 1024, by the limits of Config. */
        weights->experts = calloc((size_t)c->n_layers * c->experts.count, sizeof *weights->experts);
        if (!weights->experts)
            return error_set(error, "no memory for %u experts", c->experts.count);
        for (uint32_t l = 0; l < c->n_layers; l++)
            weights->layers[l].experts = weights->experts + (size_t)l * c->experts.count;
    }
    weights->token_embedding = weights_matrix(&f, "token_embedding", c->vocab_size, c->dim, true);
    find_positions(&f, weights);
    weights->embedding_norm = weights_norm(&f, "embedding_norm", c->dim, false);
    if (c->final_norm) weights->final_norm = weights_norm(&f, "final_norm", c->dim, true);
    weights->final_norm.eps = c->final_norm_eps;
    weights->output = weights_linear(&f, "output", c->vocab_size, c->dim, true);
    for (uint32_t l = 0; l < c->n_layers; l++) find_layer(&f, l, &weights->layers[l]);
    return f.status == STATUS_OK ? STATUS_OK : error_prefix(error, "%s", modelfile_path(file));
}

void weights_free(Weights *weights) {
    for (uint32_t l = 0; weights->layers && l < weights->n_layers; l++)
        free(weights->layers[l].own);
    free(weights->layers);
    free(weights->experts);
    free(weights->stack);
    weights->stack = NULL;
    weights->experts = NULL;
    weights->layers = NULL;
}
