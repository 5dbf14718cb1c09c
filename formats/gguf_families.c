/* The names of tensors are those of gguf-py's TENSOR_NAMES. What each stands for, and in which
 * order its rows are, is decided by llama.cpp's converter; the tests undo what it does to a
 * fixture. */
#include "formats/gguf_families.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/gate_limits.h"
#include "formats/gguf_gemma.h"
#include "formats/gguf_latent.h"
#include "formats/tensor_rules.h"
#include "formats/xielu.h"

/* ---- Tensors ---- */

#define OPTIONAL_GATE_UP(from)                                                                     \
    PART("w_gate", from, N_FFN, N_DIM, RULE_OPTIONAL, {N_NONE}, {N_FFN, N_FFN}),                   \
        PART("w_up", from, N_FFN, N_DIM, RULE_OPTIONAL, {N_FFN}, {N_FFN, N_FFN})

#define TOKENS EMBEDDING("token_embd")
#define ATTENTION_NORM NORM("attention_norm", "blk.%u.attn_norm")
#define FFN_NORM NORM("ffn_norm", "blk.%u.ffn_norm")
/* Queries, keys and values are in three tensors or fused in one. All are optional here; opening the
 * converted model fails when any is missing. */
#define ATTENTION                                                                                  \
    OPTIONAL_LINEAR("wq", "blk.%u.attn_q", N_Q, N_DIM),                                            \
        OPTIONAL_LINEAR("wk", "blk.%u.attn_k", N_KV, N_DIM),                                       \
        OPTIONAL_LINEAR("wv", "blk.%u.attn_v", N_KV, N_DIM),                                       \
        FUSED_QKV("blk.%u.attn_qkv", RULE_OPTIONAL),                                               \
        LINEAR("wo", "blk.%u.attn_output", N_DIM, N_Q)
#define QK_NORMS(n_q, n_k)                                                                         \
    NORM_OF("q_norm", "blk.%u.attn_q_norm", n_q), NORM_OF("k_norm", "blk.%u.attn_k_norm", n_k)
#define QK_HEAD_NORMS                                                                              \
    OPTIONAL_NORM("q_norm", "blk.%u.attn_q_norm", N_HEAD),                                         \
        OPTIONAL_NORM("k_norm", "blk.%u.attn_k_norm", N_HEAD)
#define OPTIONAL_QK_NORMS                                                                          \
    OPTIONAL("q_norm", "blk.%u.attn_q_norm.weight", N_ONE, N_Q),                                   \
        OPTIONAL("k_norm", "blk.%u.attn_k_norm.weight", N_ONE, N_KV)
#define OUTPUT_NORMS                                                                               \
    NORM("post_attention_norm", "blk.%u.post_attention_norm"),                                     \
        NORM("post_ffn_norm", "blk.%u.post_ffw_norm")
#define GATED                                                                                      \
    LINEAR("w_gate", "blk.%u.ffn_gate", N_FFN, N_DIM),                                             \
        LINEAR("w_up", "blk.%u.ffn_up", N_FFN, N_DIM),                                             \
        LINEAR("w_down", "blk.%u.ffn_down", N_DIM, N_FFN)
#define UNGATED                                                                                    \
    LINEAR("w_up", "blk.%u.ffn_up", N_FFN, N_DIM), LINEAR("w_down", "blk.%u.ffn_down", N_DIM, N_FFN)
#define FUSED_GATED                                                                                \
    FUSED_GATE_UP("blk.%u.ffn_up"), LINEAR("w_down", "blk.%u.ffn_down", N_DIM, N_FFN)
#define OPTIONAL_GATED                                                                             \
    OPTIONAL_LINEAR("w_gate", "blk.%u.ffn_gate", N_FFN, N_DIM),                                    \
        OPTIONAL_LINEAR("w_up", "blk.%u.ffn_up", N_FFN, N_DIM),                                    \
        OPTIONAL_LINEAR("w_down", "blk.%u.ffn_down", N_DIM, N_FFN)
/* A layer's experts are stacked in one tensor each for gate, up and down, or gate and up are fused
 * as well; the first files have a tensor for each expert. */
#define EXPERTS LINEAR("router", "blk.%u.ffn_gate_inp", N_EXPERTS, N_DIM), EXPERT_MATRICES
#define EXPERT_MATRICES                                                                            \
    OPTIONAL_LINEAR("experts.%u.w_gate", "blk.%u.ffn_gate_exps", N_EXPERT_FFN, N_DIM),             \
        OPTIONAL_LINEAR("experts.%u.w_up", "blk.%u.ffn_up_exps", N_EXPERT_FFN, N_DIM),             \
        OPTIONAL_LINEAR("experts.%u.w_down", "blk.%u.ffn_down_exps", N_DIM, N_EXPERT_FFN),         \
        PART("experts.%u.w_gate", "blk.%u.ffn_gate_up_exps", N_EXPERT_FFN, N_DIM, RULE_OPTIONAL,   \
             {N_NONE}, {N_EXPERT_FFN, N_EXPERT_FFN}),                                              \
        PART("experts.%u.w_up", "blk.%u.ffn_gate_up_exps", N_EXPERT_FFN, N_DIM, RULE_OPTIONAL,     \
             {N_EXPERT_FFN}, {N_EXPERT_FFN, N_EXPERT_FFN}),                                        \
        OPTIONAL("experts.%u.w_gate", "blk.%u.ffn_gate.%u.weight", N_EXPERT_FFN, N_DIM),           \
        OPTIONAL("experts.%u.w_up", "blk.%u.ffn_up.%u.weight", N_EXPERT_FFN, N_DIM),               \
        OPTIONAL("experts.%u.w_down", "blk.%u.ffn_down.%u.weight", N_DIM, N_EXPERT_FFN)
