/* Architectures most of whose layers keep a state: gated DeltaNet, Mamba, short convolutions. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "formats/convolutions.h"
#include "formats/family.h"
#include "formats/gguf_family.h"
#include "formats/gguf_latent.h"

/* ---- Tensors ---- */

/* Tensors that only some layers have; opening the converted model fails when one is missing. */
#define SOME(to, from, rows, cols, flags, ...)                                                     \
    { to, "blk.%u." from, rows, cols, RULE_OPTIONAL | (flags), __VA_ARGS__ }
#define SOME_MATRIX(to, from, rows, cols) SOME(to, from ".weight", rows, cols, 0, {0}, {0})
#define SOME_VECTOR(to, from, n) SOME(to, from, N_ONE, n, 0, {0}, {0})
#define SOME_PART(to, from, rows, cols, ...)                                                       \
    PART(to, "blk.%u." from, rows, cols, RULE_OPTIONAL, __VA_ARGS__)
#define SOME_LINEAR(to, from, rows, cols) SOME_PART(to, from, rows, cols, {0}, {0})

#define TOKENS EMBEDDING("token_embd")
#define END NORM("final_norm", "output_norm"), OUTPUT("output")
#define ATTENTION_NORM NORM("attention_norm", "blk.%u.attn_norm")
#define FFN_NORM NORM("ffn_norm", "blk.%u.ffn_norm")
#define SOME_ATTENTION                                                                             \
    SOME_LINEAR("wq", "attn_q", N_Q, N_DIM), SOME_LINEAR("wk", "attn_k", N_KV, N_DIM),             \
        SOME_LINEAR("wv", "attn_v", N_V, N_DIM), SOME_LINEAR("wo", "attn_output", N_DIM, N_OUT)
#define SOME_QK_NORMS                                                                              \
    SOME_VECTOR("q_norm", "attn_q_norm.weight", N_HEAD),                                           \
        SOME_VECTOR("k_norm", "attn_k_norm.weight", N_HEAD)
#define SOME_FFN                                                                                   \
    SOME_MATRIX("w_gate", "ffn_gate", N_FFN, N_DIM), SOME_MATRIX("w_up", "ffn_up", N_FFN, N_DIM),  \
        SOME_MATRIX("w_down", "ffn_down", N_DIM, N_FFN)
#define SOME_BIASED_FFN                                                                            \
    SOME_LINEAR("w_gate", "ffn_gate", N_FFN, N_DIM), SOME_LINEAR("w_up", "ffn_up", N_FFN, N_DIM),  \
        SOME_LINEAR("w_down", "ffn_down", N_DIM, N_FFN)
#define SOME_EXPERTS                                                                               \
    SOME_MATRIX("router", "ffn_gate_inp", N_EXPERTS, N_DIM),                                       \
        SOME_MATRIX("experts.%u.w_gate", "ffn_gate_exps", N_EXPERT_FFN, N_DIM),                    \
        SOME_MATRIX("experts.%u.w_up", "ffn_up_exps", N_EXPERT_FFN, N_EXPERT_DIM),                 \
        SOME_MATRIX("experts.%u.w_down", "ffn_down_exps", N_EXPERT_DIM, N_EXPERT_FFN),             \
        SOME("experts.%u.w_gate", "ffn_gate_up_exps.weight", N_EXPERT_FFN, N_DIM, 0, {N_NONE},     \
             {N_EXPERT_FFN, N_EXPERT_FFN}),                                                        \
        SOME("experts.%u.w_up", "ffn_gate_up_exps.weight", N_EXPERT_FFN, N_DIM, 0, {N_EXPERT_FFN}, \
             {N_EXPERT_FFN, N_EXPERT_FFN}),                                                        \
        SOME_MATRIX("shared.w_gate", "ffn_gate_shexp", N_SHARED_FFN, N_DIM),                       \
        SOME_MATRIX("shared.w_up", "ffn_up_shexp", N_SHARED_FFN, N_DIM),                           \
        SOME_MATRIX("shared.w_down", "ffn_down_shexp", N_DIM, N_SHARED_FFN),                       \
        SOME("shared.router", "ffn_gate_inp_shexp.weight", N_ONE, N_DIM, RULE_MATRIX, {0}, {0})

