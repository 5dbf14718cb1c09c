/* How the next token is chosen and where the text ends, as the command line and the model say. */
#ifndef GENERATION_OPTIONS_H
#define GENERATION_OPTIONS_H

#include "generation.h"
#include "session/session.h"

/* Fills in the options of generation. An option that was given wins over what the model's file
 * recommends, which wins over the default. STATUS_USAGE where --logit-bias is not ID=X. The stop
 * strings are borrowed from the options. */
Status session_generation_options(const Session *session, GenerationOptions *out, Error *error);

#endif