#define SHARED_EXPERT                                                                              \
    LINEAR("shared.w_gate", "blk.%u.ffn_gate_shexp", N_SHARED_FFN, N_DIM),                         \
        LINEAR("shared.w_up", "blk.%u.ffn_up_shexp", N_SHARED_FFN, N_DIM),                         \
        LINEAR("shared.w_down", "blk.%u.ffn_down_shexp", N_DIM, N_SHARED_FFN), {                   \
        "shared.router", "blk.%u.ffn_gate_inp_shexp.weight", N_ONE, N_DIM, RULE_MATRIX, {0}, {     \
            0                                                                                      \
        }                                                                                          \
    }
/* Routed by scores: layers are dense or mixtures, and the shared expert has no gate. */
#define ROUTED                                                                                     \
    OPTIONAL_GATED, OPTIONAL_LINEAR("router", "blk.%u.ffn_gate_inp", N_EXPERTS, N_DIM),            \
        OPTIONAL("router.correction", "blk.%u.exp_probs_b.bias", N_ONE, N_EXPERTS),                \
        OPTIONAL("router.correction", "blk.%u.exp_probs_b", N_ONE, N_EXPERTS), EXPERT_MATRICES,    \
        OPTIONAL_LINEAR("shared.w_gate", "blk.%u.ffn_gate_shexp", N_SHARED_FFN, N_DIM),            \
        OPTIONAL_LINEAR("shared.w_up", "blk.%u.ffn_up_shexp", N_SHARED_FFN, N_DIM),                \
        OPTIONAL_LINEAR("shared.w_down", "blk.%u.ffn_down_shexp", N_DIM, N_SHARED_FFN)
#define HEAD OUTPUT("output")
#define END NORM("final_norm", "output_norm"), HEAD
#define TABLE(name, ...) static const TensorRule name[] = {TOKENS, __VA_ARGS__, {0}}

TABLE(llama_tensors, ATTENTION_NORM, ATTENTION, FFN_NORM, GATED, END);
TABLE(mixtral_tensors, ATTENTION_NORM, ATTENTION, FFN_NORM, EXPERTS, END);
TABLE(routed_tensors, ATTENTION_NORM, ATTENTION, FFN_NORM, ROUTED, END);
TABLE(qwen2moe_tensors, ATTENTION_NORM, ATTENTION, FFN_NORM, EXPERTS, SHARED_EXPERT, END);
TABLE(qwen3_tensors, ATTENTION_NORM, ATTENTION, QK_NORMS(N_HEAD, N_HEAD), FFN_NORM, GATED, END);
TABLE(qwen3moe_tensors, ATTENTION_NORM, ATTENTION, QK_NORMS(N_HEAD, N_HEAD), FFN_NORM,
      OPTIONAL_GATED, EXPERTS, END);
TABLE(gemma2_tensors, ATTENTION_NORM, ATTENTION, FFN_NORM, GATED, OUTPUT_NORMS, END);
TABLE(gemma3_tensors, ATTENTION_NORM, ATTENTION, QK_NORMS(N_HEAD, N_HEAD), FFN_NORM, GATED,
      OUTPUT_NORMS, END);
TABLE(glm4_tensors, ATTENTION_NORM, ATTENTION, FFN_NORM, FUSED_GATED, OUTPUT_NORMS, END);
TABLE(olmo_tensors, ATTENTION, GATED, HEAD);
TABLE(olmo2_tensors, ATTENTION, QK_NORMS(N_Q, N_KV), GATED, OUTPUT_NORMS, END);
TABLE(olmoe_tensors, ATTENTION_NORM, ATTENTION, QK_NORMS(N_Q, N_KV), FFN_NORM, EXPERTS, END);
TABLE(exaone4_tensors, ATTENTION, QK_NORMS(N_HEAD, N_HEAD), GATED, OUTPUT_NORMS, END);
TABLE(cohere_tensors, ATTENTION_NORM, ATTENTION, OPTIONAL_QK_NORMS, GATED, END);
TABLE(stablelm_tensors, ATTENTION_NORM, OPTIONAL_NORM("ffn_norm", "blk.%u.ffn_norm", N_DIM),
      ATTENTION, OPTIONAL_QK_NORMS, GATED, END);
TABLE(phi3_tensors, ATTENTION_NORM, ATTENTION, FFN_NORM, FUSED_GATED, END);
TABLE(starcoder2_tensors, ATTENTION_NORM, ATTENTION, FFN_NORM, UNGATED, END);
TABLE(phi2_tensors, ATTENTION_NORM, ATTENTION, UNGATED, END);
TABLE(falcon_tensors, ATTENTION_NORM, ATTENTION, UNGATED, END);
/* Falcon 40B and 180B: llama.cpp calls the attention's norm attn_norm_2, because it was added
 * after the 7B model's only norm, which here is the feed-forward's. */
TABLE(falcon40_tensors, NORM("attention_norm", "blk.%u.attn_norm_2"),
      NORM("ffn_norm", "blk.%u.attn_norm"), ATTENTION, UNGATED, END);
TABLE(bloom_tensors, NORM("embedding_norm", "token_embd_norm"), ATTENTION_NORM, ATTENTION, FFN_NORM,
      UNGATED, END);
TABLE(gpt2_tensors,
      {"position_embedding", "position_embd.weight", N_POSITIONS, N_DIM, RULE_VECTOR, {0}, {0}},
      ATTENTION_NORM, ATTENTION, FFN_NORM, UNGATED, END);
TABLE(gpt_oss_tensors, ATTENTION_NORM, ATTENTION,
      {"sinks", "blk.%u.attn_sinks.weight", N_ONE, N_HEADS, 0, {0}, {0}},
      NORM("ffn_norm", "blk.%u.post_attention_norm"), EXPERTS, END);
TABLE(seed_tensors, ATTENTION_NORM, ATTENTION, NORM("ffn_norm", "blk.%u.post_attention_norm"),
      GATED, END);
TABLE(glm4moe_tensors, ATTENTION_NORM, ATTENTION,
      OPTIONAL_NORM("q_norm", "blk.%u.attn_q_norm", N_HEAD),
      OPTIONAL_NORM("k_norm", "blk.%u.attn_k_norm", N_HEAD),
      NORM("ffn_norm", "blk.%u.post_attention_norm"), ROUTED, END);
