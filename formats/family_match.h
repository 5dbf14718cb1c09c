/* How well each family of the program fits a directory whose model_type is not known: for the
 * message that refuses it, and for the draft of its page (family_draft.h). */
#ifndef FORMATS_FAMILY_MATCH_H
#define FORMATS_FAMILY_MATCH_H

#include "formats/family.h"

/* Of config.json's keys only the first MATCH_KEYS are looked at: no class has as many, and each is
 * compared with the lines of every family. */
enum { MATCH_NAME = 112, MATCH_KINDS = 384, MATCH_KEYS = 1024 };

/* Tensors whose names differ in numbers alone. */
typedef struct TensorKind {
    char name[MATCH_NAME]; /* "model.layers.%u.self_attn.q_proj.weight" */
    const RawTensor *first;
    size_t n;   /* how many there are */
    bool taken; /* the family has a line for it, whose shape is this one's */
} TensorKind;

/* A model, and the family that is nearest to it. */
typedef struct FamilyMatch {
    json_t *config;     /* the first MATCH_KEYS keys of config.json */
    size_t n_more_keys; /* keys behind those */
    json_t *changed;    /* a copy of `config` in which one key at a time is changed and restored */
    char *type;         /* its model_type; owned */
    bool has_kin;       /* some family's name begins with the same four letters */
    TensorKind kinds[MATCH_KINDS];
    size_t n_kinds;
    char layers[MATCH_NAME]; /* what stands before names in a layer; "": no name has a number */
    const Family *family;    /* NULL: no family takes any of its tensors */
    const char *prefix;      /* replaces "model." in the family's names; NULL: nothing does */
    bool has_layers;         /* the family's own name of a layer is the model's */
    Config family_config;    /* what the family makes of config.json */
    bool is_configured;      /* it could; else `refusal` says why not */
    Error refusal;
} FamilyMatch;

/* Finds the family that takes most of the tensors and reads most of the keys. The table is sorted,
 * and must live as long as the match. free(match->type) and the match afterwards. */
Status family_match(const json_t *config, const RawTable *table, FamilyMatch **match, Error *error);
void family_match_free(FamilyMatch *match);

/* Whether a change of the key changes what the family reads, or the key can change no logits. */
bool family_match_reads(const FamilyMatch *match, const char *key);

/* The i-th rule of the family that has no tensor here although one is required; its whole name in
 * name[MATCH_NAME]. NULL: there are no more. */
const TensorRule *family_match_missing(const FamilyMatch *match, size_t i, char *name);

#endif
