/* A position code as a table of numbers. */
#ifndef POSITION_TEXT_H
#define POSITION_TEXT_H

#include "modes/inspect/picture.h"
#include "modes/inspect/position_code.h"

/* Writes the frequencies or slopes, and how alike positions are by their distance. */
void position_text_write(const PositionCode *code, Sheet *out);

#endif
