/* What an entry of the table of families is made of. A family is what one model_type of
 * transformers means in terms of the one Config: which keys of config.json fill which fields, which
 * values the fields have that no key gives, and the rules for its tensors in a Hugging Face
 * directory.
 *
 * The entries are in families_*.c; families.h finds one. What all families have in common
 * (end-of-text ids, position tables, ...) is in huggingface.c. */
#ifndef FORMATS_FAMILY_H
#define FORMATS_FAMILY_H

#include <jansson.h>
#include <math.h>

#include "formats/prediction.h"
#include "formats/rope.h"
#include "formats/tensor_rules.h"

/* What a family does not read, it ignores, as its class in transformers does: a key that only
 * another family has means nothing here. So every key of the family's class stands in one of its
 * rules, is read by `finish` or `more`, or is a FixedKey. tests/fixtures/random_configs.py checks
 * that, and that absent keys mean what they mean in transformers. */

/* Sets the field of Config called `field` to the value of the first of `keys` (separated by '|')
 * that config.json has, or to `absent` when it has none of them. NAN: one of the keys is required.
 * null is 0 in fields whose 0 means "as other fields say" or "none", and refused elsewhere. An
 * activation is given by its name in transformers. */
typedef struct ConfigRule {
    const char *keys, *field;
    double absent;
} ConfigRule;

#define REQUIRED NAN

/* A key that must be absent, null or `value` (JSON), because this program cannot compute the
 * others. */
typedef struct FixedKey {
    const char *key, *value;
} FixedKey;

/* The matrices (or norms, by their `to` in the TensorRules, between spaces) that have a bias where
 * the switch `key` is true; `absent` is the switch where config.json lacks it. key NULL: they
 * always have one. A bias that is missing from the file is zero, as in transformers; one that the
 * model does not have is refused. */
typedef struct BiasRule {
    const char *matrices, *key;
    bool absent;
} BiasRule;

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
    const BiasRule *biases; /* ends with a rule whose `matrices` is NULL; NULL: no matrix has one */
    const FixedKey *fixed;  /* ends with one whose `key` is NULL; may be NULL */
    RopeKeys rope;
    bool reads_text_alone;      /* parts for images or sound are left out, which a note says */
    PredictionForm prediction;  /* how checkpoints hold prediction layers */
    bool norms_have_no_bias;    /* although they are layer norms */
    bool any_biases;            /* those that the source has are taken; `biases` is not read */
    bool has_layer_config;      /* `finish` reads per_layer_config */
    bool tied;                  /* tie_word_embeddings where the key is absent */
    const char *tied_key;       /* key that counts before tie_word_embeddings; NULL: none */
    int32_t bos_id, eos_id;     /* where the keys are absent; -1: none */
    int32_t more_eos_ids[2];    /* beside eos_id; 0: none. With these, null means absent */
    bool sinusoid_ends_at_base; /* the last sinusoid's frequency is 1 / base: XGLM */
    bool alibi_is_scaled;       /* the slopes are multiplied by attention_scale: Falcon */
} Family;

/* The tables, each in the file of its name: llama and its relatives, the GPTs and their time,
 * mixtures of experts by a softmax, by scores, and by scores with norms around each block;
 * relatives of llama since 2025, the text half of models of images and sound, mixtures since 2024;
 * layers with a state; Gemma 3n and 4; latent attention; more layers with a state; Mamba; residual
 * streams that mix; latent attention with indexers of the layer's input; attention to blocks;
 * ERNIE 4.5's mixtures. Each ends with an entry without a model_type. */
extern const Family families_llama[], families_gpt[], families_experts[], families_routed[];
extern const Family families_scored[], families_recent[], families_vision[], families_mixtures[];
extern const Family families_state[], families_gemma[], families_latent[], families_linear[];
extern const Family families_mamba[], families_streams[], families_indexed[], families_blocks[];
extern const Family families_ernie[];

/* Fills config from json as the family says. */
Status family_configure(const Family *family, const json_t *json, Config *config, Error *error);

enum { FAMILY_BIASES_BYTES = 256 };
/* Writes RuleContext.biases for this config.json. */
void family_biases(const Family *family, const json_t *json, const Config *config,
                   char out[FAMILY_BIASES_BYTES]);

/* ---- For `finish` functions ---- */

/* Sets every layer's window to sliding_window (`absent` where the key is absent; null: no window)
 * or 0. The layers with a window are those that `layer_types` (NULL: none) calls sliding; without
 * it those from `first` on, except every pattern-th layer, counted from 1 (pattern 0: no
 * exception).
 */
