#include "formats/gguf_gemma.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "formats/tensor_rules.h"

/* ---- Tensors ---- */

#define BLOCK(name) "blk.%u." name
#define OWN(to, from, rows, flags) PART(to, from, rows, N_DIM, RULE_OWN_KEYS | (flags), {0}, {0})
#define GEMMA_LAYER                                                                                \
    NORM("attention_norm", BLOCK("attn_norm")), LINEAR("wq", BLOCK("attn_q"), N_Q, N_DIM),         \
        OWN("wk", BLOCK("attn_k"), N_KV, 0), OWN("wv", BLOCK("attn_v"), N_V, RULE_OPTIONAL),       \
        LINEAR("wo", BLOCK("attn_output"), N_DIM, N_OUT),                                          \
        NORM_OF("q_norm", BLOCK("attn_q_norm"), N_HEAD),                                           \
        {"k_norm", BLOCK("attn_k_norm.weight"), N_ONE, N_HEAD, RULE_OWN_KEYS, {0}, {0}},           \
        NORM("post_attention_norm", BLOCK("post_attention_norm")),                                 \
        NORM("ffn_norm", BLOCK("ffn_norm")), LINEAR("w_gate", BLOCK("ffn_gate"), N_FFN, N_DIM),    \
        LINEAR("w_up", BLOCK("ffn_up"), N_FFN, N_DIM),                                             \
        LINEAR("w_down", BLOCK("ffn_down"), N_DIM, N_FFN),                                         \
        NORM("post_ffn_norm", BLOCK("post_ffw_norm"))
#define PER_LAYER_TABLE                                                                            \
    LINEAR("per_layer.embedding", "per_layer_token_embd", N_PER_LAYER_VOCAB, N_PER_LAYERS),        \
        LINEAR("per_layer.projection", "per_layer_model_proj", N_PER_LAYERS, N_DIM),               \
        NORM_OF("per_layer.norm", "per_layer_proj_norm", N_PER_LAYER)
#define PER_LAYER_GATE                                                                             \
    LINEAR("per_layer.gate", BLOCK("inp_gate"), N_PER_LAYER, N_DIM),                               \
        LINEAR("per_layer.projection", BLOCK("proj"), N_DIM, N_PER_LAYER),                         \
        NORM("per_layer.norm", BLOCK("post_norm"))
#define GEMMA_END NORM("final_norm", "output_norm"), OUTPUT("output")

const TensorRule gguf_gemma4_tensors[] = {
    EMBEDDING("token_embd"),
    GEMMA_LAYER,
    OPTIONAL("output_scale", BLOCK("layer_output_scale.weight"), N_ONE, N_ONE),
    GEMMA_END,
    {0},
};
static const TensorRule per_layer_tensors[] = {PER_LAYER_TABLE, PER_LAYER_GATE, {0}};
#define GATE_UP(to, flags, ...)                                                                    \
    { to, BLOCK("ffn_gate_up_exps.weight"), N_EXPERT_FFN, N_DIM, flags, __VA_ARGS__ }
static const TensorRule mixture_tensors[] = {
    LINEAR("router", BLOCK("ffn_gate_inp"), N_EXPERTS, N_DIM),
    {"router_scale", BLOCK("ffn_gate_inp.scale"), N_ONE, N_DIM, 0, {0}, {0}},
    OPTIONAL("router.correction", BLOCK("ffn_down_exps.scale"), N_ONE, N_EXPERTS),
    OPTIONAL("experts.%u.w_gate", BLOCK("ffn_gate_exps.weight"), N_EXPERT_FFN, N_DIM),
    OPTIONAL("experts.%u.w_up", BLOCK("ffn_up_exps.weight"), N_EXPERT_FFN, N_DIM),
    GATE_UP("experts.%u.w_gate", RULE_OPTIONAL, {N_NONE}, {N_EXPERT_FFN, N_EXPERT_FFN}),
    GATE_UP("experts.%u.w_up", RULE_OPTIONAL, {N_EXPERT_FFN}, {N_EXPERT_FFN, N_EXPERT_FFN}),
    LINEAR("experts.%u.w_down", BLOCK("ffn_down_exps"), N_DIM, N_EXPERT_FFN),
    NORM("expert_norm", BLOCK("pre_ffw_norm_2")),
    NORM("post_expert_norm", BLOCK("post_ffw_norm_2")),
    NORM("post_dense_norm", BLOCK("post_ffw_norm_1")),
    {0},
};

