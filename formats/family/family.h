/* What the description of a family is made of. A family is what one model_type of transformers, and
 * the architectures of GGUF files with the same layers, mean in terms of the one Config: which keys
 * fill which fields, which values the fields have that no key gives, and the rules for the tensors.
 *
 * Each is in a file of families/; families.h finds one. What all families have in common
 * (end-of-text ids, position tables, ...) is in huggingface.c and gguf_reader.c. */
#ifndef FORMATS_FAMILY_FAMILY_H
#define FORMATS_FAMILY_FAMILY_H

#include <jansson.h>
#include <math.h>

#include "formats/family/gguf_family.h"
#include "formats/family/prediction.h"
#include "formats/family/presets.h"
#include "formats/family/rope.h"
#include "formats/family/steps.h"

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

/* Reads keys that no ConfigRule and no step can describe; runs after all of them. */
typedef Status FamilyFinish(const json_t *json, Config *config, Error *error);
/* Adds tensors that a TensorRule cannot describe. */
typedef Status FamilyMore(const RuleContext *context, const json_t *json, Error *error);

/* Functions that pages name: a C file of families/ exports a table of them, which ends with an
 * entry without a name. `finish NAME` on a page takes the entry's finish, after `gguf` its
 * gguf_finish, and so on. */
typedef struct FamilyHook {
    const char *name;
    FamilyFinish *finish;
    FamilyMore *more;
    GgufFinish *gguf_finish, *gguf_by_layer;
    GgufMore *gguf_more;
} FamilyHook;

/* Tables end with an entry of zeros; a table or a function that a family does not need is NULL. */
struct Family {
    const char *model_type;
    const Preset *set;      /* fields that no key gives; set before the keys are read */
    const ConfigRule *keys; /* NULL: the family is known in GGUF files alone */
    const FixedKey *fixed;
    const BiasRule *biases; /* NULL: no matrix has one */
    const char *layers;     /* what stands before names in a layer; NULL: "model.layers.%u." */
    const TensorRule *tensors;
    RopeKeys rope;
    PredictionForm prediction;  /* how checkpoints hold prediction layers */
    bool reads_text_alone;      /* parts for images or sound are left out, which a note says */
    bool norms_have_no_bias;    /* although they are layer norms */
    bool any_biases;            /* reads the biases that the source has, whatever `biases` says */
    bool has_layer_config;      /* `finish` reads per_layer_config */
    bool tied;                  /* tie_word_embeddings where the key is absent */
    const char *tied_key;       /* key that counts before tie_word_embeddings; NULL: none */
    int32_t bos_id, eos_id;     /* where the keys are absent; -1: none */
    int32_t more_eos_ids[2];    /* beside eos_id; 0: none. With these, null means absent */
    bool sinusoid_ends_at_base; /* the last sinusoid's frequency is 1 / base: XGLM */
    bool alibi_is_scaled;       /* the slopes are multiplied by attention_scale: Falcon */
    const Step *steps;          /* in their order, after the keys */
    FamilyFinish *finish;
    FamilyMore *more;
    const GgufFamily *gguf; /* the architectures of GGUF files with this family's layers */
};

/* What stands before names in a layer. */
const char *family_layers(const Family *family);

/* What stands in this source instead of the leading "model." of the family's names: "model." in
 * most, empty where only the base model was saved. NULL: the family's names have no "model.". */
const char *family_prefix(const Family *family, const RawTable *table);

enum { FAMILY_BIASES_BYTES = 256 };
/* Writes RuleContext.biases for this config.json. */
void family_biases(const Family *family, const json_t *json, const Config *config,
                   char out[FAMILY_BIASES_BYTES]);

/* Refuses the object's key unless it is absent, null or `value` (JSON). */
Status family_refuse(const json_t *json, const char *key, const char *value, Error *error);

#endif
