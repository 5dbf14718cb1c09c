/* What concerns models of other formats: the options of the conversion on first use, and the modes
 * that list and delete conversions. */
#ifndef CONVERT_MODES_H
#define CONVERT_MODES_H

#include "session/mode.h"

extern const OptionRow convert_options[];
extern const Mode list_mode, families_mode, cache_list_mode, cache_clear_mode;

#endif
