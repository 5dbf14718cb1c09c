/* The modes of `run` and their options. */
#ifndef MODES_H
#define MODES_H

#include "session/mode.h"

extern const Mode *const modes[]; /* ends with NULL */

/* For Session.replay_kinds; ends with NULL. */
extern const Mode *const modes_replay[];

/* For options_parse. */
extern const MoreOptions modes_options;

#endif
