/* What the files of families share: names for the tables of their descriptions, keys and tensors
 * that most families have, and the helpers of their hooks. A family's file includes this and
 * nothing else of formats/. */
#ifndef FAMILIES_SHARED_H
#define FAMILIES_SHARED_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "families/gguf_helpers.h"
#include "families/helpers.h"
#include "formats/family/gate_limits.h"
#include "formats/family/json.h"

/* ---- Tables ---- */

/* One of STEPS: STEP("windows", "4096 every 2"). */
#define STEP(...)                                                                                  \
    { .verb = __VA_ARGS__ }
#define STEPS(...)                                                                                 \
    (const Step[]) {                                                                               \
        __VA_ARGS__, {                                                                             \
            0                                                                                      \
        }                                                                                          \
    }
#define SET(...)                                                                                   \
    (const Preset[]) {                                                                             \
        __VA_ARGS__, {                                                                             \
            0                                                                                      \
        }                                                                                          \
    }
#define KEYS(...)                                                                                  \
    (const ConfigRule[]) {                                                                         \
        __VA_ARGS__, {                                                                             \
            0                                                                                      \
        }                                                                                          \
    }
#define BIASES(...)                                                                                \
    (const BiasRule[]) {                                                                           \
        __VA_ARGS__, {                                                                             \
            0                                                                                      \
        }                                                                                          \
    }
#define GGUF_KEYS(...)                                                                             \
    (const GgufKey[]) {                                                                            \
        __VA_ARGS__, {                                                                             \
            0                                                                                      \
        }                                                                                          \
    }
#define FIXED(...)                                                                                 \
    (const FixedKey[]) {                                                                           \
        __VA_ARGS__, {                                                                             \
            0                                                                                      \
        }                                                                                          \
    }

/* ---- Keys ---- */

/* The sizes are what transformers takes where the keys are absent. */
#define SIZE_KEYS(vocab, dim, ffn, layers, heads)                                                  \
    {"vocab_size", "vocab_size", vocab}, {"hidden_size", "dim", dim},                              \
        {"intermediate_size", "ffn_dim", ffn}, {"num_hidden_layers", "n_layers", layers}, {        \
        "num_attention_heads", "n_heads", heads                                                    \
    }
#define SIZES_WITHOUT_FFN(vocab, dim, layers, heads)                                               \
    {"vocab_size", "vocab_size", vocab}, {"hidden_size", "dim", dim},                              \
        {"num_hidden_layers", "n_layers", layers}, {                                               \
        "num_attention_heads", "n_heads", heads                                                    \
    }
/* n_kv_heads and head_dim: 0 and null mean n_heads and dim / n_heads. */
#define KV_HEADS(absent)                                                                           \
    { "num_key_value_heads", "n_kv_heads", absent }
#define HEAD_DIM(absent)                                                                           \
    { "head_dim", "head_dim", absent }
#define CONTEXT(absent)                                                                            \
    { "max_position_embeddings", "context", absent }

/* ---- Matrices that have a bias ---- */

#define QKV " wq wk wv "
#define QKVO QKV "wo "
#define UP_DOWN " w_up w_down "
#define GATED UP_DOWN "w_gate "
/* Dense layers and the shared expert have biases, the other experts do not. */
#define DENSE_AND_SHARED GATED "shared.w_up shared.w_down shared.w_gate "
#define MAMBA_IN " mamba.z mamba.x mamba.b mamba.c mamba.step mamba.out "

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

#define SEPARATE_QKV(at)                                                                           \
    LINEAR("wq", at "q_proj", "n_heads * head_dim", "dim"),                                        \
        LINEAR("wk", at "k_proj", "n_kv_heads * head_dim", "dim"),                                 \
        LINEAR("wv", at "v_proj", "n_kv_heads * head_dim", "dim")

#define LLAMA_FFN                                                                                  \
    LINEAR("w_gate", ".mlp.gate_proj", "ffn_dim", "dim"),                                          \
        LINEAR("w_up", ".mlp.up_proj", "ffn_dim", "dim"),                                          \
        LINEAR("w_down", ".mlp.down_proj", "dim", "ffn_dim")

#define GATED_FFN(at)                                                                              \
    LINEAR("w_gate", at "gate_proj", "ffn_dim", "dim"),                                            \
        LINEAR("w_up", at "up_proj", "ffn_dim", "dim"),                                            \
        LINEAR("w_down", at "down_proj", "dim", "ffn_dim")

#define LLAMA_END                                                                                  \
    NORM("final_norm", "model.norm"), LINEAR("output", "lm_head", "vocab_size", "dim",             \
                                             .same_as = "token_embedding", .if_tied = true)