TABLE(ernie4_5_moe_tensors, ATTENTION_NORM, ATTENTION, FFN_NORM, ROUTED, END);
TABLE(dots1_tensors, ATTENTION_NORM, ATTENTION, QK_NORMS(N_HEAD, N_HEAD), FFN_NORM, ROUTED, END);
TABLE(minimax_m2_tensors, ATTENTION_NORM, ATTENTION, QK_NORMS(N_Q, N_KV), FFN_NORM, ROUTED, END);
TABLE(afmoe_tensors, ATTENTION_NORM, ATTENTION, QK_NORMS(N_HEAD, N_HEAD),
      {"attention_gate", "blk.%u.attn_gate.weight", N_OUT, N_DIM, 0, {0}, {0}}, FFN_NORM, ROUTED,
      OUTPUT_NORMS, END);
TABLE(laguna_tensors, ATTENTION_NORM, ATTENTION, QK_NORMS(N_HEAD, N_HEAD), FFN_NORM, ROUTED, END);
/* Laguna's gates: one for each head, or for each element of its output. */
#define GATE(rows)                                                                                 \
    {                                                                                              \
        "attention_gate", "blk.%u.attn_gate.weight", rows, N_DIM, RULE_MATRIX, {0}, {              \
            0                                                                                      \
        }                                                                                          \
    }
static const TensorRule gates_of_heads[] = {GATE(N_HEADS), {0}};
static const TensorRule gates_of_elements[] = {GATE(N_OUT), {0}};
TABLE(cohere2moe_tensors, ATTENTION_NORM, ATTENTION, ROUTED, END);
TABLE(ungated_tensors, ATTENTION_NORM, ATTENTION, QK_HEAD_NORMS, FFN_NORM, UNGATED, END);
TABLE(hunyuan_moe_tensors, ATTENTION_NORM, ATTENTION, QK_NORMS(N_HEAD, N_HEAD), FFN_NORM, ROUTED,
      END);
TABLE(granite_swa_tensors, ATTENTION_NORM, ATTENTION,
      {"sinks", "blk.%u.attn_sinks.weight", N_ONE, N_HEADS, 0, {0}, {0}}, FFN_NORM, ROUTED, END);
TABLE(mimo2_tensors, ATTENTION_NORM, LINEAR("wq", "blk.%u.attn_q", N_Q, N_DIM),
      LINEAR("wk", "blk.%u.attn_k", N_KV, N_DIM), LINEAR("wv", "blk.%u.attn_v", N_V, N_DIM),
      LINEAR("wo", "blk.%u.attn_output", N_DIM, N_OUT),
      {"sinks", "blk.%u.attn_sinks.weight", N_ONE, N_HEADS, RULE_OPTIONAL, {0}, {0}}, FFN_NORM,
      ROUTED, END);
TABLE(dbrx_tensors, ATTENTION_NORM, ATTENTION, NORM("ffn_norm", "blk.%u.attn_output_norm"), EXPERTS,
      END);

TABLE(deepseek2_tensors, ATTENTION_NORM, LATENT_ATTENTION, FFN_NORM, ROUTED, END);
TABLE(indexed_tensors, ATTENTION_NORM, LATENT_ATTENTION, FFN_NORM, ROUTED,
      OPTIONAL("indexer.wq", "blk.%u.indexer.attn_q_b.weight", N_INDEX_Q, N_LATENT_Q),
      OPTIONAL("indexer.wk", "blk.%u.indexer.attn_k.weight", N_INDEX, N_DIM),
      OPTIONAL_NORM("indexer.k_norm", "blk.%u.indexer.k_norm", N_INDEX),
      {"indexer.weights",
       "blk.%u.indexer.proj.weight",
       N_INDEX_HEADS,
       N_DIM,
       RULE_OPTIONAL | RULE_MATRIX,
       {0},
       {0}},
      END);
TABLE(minicpm3_tensors, ATTENTION_NORM, LATENT_ATTENTION, FFN_NORM, GATED, END);

/* ---- Fields that no key gives ---- */

static bool has_tensor(const GgufModel *m, const char *name) {
    return raw_table_find(&m->table, name) != NULL;
}

static Status qk_norm_head(const GgufModel *m, Config *c) {
    (void)m;
    c->qk_norm = QK_NORM_HEAD;
    return STATUS_OK;
}

static Status chosen_experts(const GgufModel *m, Config *c) {
    (void)m;
    c->router = ROUTER_SOFTMAX_CHOSEN;
    return STATUS_OK;
}

static Status qwen3moe_finish(const GgufModel *m, Config *c) {
    chosen_experts(m, c);
    return qk_norm_head(m, c);
}

/* llama.cpp's converter has already added the 1 to the weights of Gemma's norms. */
static Status gemma_finish(const GgufModel *m, Config *c) {
    (void)m;
    c->activation = ACTIVATION_GELU_TANH;
    c->embedding_scale = (float)sqrt((double)c->dim);
    return STATUS_OK;
}

/* The largest models (46 and 62 layers) scale scores by dim / n_heads instead of the heads' width;
 * no key says so. */
static Status gemma2_finish(const GgufModel *m, Config *c) {
    uint32_t largest = strcmp(m->architecture, "gemma2") == 0 ? 46 : 62;
    if (c->n_layers == largest && c->n_heads > 0)
        c->attention_scale = (float)(1.0 / sqrt((double)(c->dim / c->n_heads)));
    c->norm_place = NORM_AROUND;
    return gemma_finish(m, c);
}

static Status gemma3_finish(const GgufModel *m, Config *c) {
    c->qk_norm = QK_NORM_HEAD;
    return gemma2_finish(m, c);
}