/* attn_q holds, for each head, its query and the gate of its output. */
#define GATED_ATTENTION                                                                            \
    SOME("wq", "attn_q.weight", N_Q, N_DIM, RULE_BY_HEAD, {N_NONE}, {N_Q, N_OUT}),                 \
        SOME("attention_gate", "attn_q.weight", N_OUT, N_DIM, RULE_BY_HEAD, {N_Q}, {N_Q, N_OUT}),  \
        SOME_MATRIX("wk", "attn_k", N_KV, N_DIM), SOME_MATRIX("wv", "attn_v", N_V, N_DIM),         \
        SOME_MATRIX("wo", "attn_output", N_DIM, N_OUT), SOME_QK_NORMS
/* order: RULE_TILED_STATES or 0. */
#define DELTA(order)                                                                               \
    SOME("delta.q", "attn_qkv.weight", N_STATE_KEYS, N_DIM, 0, {N_NONE}, {N_STATE_MIXED}),         \
        SOME("delta.k", "attn_qkv.weight", N_STATE_KEYS, N_DIM, 0, {N_STATE_KEYS},                 \
             {N_STATE_MIXED}),                                                                     \
        SOME("delta.v", "attn_qkv.weight", N_STATE_OUT, N_DIM, order,                              \
             {N_STATE_KEYS, N_STATE_KEYS}, {N_STATE_MIXED}),                                       \
        SOME("delta.z", "attn_gate.weight", N_STATE_OUT, N_DIM, order, {0}, {0}),                  \
        SOME("delta.out", "ssm_out.weight", N_DIM, N_STATE_OUT, order, {0}, {0}),                  \
        SOME("delta.convolution", "ssm_conv1d.weight", N_STATE_TAPS, N_STATE_MIXED,                \
             RULE_VECTOR | RULE_TRANSPOSED | (order), {0}, {0}),                                   \
        SOME("delta.decay", "ssm_a", N_ONE, N_STATE_HEADS, order, {0}, {0}),                       \
        SOME("delta.step_bias", "ssm_dt.bias", N_ONE, N_STATE_HEADS, order, {0}, {0}),             \
        SOME_VECTOR("delta.norm", "ssm_norm.weight", N_STATE_VALUE)
/* Qwen3-Next's b and a lie together for each key head; so do q, k, v and z in its first files. */
#define NEXT_IN(to, rows, ...)                                                                     \
    SOME(to, "ssm_in.weight", rows, N_DIM, RULE_BY_STATE_KEY, __VA_ARGS__,                         \
         {N_STATE_MIXED, N_STATE_OUT})
#define NEXT_DELTA                                                                                 \
    DELTA(0), NEXT_IN("delta.q", N_STATE_KEYS, {N_NONE}),                                          \
        NEXT_IN("delta.k", N_STATE_KEYS, {N_STATE_KEYS}),                                          \
        SOME("delta.v", "ssm_in.weight", N_STATE_OUT, N_DIM, RULE_BY_STATE_KEY,                    \
             {N_STATE_KEYS, N_STATE_KEYS}, {N_STATE_MIXED, N_STATE_OUT}),                          \
        NEXT_IN("delta.z", N_STATE_OUT, {N_STATE_MIXED}),                                          \
        SOME("delta.b", "ssm_ba.weight", N_STATE_HEADS, N_DIM, RULE_BY_STATE_KEY, {N_NONE},        \
             {N_STATE_HEADS, N_STATE_HEADS}),                                                      \
        SOME("delta.a", "ssm_ba.weight", N_STATE_HEADS, N_DIM, RULE_BY_STATE_KEY, {N_STATE_HEADS}, \
             {N_STATE_HEADS, N_STATE_HEADS})
#define QWEN_DELTA                                                                                 \
    DELTA(RULE_TILED_STATES),                                                                      \
        SOME("delta.b", "ssm_beta.weight", N_STATE_HEADS, N_DIM, RULE_TILED_STATES, {0}, {0}),     \
        SOME("delta.a", "ssm_alpha.weight", N_STATE_HEADS, N_DIM, RULE_TILED_STATES, {0}, {0})
#define QWEN_NORMS ATTENTION_NORM, NORM("ffn_norm", "blk.%u.post_attention_norm")

static const TensorRule qwen3next_tensors[] = {
    TOKENS, QWEN_NORMS, GATED_ATTENTION, NEXT_DELTA, SOME_FFN, SOME_EXPERTS, END, {0},
};
static const TensorRule qwen35_tensors[] = {
    TOKENS, QWEN_NORMS, GATED_ATTENTION, QWEN_DELTA, SOME_FFN, SOME_EXPERTS, END, {0},
};