/* Norms of each head's query and key. */
#define QK_HEAD_NORMS                                                                              \
    NORM("q_norm", ".self_attn.q_norm", "head_dim"), NORM("k_norm", ".self_attn.k_norm", "head_dim")

#define OUTPUT_NORMS                                                                               \
    NORM("post_attention_norm", ".post_attention_layernorm"),                                      \
        NORM("post_ffn_norm", ".post_feedforward_layernorm")

/* A layer has either one feed-forward or a router and experts. All are optional here; opening the
 * converted model fails when any is missing. */
#define DENSE_OR_EXPERTS                                                                           \
    MATRIX("router", ".mlp.gate.weight", "n_experts", "dim", .optional = true),                    \
        MATRIX("w_gate", ".mlp.gate_proj.weight", "ffn_dim", "dim", .optional = true),             \
        MATRIX("w_up", ".mlp.up_proj.weight", "ffn_dim", "dim", .optional = true),                 \
        MATRIX("w_down", ".mlp.down_proj.weight", "dim", "ffn_dim", .optional = true),             \
        MATRIX("experts.%u.w_gate", ".mlp.experts.%u.gate_proj.weight", "expert_ffn_dim", "dim",   \
               .optional = true),                                                                  \
        MATRIX("experts.%u.w_up", ".mlp.experts.%u.up_proj.weight", "expert_ffn_dim", "dim",       \
               .optional = true),                                                                  \
        MATRIX("experts.%u.w_down", ".mlp.experts.%u.down_proj.weight", "dim", "expert_ffn_dim",   \
               .optional = true)

/* As DENSE_OR_EXPERTS, without the router, whose name or form differs. */
#define DENSE_OR_ROUTED                                                                            \
    MATRIX("w_gate", ".mlp.gate_proj.weight", "ffn_dim", "dim", .optional = true),                 \
        MATRIX("w_up", ".mlp.up_proj.weight", "ffn_dim", "dim", .optional = true),                 \
        MATRIX("w_down", ".mlp.down_proj.weight", "dim", "ffn_dim", .optional = true),             \
        MATRIX("experts.%u.w_gate", ".mlp.experts.%u.gate_proj.weight", "expert_ffn_dim", "dim",   \
               .optional = true),                                                                  \
        MATRIX("experts.%u.w_up", ".mlp.experts.%u.up_proj.weight", "expert_ffn_dim", "dim",       \
               .optional = true),                                                                  \
        MATRIX("experts.%u.w_down", ".mlp.experts.%u.down_proj.weight", "dim", "expert_ffn_dim",   \
               .optional = true)

#define SOME_FFN(at)                                                                               \
    MATRIX("w_gate", at "gate_proj.weight", "ffn_dim", "dim", .optional = true),                   \
        MATRIX("w_up", at "up_proj.weight", "ffn_dim", "dim", .optional = true),                   \
        MATRIX("w_down", at "down_proj.weight", "dim", "ffn_dim", .optional = true)

#define SOME_EXPERTS(at)                                                                           \
    MATRIX("experts.%u.w_gate", at "%u.gate_proj.weight", "expert_ffn_dim", "dim",                 \
           .optional = true),                                                                      \
        MATRIX("experts.%u.w_up", at "%u.up_proj.weight", "expert_ffn_dim", "dim",                 \
               .optional = true),                                                                  \
        MATRIX("experts.%u.w_down", at "%u.down_proj.weight", "dim", "expert_ffn_dim",             \
               .optional = true)

#define SOME_W123_EXPERTS(at)                                                                      \
    MATRIX("experts.%u.w_gate", at "%u.w1.weight", "expert_ffn_dim", "dim", .optional = true),     \
        MATRIX("experts.%u.w_up", at "%u.w3.weight", "expert_ffn_dim", "dim", .optional = true),   \
        MATRIX("experts.%u.w_down", at "%u.w2.weight", "dim", "expert_ffn_dim", .optional = true)

/* What is added to the scores before experts are chosen. */
#define CORRECTION(name) VECTOR("router.correction", name, "n_experts", .optional = true)

#define SHARED_EXPERT(at)                                                                          \
    LINEAR("shared.w_gate", at "gate_proj", "shared_ffn_dim", "dim", .optional = true),            \
        LINEAR("shared.w_up", at "up_proj", "shared_ffn_dim", "dim", .optional = true),            \
        LINEAR("shared.w_down", at "down_proj", "dim", "shared_ffn_dim", .optional = true)

