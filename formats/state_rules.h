/* Shorthands for families some of whose layers keep a state: tensors that only some layers have,
 * and helpers for `finish` functions. */
#ifndef FORMATS_STATE_RULES_H
#define FORMATS_STATE_RULES_H

#include "formats/expert_rules.h"

/* ---- Tensors ---- */

/* One tensor that only some layers have; opening the converted model fails when one is missing. */
#define SOME(to, from, rows, cols, flags, ...)                                                     \
    { to, FROM_LAYER from, rows, cols, RULE_OPTIONAL | (flags), __VA_ARGS__ }
#define SOME_MATRIX(to, from, rows, cols) SOME(to, from ".weight", rows, cols, 0, {0}, {0})
#define SOME_VECTOR(to, from, n) SOME(to, from, N_ONE, n, 0, {0}, {0})

/* A matrix and its bias, or a part of both. */
#define SOME_LINEAR(to, from, rows, cols) SOME_PART(to, from, rows, cols, {0}, {0})
#define SOME_PART(to, from, rows, cols, ...)                                                       \
    PART(to, FROM_LAYER from, rows, cols, RULE_OPTIONAL, __VA_ARGS__)
#define SOME_QKV                                                                                   \
    SOME_LINEAR("wq", "self_attn.q_proj", N_Q, N_DIM),                                             \
        SOME_LINEAR("wk", "self_attn.k_proj", N_KV, N_DIM),                                        \
        SOME_LINEAR("wv", "self_attn.v_proj", N_V, N_DIM)

#define LFM2_CONVOLUTION                                                                           \
    SOME_PART("convolution.b", "conv.in_proj", N_DIM, N_DIM, {N_NONE}, {N_DIM, N_DIM, N_DIM}),     \
        SOME_PART("convolution.c", "conv.in_proj", N_DIM, N_DIM, {N_DIM}, {N_DIM, N_DIM, N_DIM}),  \
        SOME_PART("convolution.x", "conv.in_proj", N_DIM, N_DIM, {N_DIM, N_DIM},                   \
                  {N_DIM, N_DIM, N_DIM}),                                                          \
        SOME_LINEAR("convolution.out", "conv.out_proj", N_DIM, N_DIM),                             \
        SOME("convolution.taps", "conv.conv.weight", N_STATE_TAPS, N_DIM,                          \
             RULE_VECTOR | RULE_TRANSPOSED, {0}, {0}),                                             \
        SOME_VECTOR("convolution.taps.bias", "conv.conv.bias", N_DIM)
#define LFM2_FFN                                                                                   \
    SOME_MATRIX("w_gate", "feed_forward.w1", N_FFN, N_DIM),                                        \
        SOME_MATRIX("w_up", "feed_forward.w3", N_FFN, N_DIM),                                      \
        SOME_MATRIX("w_down", "feed_forward.w2", N_DIM, N_FFN)

/* ---- Delta attention with decays by key ---- */

#define KIMI_DELTA                                                                                 \
    SOME_MATRIX("delta.q", "self_attn.q_proj", N_STATE_KEYS, N_DIM),                               \
        SOME_MATRIX("delta.k", "self_attn.k_proj", N_STATE_KEYS, N_DIM),                           \
        SOME_MATRIX("delta.v", "self_attn.v_proj", N_STATE_OUT, N_DIM),                            \
        SOME_MATRIX("delta.a_low", "self_attn.f_a_proj", N_STATE_VALUE, N_DIM),                    \
        SOME_MATRIX("delta.a", "self_attn.f_b_proj", N_STATE_KEYS, N_STATE_VALUE),                 \
        SOME_MATRIX("delta.z_low", "self_attn.g_a_proj", N_STATE_VALUE, N_DIM),                    \
        SOME_MATRIX("delta.z", "self_attn.g_b_proj", N_STATE_OUT, N_STATE_VALUE),                  \
        SOME_MATRIX("delta.b", "self_attn.b_proj", N_STATE_HEADS, N_DIM),                          \
        SOME_MATRIX("delta.out", "self_attn.o_proj", N_DIM, N_STATE_OUT),                          \
        SOME("delta.convolution", "self_attn.conv1d.weight", N_STATE_TAPS, N_STATE_MIXED,          \
             RULE_VECTOR | RULE_TRANSPOSED, {0}, {0}),                                             \
        SOME("delta.decay", "self_attn.A_log", N_ONE, N_STATE_HEADS, RULE_MINUS_EXP, {0}, {0}),    \
        SOME_VECTOR("delta.step_bias", "self_attn.dt_bias", N_STATE_KEYS),                         \
        SOME_VECTOR("delta.norm", "self_attn.o_norm.weight", N_STATE_VALUE)

