/* --batch: its options and its entry in the table of modes. */
#ifndef BATCH_MODE_H
#define BATCH_MODE_H

#include "session/mode.h"

extern const OptionRow batch_options[];
extern const Mode batch_mode;

#endif