/* The shared expert, without biases. */
#define SHARED_WEIGHTS(at)                                                                         \
    MATRIX("shared.w_gate", at "gate_proj.weight", "shared_ffn_dim", "dim", .optional = true),     \
        MATRIX("shared.w_up", at "up_proj.weight", "shared_ffn_dim", "dim", .optional = true),     \
        MATRIX("shared.w_down", at "down_proj.weight", "dim", "shared_ffn_dim", .optional = true)

#define DENSE_BIASES                                                                               \
    VECTOR("w_gate.bias", ".mlp.gate_proj.bias", "ffn_dim", .optional = true),                     \
        VECTOR("w_up.bias", ".mlp.up_proj.bias", "ffn_dim", .optional = true),                     \
        VECTOR("w_down.bias", ".mlp.down_proj.bias", "dim", .optional = true)

#define SOME_ATTENTION                                                                             \
    LINEAR("wq", ".self_attn.q_proj", "n_heads * head_dim", "dim", .optional = true),              \
        LINEAR("wk", ".self_attn.k_proj", "n_kv_heads * head_dim", "dim", .optional = true),       \
        LINEAR("wv", ".self_attn.v_proj", "n_kv_heads * value_dim", "dim", .optional = true),      \
        LINEAR("wo", ".self_attn.o_proj", "dim", "n_heads * value_dim", .optional = true)

#define SOME_QKV                                                                                   \
    LINEAR("wq", ".self_attn.q_proj", "n_heads * head_dim", "dim", .optional = true),              \
        LINEAR("wk", ".self_attn.k_proj", "n_kv_heads * head_dim", "dim", .optional = true),       \
        LINEAR("wv", ".self_attn.v_proj", "n_kv_heads * value_dim", "dim", .optional = true)

/* in_proj holds x and z, x_proj what makes the steps, B and C. */
#define MAMBA(at)                                                                                  \
    LINEAR("mamba.x mamba.z", at "in_proj",                                                        \
           "state_heads * state_value_dim + state_heads * state_value_dim", "dim",                 \
           .optional = true),                                                                      \
        TABLE("mamba.taps", at "conv1d.weight", "state_kernel", "state_heads * state_value_dim",   \
              .turned = TURNED_ALWAYS, .optional = true),                                          \
        VECTOR("mamba.taps.bias", at "conv1d.bias", "state_heads * state_value_dim",               \
               .optional = true),                                                                  \
        MATRIX("mamba.rank mamba.b mamba.c", at "x_proj.weight",                                   \
               "state_rank + state_key_heads * state_key_dim + state_key_heads * state_key_dim",   \
               "state_heads * state_value_dim", .optional = true),                                 \
        MATRIX("mamba.step", at "dt_proj.weight", "state_heads * state_value_dim", "state_rank",   \
               .optional = true),                                                                  \
        VECTOR("mamba.step_bias", at "dt_proj.bias", "state_heads * state_value_dim",              \
               .optional = true),                                                                  \
        TABLE("mamba.decay", at "A_log", "state_key_heads * state_key_dim",                        \
              "state_heads * state_value_dim", .turned = TURNED_ALWAYS,                            \
              .values = VALUES_MINUS_EXP, .optional = true),                                       \
        VECTOR("mamba.skip", at "D", "state_heads * state_value_dim", .optional = true),           \
        LINEAR("mamba.out", at "out_proj", "dim", "state_heads * state_value_dim",                 \
               .optional = true)

#define MAMBA2(at)                                                                                 \
    LINEAR("mamba.z mamba.x mamba.b mamba.c mamba.step", at "in_proj",                             \
           "state_heads * state_value_dim + state_heads * state_value_dim + state_key_heads * "    \
           "state_key_dim + state_key_heads * state_key_dim + state_heads",                        \
           "dim", .optional = true),                                                               \
        LINEAR("mamba.out", at "out_proj", "dim", "state_heads * state_value_dim",                 \
               .optional = true),                                                                  \
        TABLE("mamba.taps", at "conv1d.weight", "state_kernel",                                    \
              "2 * state_key_heads * state_key_dim + state_heads * state_value_dim",               \
              .turned = TURNED_ALWAYS, .optional = true),                                          \
        VECTOR("mamba.taps.bias", at "conv1d.bias",                                                \
               "2 * state_key_heads * state_key_dim + state_heads * state_value_dim",              \
               .optional = true),                                                                  \
        VECTOR("mamba.decay", at "A_log", "state_heads", .values = VALUES_MINUS_EXP,               \
               .optional = true),                                                                  \
        VECTOR("mamba.step_bias", at "dt_bias", "state_heads", .optional = true),                  \
        VECTOR("mamba.skip", at "D", "state_heads", .optional = true),                             \
        VECTOR("mamba.norm", at "norm.weight", "state_heads * state_value_dim", .optional = true)