Status family_windows(const json_t *json, const json_t *layer_types, Config *config, double absent,
                      uint32_t first, uint32_t pattern, Error *error);

/* Refuses layers that layer_types calls sliding: for models whose use_sliding_window is false. */
Status family_no_windows(const json_t *json, Error *error);

/* Reads sliding_window_pattern (`absent` where the key is absent): every *pattern-th layer has full
 * attention, without a window. */
Status family_pattern(const json_t *json, uint32_t absent, uint32_t *pattern, Error *error);

/* Granite: the logits are divided by logits_scaling. Refuses an attention_multiplier of 0. */
Status family_granite(const json_t *json, Config *config, Error *error);

/* Sets rope_table of the layers that layer_types calls sliding to 1, of the others to 0. */
void family_local_tables(const json_t *layer_types, Config *config);

/* Sets rope_table to 2 for the layers without RoPE: those with 0 in the list no_rope_layers, or
 * without the list every no_rope_layer_interval-th (4 where the key is absent). */
Status family_no_rope_layers(const json_t *json, Config *config, Error *error);

/* Reads how queries grow with the position from the RoPE parameter llama_4_scaling_beta. */
Status family_query_scaling(const json_t *json, const RopeKeys *keys, Config *config, Error *error);

/* Granite with windows: three of four layers have one, and layers may have a RoPE base each. */
Status family_granite_windows(const json_t *json, Config *config, Error *error);

/* Adds a vector of n ones, for a norm that is applied without weights. */
Status family_add_ones(const RuleContext *context, const char *name, size_t n, Error *error);

/* Adds "lightning.slope" of a layer: a geometric series over the heads, less in later layers, in
 * float32 as transformers computes it for MiniMax-01. */
Status family_add_slopes(const RuleContext *context, uint32_t layer, Error *error);

/* Adds the norms of Falcon Mamba, which are without weights, of what makes the steps, of B and C.
 */
Status family_add_mamba_norms(const RuleContext *context, Error *error);

/* Sets the width of the shared expert, which `key` gives as a number of experts. */
Status family_shared_width(const json_t *json, const char *key, double absent, Config *config,
                           Error *error);

/* Whether layer i has an indexer of its own by a list of its type ("full", "shared") or by a text
 * with a letter for it. */
Status family_indexer_type(const json_t *types, const char *key, uint32_t i, bool *own,
                           Error *error);
/* Which layers have an indexer of their own: by the list indexer_types, by index_topk_pattern, or
 * every index_topk_freq-th from index_skip_topk_offset - 1 on, and those before it. */
Status family_indexers(const json_t *json, Config *config, Error *error);

/* Refuses the key if it is 0 (or less), which means "none" in Config but not in transformers. */
Status family_refuse_zero(const json_t *json, const char *key, Error *error);

/* Refuses the object's key unless it is absent, null or `value` (JSON). */
Status family_refuse(const json_t *json, const char *key, const char *value, Error *error);

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

/* The sizes are what transformers takes where the keys are absent. */
#define SIZE_KEYS(vocab, dim, ffn, layers, heads)                                                  \
    {"vocab_size", "vocab_size", vocab}, {"hidden_size", "dim", dim},                              \
        {"intermediate_size", "ffn_dim", ffn}, {"num_hidden_layers", "n_layers", layers}, {        \
        "num_attention_heads", "n_heads", heads                                                    \
    }
/* n_kv_heads and head_dim: 0 and null mean n_heads and dim / n_heads. */
#define KV_HEADS(absent)                                                                           \
    { "num_key_value_heads", "n_kv_heads", absent }
#define HEAD_DIM(absent)                                                                           \
    { "head_dim", "head_dim", absent }
#define CONTEXT(absent)                                                                            \
    { "max_position_embeddings", "context", absent }
/* Granite's multipliers of the embedding, the scores and the residual. */
#define GRANITE_KEYS                                                                               \
    {"embedding_multiplier", "embedding_scale", 1},                                                \
        {"attention_multiplier", "attention_scale", 1}, {                                          \
        "residual_multiplier", "residual_scale", 1                                                 \
    }

/* ---- For BiasRules ---- */

#define QKV " wq wk wv "
#define QKVO QKV "wo "
#define UP_DOWN " w_up w_down "
#define GATED UP_DOWN "w_gate "

#endif
