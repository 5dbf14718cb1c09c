/* Masks and positions that a model does not have, for looking and scoring: what guides warn of.
 * Attention is computed a second time, by the textbook formula over keys and values of the running
 * pass, so that the forward pass knows nothing of it; a text must therefore be one pass. */
#ifndef MASKS_H
#define MASKS_H

#include "model.h"

typedef enum MaskKind {
    MASK_MODEL,   /* as it is */
    MASK_NONE,    /* every query sees the whole text, what comes later included */
    MASK_ZERO,    /* masked scores are 0 */
    MASK_BILLION, /* masked scores are -1e9 */
    MASK_KINDS
} MaskKind;

typedef struct MaskOverride {
    MaskKind mask;
    uint32_t global_tokens; /* the first tokens of a text, which a window does not hide; 0: none */
    bool every_layer;       /* positions are added before each layer, not before the first alone */
} MaskOverride;

/* Names of MaskKind, as --override mask=NAME has them; the first one, "causal", is the model's. */
extern const char *const masks_names[MASK_KINDS + 1];

/* The most positions of a text. */
enum { MASKS_POSITIONS = 2048 };

/* Whether anything is overridden. */
bool masks_any(const MaskOverride *override);

/* Whether a query may give weight to later tokens. */
bool masks_see_future(const MaskOverride *override);

/* Asks for a model whose passes hold a whole text: before model_open. Fails where the context is
 * more than MASKS_POSITIONS. */
Status masks_prepare(const Config *config, ModelOptions *options, Error *error);

/* Lets the model, opened with these options, compute so from now on. Fails where the model's
 * attention has parts that the textbook lacks, or where it adds no positions to its embeddings.
 * masks_free, after the model is closed; NULL does nothing. */
typedef struct Masks Masks;
Status masks_apply(Masks **masks, Model *model, const MaskOverride *override, Error *error);
void masks_free(Masks *masks);

#endif