#define LATENT_ATTENTION                                                                           \
    MATRIX("wq", ".self_attn.q_proj.weight", "n_heads * head_dim", "dim", .optional = true),       \
        LINEAR("wq_a", ".self_attn.q_a_proj", "latent_q_dim", "dim", .optional = true),            \
        VECTOR("q_norm", ".self_attn.q_a_layernorm.weight", "latent_q_dim", .optional = true),     \
        MATRIX("wq_b", ".self_attn.q_b_proj.weight", "n_heads * head_dim", "latent_q_dim",         \
               .optional = true),                                                                  \
        LINEAR("wkv_a", ".self_attn.kv_a_proj_with_mqa", "latent_dim + rotary_dim", "dim"),        \
        VECTOR("kv_norm", ".self_attn.kv_a_layernorm.weight", "latent_dim"),                       \
        MATRIX("k_b.%u -", ".self_attn.kv_b_proj.weight", "unrotated_dim + value_dim",             \
               "latent_dim", .turned = TURNED_ALWAYS, .each_head = true),                          \
        MATRIX("- v_b.%u", ".self_attn.kv_b_proj.weight", "unrotated_dim + value_dim",             \
               "latent_dim", .each_head = true),                                                   \
        LINEAR("wo", ".self_attn.o_proj", "dim", "n_heads * value_dim")

/* The latent and what heads make of it. */
#define LATENTS                                                                                    \
    LINEAR("wkv_a", ".self_attn.kv_a_proj_with_mqa", "latent_dim + rotary_dim", "dim"),            \
        VECTOR("kv_norm", ".self_attn.kv_a_layernorm.weight", "latent_dim"),                       \
        MATRIX("k_b.%u -", ".self_attn.kv_b_proj.weight", "unrotated_dim + value_dim",             \
               "latent_dim", .turned = TURNED_ALWAYS, .each_head = true),                          \
        MATRIX("- v_b.%u", ".self_attn.kv_b_proj.weight", "unrotated_dim + value_dim",             \
               "latent_dim", .each_head = true),                                                   \
        LINEAR("wo", ".self_attn.o_proj", "dim", "n_heads * value_dim")

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

/* Attention whose heads have norms and an output gate, beside each head's query in q_proj. */
#define GATED_ATTENTION                                                                            \
    LINEAR("wq attention_gate", ".self_attn.q_proj", "n_heads * head_dim + n_heads * value_dim",   \
           "dim", .by = "n_heads", .optional = true),                                              \
        LINEAR("wk", ".self_attn.k_proj", "n_kv_heads * head_dim", "dim", .optional = true),       \
        LINEAR("wv", ".self_attn.v_proj", "n_kv_heads * value_dim", "dim", .optional = true),      \
        LINEAR("wo", ".self_attn.o_proj", "dim", "n_heads * value_dim", .optional = true),         \
        VECTOR("q_norm", ".self_attn.q_norm.weight", "head_dim", .values = VALUES_PLUS_ONE,        \
               .optional = true),                                                                  \
        VECTOR("k_norm", ".self_attn.k_norm.weight", "head_dim", .values = VALUES_PLUS_ONE,        \
               .optional = true)

/* Gated DeltaNet (Qwen 3.5): q, k and v in one projection, z, b and a in one each. */
#define GATED_DELTA                                                                                \
    MATRIX("delta.q delta.k delta.v", ".linear_attn.in_proj_qkv.weight",                           \
           "state_key_heads * state_key_dim + state_key_heads * state_key_dim + "                  \
           "state_heads * state_value_dim",                                                        \
           "dim", .order = ORDER_STATES, .optional = true),                                        \
        MATRIX("delta.z", ".linear_attn.in_proj_z.weight", "state_heads * state_value_dim", "dim", \
               .order = ORDER_STATES, .optional = true),                                           \
        MATRIX("delta.b", ".linear_attn.in_proj_b.weight", "state_heads", "dim",                   \
               .order = ORDER_STATES, .optional = true),                                           \
        MATRIX("delta.a", ".linear_attn.in_proj_a.weight", "state_heads", "dim",                   \
               .order = ORDER_STATES, .optional = true),                                           \
        MATRIX("delta.out", ".linear_attn.out_proj.weight", "dim",                                 \
               "state_heads * state_value_dim", .order = ORDER_STATES, .optional = true),          \
        TABLE("delta.convolution", ".linear_attn.conv1d.weight", "state_kernel",                   \
              "2 * state_key_heads * state_key_dim + state_heads * state_value_dim",               \
              .turned = TURNED_ALWAYS, .order = ORDER_STATES, .optional = true),                   \
        VECTOR("delta.decay", ".linear_attn.A_log", "state_heads", .order = ORDER_STATES,          \
               .values = VALUES_MINUS_EXP, .optional = true),                                      \
        VECTOR("delta.step_bias", ".linear_attn.dt_bias", "state_heads", .order = ORDER_STATES,    \
               .optional = true),                                                                  \
        VECTOR("delta.norm", ".linear_attn.norm.weight", "state_value_dim", .optional = true)

