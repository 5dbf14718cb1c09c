/* How well each family of the program fits a directory whose model_type is not known: for the
 * message that refuses it, and for the draft of its page (family_draft.h). */
#ifndef FORMATS_FAMILY_FAMILY_MATCH_H
#define FORMATS_FAMILY_FAMILY_MATCH_H

#include "formats/family/family.h"

/* Only the first MATCH_KEYS keys of config.json are compared: no class has as many, and each key is
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
    size_t n_more_keys; /* keys after those */
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
    bool knows_sizes;        /* and the sizes are config.json's own, not the family's defaults */
    Error refusal;
    bool refuses_keys; /* so does an architecture of GGUF files, whose keys are read elsewhere */
    Family view;       /* of an architecture of GGUF files: what `family` leads to (gguf_match.h) */
} FamilyMatch;

/* Finds the family that takes most of the tensors and reads most of the keys. The table is sorted,
 * and must live as long as the match. free(match->type) and the match afterwards. */
Status family_match(const json_t *config, const RawTable *table, FamilyMatch **match, Error *error);
void family_match_free(FamilyMatch *match);

/* ---- The steps of a match, which gguf_match.h takes as well ---- */

/* Fills the kinds of tensors, and `layers`, from the table; used tensors are left out. */
void family_match_kinds(FamilyMatch *match, const RawTable *table);

/* Marks the model's tensors that the rules of match->family read, and returns how many they are.
 * *lacking: how many of the family's tensors the model lacks; one that may be absent counts a
 * quarter. */
size_t family_match_take(FamilyMatch *match, double *lacking);

/* The Dice coefficient of two sets, from 0 (disjoint) to 1 (equal): twice the size of the
 * intersection over the sum of both sizes. */
double family_match_overlap(size_t both, size_t only_one, double only_other);

/* ---- What a match says ---- */

/* Whether a change of the key changes what the family reads, or the key can change no logits. */
bool family_match_reads(const FamilyMatch *match, const char *key);

/* The i-th rule of the family that has no tensor here although one is required; its whole name in
 * name[MATCH_NAME]. NULL: there are no more. */
const TensorRule *family_match_missing(const FamilyMatch *match, size_t i, char *name);

#endif