static Status granite_finish(const GgufModel *m, Config *c) {
    double divisor = 1.0, embedding = 1.0, residual = 1.0;
    bool rotated = true;
    if (gguf_model_bool(m, "rope.scaling.finetuned", &rotated) && !rotated)
        return error_set(m->error, "%s: a Granite without RoPE is not known to this program",
                         m->source->path);
    gguf_model_float(m, "logit_scale", &divisor);
    gguf_model_float(m, "embedding_scale", &embedding);
    gguf_model_float(m, "residual_scale", &residual);
    if (!(divisor > 0.0))
        return error_set(m->error, "%s: logit_scale is %g", m->source->path, divisor);
    c->logit_scale = (float)(1.0 / divisor);
    c->embedding_scale = (float)embedding;
    c->residual_scale = (float)residual;
    c->router = ROUTER_SOFTMAX_CHOSEN;
    return STATUS_OK;
}

static Status olmo_finish(const GgufModel *m, Config *c) {
    (void)m;
    c->norm = NORM_LAYER;
    return STATUS_OK;
}

static Status olmo2_finish(const GgufModel *m, Config *c) {
    (void)m;
    c->norm_place = NORM_OUTPUT;
    c->qk_norm = QK_NORM_ALL;
    return STATUS_OK;
}

static Status olmoe_finish(const GgufModel *m, Config *c) {
    (void)m;
    c->qk_norm = QK_NORM_ALL;
    return STATUS_OK;
}

static Status exaone4_finish(const GgufModel *m, Config *c) {
    (void)m;
    c->norm_place = NORM_OUTPUT;
    c->qk_norm = QK_NORM_HEAD;
    return STATUS_OK;
}

static Status glm4_finish(const GgufModel *m, Config *c) {
    (void)m;
    c->norm_place = NORM_AROUND;
    return STATUS_OK;
}

static Status smollm3_finish(const GgufModel *m, Config *c) {
    (void)m;
    for (uint32_t i = 0; i < CONFIG_MAX_LAYERS; i++) c->rope_table[i] = (i + 1) % 4 ? 0 : 2;
    return STATUS_OK;
}

static Status cohere_finish(const GgufModel *m, Config *c) {
    double scale = 1.0;
    gguf_model_float(m, "logit_scale", &scale);
    c->logit_scale = (float)scale;
    c->norm = NORM_LAYER;
    c->parallel_block = true;
    if (has_tensor(m, "blk.0.attn_q_norm.weight")) c->qk_norm = QK_NORM_EACH;
    return STATUS_OK;
}

static Status stablelm_finish(const GgufModel *m, Config *c) {
    c->norm = NORM_LAYER;
    c->parallel_block = !has_tensor(m, "blk.0.ffn_norm.weight");
    if (has_tensor(m, "blk.0.attn_q_norm.weight")) c->qk_norm = QK_NORM_EACH;
    return STATUS_OK;
}

static Status layer_norms(const GgufModel *m, Config *c) {
    (void)m;
    c->norm = NORM_LAYER;
    c->gated = false;
    c->activation = ACTIVATION_GELU_TANH;
    return STATUS_OK;
}

static Status gpt2_finish(const GgufModel *m, Config *c) {
    c->position = POSITION_LEARNED;
    return layer_norms(m, c);
}

static Status gptneox_finish(const GgufModel *m, Config *c) {
    layer_norms(m, c);
    c->activation = ACTIVATION_GELU;
    c->parallel_block = true;
    gguf_model_bool(m, "use_parallel_residual", &c->parallel_block);
    return STATUS_OK;
}

static Status falcon_finish(const GgufModel *m, Config *c) {
    layer_norms(m, c);
    c->activation = ACTIVATION_GELU;
    c->parallel_block = true;
    return STATUS_OK;
}

static Status phi2_finish(const GgufModel *m, Config *c) {
    c->parallel_block = true;
    return layer_norms(m, c);
}

static Status bloom_finish(const GgufModel *m, Config *c) {
    c->position = POSITION_ALIBI;
    return layer_norms(m, c);
}

static Status mpt_finish(const GgufModel *m, Config *c) {
    double bias = 0.0;
    layer_norms(m, c);
    c->activation = ACTIVATION_GELU;
    gguf_model_float(m, "attention.max_alibi_bias", &bias);
    if (!(bias > 0.0))
        return error_set(m->error, "%s: an MPT without ALiBi is not known to this program",
                         m->source->path);
    c->position = POSITION_ALIBI;
    c->alibi_max_bias = (float)bias;
    return STATUS_OK;
}

/* Baichuan 13B, with 40 layers, has ALiBi; 7B has RoPE. */
static Status baichuan_finish(const GgufModel *m, Config *c) {
    (void)m;
    if (c->n_layers == 40) c->position = POSITION_ALIBI;
    return STATUS_OK;
}

static Status phimoe_finish(const GgufModel *m, Config *c) {
    (void)m;
    c->norm = NORM_LAYER;
    c->router = ROUTER_SPARSE_MIXER;
    c->router_jitter = 0.01f;
    return STATUS_OK;
}

static Status gpt_oss_finish(const GgufModel *m, Config *c) {
    (void)m;
    c->router = ROUTER_SOFTMAX_CHOSEN;
    c->activation = ACTIVATION_GELU_QUICK;
    c->swiglu_limit = 7.0f;
    return STATUS_OK;
}
static Status sigmoid_scores(const GgufModel *m, Config *c) {
    (void)m;
    c->router = ROUTER_SIGMOID_SCORES;
    c->router_normalize = true;
    return STATUS_OK;
}

static Status glm4moe_finish(const GgufModel *m, Config *c) {
    if (has_tensor(m, "blk.0.attn_q_norm.weight")) c->qk_norm = QK_NORM_HEAD;
    return sigmoid_scores(m, c);
}

static Status head_norms_and_scores(const GgufModel *m, Config *c) {
    c->qk_norm = QK_NORM_HEAD;
    return sigmoid_scores(m, c);
}

static Status ernie4_5_moe_finish(const GgufModel *m, Config *c) {
    (void)m;
    c->router = ROUTER_SOFTMAX_SCORES;
    c->router_normalize = true;
    c->router_sum_min = 1e-12f;
    return STATUS_OK;
}

static Status minimax_m2_finish(const GgufModel *m, Config *c) {
    c->qk_norm = QK_NORM_ALL;
    return sigmoid_scores(m, c);
}

