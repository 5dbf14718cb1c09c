/* `run MODEL --layers`: what each layer computes, in the notation of core/branch.h, with sizes. */
#ifndef INSPECT_LAYER_LISTS_H
#define INSPECT_LAYER_LISTS_H

#include "base/text.h"
#include "session/session.h"

/* Prints the branches of all layers; equal layers stand once. What stands on one line reads the
 * same x, before any of it is added:
 *
 *     layers 0-21
 *         x += attention{32 heads of 64, 4 of keys}(norm(x))
 *         x += feed-forward{5632}(norm(x))
 *
 * A mixture's router reads what its experts read, unless the line says something else:
 * mixture{...}(norm(x), router: norm(x) / 8). */
Status layer_lists_run(Session *session, Error *error);

/* Appends the lines of one layer. */
void layer_lists_write(TextBuffer *text, const Model *model, size_t layer);

#endif
