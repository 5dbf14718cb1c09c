/* --check FILE without --batch: whether FILE is what `run` writes with this model and these
 * options.
 */
#ifndef CHECK_TEXT_H
#define CHECK_TEXT_H

#include "session/mode.h"

extern const Mode check_text_mode;

#endif