static Status afmoe_finish(const GgufModel *m, Config *c) {
    c->norm_place = NORM_AROUND;
    c->embedding_scale = (float)sqrt((double)c->dim);
    return head_norms_and_scores(m, c);
}

static Status laguna_finish(const GgufModel *m, Config *c) {
    c->gate_activation = ACTIVATION_SOFTPLUS;
    gguf_model_uint(m, "rope.dimension_count_swa", &c->rope_local_rotary_dim);
    return head_norms_and_scores(m, c);
}

/* Layers without a window rotate half of what the others do. */
static Status step_finish(const GgufModel *m, Config *c) {
    c->rope_local_rotary_dim = c->rotary_dim;
    c->rotary_dim /= 2;
    c->router_normalize = true;
    return head_norms_and_scores(m, c);
}

static Status step_limits(GgufModel *m, const char *key, bool of_experts) {
    const GgufValue *found = gguf_model_find(m, key);
    for (uint32_t l = 0; found && l < m->source->config.n_layers; l++) {
        double limit = 0.0;
        if (!gguf_element(found, found->is_array ? l : 0, &limit) ||
            !(limit >= 0.0 && isfinite((float)limit)))
            return error_set(m->error, "%s: %s.%s gives layer %u no limit", m->source->path,
                             m->architecture, key, l);
        if (limit > 0.0 && gate_limit_add(m->source, l, of_experts, limit, m->error) != STATUS_OK)
            return STATUS_FAILED;
    }
    return STATUS_OK;
}

/* Values are narrower than keys, and scaled before they are stored. */
static Status mimo2_finish(const GgufModel *m, Config *c) {
    double scale = 1.0;
    gguf_model_float(m, "attention.value_scale", &scale);
    gguf_model_uint(m, "attention.value_length", &c->value_dim);
    c->value_scale = (float)scale;
    return sigmoid_scores(m, c);
}

static Status laguna_more(GgufModel *m) {
    const RuleContext context = {.source = m->source, .table = &m->table};
    const RawTensor *gate = raw_table_find(&m->table, "blk.0.attn_gate.weight");
    bool of_heads = gate && gate->dims[0] == config_heads(&m->source->config, 0).n_heads;
    return rules_apply(&context, of_heads ? gates_of_heads : gates_of_elements, m->error);
}

static Status step_more(GgufModel *m) {
    const RuleContext context = {.source = m->source, .table = &m->table};
    if (rules_apply(&context, gates_of_heads, m->error) != STATUS_OK ||
        step_limits(m, "swiglu_clamp_exp", true) != STATUS_OK)
        return STATUS_FAILED;
    return step_limits(m, "swiglu_clamp_shexp", false);
}

/* The converter takes only models that average the chosen experts with the shared one. */
static Status cohere2moe_finish(const GgufModel *m, Config *c) {
    if (sigmoid_scores(m, c) != STATUS_OK || cohere_finish(m, c) != STATUS_OK) return STATUS_FAILED;
    if (c->shared_ffn_dim > 0) c->router_scale = c->shared_scale = 0.5f;
    return STATUS_OK;
}

/* The RoPE of a text in a model of images; there the converter leaves q and k as they are. */
static Status glm4v_or_glm4_finish(const GgufModel *m, Config *c) {
    if (gguf_model_find(m, "rope.dimension_sections")) c->rope_pairing = ROPE_HALVES;
    return glm4_finish(m, c);
}

/* Queries grow with the position by attention.temperature_scale. */
static Status mistral3_finish(const GgufModel *m, Config *c) {
    double scale = 0.0;
    gguf_model_float(m, "attention.temperature_scale", &scale);
    if (scale == 0.0) return STATUS_OK;
    c->query_scaling = (float)scale;
    c->query_scaling_floor = c->context;
    gguf_model_uint(m, "rope.scaling.original_context_length", &c->query_scaling_floor);
    return STATUS_OK;
}

/* No key gives Llama 4's chunks, its layers without RoPE and how their queries grow. A window of 0
 * means that there are none of them. Maverick, which has 128 experts, norms no heads. */
static Status llama4_finish(const GgufModel *m, Config *c) {
    uint32_t window = 1;
    gguf_model_uint(m, "attention.sliding_window", &window);
    c->router = ROUTER_SIGMOID_SCORES;
    c->share_on_input = true;
    c->qk_norm = c->n_experts == 128 ? QK_NORM_NONE : QK_NORM_HEAD;
    c->qk_norm_after_rope = true;
    if (window == 0) return STATUS_OK;
    c->query_scaling = 0.1f;
    c->query_scaling_floor = 8192;
    c->query_scaling_unrotated = true;
    for (uint32_t i = 0; i < c->n_layers && i < CONFIG_MAX_LAYERS; i++) {
        c->rope_table[i] = (i + 1) % 4 ? 0 : 2;
        c->chunk[i] = (i + 1) % 4 ? 8192 : 0;
    }
    return STATUS_OK;
}

static Status hunyuan_finish(const GgufModel *m, Config *c) {
    c->qk_norm_after_rope = true;
    c->router = ROUTER_SOFTMAX_CHOSEN;
    return qk_norm_head(m, c);
}

static Status relu2_finish(const GgufModel *m, Config *c) {
    (void)m;
    c->gated = false;
    c->activation = ACTIVATION_RELU2;
    return STATUS_OK;
}

static Status nemotron_finish(const GgufModel *m, Config *c) {
    c->norm = NORM_LAYER;
    return relu2_finish(m, c);
}

static Status apertus_finish(const GgufModel *m, Config *c) {
    c->gated = false;
    c->activation = ACTIVATION_XIELU;
    return qk_norm_head(m, c);
}

/* The element of layer i, or the number that holds for all layers. */
static bool number_of_layer(const GgufModel *m, const char *key, uint32_t i, double *value) {
    const GgufValue *found = gguf_find(&m->gguf, key);
    return found && gguf_element(found, found->is_array ? i : 0, value);
}

