/* The table of families: what each model_type of transformers is, in terms of the one Config,
 * and under which names its weights stand in a Hugging Face directory.
 *
 * A family is an entry here: which keys of config.json fill which fields, what the fields are
 * that no key tells, and the rules for its tensors. What follows for all families (defaults of
 * head_dim, positions, end-of-text ids) is in huggingface.c. */
#ifndef FORMATS_FAMILIES_H
#define FORMATS_FAMILIES_H

#include <jansson.h>
#include <math.h>

#include "formats/rules.h"

/* The field gets the value of the first of `keys` (separated by '|') that is there, else
 * `absent`; NAN: the key is required. An activation is given by its name in transformers. */
typedef struct ConfigRule {
    const char *keys, *field;
    double absent;
} ConfigRule;

#define REQUIRED NAN

typedef struct Family {
    const char *model_type;
    const ConfigRule *config;       /* up to one whose `keys` is NULL */
    const TensorRule *tensors;      /* up to one whose `to` is NULL */
    void (*preset)(Config *config); /* fields before the keys are read; or NULL */
    /* What keys say in words of their own; after the keys and the defaults. May be NULL. */
    Status (*finish)(const json_t *json, Config *config, Error *error);
    /* Tensors that no rule can say; may be NULL. */
    Status (*more)(const RuleContext *context, const json_t *json, Error *error);
    bool tied;                  /* tie_word_embeddings where the key is absent */
    int32_t bos_id, eos_id;     /* where the keys are absent; -1: none */
    double local_rope_theta;    /* of layers with rope_table 1 */
    bool sinusoid_ends_at_base; /* the last frequency is 1 / base: XGLM */
    bool alibi_is_scaled;       /* the slopes times attention_scale: Falcon */
} Family;

/* The tables: llama and its relatives, the GPTs and their time, mixtures of experts. Each ends
 * with an entry without a model_type. */
extern const Family families_llama[], families_gpt[], families_experts[];

/* NULL: not known. */
const Family *family_find(const char *model_type);

/* "llama, mistral, ...": for the message that refuses another. */
void family_names(char *text, size_t size);

/* Fills config from json as the family says. */
Status family_configure(const Family *family, const json_t *json, Config *config, Error *error);

/* For the tables' own functions. */

/* Sets the window of every layer: sliding_window (absent: `absent`; null: none) for the layers
 * that layer_types names, without it for those from `first` on whose number, counted from 1, is
 * no multiple of `pattern` (0: all). */
Status family_windows(const json_t *json, Config *config, double absent, uint32_t first,
                      uint32_t pattern, Error *error);

/* Refuses, by its name, a switch that is not as `expected` (which is what its absence means). */
Status family_refuse(const json_t *json, const char *key, bool expected, Error *error);

/* Tables of tensors: a matrix with its bias if there is one, a norm, parts of fused matrices. */
#define LINEAR(to, from, rows, cols)                                                               \
    {to, from ".weight", rows, cols, 0, {0}, {0}}, {                                               \
        to ".bias", from ".bias", N_ONE, rows, RULE_OPTIONAL, {0}, {                               \
            0                                                                                      \
        }                                                                                          \
    }
#define NORM_OF(to, from, n)                                                                       \
    {to, from ".weight", N_ONE, n, 0, {0}, {0}}, {                                                 \
        to ".bias", from ".bias", N_ONE, n, RULE_OPTIONAL, {0}, {                                  \
            0                                                                                      \
        }                                                                                          \
    }
#define NORM(to, from) NORM_OF(to, from, N_DIM)
#define PART(to, from, rows, cols, flags, ...)                                                     \
    {to, from ".weight", rows, cols, flags, __VA_ARGS__}, {                                        \
        to ".bias", from ".bias", N_ONE, rows, (flags) | RULE_OPTIONAL, __VA_ARGS__                \
    }
/* q, k and v one behind another, each with all its heads. */
#define FUSED_QKV(from, flags)                                                                     \
    PART("wq", from, N_Q, N_DIM, flags, {N_NONE}, {N_Q, N_KV, N_KV}),                              \
        PART("wk", from, N_KV, N_DIM, flags, {N_Q}, {N_Q, N_KV, N_KV}),                            \
        PART("wv", from, N_KV, N_DIM, flags, {N_Q, N_KV}, {N_Q, N_KV, N_KV})
/* For each key/value head its queries, its key, its value. */
#define GROUPED_QKV(from)                                                                          \
    PART("wq", from, N_Q, N_DIM, RULE_GROUPED, {N_NONE}, {N_Q, N_KV, N_KV}),                       \
        PART("wk", from, N_KV, N_DIM, RULE_GROUPED, {N_GROUP}, {N_Q, N_KV, N_KV}),                 \
        PART("wv", from, N_KV, N_DIM, RULE_GROUPED, {N_GROUP, N_HEAD}, {N_Q, N_KV, N_KV})
#define FUSED_GATE_UP(from)                                                                        \
    PART("w_gate", from, N_FFN, N_DIM, 0, {N_NONE}, {N_FFN, N_FFN}),                               \
        PART("w_up", from, N_FFN, N_DIM, 0, {N_FFN}, {N_FFN, N_FFN})
#define OUTPUT(from)                                                                               \
    {"output", from ".weight", N_VOCAB, N_DIM, RULE_TIED, {0}, {0}}, {                             \
        "output.bias", from ".bias", N_ONE, N_VOCAB, RULE_OPTIONAL, {0}, {                         \
            0                                                                                      \
        }                                                                                          \
    }
#define EMBEDDING(from)                                                                            \
    {                                                                                              \
        "token_embedding", from ".weight", N_VOCAB, N_DIM, 0, {0}, {                               \
            0                                                                                      \
        }                                                                                          \
    }

/* What most families since llama have in common. */
#define SEPARATE_QKV(at)                                                                           \
    LINEAR("wq", at "q_proj", N_Q, N_DIM), LINEAR("wk", at "k_proj", N_KV, N_DIM),                 \
        LINEAR("wv", at "v_proj", N_KV, N_DIM)
#define LLAMA_ATTENTION                                                                            \
    SEPARATE_QKV("model.layers.%u.self_attn."),                                                    \
        LINEAR("wo", "model.layers.%u.self_attn.o_proj", N_DIM, N_Q)
#define LLAMA_FFN                                                                                  \
    LINEAR("w_gate", "model.layers.%u.mlp.gate_proj", N_FFN, N_DIM),                               \
        LINEAR("w_up", "model.layers.%u.mlp.up_proj", N_FFN, N_DIM),                               \
        LINEAR("w_down", "model.layers.%u.mlp.down_proj", N_DIM, N_FFN)
#define LLAMA_NORMS                                                                                \
    NORM("attention_norm", "model.layers.%u.input_layernorm"),                                     \
        NORM("ffn_norm", "model.layers.%u.post_attention_layernorm")
#define LLAMA_EMBEDDING EMBEDDING("model.embed_tokens")
#define LLAMA_END NORM("final_norm", "model.norm"), OUTPUT("lm_head")

/* Keys that almost every family calls the same. */
#define SIZE_KEYS                                                                                  \
    {"vocab_size", "vocab_size", REQUIRED}, {"hidden_size", "dim", REQUIRED},                      \
        {"intermediate_size", "ffn_dim", REQUIRED}, {"num_hidden_layers", "n_layers", REQUIRED}, { \
        "num_attention_heads", "n_heads", REQUIRED                                                 \
    }

#endif