const TensorRule gguf_gemma3n_tensors[] = {
    EMBEDDING("token_embd"),
    PER_LAYER_TABLE,
    GEMMA_LAYER,
    PER_LAYER_GATE,
    LINEAR("altup.router", BLOCK("altup_router"), N_STREAMS, N_DIM),
    NORM("altup.router_norm", BLOCK("altup_router_norm")),
    {"altup.predict",
     BLOCK("altup_predict_coef.weight"),
     N_STREAM_PAIRS,
     N_STREAMS,
     RULE_VECTOR,
     {0},
     {0}},
    {"altup.correct",
     BLOCK("altup_correct_coef.weight"),
     N_STREAMS,
     N_STREAMS,
     RULE_VECTOR,
     {0},
     {0}},
    OPTIONAL("altup.scale", BLOCK("altup_correct_scale.weight"), N_ONE, N_DIM),
    LINEAR("laurel.left", BLOCK("laurel_l"), N_LAUREL, N_DIM),
    LINEAR("laurel.right", BLOCK("laurel_r"), N_DIM, N_LAUREL),
    NORM("laurel.norm", BLOCK("laurel_post_norm")),
    GEMMA_END,
    {0},
};

/* ---- Fields that the common keys do not give ---- */

/* The first dimension of a matrix; 0: there is no such matrix. */
static uint32_t rows_of(const GgufModel *m, const char *name) {
    const RawTensor *raw = raw_table_find(&m->table, name);
    return raw && raw->n_dims == 2 && raw->dims[0] <= UINT32_MAX ? (uint32_t)raw->dims[0] : 0;
}

static void read_common(const GgufModel *m, Config *c) {
    c->norm_place = NORM_AROUND;
    c->qk_norm = QK_NORM_HEAD;
    c->value_norm = true;
    c->attention_scale = 1.0f;
    c->activation = ACTIVATION_GELU_TANH;
    c->embedding_scale = (float)sqrt((double)c->dim);
    gguf_model_uint(m, "embedding_length_per_layer_input", &c->per_layer_dim);
    c->per_layer_vocab = rows_of(m, "per_layer_token_embd.weight");
}

Status gguf_gemma4_finish(const GgufModel *m, Config *c) {
    read_common(m, c);
    c->stack = STACK_GEMMA4;
    if (c->n_experts > 0) c->router = ROUTER_SCALED;
    return STATUS_OK;
}

Status gguf_gemma3n_finish(const GgufModel *m, Config *c) {
    double cap = 30.0;
    read_common(m, c);
    c->stack = STACK_ALTUP;
    c->altup_streams = 4;
    gguf_model_uint(m, "altup.num_inputs", &c->altup_streams);
    gguf_model_uint(m, "altup.active_idx", &c->altup_active);
    gguf_model_float(m, "final_logit_softcapping", &cap);
    c->logit_softcap = (float)cap;
    c->altup_scales = raw_table_find(&m->table, "blk.0.altup_correct_scale.weight") != NULL;
    c->laurel_rank = rows_of(m, "blk.0.laurel_l.weight");
    return STATUS_OK;
}

/* Lets the last layers read the keys of the last layer before them that has a window as they have,
 * or none. */
static Status share_keys(const GgufModel *m, Config *c) {
    uint32_t shared = 0;
    if (c->stack == STACK_ALTUP && c->n_layers > 20) shared = c->n_layers - 20;
    gguf_model_uint(m, "attention.shared_kv_layers", &shared);
    if (shared > 0 && shared >= c->n_layers)
        return error_set(m->error, "%s: attention.shared_kv_layers is %u of %u layers",
                         m->source->path, shared, c->n_layers);
    for (uint32_t l = c->n_layers - shared; l < c->n_layers; l++) {
        uint32_t from = c->n_layers - shared;
        while (from > 0 && !c->window[from - 1] != !c->window[l]) from--;
        if (from == 0)
            return error_set(m->error, "%s: layer %u shares keys, but no layer has such keys",
                             m->source->path, l);
        c->kv_distance[l] = l - (from - 1);
    }
    return STATUS_OK;
}

Status gguf_gemma_by_layer(const GgufModel *m, Config *c) {
    uint32_t width = 0;
    if (c->n_layers > CONFIG_MAX_LAYERS) return STATUS_OK; /* config_validate refuses it */
    gguf_model_uint(m, "attention.key_length_swa", &width);
    if (width > 0) {
        c->rope_local_rotary_dim = width;
        gguf_model_uint(m, "rope.dimension_count_swa", &c->rope_local_rotary_dim);
    }
    for (uint32_t l = 0; l < c->n_layers; l++) {
        c->rope_table[l] = c->window[l] ? 1 : 0;
        if (c->window[l] && width != c->head_dim) c->layer_head_dim[l] = width;
    }
    return share_keys(m, c);
}

