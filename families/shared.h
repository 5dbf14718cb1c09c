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
#include "json/json_object.h"

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

#endif