static Status apertus_more(GgufModel *m) {
    for (uint32_t i = 0; i < m->source->config.n_layers; i++) {
        Xielu xielu;
        if (!number_of_layer(m, "xielu.alpha_p", i, &xielu.alpha_p) ||
            !number_of_layer(m, "xielu.alpha_n", i, &xielu.alpha_n) ||
            !number_of_layer(m, "xielu.beta", i, &xielu.beta) ||
            !number_of_layer(m, "xielu.eps", i, &xielu.eps))
            return error_set(m->error, "%s: xielu.* does not give 4 numbers for layer %u",
                             m->source->path, i);
        if (xielu_add(m->source, i, &xielu, m->error) != STATUS_OK) return STATUS_FAILED;
    }
    return STATUS_OK;
}

/* attention.rope_pattern says which layers rotate. */
static Status granite_swa_finish(const GgufModel *m, Config *c) {
    const GgufValue *pattern = gguf_model_find(m, "attention.rope_pattern");
    double rotates;
    if (pattern && (!pattern->is_array || pattern->count < c->n_layers))
        return error_set(m->error, "%s: attention.rope_pattern is not a list of %u layers",
                         m->source->path, c->n_layers);
    for (uint32_t i = 0; pattern && i < c->n_layers && i < CONFIG_MAX_LAYERS; i++)
        c->rope_table[i] = gguf_element(pattern, i, &rotates) && rotates == 0.0 ? 2 : 0;
    return granite_finish(m, c);
}

/* The weights of q_norm are the factor of the queries. No key gives the epsilon of the norms after
 * the blocks. */
static Status muse_finish(const GgufModel *m, Config *c) {
    double scale = 1.0;
    gguf_model_float(m, "logit_scale", &scale);
    c->logit_scale = (float)scale;
    c->norm_place = NORM_AROUND;
    c->post_norm_eps = 1e-8f;
    return qk_norm_head(m, c);
}

/* Adds the norm of the embeddings, which has no weights. */
static Status muse_more(GgufModel *m) {
    size_t n = m->source->config.dim;
    float *ones = malloc(n * sizeof *ones);
    for (size_t i = 0; ones && i < n; i++) ones[i] = 1.0f;
    return source_add_values(m->source, "embedding_norm", 1, n, ones, m->error);
}

static Status dbrx_finish(const GgufModel *m, Config *c) {
    c->norm = NORM_LAYER;
    return chosen_experts(m, c);
}

/* Whether a layer ranks experts with a correction, which those with sigmoid scores do. */
static bool has_correction(const GgufModel *m, const Config *c) {
    for (uint32_t i = 0; i < c->n_layers && i < CONFIG_MAX_LAYERS; i++) {
        char name[64];
        snprintf(name, sizeof name, "blk.%u.exp_probs_b.bias", i);
        if (has_tensor(m, name)) return true;
    }
    return false;
}

/* YaRN's mscale_all_dim, of which the file gives a tenth. */
static void scale_scores(const GgufModel *m, Config *c) {
    double multiplier = 0.0, factor = 1.0;
    gguf_model_float(m, "rope.scaling.factor", &factor);
    if (gguf_model_float(m, "rope.scaling.yarn_log_multiplier", &multiplier) && factor > 1.0) {
        double mscale = multiplier * log(factor) + 1.0;
        c->attention_scale *= (float)(mscale * mscale);
    }
}

/* DeepSeek V2 and V3, and what llama.cpp takes for them: GLM-4.7-Flash, Youtu, Kimi K2. */
static Status deepseek2_finish(const GgufModel *m, Config *c) {
    if (gguf_latent_finish(m, c) != STATUS_OK) return STATUS_FAILED;
    bool sigmoid = has_correction(m, c);
    c->router = sigmoid ? ROUTER_SIGMOID_SCORES : ROUTER_SOFTMAX_SCORES;
    if (sigmoid) snprintf(c->family, sizeof c->family, "deepseek_v3");
    scale_scores(m, c);
    return STATUS_OK;
}

/* DeepSeek V3.2 and GLM-5. A layer without an indexer of its own takes the choice of the one before
 * it. */
static Status indexed_finish(const GgufModel *m, Config *c) {
    if (gguf_latent_finish(m, c) != STATUS_OK) return STATUS_FAILED;
    c->router = ROUTER_SIGMOID_SCORES;
    scale_scores(m, c);
    gguf_model_uint(m, "attention.indexer.head_count", &c->index_heads);
    gguf_model_uint(m, "attention.indexer.key_length", &c->index_dim);
    gguf_model_uint(m, "attention.indexer.top_k", &c->index_topk);
    for (uint32_t i = 0; i < c->n_layers && i < CONFIG_MAX_LAYERS; i++) {
        char name[64];
        snprintf(name, sizeof name, "blk.%u.indexer.attn_k.weight", i);
        c->indexer[i] = has_tensor(m, name) ? INDEXER_OWN : INDEXER_SHARED;
    }
    return STATUS_OK;
}

static Status glm_dsa_finish(const GgufModel *m, Config *c) {
    c->index_interleaved = true;
    return indexed_finish(m, c);
}

/* The converter writes no key of how its queries grow with the position. */
static Status mistral4_finish(const GgufModel *m, Config *c) {
    c->router_group_pairs = true;
    c->query_scaling = 0.1f;
    c->query_scaling_floor = c->context;
    gguf_model_uint(m, "rope.scaling.original_context_length", &c->query_scaling_floor);
    if (mistral3_finish(m, c) != STATUS_OK) return STATUS_FAILED;
    return deepseek2_finish(m, c);
}

/* No key gives MiniCPM 3's multipliers; all of its models have these. */
static Status minicpm3_finish(const GgufModel *m, Config *c) {
    c->embedding_scale = 12.0f;
    c->residual_scale = c->n_layers ? (float)(1.4 / sqrt((double)c->n_layers)) : 1.0f;
    c->logit_scale = c->dim ? (float)(256.0 / c->dim) : 1.0f;
    return gguf_latent_finish(m, c);
}

/* ---- The table ---- */

