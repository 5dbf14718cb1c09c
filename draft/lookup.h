/* Prompt lookup decoding: a Drafter that proposes what followed the same tokens earlier in the
 * text.
 *
 * The text goes faster where it repeats itself, quotes its prompt or edits it. Wrong drafts make
 * the next ones shorter and rarer. */
#ifndef LOOKUP_H
#define LOOKUP_H

#include "draft/drafter.h"
#include "core/modelfile.h"

enum { LOOKUP_DRAFTS = 7 }; /* at a time, unless the user says otherwise */

/* The number of drafts at a time to begin with: 0 for a model that fits in a processor's caches,
 * where a row costs what it computes. */
size_t lookup_default(const ModelFile *file);

/* Whether a second row in a pass takes much less time than the first. Not so for a model that fits
 * in a processor's caches, and for a mixture of experts, where each row reads other experts. */
bool lookup_rows_are_cheap(const ModelFile *file);

/* A Drafter for one text, which proposes at most `most` tokens at a time (0 < most <= DRAFTS_MAX);
 * drafter_free frees it. NULL: no memory. */
Drafter *lookup_new(size_t most);

#endif