#define THREE_DIMS                                                                                 \
    { N_DIM, N_DIM, N_DIM }
static const TensorRule lfm2_tensors[] = {
    TOKENS,
    ATTENTION_NORM,
    FFN_NORM,
    SOME_ATTENTION,
    SOME_QK_NORMS,
    SOME_PART("convolution.b", "shortconv.in_proj", N_DIM, N_DIM, {N_NONE}, THREE_DIMS),
    SOME_PART("convolution.c", "shortconv.in_proj", N_DIM, N_DIM, {N_DIM}, THREE_DIMS),
    SOME_PART("convolution.x", "shortconv.in_proj", N_DIM, N_DIM, {N_DIM, N_DIM}, THREE_DIMS),
    SOME_LINEAR("convolution.out", "shortconv.out_proj", N_DIM, N_DIM),
    SOME("convolution.taps", "shortconv.conv.weight", N_STATE_TAPS, N_DIM,
         RULE_VECTOR | RULE_TRANSPOSED, {0}, {0}),
    SOME_VECTOR("convolution.taps.bias", "shortconv.conv.bias", N_DIM),
    SOME_FFN,
    SOME_EXPERTS,
    SOME_VECTOR("router.correction", "exp_probs_b.bias", N_EXPERTS),
    NORM("final_norm", "token_embd_norm"),
    OUTPUT("output"),
    {0},
};

/* ssm_in holds z, x, B, C and the steps one after another. */
#define MAMBA_ALL                                                                                  \
    { N_STATE_OUT, N_STATE_MIXED, N_STATE_HEADS }
#define MAMBA2                                                                                     \
    SOME_PART("mamba.z", "ssm_in", N_STATE_OUT, N_DIM, {N_NONE}, MAMBA_ALL),                       \
        SOME_PART("mamba.x", "ssm_in", N_STATE_OUT, N_DIM, {N_STATE_OUT}, MAMBA_ALL),              \
        SOME_PART("mamba.b", "ssm_in", N_STATE_KEYS, N_DIM, {N_STATE_OUTS}, MAMBA_ALL),            \
        SOME_PART("mamba.c", "ssm_in", N_STATE_KEYS, N_DIM, {N_STATE_OUTS, N_STATE_KEYS},          \
                  MAMBA_ALL),                                                                      \
        SOME_PART("mamba.step", "ssm_in", N_STATE_HEADS, N_DIM, {N_STATE_OUT, N_STATE_MIXED},      \
                  MAMBA_ALL),                                                                      \
        SOME_LINEAR("mamba.out", "ssm_out", N_DIM, N_STATE_OUT),                                   \
        SOME("mamba.taps", "ssm_conv1d.weight", N_STATE_TAPS, N_STATE_MIXED,                       \
             RULE_VECTOR | RULE_TRANSPOSED, {0}, {0}),                                             \
        SOME_VECTOR("mamba.taps.bias", "ssm_conv1d.bias", N_STATE_MIXED),                          \
        SOME_VECTOR("mamba.decay", "ssm_a", N_STATE_HEADS),                                        \
        SOME_VECTOR("mamba.step_bias", "ssm_dt.bias", N_STATE_HEADS),                              \
        SOME_VECTOR("mamba.skip", "ssm_d", N_STATE_HEADS),                                         \
        SOME_VECTOR("mamba.norm", "ssm_norm.weight", N_STATE_OUT)

/* The converter reorders heads as if all of their elements were rotated, even where none is. */
#define PAIRED(to, from, rows)                                                                     \
    PART(to, "blk.%u." from, rows, N_DIM, RULE_OPTIONAL | RULE_PAIRED, {N_NONE}, {rows})
#define PAIRED_ATTENTION                                                                           \
    PAIRED("wq", "attn_q", N_Q), PAIRED("wk", "attn_k", N_KV),                                     \
        SOME_LINEAR("wv", "attn_v", N_V, N_DIM), SOME_LINEAR("wo", "attn_output", N_DIM, N_OUT)
static const TensorRule granitehybrid_tensors[] = {
    TOKENS, ATTENTION_NORM, FFN_NORM, PAIRED_ATTENTION, MAMBA2, SOME_BIASED_FFN, SOME_EXPERTS, END,
    {0},
};

