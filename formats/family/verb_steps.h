/* Finds, checks and takes the steps of a family's description (steps.h) by the registry of verbs.
 */
#ifndef FORMATS_FAMILY_VERB_STEPS_H
#define FORMATS_FAMILY_VERB_STEPS_H

#include "formats/family/steps.h"

/* NULL: there is no such verb. */
const Verb *verb_find(const char *name);

/* Refuses words that the verb cannot take. */
Status verb_check(const Verb *verb, const char *words, Error *error);

/* Runs the steps, which end with one without a verb (NULL: none), in their order. */
Status steps_run(const Step *steps, StepCall call);

#endif
