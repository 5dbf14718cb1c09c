/* Derivatives of expressions, and whether anything matches.
 *
 * A derivative that matches nothing is REGEX_NONE, also where an intersection or a complement hides
 * it, so that an automaton of derivatives has no dead ends. */
#ifndef CONSTRAINT_REGEX_DERIVATIVE_H
#define CONSTRAINT_REGEX_DERIVATIVE_H

#include "constraint/regex.h"

/* What may follow `byte`; REGEX_NONE when nothing may. */
Regex regex_derive(RegexArena *arena, Regex regex, unsigned char byte);

/* True when some text matches. */
bool regex_live(RegexArena *arena, Regex regex);

#endif
