/* What the full program asks of an open model, and what watches and steers its passes. The core
 * does neither. */
#ifndef LAYERS_MODEL_WATCH_H
#define LAYERS_MODEL_WATCH_H

#include "model.h"

int model_threads(const Model *model);

/* The states [k][dim] of the k rows of the last model_forward that wanted logits, after the last
 * norm. That call must have had no room for logits (NULL); valid until the next call. A row's state
 * has the same bits in whatever call it is computed. */
const float *model_final_states(const Model *model);

/* From the next model_forward on, calls the observer, after those that were added before, until it
 * is removed or the model is closed. It stays the caller's, and may be in the list already. */
void model_add_observer(Model *model, PassObserver *observer);
void model_remove_observer(Model *model, const PassObserver *observer);

/* Whether a layer reads of earlier ones the residual stream alone, so that a pass can begin at any
 * layer: one stream, attention over the layer's own keys and values, one process. */
bool model_can_resume(const Model *model);

#endif
