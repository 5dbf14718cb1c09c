/* --help and --version. */
#ifndef HELP_MODES_H
#define HELP_MODES_H

#include "session/mode.h"

extern const Mode help_mode, help_version_mode;

#endif
