/* What the files with hooks share: the helpers, and names for tensors that hooks of several files
 * add. A family's file includes this and nothing else of formats/. */
#ifndef FAMILIES_SHARED_H
#define FAMILIES_SHARED_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "families/gguf_helpers.h"
#include "families/helpers.h"
#include "formats/family/gate_limits.h"
#include "formats/family/json.h"

/* ---- Tensors ---- */

#define FROM_LAYER "model.layers.%u."

/* The table of the tokens' vectors. */
#define EMBEDDING(name) MATRIX("token_embedding", name ".weight", "vocab_size", "dim")

/* The output head, which may be tied to the embedding. */
#define OUTPUT(name)                                                                               \
    LINEAR("output", name, "vocab_size", "dim", .same_as = "token_embedding", .if_tied = true)

#define LLAMA_NORMS                                                                                \
    NORM("attention_norm", ".input_layernorm"), NORM("ffn_norm", ".post_attention_layernorm")

#define LLAMA_ATTENTION                                                                            \
    LINEAR("wq", ".self_attn.q_proj", "n_heads * head_dim", "dim"),                                \
        LINEAR("wk", ".self_attn.k_proj", "n_kv_heads * head_dim", "dim"),                         \
        LINEAR("wv", ".self_attn.v_proj", "n_kv_heads * head_dim", "dim"),                         \
        LINEAR("wo", ".self_attn.o_proj", "dim", "n_heads * head_dim")

#define LLAMA_FFN                                                                                  \
    LINEAR("w_gate", ".mlp.gate_proj", "ffn_dim", "dim"),                                          \
        LINEAR("w_up", ".mlp.up_proj", "ffn_dim", "dim"),                                          \
        LINEAR("w_down", ".mlp.down_proj", "dim", "ffn_dim")

/* Norms of each head's query and key. */
#define QK_HEAD_NORMS                                                                              \
    NORM("q_norm", ".self_attn.q_norm", "head_dim"), NORM("k_norm", ".self_attn.k_norm", "head_dim")

/* What is added to the scores before experts are chosen. */
#define CORRECTION(name) VECTOR("router.correction", name, "n_experts", .optional = true)

/* The matrix that makes keys and values of the latent holds for each head first the key's rows. */
#define HEADS_OF_LATENT(from)                                                                      \
    MATRIX("k_b.%u -", from, "unrotated_dim + value_dim", "latent_dim", .turned = TURNED_ALWAYS,   \
           .each_head = true),                                                                     \
        MATRIX("- v_b.%u", from, "unrotated_dim + value_dim", "latent_dim", .each_head = true)

/* Layers that share the choice of the layer before have no indexer. */
#define INDEXER                                                                                    \
    MATRIX("indexer.wq", ".self_attn.indexer.wq_b.weight", "index_heads * index_dim",              \
           "latent_q_dim", .optional = true),                                                      \
        MATRIX("indexer.wk", ".self_attn.indexer.wk.weight", "index_dim", "dim",                   \
               .optional = true),                                                                  \
        NORM("indexer.k_norm", ".self_attn.indexer.k_norm", "index_dim", .optional = true),        \
        MATRIX("indexer.weights", ".self_attn.indexer.weights_proj.weight", "index_heads", "dim",  \
               .optional = true)

/* Delta attention with decays by key. */
#define KIMI_DELTA                                                                                 \
    MATRIX("delta.q", ".self_attn.q_proj.weight", "state_key_heads * state_key_dim", "dim",        \
           .optional = true),                                                                      \
        MATRIX("delta.k", ".self_attn.k_proj.weight", "state_key_heads * state_key_dim", "dim",    \
               .optional = true),                                                                  \
        MATRIX("delta.v", ".self_attn.v_proj.weight", "state_heads * state_value_dim", "dim",      \
               .optional = true),                                                                  \
        MATRIX("delta.a_low", ".self_attn.f_a_proj.weight", "state_value_dim", "dim",              \
               .optional = true),                                                                  \
        MATRIX("delta.a", ".self_attn.f_b_proj.weight", "state_key_heads * state_key_dim",         \
               "state_value_dim", .optional = true),                                               \
        MATRIX("delta.z_low", ".self_attn.g_a_proj.weight", "state_value_dim", "dim",              \
               .optional = true),                                                                  \
        MATRIX("delta.z", ".self_attn.g_b_proj.weight", "state_heads * state_value_dim",           \
               "state_value_dim", .optional = true),                                               \
        MATRIX("delta.b", ".self_attn.b_proj.weight", "state_heads", "dim", .optional = true),     \
        MATRIX("delta.out", ".self_attn.o_proj.weight", "dim", "state_heads * state_value_dim",    \
               .optional = true),                                                                  \
        TABLE("delta.convolution", ".self_attn.conv1d.weight", "state_kernel",                     \
              "2 * state_key_heads * state_key_dim + state_heads * state_value_dim",               \
              .turned = TURNED_ALWAYS, .optional = true),                                          \
        VECTOR("delta.decay", ".self_attn.A_log", "state_heads", .values = VALUES_MINUS_EXP,       \
               .optional = true),                                                                  \
        VECTOR("delta.step_bias", ".self_attn.dt_bias", "state_key_heads * state_key_dim",         \
               .optional = true),                                                                  \
        VECTOR("delta.norm", ".self_attn.o_norm.weight", "state_value_dim", .optional = true)

