/* A position code as a picture: its vectors, how alike positions are, and how pairs turn. */
#ifndef POSITION_PICTURE_H
#define POSITION_PICTURE_H

#include "modes/inspect/picture.h"
#include "modes/inspect/position_code.h"

/* Writes the picture as SVG. overridden: what --override changed; NULL: nothing. */
void position_picture_write(const PositionCode *code, const char *overridden, Sheet *svg);

#endif
