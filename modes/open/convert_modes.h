/* What concerns models of other formats: the options of the conversion on first use, and the modes
 * that list and delete conversions. */
#ifndef CONVERT_MODES_H
#define CONVERT_MODES_H

#include "session/mode.h"

extern const Mode convert_list_mode, convert_families_mode, convert_cache_list_mode,
    convert_cache_clear_mode;

#endif
