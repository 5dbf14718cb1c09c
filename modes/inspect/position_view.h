/* --positions: how the model tells positions apart, as a picture (SVG) or a table, from the tables
 * in its file: sinusoids, RoPE's angles, ALiBi's slopes or the learned position embedding. */
#ifndef POSITION_VIEW_H
#define POSITION_VIEW_H

#include "session/session.h"

/* Writes the picture, or for "table" the numbers, to the session's output. Fails when the model has
 * no position code. */
Status position_view_run(Session *session, Error *error);

#endif
