/* Steps of a family's description (family.h): what several families read in the same way and no
 * rule of a table can describe, by name and words: {"windows", "4096 every 2"}. families/verbs.h
 * lists the verbs. */
#ifndef FORMATS_FAMILY_STEPS_H
#define FORMATS_FAMILY_STEPS_H

#include <jansson.h>
#include <stdbool.h>

#include "formats/family/gguf_model.h"
#include "formats/family/presets.h"

typedef struct Family Family;

typedef struct Step {
    const char *verb, *words;
    /* The step is taken only where this is true, or only where that is false: a key of config.json;
     * of a GGUF file a key after its ARCHITECTURE, or a tensor that it has (".NAME": in any
     * layer). An object is true. */
    const char *when, *unless;
    bool absent;    /* what such a key is where config.json lacks it */
    Preset where;   /* and only where the field has this value by then; without a field: always */
    bool where_not; /* where it has another */
} Step;

/* What a step reads and sets. One of json and gguf is NULL. */
typedef struct StepCall {
    const Family *family;
    const json_t *json;
    const GgufModel *gguf;
    const char *words; /* of the step; set by steps_run (verb_steps.h) */
    Config *config;
    Error *error;
} StepCall;

typedef Status VerbRun(const StepCall *call);

typedef struct Verb {
    const char *name;
    VerbRun *run, *run_gguf; /* NULL: the verb is not for config.json, or not for GGUF files */
    /* What its words are: KEY, FIELD, NUMBER and VALUE (of the field before it), with spaces
     * between them, in brackets where all may be left out; "...": the verb's own, which `check`
     * checks. */
    const char *words;
    bool (*check)(const char *words);
    const char *reads; /* keys of config.json beside those in its words, '|' between them */
} Verb;

enum { STEP_WORD = 64 };

/* Reads the next word; false, and an empty word, where there is none. A word that is too long is
 * cut short. */
bool step_word(const char **words, char word[STEP_WORD]);

/* Reads a whole number, 0 to 2^28; false: the word is none. */
bool step_number(const char *word, double *out);

#endif