/* The converter of 2025 left ".weight" out. */
#define FFN_NORM_OF_ANY_NAME                                                                       \
    OPTIONAL("ffn_norm", "blk.%u.ffn_norm", N_ONE, N_DIM),                                         \
        OPTIONAL("ffn_norm", "blk.%u.ffn_norm.weight", N_ONE, N_DIM)
static const TensorRule falcon_h1_tensors[] = {
    TOKENS, ATTENTION_NORM, FFN_NORM_OF_ANY_NAME, SOME_ATTENTION, MAMBA2, SOME_BIASED_FFN, END, {0},
};
static const TensorRule mamba2_tensors[] = {TOKENS, ATTENTION_NORM, MAMBA2, END, {0}};

/* A layer is a mixer or a feed-forward and has one norm, which is taken for both. */
static const TensorRule nemotron_h_tensors[] = {
    TOKENS,
    ATTENTION_NORM,
    NORM("ffn_norm", "blk.%u.attn_norm"),
    PAIRED_ATTENTION,
    MAMBA2,
    SOME_BIASED_FFN,
    SOME_EXPERTS,
    SOME_LINEAR("experts_in", "ffn_latent_down", N_EXPERT_DIM, N_DIM),
    SOME_LINEAR("experts_out", "ffn_latent_up", N_DIM, N_EXPERT_DIM),
    SOME_VECTOR("router.correction", "exp_probs_b.bias", N_EXPERTS),
    SOME_VECTOR("shared.w_up.bias", "ffn_up_shexp.bias", N_SHARED_FFN),
    SOME_VECTOR("shared.w_down.bias", "ffn_down_shexp.bias", N_DIM),
    END,
    {0},
};

/* ssm_in holds x and z, ssm_x what makes the steps, B and C. */
#define TWO_OUTS                                                                                   \
    { N_STATE_OUT, N_STATE_OUT }
#define SELECTED                                                                                   \
    { N_STATE_RANK, N_STATE_KEYS, N_STATE_KEYS }
#define MAMBA                                                                                      \
    SOME_PART("mamba.x", "ssm_in", N_STATE_OUT, N_DIM, {N_NONE}, TWO_OUTS),                        \
        SOME_PART("mamba.z", "ssm_in", N_STATE_OUT, N_DIM, {N_STATE_OUT}, TWO_OUTS),               \
        SOME("mamba.taps", "ssm_conv1d.weight", N_STATE_TAPS, N_STATE_OUT,                         \
             RULE_VECTOR | RULE_TRANSPOSED, {0}, {0}),                                             \
        SOME_VECTOR("mamba.taps.bias", "ssm_conv1d.bias", N_STATE_OUT),                            \
        SOME("mamba.rank", "ssm_x.weight", N_STATE_RANK, N_STATE_OUT, RULE_MATRIX, {N_NONE},       \
             SELECTED),                                                                            \
        SOME("mamba.b", "ssm_x.weight", N_STATE_KEYS, N_STATE_OUT, RULE_MATRIX, {N_STATE_RANK},    \
             SELECTED),                                                                            \
        SOME("mamba.c", "ssm_x.weight", N_STATE_KEYS, N_STATE_OUT, RULE_MATRIX,                    \
             {N_STATE_RANK, N_STATE_KEYS}, SELECTED),                                              \
        SOME_VECTOR("mamba.rank_norm", "ssm_dt_norm.weight", N_STATE_RANK),                        \
        SOME_VECTOR("mamba.b_norm", "ssm_b_norm.weight", N_STATE_KEYS),                            \
        SOME_VECTOR("mamba.c_norm", "ssm_c_norm.weight", N_STATE_KEYS),                            \
        SOME_MATRIX("mamba.step", "ssm_dt", N_STATE_OUT, N_STATE_RANK),                            \
        SOME_VECTOR("mamba.step_bias", "ssm_dt.bias", N_STATE_OUT),                                \
        SOME("mamba.decay", "ssm_a", N_STATE_KEYS, N_STATE_OUT, RULE_VECTOR | RULE_TRANSPOSED,     \
             {0}, {0}),                                                                            \
        SOME_VECTOR("mamba.skip", "ssm_d", N_STATE_OUT),                                           \
        SOME_LINEAR("mamba.out", "ssm_out", N_DIM, N_STATE_OUT)

