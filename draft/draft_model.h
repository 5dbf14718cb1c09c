/* A small model that drafts for a large one: it goes on with the same text by itself, and the large
 * one verifies (speculation.h).
 *
 * The small model chooses each token as the large one will (draft_choice.h), and stops where it is
 * not sure.
 *
 * It may read no more of a long text than the first token (where it begins) and the last ones
 * (Drafter.window).
 *
 * Its vocabulary may be another one whose tokens spell the same bytes (token_map.h). It has a cache
 * of its own, from which what the text did not take is removed at the next draft. */
#ifndef DRAFT_MODEL_H
#define DRAFT_MODEL_H

#include "draft/drafter.h"
#include "draft/token_map.h"
#include "model.h"
#include "sampler.h"

enum { DRAFT_MODEL_MOST = 15 }; /* tokens at a time */

/* What all texts share for which one small model drafts. */
typedef struct DraftModel DraftModel;

typedef struct DraftModelOptions {
    KvType kv_type;
    size_t max_texts; /* at once; those that come later are not drafted for */
    size_t max_bytes; /* of the cache; 0: no limit */
} DraftModelOptions;

/* `model` and `map`, from the large model's tokens to the tokens of `model`, are borrowed. */
Status draft_model_new(DraftModel **out, Model *model, TokenMap *map,
                       const DraftModelOptions *options, Error *error);
void draft_model_free(DraftModel *shared); /* after the drafters */

/* Runs a few tokens, so that the first draft in a text does not wait for weights that were never
 * read and memory that was never touched. Call it before the first text. */
void draft_model_warm_up(DraftModel *shared);

/* The small model, and the shape of its cache. */
const Model *draft_model_model(const DraftModel *shared);
const KvShape *draft_model_kv_shape(const DraftModel *shared);

/* A Drafter for one text that is sampled with these options, without their penalties and biases;
 * drafter_free frees it. NULL: no memory. */
Drafter *draft_model_drafter(DraftModel *shared, const SamplerOptions *sampling);

#endif
