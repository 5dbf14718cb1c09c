/* What to say of an option that does not exist: the nearest that does, also by the names that other
 * programs give the same thing. */
#ifndef ADVICE_OPTIONS_H
#define ADVICE_OPTIONS_H

#include "system/command_line.h"

/* "; did you mean --temperature X?" in error->text, or an empty text when nothing is near. As
 * CommandLine.advise wants it. */
void advice_option(const CommandLine *line, const char *name, Error *error);

#endif
