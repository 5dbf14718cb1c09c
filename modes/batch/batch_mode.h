/* --batch and --merge: their options and their entries in the table of modes. */
#ifndef BATCH_MODE_H
#define BATCH_MODE_H

#include "session/mode.h"

extern const Mode batch_mode, batch_merge_mode;
extern const Mode batch_replay; /* of replay_kinds */

#endif
