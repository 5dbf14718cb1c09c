/* The residual stream before each layer of a run of passes, kept for trials: runs of the same
 * passes in which weights of later layers differ begin at the first layer that differs, with the
 * same bits.
 *
 *     observer = residuals_begin(r, 0, true);         the run that is kept
 *     observer = residuals_begin(r, layer, false);    a trial with other weights from `layer` on
 *
 * residuals_observe hands the observer to the run's model. All passes of a run must begin at one
 * layer, because later passes read the keys and values that earlier ones have stored. */
#ifndef RESIDUALS_H
#define RESIDUALS_H

#include "model.h"

typedef struct Residuals Residuals;

/* For models of this shape. Keeps at most some `most_bytes`: where every layer's stream takes more,
 * it keeps the stream of every second layer, every fourth and so on. NULL: no memory. */
Residuals *residuals_new(const Config *config, size_t most_bytes);
void residuals_free(Residuals *residuals); /* NULL is fine */

/* Begins one run whose weights before `layer` are the same as in the kept run. `keeps`: the run
 * becomes the kept one, and must run to its end. NULL: the run begins at layer 0, and nothing is
 * kept. */
PassObserver *residuals_begin(Residuals *residuals, size_t layer, bool keeps);

/* Adds the observer, which may be NULL, to a model; does nothing where !model_can_resume(). */
void residuals_observe(PassObserver *observer, Model *model);

/* The layer at which the passes of the latest run began. */
size_t residuals_first(const Residuals *residuals);

/* Whether the latest run had the passes of the kept one. If not, its results are worth nothing, and
 * nothing is kept any more. */
bool residuals_matched(Residuals *residuals);

#endif
