/* The mode that continues one text: what `run` does where no option asks for another mode. */
#ifndef TEXT_MODE_H
#define TEXT_MODE_H

#include "session/mode.h"

extern const Mode text_mode;

#endif
