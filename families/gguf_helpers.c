#include "families/gguf_helpers.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "formats/family/convolutions.h"

Status gguf_latent_finish(const GgufModel *m, Config *c) {
    c->value_dim = c->n_heads ? c->dim / c->n_heads : 0;
    gguf_model_uint(m, "attention.kv_lora_rank", &c->latent.kv_lora_rank);
    gguf_model_uint(m, "attention.q_lora_rank", &c->latent.q_lora_rank);
    gguf_model_uint(m, "attention.value_length", &c->value_dim);
    gguf_model_uint(m, "attention.key_length_mla", &c->head_dim);
    gguf_model_uint(m, "attention.value_length_mla", &c->value_dim);
    if (c->head_dim == 0 || c->value_dim == 0 || c->latent.kv_lora_rank == 0)
        return error_set(m->error,
                         "%s: latent attention with keys of %u, values of %u and a latent "
                         "of %u elements",
                         m->source->path, c->head_dim, c->value_dim, c->latent.kv_lora_rank);
    c->n_kv_heads = c->n_heads;
    c->latent.norm_eps = 1e-6f;
    c->attention_scale = (float)(1.0 / sqrt((double)c->head_dim));
    for (uint32_t i = 0; i < c->n_layers && i < CONFIG_MAX_LAYERS; i++)
        c->layer_kind[i] = LAYER_LATENT;
    return STATUS_OK;
}

/* Whether a layer ranks experts with a correction, which those with sigmoid scores do. */
bool gguf_has_correction(const GgufModel *m, const Config *c) {
    for (uint32_t i = 0; i < c->n_layers && i < CONFIG_MAX_LAYERS; i++) {
        char name[64];
        snprintf(name, sizeof name, "blk.%u.exp_probs_b.bias", i);
        if (gguf_model_has(m, name)) return true;
    }
    return false;
}

/* Scales attention scores by the square of YaRN's mscale. GGUF files have
 * rope.scaling.yarn_log_multiplier, which is 0.1 * mscale_all_dim. */
void gguf_scale_scores(const GgufModel *m, Config *c) {
    double multiplier = 0.0, factor = 1.0;
    gguf_model_float(m, "rope.scaling.factor", &factor);
    if (gguf_model_float(m, "rope.scaling.yarn_log_multiplier", &multiplier) && factor > 1.0) {
        double mscale = multiplier * log(factor) + 1.0;
        c->attention_scale *= (float)(mscale * mscale);
    }
}

/* DeepSeek V2 and V3, and what llama.cpp takes for them: GLM-4.7-Flash, Youtu, Kimi K2. */
Status gguf_deepseek2_finish(const GgufModel *m, Config *c) {
    if (gguf_latent_finish(m, c) != STATUS_OK) return STATUS_FAILED;
    bool sigmoid = gguf_has_correction(m, c);
    c->router.kind = sigmoid ? ROUTER_SIGMOID_SCORES : ROUTER_SOFTMAX_SCORES;
    if (sigmoid) snprintf(c->family, sizeof c->family, "deepseek_v3");
    gguf_scale_scores(m, c);
    return STATUS_OK;
}

void gguf_indexers(const GgufModel *m, Config *c) {
    gguf_model_uint(m, "attention.indexer.head_count", &c->indexer.n_heads);
    gguf_model_uint(m, "attention.indexer.key_length", &c->indexer.head_dim);
    gguf_model_uint(m, "attention.indexer.top_k", &c->indexer.topk);
    for (uint32_t i = 0; i < c->n_layers && i < CONFIG_MAX_LAYERS; i++) {
        bool own = gguf_model_layer_has(m, i, "indexer.attn_k.weight");
        c->indexer.layer[i] = own ? INDEXER_OWN : INDEXER_SHARED;
    }
}

Status gguf_granite(const GgufModel *m, Config *c) {
    double divisor = 1.0;
    bool rotated = true;
    if (gguf_model_bool(m, "rope.scaling.finetuned", &rotated) && !rotated)
        return error_set(m->error, "%s: a Granite without RoPE is not known to this program",
                         m->source->path);
    gguf_model_float(m, "logit_scale", &divisor);
    if (!(divisor > 0.0))
        return error_set(m->error, "%s: logit_scale is %g", m->source->path, divisor);
    c->logit_scale = (float)(1.0 / divisor);
    return STATUS_OK;
}