/* Gate and up of all experts in one tensor, down in another. */
#define GATE_UP_EXPERTS(at)                                                                        \
    MATRIX("experts.%u.w_gate experts.%u.w_up", at "gate_up_proj",                                 \
           "expert_ffn_dim + expert_ffn_dim", "dim", .optional = true),                            \
        MATRIX("experts.%u.w_down", at "down_proj", "dim", "expert_ffn_dim", .optional = true)

/* ---- Tensors of GGUF files ---- */

/* Queries, keys and values are in three tensors or fused in one. All are optional here; opening the
 * converted model fails when any is missing. */
#define GGUF_QKV                                                                                   \
    LINEAR("wq", ".attn_q", "n_heads * head_dim", "dim", .optional = true),                        \
        LINEAR("wk", ".attn_k", "n_kv_heads * head_dim", "dim", .optional = true),                 \
        LINEAR("wv", ".attn_v", "n_kv_heads * head_dim", "dim", .optional = true),                 \
        LINEAR("wq wk wv", ".attn_qkv",                                                            \
               "n_heads * head_dim + n_kv_heads * head_dim + n_kv_heads * head_dim", "dim",        \
               .optional = true),                                                                  \
        LINEAR("wo", ".attn_output", "dim", "n_heads * head_dim")

/* The attention and the norm before it. */
#define GGUF_ATTENTION                                                                             \
    NORM("attention_norm", ".attn_norm"),                                                          \
        LINEAR("wq", ".attn_q", "n_heads * head_dim", "dim", .optional = true),                    \
        LINEAR("wk", ".attn_k", "n_kv_heads * head_dim", "dim", .optional = true),                 \
        LINEAR("wv", ".attn_v", "n_kv_heads * head_dim", "dim", .optional = true),                 \
        LINEAR("wq wk wv", ".attn_qkv",                                                            \
               "n_heads * head_dim + n_kv_heads * head_dim + n_kv_heads * head_dim", "dim",        \
               .optional = true),                                                                  \
        LINEAR("wo", ".attn_output", "dim", "n_heads * head_dim")

#define GGUF_QK_HEAD_NORMS                                                                         \
    NORM("q_norm", ".attn_q_norm", "head_dim"), NORM("k_norm", ".attn_k_norm", "head_dim")

#define GGUF_SOME_QK_HEAD_NORMS                                                                    \
    NORM("q_norm", ".attn_q_norm", "head_dim", .optional = true),                                  \
        NORM("k_norm", ".attn_k_norm", "head_dim", .optional = true)

#define GGUF_QK_NORMS                                                                              \
    NORM("q_norm", ".attn_q_norm", "n_heads * head_dim"),                                          \
        NORM("k_norm", ".attn_k_norm", "n_kv_heads * head_dim")

#define GGUF_SOME_QK_WEIGHTS                                                                       \
    VECTOR("q_norm", ".attn_q_norm.weight", "n_heads * head_dim", .optional = true),               \
        VECTOR("k_norm", ".attn_k_norm.weight", "n_kv_heads * head_dim", .optional = true)

#define GGUF_OUTPUT_NORMS                                                                          \
    NORM("post_attention_norm", ".post_attention_norm"), NORM("post_ffn_norm", ".post_ffw_norm")

#define GGUF_FFN                                                                                   \
    LINEAR("w_gate", ".ffn_gate", "ffn_dim", "dim"), LINEAR("w_up", ".ffn_up", "ffn_dim", "dim"),  \
        LINEAR("w_down", ".ffn_down", "dim", "ffn_dim")

#define GGUF_UNGATED_FFN                                                                           \
    LINEAR("w_up", ".ffn_up", "ffn_dim", "dim"), LINEAR("w_down", ".ffn_down", "dim", "ffn_dim")

#define GGUF_FUSED_FFN                                                                             \
    LINEAR("w_gate w_up", ".ffn_up", "ffn_dim + ffn_dim", "dim"),                                  \
        LINEAR("w_down", ".ffn_down", "dim", "ffn_dim")

/* A layer's experts are stacked in one tensor each for gate, up and down, or gate and up are fused
 * as well; the first files have a tensor for each expert. */
