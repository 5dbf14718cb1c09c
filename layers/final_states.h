/* The final states of rows: what the output head would be multiplied with. */
#ifndef FINAL_STATES_H
#define FINAL_STATES_H

#include "model.h"

/* The states [k][dim] of the k rows of the last model_forward that wanted logits, after the last
 * norm. That call must have had no room for logits (NULL); valid until the next call. A row's state
 * has the same bits in whatever call it is computed. */
const float *final_states_of(const Model *model);

#endif