static const TensorRule jamba_tensors[] = {
    TOKENS, ATTENTION_NORM, FFN_NORM, SOME_ATTENTION, MAMBA, SOME_FFN, SOME_EXPERTS, END, {0},
};
static const TensorRule mamba_tensors[] = {TOKENS, ATTENTION_NORM, MAMBA, END, {0}};

/* q, k, v and the output mean another thing in each kind of layers. */
static const TensorRule kimi_linear_tensors[] = {
    TOKENS,       ATTENTION_NORM,
    FFN_NORM,     SOME_FFN,
    SOME_EXPERTS, SOME_VECTOR("router.correction", "exp_probs_b.bias", N_EXPERTS),
    END,          {0},
};
static const TensorRule kimi_latent[] = {LATENT_ATTENTION, {0}};
static const TensorRule kimi_delta[] = {
    SOME_MATRIX("delta.q", "attn_q", N_STATE_KEYS, N_DIM),
    SOME_MATRIX("delta.k", "attn_k", N_STATE_KEYS, N_DIM),
    SOME_MATRIX("delta.v", "attn_v", N_STATE_OUT, N_DIM),
    SOME_MATRIX("delta.a_low", "ssm_f_a", N_STATE_VALUE, N_DIM),
    SOME_MATRIX("delta.a", "ssm_f_b", N_STATE_KEYS, N_STATE_VALUE),
    SOME_MATRIX("delta.z_low", "ssm_g_a", N_STATE_VALUE, N_DIM),
    SOME_MATRIX("delta.z", "ssm_g_b", N_STATE_OUT, N_STATE_VALUE),
    SOME_MATRIX("delta.b", "ssm_beta", N_STATE_HEADS, N_DIM),
    SOME_MATRIX("delta.out", "attn_output", N_DIM, N_STATE_OUT),
    SOME_VECTOR("delta.decay", "ssm_a", N_STATE_HEADS),
    SOME_VECTOR("delta.step_bias", "ssm_dt.bias", N_STATE_KEYS),
    SOME_VECTOR("delta.norm", "ssm_norm.weight", N_STATE_VALUE),
    {0},
};

/* The output's matrix has one name in both kinds of layers. attn_qkv holds, for each head, its
 * query, key and value. */
static const TensorRule minimax_tensors[] = {
    TOKENS, ATTENTION_NORM, FFN_NORM, SOME_EXPERTS, END, {0},
};
static const TensorRule minimax_full[] = {SOME_ATTENTION, {0}};
#define MINIMAX_QKV(to, ...)                                                                       \
    SOME(to, "attn_qkv.weight", N_STATE_OUT, N_DIM, RULE_BY_STATE_KEY, __VA_ARGS__, {N_STATE_MIXED})
static const TensorRule minimax_lightning[] = {
    MINIMAX_QKV("lightning.q", {N_NONE}),
    MINIMAX_QKV("lightning.k", {N_STATE_KEYS}),
    MINIMAX_QKV("lightning.v", {N_STATE_KEYS, N_STATE_KEYS}),
    SOME_MATRIX("lightning.gate", "attn_gate", N_STATE_OUT, N_DIM),
    SOME_MATRIX("lightning.out", "attn_output", N_DIM, N_STATE_OUT),
    SOME_VECTOR("lightning.norm", "attn_norm_2.weight", N_STATE_OUT),
    {0},
};

/* ---- Fields that no key gives ---- */

/* Reads the sizes of the states. */
static Status read_state(const GgufModel *m, Config *c) {
    uint32_t inner = 0;
    gguf_model_uint(m, "ssm.conv_kernel", &c->state_kernel);
    gguf_model_uint(m, "ssm.state_size", &c->state_key_dim);
    gguf_model_uint(m, "ssm.group_count", &c->state_key_heads);
    gguf_model_uint(m, "ssm.time_step_rank", &c->state_heads);
    gguf_model_uint(m, "ssm.inner_size", &inner);
    if (c->state_heads == 0 || inner % c->state_heads != 0)
        return error_set(m->error, "%s: ssm.inner_size %u does not fit ssm.time_step_rank %u",
                         m->source->path, inner, c->state_heads);
    c->state_value_dim = inner / c->state_heads;
    return STATUS_OK;
}

