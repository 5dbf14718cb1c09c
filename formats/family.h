/* What an entry of the table of families is made of. A family is what one model_type of
 * transformers means in terms of the one Config: which keys of config.json fill which fields, which
 * values the fields have that no key gives, and the rules for its tensors in a Hugging Face
 * directory.
 *
 * The entries are in families_llama.c, families_gpt.c and families_experts.c; families.h finds one.
 * What all families have in common (end-of-text ids, position tables, ...) is in huggingface.c. */
#ifndef FORMATS_FAMILY_H
#define FORMATS_FAMILY_H

#include <jansson.h>
#include <math.h>

#include "formats/tensor_rules.h"

/* Sets the field of Config called `field` to the value of the first of `keys` (separated by '|')
 * that config.json has, or to `absent` when it has none of them. NAN: one of the keys is required.
 * An activation is given by its name in transformers. */
typedef struct ConfigRule {
    const char *keys, *field;
    double absent;
} ConfigRule;

#define REQUIRED NAN

typedef struct Family {
    const char *model_type;
    const ConfigRule *config;       /* ends with a rule whose `keys` is NULL */
    const TensorRule *tensors;      /* ends with a rule whose `to` is NULL */
    void (*preset)(Config *config); /* sets fields before the keys are read; may be NULL */
    /* Reads keys that a ConfigRule cannot describe; runs after the rules and the defaults. May be
     * NULL. */
    Status (*finish)(const json_t *json, Config *config, Error *error);
    /* Adds tensors that a TensorRule cannot describe; may be NULL. */
    Status (*more)(const RuleContext *context, const json_t *json, Error *error);
    bool tied;                  /* tie_word_embeddings where the key is absent */
    int32_t bos_id, eos_id;     /* where the keys are absent; -1: none */
    double local_rope_theta;    /* RoPE base of the layers with rope_table 1 */
    bool sinusoid_ends_at_base; /* the last sinusoid's frequency is 1 / base: XGLM */
    bool alibi_is_scaled;       /* the slopes are multiplied by attention_scale: Falcon */
} Family;

/* The tables, each in the file of its name: llama and its relatives, the GPTs and their time,
 * mixtures of experts. Each ends with an entry without a model_type. */
extern const Family families_llama[], families_gpt[], families_experts[];

/* Fills config from json as the family says. */
Status family_configure(const Family *family, const json_t *json, Config *config, Error *error);

/* ---- For `finish` functions ---- */

/* Sets every layer's window to sliding_window (`absent` where the key is absent; null: no window)
 * or 0. The layers with a window are those that layer_types calls sliding; without layer_types
 * those from `first` on, except every pattern-th layer, counted from 1 (pattern 0: no exception).
 */
Status family_windows(const json_t *json, Config *config, double absent, uint32_t first,
                      uint32_t pattern, Error *error);

/* Reads sliding_window_pattern (`absent` where the key is absent): every *pattern-th layer has full
 * attention, without a window. */
Status family_pattern(const json_t *json, uint32_t absent, uint32_t *pattern, Error *error);

/* Sets rotary_dim to the part of each head that is rotated: partial_rotary_factor of
 * rope_parameters, or `key`, or `absent`. */
Status family_rotary_part(const json_t *json, Config *config, const char *key, double absent,
                          Error *error);

/* Granite: the logits are divided by logits_scaling. */
Status family_divide_logits(const json_t *json, Config *config, Error *error);

/* Refuses the model, naming the switch, unless the switch is `expected` or absent. */
Status family_refuse(const json_t *json, const char *key, bool expected, Error *error);

/* ---- Rules that most families since llama share ---- */

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

#define SIZE_KEYS                                                                                  \
    {"vocab_size", "vocab_size", REQUIRED}, {"hidden_size", "dim", REQUIRED},                      \
        {"intermediate_size", "ffn_dim", REQUIRED}, {"num_hidden_layers", "n_layers", REQUIRED}, { \
        "num_attention_heads", "n_heads", REQUIRED                                                 \
    }
/* Granite's multipliers of the embedding, the scores and the residual. */
#define GRANITE_KEYS                                                                               \
    {"embedding_multiplier", "embedding_scale", 1},                                                \
        {"attention_multiplier", "attention_scale", 1}, {                                          \
        "residual_multiplier", "residual_scale", 1                                                 \
    }

#endif