#define GGUF_EXPERTS                                                                               \
    LINEAR("router", ".ffn_gate_inp", "n_experts", "dim"),                                         \
        LINEAR("experts.%u.w_gate", ".ffn_gate_exps", "expert_ffn_dim", "dim", .optional = true),  \
        LINEAR("experts.%u.w_up", ".ffn_up_exps", "expert_ffn_dim", "dim", .optional = true),      \
        LINEAR("experts.%u.w_down", ".ffn_down_exps", "dim", "expert_ffn_dim", .optional = true),  \
        LINEAR("experts.%u.w_gate experts.%u.w_up", ".ffn_gate_up_exps",                           \
               "expert_ffn_dim + expert_ffn_dim", "dim", .optional = true),                        \
        MATRIX("experts.%u.w_gate", ".ffn_gate.%u.weight", "expert_ffn_dim", "dim",                \
               .optional = true),                                                                  \
        MATRIX("experts.%u.w_up", ".ffn_up.%u.weight", "expert_ffn_dim", "dim", .optional = true), \
        MATRIX("experts.%u.w_down", ".ffn_down.%u.weight", "dim", "expert_ffn_dim",                \
               .optional = true)

/* Routed by scores: layers are dense or mixtures, and the shared expert has no gate. */
#define GGUF_ROUTED                                                                                \
    LINEAR("w_gate", ".ffn_gate", "ffn_dim", "dim", .optional = true),                             \
        LINEAR("w_up", ".ffn_up", "ffn_dim", "dim", .optional = true),                             \
        LINEAR("w_down", ".ffn_down", "dim", "ffn_dim", .optional = true),                         \
        LINEAR("router", ".ffn_gate_inp", "n_experts", "dim", .optional = true),                   \
        VECTOR("router.correction", ".exp_probs_b.bias", "n_experts", .optional = true),           \
        VECTOR("router.correction", ".exp_probs_b", "n_experts", .optional = true),                \
        LINEAR("experts.%u.w_gate", ".ffn_gate_exps", "expert_ffn_dim", "dim", .optional = true),  \
        LINEAR("experts.%u.w_up", ".ffn_up_exps", "expert_ffn_dim", "dim", .optional = true),      \
        LINEAR("experts.%u.w_down", ".ffn_down_exps", "dim", "expert_ffn_dim", .optional = true),  \
        LINEAR("experts.%u.w_gate experts.%u.w_up", ".ffn_gate_up_exps",                           \
               "expert_ffn_dim + expert_ffn_dim", "dim", .optional = true),                        \
        MATRIX("experts.%u.w_gate", ".ffn_gate.%u.weight", "expert_ffn_dim", "dim",                \
               .optional = true),                                                                  \
        MATRIX("experts.%u.w_up", ".ffn_up.%u.weight", "expert_ffn_dim", "dim", .optional = true), \
        MATRIX("experts.%u.w_down", ".ffn_down.%u.weight", "dim", "expert_ffn_dim",                \
               .optional = true),                                                                  \
        LINEAR("shared.w_gate", ".ffn_gate_shexp", "shared_ffn_dim", "dim", .optional = true),     \
        LINEAR("shared.w_up", ".ffn_up_shexp", "shared_ffn_dim", "dim", .optional = true),         \
        LINEAR("shared.w_down", ".ffn_down_shexp", "dim", "shared_ffn_dim", .optional = true)

#define GGUF_SOME_FFN                                                                              \
    LINEAR("w_gate", ".ffn_gate", "ffn_dim", "dim", .optional = true),                             \
        LINEAR("w_up", ".ffn_up", "ffn_dim", "dim", .optional = true),                             \
        LINEAR("w_down", ".ffn_down", "dim", "ffn_dim", .optional = true)

#define GGUF_SHARED_EXPERT                                                                         \
    LINEAR("shared.w_gate", ".ffn_gate_shexp", "shared_ffn_dim", "dim"),                           \
        LINEAR("shared.w_up", ".ffn_up_shexp", "shared_ffn_dim", "dim"),                           \
        LINEAR("shared.w_down", ".ffn_down_shexp", "dim", "shared_ffn_dim"),                       \
        MATRIX("shared.router", ".ffn_gate_inp_shexp.weight", "1", "dim")

/* Tensors that only some layers have; opening the converted model fails when one is missing. */
#define GGUF_SOME_ATTENTION                                                                        \
    LINEAR("wq", ".attn_q", "n_heads * head_dim", "dim", .optional = true),                        \
        LINEAR("wk", ".attn_k", "n_kv_heads * head_dim", "dim", .optional = true),                 \
        LINEAR("wv", ".attn_v", "n_kv_heads * value_dim", "dim", .optional = true),                \
        LINEAR("wo", ".attn_output", "dim", "n_heads * value_dim", .optional = true)