static Status qwen3next_finish(const GgufModel *m, Config *c) {
    const GgufValue *recurrent = gguf_model_find(m, "attention.recurrent_layers");
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
        c->layer_kind[l] = is_recurrent != 0.0 ? LAYER_DELTA : LAYER_ATTENTION;
    }
    c->qk_norm = QK_NORM_HEAD;
    c->router = ROUTER_SOFTMAX_CHOSEN;
    if (c->n_experts > 0 && c->ffn_dim == 0) c->ffn_dim = c->expert_ffn_dim;
    return read_state(m, c);
}

/* The converter reorders the heads of v, so that neighbours have different keys. */
static Status qwen35_finish(const GgufModel *m, Config *c) {
    c->state_tiled = true;
    return qwen3next_finish(m, c);
}

/* Layers without key/value heads are of the kind `other`, the rest of the kind `attends`. */
static Status kinds_by_heads(const GgufModel *m, Config *c, LayerKindNumber attends,
                             LayerKindNumber other) {
    const GgufValue *heads = gguf_model_find(m, "attention.head_count_kv");
    double n = 1.0;
    for (uint32_t l = 0; l < c->n_layers && l < CONFIG_MAX_LAYERS; l++) {
        if (heads && !gguf_element(heads, heads->is_array ? l : 0, &n))
            return error_set(m->error, "%s: attention.head_count_kv is not a list of %u layers",
                             m->source->path, c->n_layers);
        c->layer_kind[l] = n == 0.0 ? other : attends;
    }
    if (c->n_kv_heads == 0) c->n_kv_heads = c->n_heads;
    return STATUS_OK;
}

static Status lfm2_finish(const GgufModel *m, Config *c) {
    c->qk_norm = QK_NORM_HEAD;
    c->router = ROUTER_SIGMOID_SCORES;
    c->router_normalize = true;
    gguf_model_uint(m, "shortconv.l_cache", &c->state_kernel);
    return kinds_by_heads(m, c, LAYER_ATTENTION, LAYER_CONVOLUTION);
}

static Status granitehybrid_finish(const GgufModel *m, Config *c) {
    double divisor = 1.0, embedding = 1.0, residual = 1.0;
    bool rotated = true;
    gguf_model_bool(m, "rope.scaling.finetuned", &rotated);
    gguf_model_float(m, "logit_scale", &divisor);
    gguf_model_float(m, "embedding_scale", &embedding);
    gguf_model_float(m, "residual_scale", &residual);
    if (!(divisor > 0.0))
        return error_set(m->error, "%s: logit_scale is %g", m->source->path, divisor);
    if (!rotated) c->position = POSITION_NONE;
    if (rotated) snprintf(c->family, sizeof c->family, "bamba");
    if (rotated && c->head_dim % 2 != 0)
        return error_set(m->error, "%s: heads of %u elements cannot be rotated", m->source->path,
                         c->head_dim);
    c->rope_pairing = ROPE_HALVES; /* RULE_PAIRED */
    c->logit_scale = (float)(1.0 / divisor);
    c->embedding_scale = (float)embedding;
    c->residual_scale = (float)residual;
    c->router = ROUTER_SOFTMAX_CHOSEN;
    if (c->n_experts > 0 && c->ffn_dim == 0) c->ffn_dim = c->expert_ffn_dim;
    if (kinds_by_heads(m, c, LAYER_ATTENTION, LAYER_MAMBA2) != STATUS_OK) return STATUS_FAILED;
    return read_state(m, c);
}

/* llama.cpp gates before the norm, whatever config.json said, as the released models do. */
static Status falcon_h1_finish(const GgufModel *m, Config *c) {
    for (uint32_t l = 0; l < c->n_layers && l < CONFIG_MAX_LAYERS; l++)
        c->layer_kind[l] = LAYER_BESIDE;
    return read_state(m, c);
}

static bool layer_has(const GgufModel *m, uint32_t layer, const char *rest) {
    char name[64];
    snprintf(name, sizeof name, "blk.%u.%s", layer, rest);
    return raw_table_find(&m->table, name) != NULL;
}

