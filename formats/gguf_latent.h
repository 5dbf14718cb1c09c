/* Latent attention in GGUF files: its tensors, and the fields of Config that its keys give. */
#ifndef FORMATS_GGUF_LATENT_H
#define FORMATS_GGUF_LATENT_H

#include "formats/gguf_family.h"
#include "formats/tensor_rules.h"

/* attn_kv_b, which makes keys and values of the latent, is split in newer files, and its part for
 * keys transposed. */
#define HEADS(to, from, rows, cols, flags, ...)                                                    \
    { to, from ".weight", rows, cols, RULE_OPTIONAL | RULE_HEADS | (flags), __VA_ARGS__ }
#define LATENT_ATTENTION                                                                           \
    OPTIONAL("wq", "blk.%u.attn_q.weight", N_Q, N_DIM),                                            \
        OPTIONAL_LINEAR("wq_a", "blk.%u.attn_q_a", N_LATENT_Q, N_DIM),                             \
        OPTIONAL("q_norm", "blk.%u.attn_q_a_norm.weight", N_ONE, N_LATENT_Q),                      \
        OPTIONAL("wq_b", "blk.%u.attn_q_b.weight", N_Q, N_LATENT_Q),                               \
        LINEAR("wkv_a", "blk.%u.attn_kv_a_mqa", N_LATENT_KV, N_DIM),                               \
        OPTIONAL("kv_norm", "blk.%u.attn_kv_a_norm.weight", N_ONE, N_LATENT),                      \
        HEADS("k_b.%u", "blk.%u.attn_kv_b", N_LATENT, N_REST, RULE_TRANSPOSED, {N_NONE},           \
              {N_REST, N_VALUE}),                                                                  \
        HEADS("v_b.%u", "blk.%u.attn_kv_b", N_VALUE, N_LATENT, 0, {N_REST}, {N_REST, N_VALUE}),    \
        HEADS("k_b.%u", "blk.%u.attn_k_b", N_LATENT, N_REST, 0, {N_NONE}, {0}),                    \
        HEADS("v_b.%u", "blk.%u.attn_v_b", N_VALUE, N_LATENT, 0, {N_NONE}, {0}),                   \
        LINEAR("wo", "blk.%u.attn_output", N_DIM, N_OUT)

/* Reads the widths and makes all layers LAYER_LATENT. attention.key_length is that of a whole key
 * (of a split file: key_length_mla) and rope.dimension_count its rotated part. */
Status gguf_latent_finish(const GgufModel *model, Config *config);

#endif