/* ---- Mamba 2 ---- */

#define MAMBA_IN " mamba.z mamba.x mamba.b mamba.c mamba.step mamba.out "
/* in_proj holds z, x, B, C and the steps one after another. */
#define MAMBA_ALL                                                                                  \
    { N_STATE_OUT, N_STATE_MIXED, N_STATE_HEADS }
#define MAMBA2(at)                                                                                 \
    SOME_PART("mamba.z", at "in_proj", N_STATE_OUT, N_DIM, {N_NONE}, MAMBA_ALL),                   \
        SOME_PART("mamba.x", at "in_proj", N_STATE_OUT, N_DIM, {N_STATE_OUT}, MAMBA_ALL),          \
        SOME_PART("mamba.b", at "in_proj", N_STATE_KEYS, N_DIM, {N_STATE_OUT, N_STATE_OUT},        \
                  MAMBA_ALL),                                                                      \
        SOME_PART("mamba.c", at "in_proj", N_STATE_KEYS, N_DIM, {N_STATE_OUTS, N_STATE_KEYS},      \
                  MAMBA_ALL),                                                                      \
        SOME_PART("mamba.step", at "in_proj", N_STATE_HEADS, N_DIM, {N_STATE_OUT, N_STATE_MIXED},  \
                  MAMBA_ALL),                                                                      \
        SOME_LINEAR("mamba.out", at "out_proj", N_DIM, N_STATE_OUT),                               \
        SOME("mamba.taps", at "conv1d.weight", N_STATE_TAPS, N_STATE_MIXED,                        \
             RULE_VECTOR | RULE_TRANSPOSED, {0}, {0}),                                             \
        SOME_VECTOR("mamba.taps.bias", at "conv1d.bias", N_STATE_MIXED),                           \
        SOME("mamba.decay", at "A_log", N_ONE, N_STATE_HEADS, RULE_MINUS_EXP, {0}, {0}),           \
        SOME_VECTOR("mamba.step_bias", at "dt_bias", N_STATE_HEADS),                               \
        SOME_VECTOR("mamba.skip", at "D", N_STATE_HEADS),                                          \
        SOME_VECTOR("mamba.norm", at "norm.weight", N_STATE_OUT)

/* ---- For `finish` functions ---- */

/* What a name in layer_types means. */
typedef struct KindName {
    const char *name;
    LayerKindNumber kind;
} KindName;

/* Sets layer_kind from layer_types; names[] ends with one without a name. */
Status state_read_kinds(const json_t *types, const KindName *names, Config *config, Error *error);

/* Reads a number of config.json that must be whole and at least 1. */
Status state_read_whole(const json_t *json, const char *key, double absent, uint32_t *out,
                        Error *error);

/* Reads the sizes of delta attention with keys as wide as values, which linear_attn_config may hold
 * under names of its own. `heads`: how many where no key says it. */
Status state_linear_sizes(const json_t *json, double heads, Config *config, Error *error);

/* Mamba 2: refuses a time_step_limit, which transformers applies to prompts and not to the tokens
 * after them. */
Status state_no_step_limit(const json_t *json, Error *error);

#endif
