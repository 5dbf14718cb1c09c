/* --positions OUT: a picture of how the model tells positions apart: sinusoids, RoPE's angles,
 * ALiBi's slopes or the learned table, from the tables of the model itself. */
#ifndef POSITION_VIEW_H
#define POSITION_VIEW_H

#include "session.h"

Status position_view_run(Session *session, Error *error);

#endif