#define GGUF_SOME_FFN_WEIGHTS                                                                      \
    MATRIX("w_gate", ".ffn_gate.weight", "ffn_dim", "dim", .optional = true),                      \
        MATRIX("w_up", ".ffn_up.weight", "ffn_dim", "dim", .optional = true),                      \
        MATRIX("w_down", ".ffn_down.weight", "dim", "ffn_dim", .optional = true)

#define GGUF_SOME_EXPERTS                                                                          \
    MATRIX("router", ".ffn_gate_inp.weight", "n_experts", "dim", .optional = true),                \
        MATRIX("experts.%u.w_gate", ".ffn_gate_exps.weight", "expert_ffn_dim", "dim",              \
               .optional = true),                                                                  \
        MATRIX("experts.%u.w_up", ".ffn_up_exps.weight", "expert_ffn_dim", "expert_dim",           \
               .optional = true),                                                                  \
        MATRIX("experts.%u.w_down", ".ffn_down_exps.weight", "expert_dim", "expert_ffn_dim",       \
               .optional = true),                                                                  \
        MATRIX("experts.%u.w_gate experts.%u.w_up", ".ffn_gate_up_exps.weight",                    \
               "expert_ffn_dim + expert_ffn_dim", "dim", .optional = true),                        \
        MATRIX("shared.w_gate", ".ffn_gate_shexp.weight", "shared_ffn_dim", "dim",                 \
               .optional = true),                                                                  \
        MATRIX("shared.w_up", ".ffn_up_shexp.weight", "shared_ffn_dim", "dim", .optional = true),  \
        MATRIX("shared.w_down", ".ffn_down_shexp.weight", "dim", "shared_ffn_dim",                 \
               .optional = true),                                                                  \
        MATRIX("shared.router", ".ffn_gate_inp_shexp.weight", "1", "dim", .optional = true)

/* Gated DeltaNet beside gated attention, as the converter of Qwen 3.5 has them: heads of states
 * are tiled. */
#define GGUF_GATED_LAYER                                                                           \
    MATRIX("wq attention_gate", ".attn_q.weight", "n_heads * head_dim + n_heads * value_dim",      \
           "dim", .by = "n_heads", .optional = true),                                              \
        MATRIX("wk", ".attn_k.weight", "n_kv_heads * head_dim", "dim", .optional = true),          \
        MATRIX("wv", ".attn_v.weight", "n_kv_heads * value_dim", "dim", .optional = true),         \
        MATRIX("wo", ".attn_output.weight", "dim", "n_heads * value_dim", .optional = true),       \
        VECTOR("q_norm", ".attn_q_norm.weight", "head_dim", .optional = true),                     \
        VECTOR("k_norm", ".attn_k_norm.weight", "head_dim", .optional = true),                     \
        MATRIX(                                                                                    \
            "delta.q delta.k delta.v", ".attn_qkv.weight",                                         \
            "state_key_heads * state_key_dim + state_key_heads * state_key_dim + state_heads * "   \
            "state_value_dim",                                                                     \
            "dim", .optional = true, .order = ORDER_TILED_STATES),                                 \
        MATRIX("delta.z", ".attn_gate.weight", "state_heads * state_value_dim", "dim",             \
               .order = ORDER_TILED_STATES, .optional = true),                                     \
        MATRIX("delta.out", ".ssm_out.weight", "dim", "state_heads * state_value_dim",             \
               .order = ORDER_TILED_STATES, .optional = true),                                     \
        TABLE("delta.convolution", ".ssm_conv1d.weight", "state_kernel",                           \
              "2 * state_key_heads * state_key_dim + state_heads * state_value_dim",               \
              .turned = TURNED_ALWAYS, .order = ORDER_TILED_STATES, .optional = true),             \
        VECTOR("delta.decay", ".ssm_a", "state_heads", .order = ORDER_TILED_STATES,                \
               .optional = true),                                                                  \
        VECTOR("delta.step_bias", ".ssm_dt.bias", "state_heads", .order = ORDER_TILED_STATES,      \
               .optional = true),                                                                  \
        VECTOR("delta.norm", ".ssm_norm.weight", "state_value_dim", .optional = true),             \
        MATRIX("delta.b", ".ssm_beta.weight", "state_heads", "dim", .order = ORDER_TILED_STATES,   \
               .optional = true),                                                                  \
        MATRIX("delta.a", ".ssm_alpha.weight", "state_heads", "dim", .order = ORDER_TILED_STATES,  \
               .optional = true)

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

