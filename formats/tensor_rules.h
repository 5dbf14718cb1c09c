/* Shorthands for the tables of TensorRules in the families' files: a matrix with its bias, a norm,
 * the parts of fused matrices. Biases are optional here; RuleContext.biases says which may exist.
 */
#ifndef FORMATS_TENSOR_RULES_H
#define FORMATS_TENSOR_RULES_H

#include "formats/rules.h"

/* One tensor that may be missing, by its full name. */
#define OPTIONAL(to, from, rows, cols)                                                             \
    {                                                                                              \
        to, from, rows, cols, RULE_OPTIONAL, {0}, {                                                \
            0                                                                                      \
        }                                                                                          \
    }
/* A part of a matrix: `...` is {rows to skip} and {rows of all parts}, as in TensorRule. */
#define PART(to, from, rows, cols, flags, ...)                                                     \
    {to, from ".weight", rows, cols, flags, __VA_ARGS__}, {                                        \
        to ".bias", from ".bias", N_ONE, rows, (flags) | RULE_OPTIONAL, __VA_ARGS__                \
    }
#define LINEAR(to, from, rows, cols) PART(to, from, rows, cols, 0, {0}, {0})
#define OPTIONAL_LINEAR(to, from, rows, cols)                                                      \
    OPTIONAL(to, from ".weight", rows, cols), OPTIONAL(to ".bias", from ".bias", N_ONE, rows)
#define NORM_OF(to, from, n)                                                                       \
    {to, from ".weight", N_ONE, n, 0, {0}, {0}}, OPTIONAL(to ".bias", from ".bias", N_ONE, n)
#define NORM(to, from) NORM_OF(to, from, N_DIM)
#define OPTIONAL_NORM(to, from, n)                                                                 \
    OPTIONAL(to, from ".weight", N_ONE, n), OPTIONAL(to ".bias", from ".bias", N_ONE, n)
/* Rules for one matrix with q, k and v one after another, each with all its heads. */
#define FUSED_QKV(from, flags)                                                                     \
    PART("wq", from, N_Q, N_DIM, flags, {N_NONE}, {N_Q, N_KV, N_KV}),                              \
        PART("wk", from, N_KV, N_DIM, flags, {N_Q}, {N_Q, N_KV, N_KV}),                            \
        PART("wv", from, N_KV, N_DIM, flags, {N_Q, N_KV}, {N_Q, N_KV, N_KV})
/* Rules for one matrix that holds, for each key/value head, its queries, its key and its value. */
#define GROUPED_QKV(from)                                                                          \
    PART("wq", from, N_Q, N_DIM, RULE_GROUPED, {N_NONE}, {N_Q, N_KV, N_KV}),                       \
        PART("wk", from, N_KV, N_DIM, RULE_GROUPED, {N_GROUP}, {N_Q, N_KV, N_KV}),                 \
        PART("wv", from, N_KV, N_DIM, RULE_GROUPED, {N_GROUP, N_HEAD}, {N_Q, N_KV, N_KV})
#define FUSED_GATE_UP(from)                                                                        \
    PART("w_gate", from, N_FFN, N_DIM, 0, {N_NONE}, {N_FFN, N_FFN}),                               \
        PART("w_up", from, N_FFN, N_DIM, 0, {N_FFN}, {N_FFN, N_FFN})
#define OUTPUT(from)                                                                               \
    {"output", from ".weight", N_VOCAB, N_DIM, RULE_TIED, {0}, {0}},                               \
        OPTIONAL("output.bias", from ".bias", N_ONE, N_VOCAB)
#define EMBEDDING(from)                                                                            \
    {                                                                                              \
        "token_embedding", from ".weight", N_VOCAB, N_DIM, 0, {0}, {                               \
            0                                                                                      \
        }                                                                                          \
    }

#endif