/* ---- Tensors of GGUF files ---- */

#define GGUF_FFN                                                                                   \
    LINEAR("w_gate", ".ffn_gate", "ffn_dim", "dim"), LINEAR("w_up", ".ffn_up", "ffn_dim", "dim"),  \
        LINEAR("w_down", ".ffn_down", "dim", "ffn_dim")

/* Tensors that only some layers have; opening the converted model fails when one is missing. */
#define GGUF_SOME_ATTENTION                                                                        \
    LINEAR("wq", ".attn_q", "n_heads * head_dim", "dim", .optional = true),                        \
        LINEAR("wk", ".attn_k", "n_kv_heads * head_dim", "dim", .optional = true),                 \
        LINEAR("wv", ".attn_v", "n_kv_heads * value_dim", "dim", .optional = true),                \
        LINEAR("wo", ".attn_output", "dim", "n_heads * value_dim", .optional = true)

/* Delta attention with decays by key. */
#define GGUF_KIMI_DELTA                                                                            \
    MATRIX("delta.q", ".attn_q.weight", "state_key_heads * state_key_dim", "dim",                  \
           .optional = true),                                                                      \
        MATRIX("delta.k", ".attn_k.weight", "state_key_heads * state_key_dim", "dim",              \
               .optional = true),                                                                  \
        MATRIX("delta.v", ".attn_v.weight", "state_heads * state_value_dim", "dim",                \
               .optional = true),                                                                  \
        MATRIX("delta.a_low", ".ssm_f_a.weight", "state_value_dim", "dim", .optional = true),      \
        MATRIX("delta.a", ".ssm_f_b.weight", "state_key_heads * state_key_dim", "state_value_dim", \
               .optional = true),                                                                  \
        MATRIX("delta.z_low", ".ssm_g_a.weight", "state_value_dim", "dim", .optional = true),      \
        MATRIX("delta.z", ".ssm_g_b.weight", "state_heads * state_value_dim", "state_value_dim",   \
               .optional = true),                                                                  \
        MATRIX("delta.b", ".ssm_beta.weight", "state_heads", "dim", .optional = true),             \
        MATRIX("delta.out", ".attn_output.weight", "dim", "state_heads * state_value_dim",         \
               .optional = true),                                                                  \
        VECTOR("delta.decay", ".ssm_a", "state_heads", .optional = true),                          \
        VECTOR("delta.step_bias", ".ssm_dt.bias", "state_key_heads * state_key_dim",               \
               .optional = true),                                                                  \
        VECTOR("delta.norm", ".ssm_norm.weight", "state_value_dim", .optional = true)

#define GGUF_LATENT_ATTENTION                                                                      \
    MATRIX("wq", ".attn_q.weight", "n_heads * head_dim", "dim", .optional = true),                 \
        LINEAR("wq_a", ".attn_q_a", "latent_q_dim", "dim", .optional = true),                      \
        VECTOR("q_norm", ".attn_q_a_norm.weight", "latent_q_dim", .optional = true),               \
        MATRIX("wq_b", ".attn_q_b.weight", "n_heads * head_dim", "latent_q_dim",                   \
               .optional = true),                                                                  \
        LINEAR("wkv_a", ".attn_kv_a_mqa", "latent_dim + rotary_dim", "dim"),                       \
        VECTOR("kv_norm", ".attn_kv_a_norm.weight", "latent_dim", .optional = true),               \
        MATRIX("k_b.%u -", ".attn_kv_b.weight", "unrotated_dim + value_dim", "latent_dim",         \
               .turned = TURNED_ALWAYS, .optional = true, .each_head = true),                      \
        MATRIX("- v_b.%u", ".attn_kv_b.weight", "unrotated_dim + value_dim", "latent_dim",         \
               .optional = true, .each_head = true),                                               \
        MATRIX("k_b.%u", ".attn_k_b.weight", "latent_dim", "unrotated_dim", .optional = true,      \
               .each_head = true),                                                                 \
        MATRIX("v_b.%u", ".attn_v_b.weight", "value_dim", "latent_dim", .optional = true,          \
               .each_head = true),                                                                 \
        LINEAR("wo", ".attn_output", "dim", "n_heads * value_dim")

#define GGUF_INDEXER                                                                               \
    MATRIX("indexer.wq", ".indexer.attn_q_b.weight", "index_heads * index_dim", "latent_q_dim",    \
           .optional = true),                                                                      \
        MATRIX("indexer.wk", ".indexer.attn_k.weight", "index_dim", "dim", .optional = true),      \
        NORM("indexer.k_norm", ".indexer.k_norm", "index_dim", .optional = true),                  \
        MATRIX("indexer.weights", ".indexer.proj.weight", "index_heads", "dim", .optional = true)

#endif