/* A layer is what it has tensors of: Mamba 2, attention, a feed-forward or a mixture. */
static Status nemotron_h_finish(const GgufModel *m, Config *c) {
    bool mixes = false;
    gguf_model_uint(m, "moe_latent_size", &c->expert_dim);
    for (uint32_t l = 0; l < c->n_layers && l < CONFIG_MAX_LAYERS; l++) {
        bool is_narrow = layer_has(m, l, "ffn_latent_down.weight");
        bool is_mamba = layer_has(m, l, "ssm_in.weight"),
             attends = layer_has(m, l, "attn_q.weight");
        c->layer_kind[l] = is_mamba    ? LAYER_MAMBA2
                           : attends   ? LAYER_ATTENTION
                           : is_narrow ? LAYER_NARROW
                                       : LAYER_NONE;
        c->without_ffn[l] = is_mamba || attends || is_narrow;
        mixes = mixes || layer_has(m, l, "ffn_gate_inp.weight");
        c->layer_ffn_dim[l] = 0;
    }
    if (!mixes) c->n_experts = c->shared_ffn_dim = 0;
    if (c->ffn_dim == 0) c->ffn_dim = 1; /* no layer has a dense feed-forward */
    if (c->n_kv_heads == 0) c->n_kv_heads = c->n_heads;
    c->gated = false;
    c->activation = ACTIVATION_RELU2;
    c->position = POSITION_NONE;
    c->router = ROUTER_SIGMOID_SCORES;
    c->router_normalize = true;
    return read_state(m, c);
}

/* Reads the sizes of Mamba's states. */
static Status read_mamba(const GgufModel *m, Config *c) {
    gguf_model_uint(m, "ssm.conv_kernel", &c->state_kernel);
    gguf_model_uint(m, "ssm.state_size", &c->state_key_dim);
    gguf_model_uint(m, "ssm.inner_size", &c->state_heads);
    gguf_model_uint(m, "ssm.time_step_rank", &c->state_rank);
    c->state_key_heads = c->state_value_dim = 1;
    c->position = POSITION_NONE;
    return STATUS_OK;
}

static Status jamba_finish(const GgufModel *m, Config *c) {
    if (c->n_experts == 1) c->n_experts = 0;
    if (kinds_by_heads(m, c, LAYER_ATTENTION, LAYER_MAMBA) != STATUS_OK) return STATUS_FAILED;
    return read_mamba(m, c);
}

/* Layers without attention and without a feed-forward, whose sizes are then of no use. */
static void pure_layers(Config *c, LayerKindNumber kind) {
    c->n_heads = c->n_kv_heads = c->head_dim = c->ffn_dim = 1;
    c->position = POSITION_NONE;
    for (uint32_t l = 0; l < c->n_layers && l < CONFIG_MAX_LAYERS; l++) {
        c->layer_kind[l] = kind;
        c->without_ffn[l] = 1;
    }
}

static Status mamba2_finish(const GgufModel *m, Config *c) {
    pure_layers(c, LAYER_MAMBA2);
    return read_state(m, c);
}

/* Falcon Mamba has norms without weights, whose epsilon no key gives. */
static Status mamba_finish(const GgufModel *m, Config *c) {
    bool has_norms = false;
    gguf_model_bool(m, "ssm.dt_b_c_rms", &has_norms);
    if (has_norms) c->state_norm_eps = 1e-6f;
    if (has_norms) snprintf(c->family, sizeof c->family, "falcon_mamba");
    pure_layers(c, LAYER_MAMBA);
    return read_mamba(m, c);
}

static Status mamba_more(GgufModel *m) {
    const RuleContext context = {.source = m->source, .table = &m->table};
    bool has_norms = false;
    gguf_model_bool(m, "ssm.dt_b_c_rms", &has_norms);
    return has_norms ? family_add_mamba_norms(&context, m->error) : STATUS_OK;
}

/* As in llama.cpp, layers with a state have as many heads as those that attend. */
static Status kimi_linear_finish(const GgufModel *m, Config *c) {
    if (gguf_latent_finish(m, c) != STATUS_OK ||
        kinds_by_heads(m, c, LAYER_LATENT, LAYER_DELTA) != STATUS_OK)
        return STATUS_FAILED;
    memset(c->layer_n_kv_heads, 0, sizeof c->layer_n_kv_heads);
    gguf_model_uint(m, "ssm.conv_kernel", &c->state_kernel);
    gguf_model_uint(m, "kda.head_dim", &c->state_key_dim);
    c->state_value_dim = c->state_key_dim;
    c->state_heads = c->state_key_heads = c->n_heads;
    c->state_by_key = true;
    c->position = POSITION_NONE;
    c->router = ROUTER_SIGMOID_SCORES;
    c->router_normalize = true;
    return STATUS_OK;
}

