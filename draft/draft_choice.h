/* How a draft model chooses tokens: with the text's own temperature, top-k, top-p and min-p, and
 * with the same random number, which depends on the seed and the position alone. So models that
 * agree on the probabilities also agree on the token. */
#ifndef DRAFT_CHOICE_H
#define DRAFT_CHOICE_H

#include "model.h"
#include "sampler.h"

/* Creates a sampler for drafts in a text that is sampled with these options; penalties, biases and
 * rules are left out. NULL: no memory. */
Sampler *draft_choice_new(const SamplerOptions *text, const Model *model);

/* The token that `sampler` chooses at `position` of the text from logits[vocab_size] of `model`;
 * -1: it is not likely enough to be worth a row. Overwrites the logits and scratch[vocab_size]. */
int32_t draft_choice(Sampler *sampler, const Model *model, float *logits, float *scratch,
                     size_t position);

#endif
