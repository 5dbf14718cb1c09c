/* A heat map as one image in the picture, a PNG in Base64: for maps of so many cells that a
 * rectangle each would make megabytes. Runs of one colour are compressed.
 *
 * PNG and DEFLATE are written here and not by libpng and zlib: a picture is a result that others
 * compare byte by byte, and zlib's output changes with its version and with its replacements
 * (zlib-ng, Chromium's). Fixed codes and runs alone need 50 lines. */
#ifndef PICTURE_IMAGE_H
#define PICTURE_IMAGE_H

#include <stdint.h>

#include "modes/inspect/picture.h"

/* Shades of an image: cells[i] = n is the colour at n / (PICTURE_SHADES - 1) of the scale, from -1
 * on with both_signs. PICTURE_CLEAR is a cell that shows what lies below the image. */
enum { PICTURE_SHADES = 64, PICTURE_CLEAR = PICTURE_SHADES };

/* The shade of a value. */
uint8_t picture_shade(double value, bool both_signs);

/* Draws cells[rows][columns] as an image of width x height pixels at (x, y). */
void picture_image(Sheet *svg, double x, double y, double width, double height,
                   const uint8_t *cells, size_t rows, size_t columns, bool both_signs);

#endif