static const GgufFamily families[] = {
    {"llama", "mixtral", mixtral_tensors, ROPE_INTERLEAVED, .finish = chosen_experts,
     .full_every = 1, .needs_tensor = "blk.0.ffn_gate_inp.weight"},
    {"llama", "llama", llama_tensors, ROPE_INTERLEAVED, .finish = NULL, .full_every = 1},
    {"internlm2", "internlm2", llama_tensors, ROPE_INTERLEAVED, .finish = NULL},
    {"baichuan", "baichuan", llama_tensors, ROPE_INTERLEAVED, .finish = baichuan_finish},
    {"smollm3", "smollm3", llama_tensors, ROPE_INTERLEAVED, .finish = smollm3_finish},
    {"granite", "granite", llama_tensors, ROPE_INTERLEAVED, .finish = granite_finish},
    {"granitemoe", "granitemoe", routed_tensors, ROPE_INTERLEAVED, .finish = granite_finish},
    {"glm4", "glm4", glm4_tensors, ROPE_INTERLEAVED, .finish = glm4v_or_glm4_finish},
    {"command-r", "cohere", cohere_tensors, ROPE_INTERLEAVED, .finish = cohere_finish},
    {"cohere2", "cohere2", cohere_tensors, ROPE_INTERLEAVED, .finish = cohere_finish,
     .full_every = 4, .full_are_not_rotated = true},
    {"olmo", "olmo", olmo_tensors, ROPE_INTERLEAVED, .finish = olmo_finish},
    {"olmo2", "olmo2", olmo2_tensors, ROPE_HALVES, .finish = olmo2_finish, .full_every = 4,
     .local_theta = -1},
    {"olmoe", "olmoe", olmoe_tensors, ROPE_HALVES, .finish = olmoe_finish},
    {"exaone", "exaone", llama_tensors, ROPE_HALVES, .finish = NULL},
    {"exaone4", "exaone4", exaone4_tensors, ROPE_HALVES, .finish = exaone4_finish, .full_every = 4,
     .full_are_not_rotated = true},
    {"qwen2", "qwen2", llama_tensors, ROPE_HALVES, .finish = NULL, .full_every = 1},
    {"qwen2moe", "qwen2_moe", qwen2moe_tensors, ROPE_HALVES, .finish = NULL},
    {"qwen3", "qwen3", qwen3_tensors, ROPE_HALVES, .finish = qk_norm_head, .full_every = 1},
    {"qwen3moe", "qwen3_moe", qwen3moe_tensors, ROPE_HALVES, .finish = qwen3moe_finish},
    {"gemma", "gemma", llama_tensors, ROPE_HALVES, .finish = gemma_finish},
    {"gemma2", "gemma2", gemma2_tensors, ROPE_HALVES, .finish = gemma2_finish, .full_every = 2,
     .window = 4096},
    {"gemma3", "gemma3_text", gemma3_tensors, ROPE_HALVES, .finish = gemma3_finish, .full_every = 6,
     .local_theta = 10000.0},
    {"phi2", "phi", phi2_tensors, ROPE_HALVES, .finish = phi2_finish},
    {"phi3", "phi3", phi3_tensors, ROPE_HALVES, .finish = NULL, .full_every = 1},
    {"phimoe", "phimoe", mixtral_tensors, ROPE_HALVES, .finish = phimoe_finish, .full_every = 1},
    {"stablelm", "stablelm", stablelm_tensors, ROPE_HALVES, .finish = stablelm_finish},
    {"starcoder2", "starcoder2", starcoder2_tensors, ROPE_HALVES, .finish = layer_norms,
     .full_every = 1},
    {"gptneox", "gpt_neox", starcoder2_tensors, ROPE_HALVES, .finish = gptneox_finish},
    {"falcon", "falcon", falcon40_tensors, ROPE_HALVES, .finish = falcon_finish,
     .needs_tensor = "blk.0.attn_norm_2.weight"},
    {"falcon", "falcon", falcon_tensors, ROPE_HALVES, .finish = falcon_finish},
    {"gpt2", "gpt2", gpt2_tensors, ROPE_HALVES, .finish = gpt2_finish},
    {"starcoder", "gpt_bigcode", gpt2_tensors, ROPE_HALVES, .finish = gpt2_finish},
    {"bloom", "bloom", bloom_tensors, ROPE_HALVES, .finish = bloom_finish},
    {"mpt", "mpt", starcoder2_tensors, ROPE_HALVES, .finish = mpt_finish},
    {"chatglm", "glm", phi3_tensors, ROPE_INTERLEAVED, .finish = NULL},
    {"ernie4_5", "ernie4_5", llama_tensors, ROPE_INTERLEAVED, .finish = NULL},
    {"seed_oss", "seed_oss", seed_tensors, ROPE_HALVES, .finish = NULL},
    {"glm4moe", "glm4_moe", glm4moe_tensors, ROPE_HALVES, .finish = glm4moe_finish,
     .predicts = true},
    {"dots1", "dots1", dots1_tensors, ROPE_HALVES, .finish = head_norms_and_scores,
     .full_every = 1},
    {"ernie4_5-moe", "ernie4_5_moe", ernie4_5_moe_tensors, ROPE_INTERLEAVED,
     .finish = ernie4_5_moe_finish},
    {"minimax-m2", "minimax_m2", minimax_m2_tensors, ROPE_HALVES, .finish = minimax_m2_finish},
    {"exaone-moe", "exaone_moe", dots1_tensors, ROPE_HALVES, .finish = head_norms_and_scores,
     .full_every = 4, .full_are_not_rotated = true},
    {"hy_v3", "hy_v3", dots1_tensors, ROPE_HALVES, .finish = head_norms_and_scores},
    {"afmoe", "afmoe", afmoe_tensors, ROPE_HALVES, .finish = afmoe_finish, .full_every = 4,
     .full_are_not_rotated = true},
    {"laguna", "laguna", laguna_tensors, ROPE_HALVES, .finish = laguna_finish, .more = laguna_more,
     .full_every = 4, .full_is_first = true, .local_theta = 10000.0},
    {"step35", "step3p5", laguna_tensors, ROPE_HALVES, .finish = step_finish, .more = step_more,
     .full_every = 4, .local_theta = 10000.0, .pads_rope_freqs = true},
    {"mimo2", "mimo_v2_flash", mimo2_tensors, ROPE_HALVES, .finish = mimo2_finish, .full_every = 6,
     .local_theta = 10000.0},
    {"cohere2moe", "cohere2_moe", cohere2moe_tensors, ROPE_INTERLEAVED, .finish = cohere2moe_finish,
     .full_every = 4, .full_are_not_rotated = true, .dense_are_rotated = true},
    {"mistral3", "ministral3", llama_tensors, ROPE_INTERLEAVED, .finish = mistral3_finish},
    {"deepseek2", "deepseek_v2", deepseek2_tensors, ROPE_INTERLEAVED, .finish = deepseek2_finish,
     .predicts = true, .mscales_are_equal = true},
    {"deepseek32", "deepseek_v32", indexed_tensors, ROPE_INTERLEAVED, .finish = indexed_finish,
     .predicts = true, .mscales_are_equal = true},
    {"glm-dsa", "glm_moe_dsa", indexed_tensors, ROPE_INTERLEAVED, .finish = glm_dsa_finish,
     .predicts = true, .mscales_are_equal = true},
    {"mistral4", "mistral4", deepseek2_tensors, ROPE_INTERLEAVED, .finish = mistral4_finish,
     .mscales_are_equal = true},
    {"minicpm3", "minicpm3", minicpm3_tensors, ROPE_HALVES, .finish = minicpm3_finish},
    {"qwen2vl", "qwen2_vl_text", llama_tensors, ROPE_HALVES, .finish = NULL},
    {"qwen3vl", "qwen3_vl_text", qwen3_tensors, ROPE_HALVES, .finish = qk_norm_head},
    {"qwen3vlmoe", "qwen3_vl_moe_text", qwen3moe_tensors, ROPE_HALVES, .finish = qwen3moe_finish},
    {"llama4", "llama4_text", routed_tensors, ROPE_INTERLEAVED, .finish = llama4_finish},
    {"hunyuan-dense", "hunyuan_v1_dense", qwen3_tensors, ROPE_HALVES, .finish = hunyuan_finish},
    {"hunyuan-moe", "hunyuan_v1_moe", hunyuan_moe_tensors, ROPE_HALVES, .finish = hunyuan_finish},
    {"granite_swa", "granite_swa", granite_swa_tensors, ROPE_INTERLEAVED,
     .finish = granite_swa_finish, .full_every = 4},
    {"apertus", "apertus", ungated_tensors, ROPE_HALVES, .finish = apertus_finish,
     .more = apertus_more},
    {"arcee", "arcee", ungated_tensors, ROPE_INTERLEAVED, .finish = relu2_finish},
    {"nemotron", "nemotron", ungated_tensors, ROPE_HALVES, .finish = nemotron_finish},
    {"jais2", "jais2", ungated_tensors, ROPE_HALVES, .finish = nemotron_finish},
    {"muse-glimmer", "muse_glimmer_text", afmoe_tensors, ROPE_INTERLEAVED, .finish = muse_finish,
     .more = muse_more, .full_every = 4, .full_are_not_rotated = true},
    {"dbrx", "dbrx", dbrx_tensors, ROPE_HALVES, .finish = dbrx_finish},
    {"mellum", "mellum", qwen3moe_tensors, ROPE_HALVES, .finish = qwen3moe_finish, .full_every = 4,
     .local_theta = -1},
    {"gemma3n", "gemma3n_text", gguf_gemma3n_tensors, ROPE_HALVES, .finish = gguf_gemma3n_finish,
     .more = gguf_gemma3n_more, .by_layer = gguf_gemma_by_layer, .full_every = 5,
     .local_theta = 10000.0},
    {"gemma4", "gemma4_text", gguf_gemma4_tensors, ROPE_HALVES, .finish = gguf_gemma4_finish,
     .more = gguf_gemma4_more, .by_layer = gguf_gemma_by_layer, .full_every = 6,
     .local_theta = 10000.0},
    {"gpt-oss", "gpt_oss", gpt_oss_tensors, ROPE_HALVES, .finish = gpt_oss_finish, .full_every = 2,
     .yarn_keeps_ends = true},
};
enum { FAMILIES = sizeof families / sizeof *families };