/* ---- Tensors that are none in the file ---- */

/* Makes each matrix of a stack a tensor of its own, NAME.0, NAME.1, ... */
static Status unstack(GgufModel *m, const char *name) {
    char full[64];
    snprintf(full, sizeof full, "%s.weight", name);
    const RawTensor *found = raw_table_find(&m->table, full);
    uint32_t n = m->source->config.altup_streams - 1;
    size_t bytes;
    if (!found || found->n_dims != 3 || found->dims[0] != n || found->type == STORED_TYPES ||
        !stored_bytes(found->type, found->dims[1] * found->dims[2], &bytes))
        return error_set(m->error, "%s: tensor '%s' is missing or does not hold %u matrices",
                         m->source->path, full, n);
    RawTensor stack = *found; /* raw_table_add may move it */
    for (uint32_t i = 0; i < n; i++) {
        int length = snprintf(full, sizeof full, "%s.%u", name, i);
        RawTensor *one = raw_table_add(&m->table, full, (size_t)length);
        if (!one) return error_set(m->error, "%s: no memory", m->source->path);
        char *own_name = one->name;
        *one = stack;
        one->name = own_name;
        one->n_dims = 2;
        one->dims[0] = stack.dims[1];
        one->dims[1] = stack.dims[2];
        one->offset = stack.offset + i * bytes;
        one->bytes = bytes;
    }
    return raw_table_sort(&m->table, m->error);
}

/* Adds the cutoffs of the layers whose gates are sparse: numbers of standard deviations, minus
 * infinity where all gates are kept. Files without them cut 95% in the first 10 layers. */
static Status add_cutoffs(GgufModel *m) {
    const GgufValue *given = gguf_model_find(m, "activation_sparsity_scale");
    for (uint32_t l = 0; l < m->source->config.n_layers; l++) {
        double scale = l < 10 && !given ? 1.6448533535003662 : -INFINITY;
        char name[48];
        if (given && !gguf_element(given, l, &scale))
            return error_set(m->error, "%s: activation_sparsity_scale is not a list of layers",
                             m->source->path);
        if (scale == -INFINITY) continue;
        if (!isfinite((float)scale))
            return error_set(m->error, "%s: activation_sparsity_scale of layer %u is %g",
                             m->source->path, l, scale);
        float *value = malloc(sizeof *value);
        if (value) *value = (float)scale;
        snprintf(name, sizeof name, "layers.%u.gate_cutoff", l);
        if (source_add_values(m->source, name, 1, 1, value, m->error) != STATUS_OK)
            return STATUS_FAILED;
    }
    return STATUS_OK;
}

Status gguf_gemma3n_more(GgufModel *m) {
    const RuleContext context = {.source = m->source, .table = &m->table};
    uint32_t n = m->source->config.altup_streams;
    if (n > 1 &&
        (unstack(m, "altup_proj") != STATUS_OK || unstack(m, "altup_unembd_proj") != STATUS_OK))
        return STATUS_FAILED;
    for (uint32_t i = 1; i < n; i++) {
        char in[32], out[32], to_in[32], to_out[32];
        snprintf(in, sizeof in, "altup_proj.%u", i - 1);
        snprintf(out, sizeof out, "altup_unembd_proj.%u", i - 1);
        snprintf(to_in, sizeof to_in, "altup.in.%u", i);
        snprintf(to_out, sizeof to_out, "altup.out.%u", i);
        const TensorRule rules[] = {
            {to_in, in, N_DIM, N_DIM, 0, {0}, {0}}, {to_out, out, N_DIM, N_DIM, 0, {0}, {0}}, {0}};
        if (rules_apply(&context, rules, m->error) != STATUS_OK) return STATUS_FAILED;
    }
    return add_cutoffs(m);
}

Status gguf_gemma4_more(GgufModel *m) {
    const RuleContext context = {.source = m->source, .table = &m->table};
    const Config *c = &m->source->config;
    if (c->per_layer_dim > 0 && rules_apply(&context, per_layer_tensors, m->error) != STATUS_OK)
        return STATUS_FAILED;
    if (c->n_experts > 0 && rules_apply(&context, mixture_tensors, m->error) != STATUS_OK)
        return STATUS_FAILED;
    return STATUS_OK;
}
