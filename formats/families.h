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

#include "rules.h"

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
    bool tied;              /* tie_word_embeddings where the key is absent */
    int32_t bos_id, eos_id; /* where the keys are absent; -1: none */
} Family;

/* NULL: not known. */
const Family *family_find(const char *model_type);

/* "llama, mistral, ...": for the message that refuses another. */
void family_names(char *text, size_t size);

/* Fills config from json as the family says. */
Status family_configure(const Family *family, const json_t *json, Config *config, Error *error);

#endif
