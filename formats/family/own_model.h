/* "model_type": "own_transformer": a decoder that somebody wrote and trained with their own names,
 * as guides and courses do. Its config.json says which tensor is which, or the tensors have the
 * names of a course that this program knows; sizes are taken from the tensors.
 * docs/your-own-model.md is the manual. */
#ifndef FORMATS_FAMILY_OWN_MODEL_H
#define FORMATS_FAMILY_OWN_MODEL_H

#include "formats/family/family.h"

/* A family that is made for one directory. The Family's rules and names live in the structure. */
typedef struct OwnModel {
    Family family;
    TensorRule *rules;
    char **names; /* of the source's tensors, which the rules point to */
    size_t n_rules, n_names;
} OwnModel;

bool own_model_is(const json_t *config);

/* Finds the names in the table, adds to `config` the sizes that it lacks, and makes the family.
 * Free with own_model_free, in any case. */
Status own_model_describe(OwnModel *own, json_t *config, RawTable *table, Error *error);
void own_model_free(OwnModel *own);

#endif