static Status kimi_linear_more(GgufModel *m) {
    const RuleContext context = {.source = m->source, .table = &m->table};
    const Config *c = &m->source->config;
    for (uint32_t l = 0; l < c->n_layers; l++) {
        const TensorRule *rules = c->layer_kind[l] == LAYER_LATENT ? kimi_latent : kimi_delta;
        if (rules_apply_to_layer(&context, rules, l, m->error) != STATUS_OK) return STATUS_FAILED;
    }
    return convolutions_join(&context, "blk.%u.ssm_conv1d_%c.weight", m->error);
}

/* residual_scale multiplies the stream, which is normalized before each sum: what is added is
 * divided by it instead, as are the embedding and, twice, the epsilon. */
static Status minimax_finish(const GgufModel *m, Config *c) {
    double alpha = 1.0;
    gguf_model_float(m, "residual_scale", &alpha);
    if (!(alpha > 1e-3 && alpha < 1e3))
        return error_set(m->error, "%s: residual_scale is %g", m->source->path, alpha);
    c->residual_scale = c->embedding_scale = (float)(1.0 / alpha);
    c->norm_eps = (float)((double)c->norm_eps / (alpha * alpha));
    c->norm_place = NORM_STREAM;
    c->router = ROUTER_SOFTMAX_CHOSEN;
    c->state_norm_eps = 1e-6f;
    c->state_heads = c->state_key_heads = c->n_heads;
    c->state_key_dim = c->state_value_dim = c->head_dim;
    for (uint32_t l = 0; l < c->n_layers && l < CONFIG_MAX_LAYERS; l++)
        c->layer_kind[l] = layer_has(m, l, "attn_qkv.weight") ? LAYER_LIGHTNING : LAYER_ATTENTION;
    return STATUS_OK;
}

static Status minimax_more(GgufModel *m) {
    const RuleContext context = {.source = m->source, .table = &m->table};
    const Config *c = &m->source->config;
    for (uint32_t l = 0; l < c->n_layers; l++) {
        bool has_state = c->layer_kind[l] == LAYER_LIGHTNING;
        if (rules_apply_to_layer(&context, has_state ? minimax_lightning : minimax_full, l,
                                 m->error) != STATUS_OK ||
            (has_state && family_add_slopes(&context, l, m->error) != STATUS_OK))
            return STATUS_FAILED;
    }
    return STATUS_OK;
}

const GgufFamily gguf_families_state[] = {
    {"qwen3next", "qwen3_next", qwen3next_tensors, ROPE_HALVES, .finish = qwen3next_finish,
     .predicts = true},
    {"qwen35", "qwen3_5_text", qwen35_tensors, ROPE_HALVES, .finish = qwen35_finish,
     .predicts = true},
    {"qwen35moe", "qwen3_5_moe_text", qwen35_tensors, ROPE_HALVES, .finish = qwen35_finish,
     .predicts = true},
    {"lfm2", "lfm2", lfm2_tensors, ROPE_HALVES, .finish = lfm2_finish},
    {"lfm2moe", "lfm2_moe", lfm2_tensors, ROPE_HALVES, .finish = lfm2_finish},
    {"granitehybrid", "granitemoehybrid", granitehybrid_tensors, ROPE_INTERLEAVED,
     .finish = granitehybrid_finish},
    {"falcon-h1", "falcon_h1", falcon_h1_tensors, ROPE_HALVES, .finish = falcon_h1_finish},
    {"nemotron_h", "nemotron_h", nemotron_h_tensors, ROPE_HALVES, .finish = nemotron_h_finish},
    {"nemotron_h_moe", "nemotron_h", nemotron_h_tensors, ROPE_HALVES, .finish = nemotron_h_finish},
    {"jamba", "jamba", jamba_tensors, ROPE_HALVES, .finish = jamba_finish},
    {"mamba", "mamba", mamba_tensors, ROPE_HALVES, .finish = mamba_finish, .more = mamba_more},
    {"mamba2", "mamba2", mamba2_tensors, ROPE_HALVES, .finish = mamba2_finish},
    {"kimi-linear", "kimi_linear", kimi_linear_tensors, ROPE_INTERLEAVED,
     .finish = kimi_linear_finish, .more = kimi_linear_more},
    {"minimax-01", "minimax", minimax_tensors, ROPE_HALVES, .finish = minimax_finish,
     .more = minimax_more},
    {0},
};