#define GGUF_MAMBA                                                                                 \
    LINEAR("mamba.x mamba.z", ".ssm_in",                                                           \
           "state_heads * state_value_dim + state_heads * state_value_dim", "dim",                 \
           .optional = true),                                                                      \
        TABLE("mamba.taps", ".ssm_conv1d.weight", "state_kernel", "state_heads * state_value_dim", \
              .turned = TURNED_ALWAYS, .optional = true),                                          \
        VECTOR("mamba.taps.bias", ".ssm_conv1d.bias", "state_heads * state_value_dim",             \
               .optional = true),                                                                  \
        MATRIX("mamba.rank mamba.b mamba.c", ".ssm_x.weight",                                      \
               "state_rank + state_key_heads * state_key_dim + state_key_heads * state_key_dim",   \
               "state_heads * state_value_dim", .optional = true),                                 \
        VECTOR("mamba.rank_norm", ".ssm_dt_norm.weight", "state_rank", .optional = true),          \
        VECTOR("mamba.b_norm", ".ssm_b_norm.weight", "state_key_heads * state_key_dim",            \
               .optional = true),                                                                  \
        VECTOR("mamba.c_norm", ".ssm_c_norm.weight", "state_key_heads * state_key_dim",            \
               .optional = true),                                                                  \
        MATRIX("mamba.step", ".ssm_dt.weight", "state_heads * state_value_dim", "state_rank",      \
               .optional = true),                                                                  \
        VECTOR("mamba.step_bias", ".ssm_dt.bias", "state_heads * state_value_dim",                 \
               .optional = true),                                                                  \
        TABLE("mamba.decay", ".ssm_a", "state_key_heads * state_key_dim",                          \
              "state_heads * state_value_dim", .turned = TURNED_ALWAYS, .optional = true),         \
        VECTOR("mamba.skip", ".ssm_d", "state_heads * state_value_dim", .optional = true),         \
        LINEAR("mamba.out", ".ssm_out", "dim", "state_heads * state_value_dim", .optional = true)

#define GGUF_MAMBA2                                                                                \
    LINEAR("mamba.z mamba.x mamba.b mamba.c mamba.step", ".ssm_in",                                \
           "state_heads * state_value_dim + state_heads * state_value_dim + state_key_heads * "    \
           "state_key_dim + state_key_heads * state_key_dim + state_heads",                        \
           "dim", .optional = true),                                                               \
        LINEAR("mamba.out", ".ssm_out", "dim", "state_heads * state_value_dim", .optional = true), \
        TABLE("mamba.taps", ".ssm_conv1d.weight", "state_kernel",                                  \
              "2 * state_key_heads * state_key_dim + state_heads * state_value_dim",               \
              .turned = TURNED_ALWAYS, .optional = true),                                          \
        VECTOR("mamba.taps.bias", ".ssm_conv1d.bias",                                              \
               "2 * state_key_heads * state_key_dim + state_heads * state_value_dim",              \
               .optional = true),                                                                  \
        VECTOR("mamba.decay", ".ssm_a", "state_heads", .optional = true),                          \
        VECTOR("mamba.step_bias", ".ssm_dt.bias", "state_heads", .optional = true),                \
        VECTOR("mamba.skip", ".ssm_d", "state_heads", .optional = true),                           \
        VECTOR("mamba.norm", ".ssm_norm.weight", "state_heads * state_value_dim",                  \
               .optional = true)

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

/* Hyper-connections: the maps of each block with `scales` scales, and those behind the last layer.
 */
#define GGUF_HYPER(scales)                                                                         \
    MATRIX("hyper.attention", ".hc_attn_fn.weight", "hyper_maps", "altup_streams * dim"),          \
        VECTOR("hyper.attention.base", ".hc_attn_base.weight", "hyper_maps"),                      \
        VECTOR("hyper.attention.scale", ".hc_attn_scale.weight", scales),                          \
        MATRIX("hyper.ffn", ".hc_ffn_fn.weight", "hyper_maps", "altup_streams * dim"),             \
        VECTOR("hyper.ffn.base", ".hc_ffn_base.weight", "hyper_maps"),                             \
        VECTOR("hyper.ffn.scale", ".hc_ffn_scale.weight", scales)

#define GGUF_HYPER_END                                                                             \
    MATRIX("hyper.end", "output_hc_fn.weight", "altup_streams", "altup_streams * dim"),            \
        VECTOR("hyper.end.base", "output_hc_base.weight", "altup_streams"),                        \
        VECTOR("hyper.end.scale", "output_hc_scale.weight", "1")

#define GGUF_END                                                                                   \
    NORM("final_norm", "output_norm"), LINEAR("output", "output", "vocab_size", "dim",             \
                                              .same_as = "token_embedding", .if_tied = true)

#endif