/* Reads the sizes of the states. */
Status gguf_read_state(const GgufModel *m, Config *c) {
    uint32_t inner = 0;
    gguf_model_uint(m, "ssm.conv_kernel", &c->state.conv_kernel);
    gguf_model_uint(m, "ssm.state_size", &c->state.key_dim);
    gguf_model_uint(m, "ssm.group_count", &c->state.n_key_heads);
    gguf_model_uint(m, "ssm.time_step_rank", &c->state.n_heads);
    gguf_model_uint(m, "ssm.inner_size", &inner);
    if (c->state.n_heads == 0 || inner % c->state.n_heads != 0)
        return error_set(m->error, "%s: ssm.inner_size %u does not fit ssm.time_step_rank %u",
                         m->source->path, inner, c->state.n_heads);
    c->state.value_dim = inner / c->state.n_heads;
    return STATUS_OK;
}

/* Layers without key/value heads are of the kind `other`, the rest of the kind `attends`. */
Status gguf_kinds_by_heads(const GgufModel *m, Config *c, LayerKindNumber attends,
                           LayerKindNumber other) {
    const GgufValue *heads = gguf_model_find(m, "attention.head_count_kv", GGUF_AS_WHOLE);
    double n = 1.0;
    for (uint32_t l = 0; l < c->n_layers && l < CONFIG_MAX_LAYERS; l++) {
        if (heads && !gguf_element(heads, heads->is_array ? l : 0, &n))
            return error_set(m->error, "%s: attention.head_count_kv is not a list of %u layers",
                             m->source->path, c->n_layers);
        c->layer_kind[l] = n == 0.0 ? other : attends;
    }
    if (c->n_kv_heads == 0) c->n_kv_heads = c->n_heads; /* no layer attends: any divisor will do */
    return STATUS_OK;
}

Status gguf_delta_kinds(const GgufModel *m, Config *c, LayerKindNumber attends) {
    const GgufValue *recurrent = gguf_model_find(m, "attention.recurrent_layers", GGUF_AS_BOOL);
    uint32_t interval = 4;
    double is_recurrent;
    gguf_model_uint(m, "full_attention_interval", &interval);
    if (interval == 0)
        return error_set(m->error, "%s: full_attention_interval is 0", m->source->path);
    for (uint32_t l = 0; l < c->n_layers && l < CONFIG_MAX_LAYERS; l++) {
        is_recurrent = (l + 1) % interval != 0;
        if (recurrent && !gguf_element(recurrent, l, &is_recurrent))
            return error_set(m->error, "%s: attention.recurrent_layers is not a list of %u layers",
                             m->source->path, c->n_layers);
        c->layer_kind[l] = is_recurrent != 0.0 ? LAYER_DELTA : attends;
    }
    return STATUS_OK;
}

Status gguf_kda_sizes(const GgufModel *m, Config *c) {
    if (gguf_kinds_by_heads(m, c, LAYER_LATENT, LAYER_DELTA) != STATUS_OK) return STATUS_FAILED;
    memset(c->layer_n_kv_heads, 0, sizeof c->layer_n_kv_heads);
    gguf_model_uint(m, "ssm.conv_kernel", &c->state.conv_kernel);
    gguf_model_uint(m, "kda.head_dim", &c->state.key_dim);
    c->state.value_dim = c->state.key_dim;
    c->state.n_heads = c->state.n_key_heads = c->n_heads;
    return STATUS_OK;
}

Status gguf_join_kda(GgufModel *m) {
    const RuleContext context = {.source = m->source, .table = &m->table, .layers = GGUF_LAYERS};
    return convolutions_join(&context, "blk.%u.ssm_conv1d_%c.weight", m->error);
}

/* Sets *limit from a list with one number for all layers; 0 where there is no list. */
static Status one_limit(const GgufModel *m, const char *key, double *limit) {
    const GgufValue *found = gguf_model_find(m, key, GGUF_AS_FLOAT);
    double first = 0.0, other = 0.0;
    uint64_t n = found && found->is_array ? m->source->config.n_layers : 1;
    for (uint64_t l = 0; found && l < n; l++) {
        if (!gguf_element(found, l, &other) || !(other >= 0.0 && other <= 1e6) ||
            (l > 0 && other != first))
            return error_set(m->error, "%s: %s.%s is not one limit for all layers", m->source->path,
                             m->architecture, key);
        first = other;
    }
    *limit = first;
    return STATUS_OK;
}

Status gguf_gate_limit(const GgufModel *m, float *limit) {
    double experts, shared;
    if (one_limit(m, "swiglu_clamp_exp", &experts) != STATUS_OK ||
        one_limit(m, "swiglu_clamp_shexp", &shared) != STATUS_OK)
        return STATUS_FAILED;
    bool has_shared = gguf_model_value(m, "swiglu_clamp_shexp") != NULL;
    if (has_shared && shared != experts)
        return error_set(m->error, "%s: gates of experts are limited by %g, shared ones by %g",
                         m->source->path, experts, shared);
    *limit = (float)experts;
    return STATUS_OK;
}
