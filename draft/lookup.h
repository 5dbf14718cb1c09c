/* Prompt lookup decoding: a Drafter that proposes what followed the same tokens earlier in the
 * text.
 *
 * The text goes faster where it repeats itself, quotes its prompt or edits it. Wrong drafts make
 * the next ones shorter and rarer. */
#ifndef LOOKUP_H
#define LOOKUP_H

#include "draft/drafter.h"
#include "modelfile.h"

/* The number of drafts at a time that pays: 0 for a model that fits in a processor's caches, where
 * a row costs what it computes, and for a mixture of experts, where each row reads other experts.
 */
size_t lookup_default(const ModelFile *file);

/* A Drafter for one text, which proposes at most `most` tokens at a time (0 < most <= DRAFTS_MAX);
 * drafter_free frees it. NULL: no memory. */
Drafter *lookup_new(size_t most);

#endif
