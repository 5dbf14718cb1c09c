/* Suggests an option in place of one that does not exist: the nearest by spelling, or the one that
 * other programs call by this name. */
#ifndef ADVICE_OPTION_HINTS_H
#define ADVICE_OPTION_HINTS_H

#include "system/command_line.h"

/* Sets error->text to "; did you mean --temperature X?", or to an empty text when no option is
 * near. Meant for CommandLine.advise. */
void advice_option(const CommandLine *line, const char *name, Error *error);

#endif