const GgufFamily *gguf_family_find(const GgufModel *model) {
    for (size_t i = 0; i < FAMILIES; i++)
        if (strcmp(families[i].architecture, model->architecture) == 0 &&
            (!families[i].needs_tensor || has_tensor(model, families[i].needs_tensor)))
            return &families[i];
    for (const GgufFamily *family = gguf_families_state; family->architecture; family++)
        if (strcmp(family->architecture, model->architecture) == 0) return family;
    return NULL;
}

/* Whether the entry is for the family, or, with 1, for all files of the architecture. */
static bool is_of(const GgufFamily *f, const char *architecture, const char *model_type, int any) {
    if (strcmp(f->architecture, architecture) != 0) return false;
    return any ? !f->needs_tensor : strcmp(f->model_type, model_type) == 0;
}

const GgufFamily *gguf_family_of(const char *architecture, const char *model_type) {
    for (int any = 0; any < 2; any++) {
        for (size_t i = 0; i < FAMILIES; i++)
            if (is_of(&families[i], architecture, model_type, any)) return &families[i];
        for (const GgufFamily *f = gguf_families_state; f->architecture; f++)
            if (is_of(f, architecture, model_type, any)) return f;
    }
    return NULL;
}

void gguf_family_names(char *text, size_t size) {
    size_t length = 0;
    if (size) text[0] = '\0';
    for (size_t i = 0; i < FAMILIES && length < size; i++)
        if (!families[i].needs_tensor)
            length += (size_t)snprintf(text + length, size - length, "%s%s", length ? ", " : "",
                                       families[i].architecture);
    for (const GgufFamily *f = gguf_families_state; f->architecture && length < size; f++)
        length += (size_t)snprintf(text + length, size - length, ", %s", f->architecture);
}
