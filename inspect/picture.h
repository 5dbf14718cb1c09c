/* Text that grows, and the few shapes that pictures of numbers are drawn with, as SVG. */
#ifndef PICTURE_H
#define PICTURE_H

#include <stddef.h>

#include "base/status.h"

/* Zero-initialize; sheet_free. After a failed allocation `failed` is set and adding does nothing.
 *
 * A sheet with `write` keeps no more than a megabyte or so: it hands on what it has and goes on
 * empty. `write` returns false to give up, and then nothing more is added either. */
typedef struct Sheet {
    char *bytes; /* NUL-terminated when it is not NULL */
    size_t length, capacity;
    bool failed;
    bool (*write)(void *context, const char *bytes, size_t n);
    void *context;
} Sheet;

void sheet_free(Sheet *text);
/* Hands on what is left; for a sheet with `write`. */
void sheet_flush(Sheet *text);
void sheet_add(Sheet *text, const char *bytes, size_t n);
void sheet_printf(Sheet *text, const char *format, ...) PRINTF_LIKE(2, 3);
/* Bytes of a stranger inside XML text, or inside a JSON string: what is no UTF-8 becomes U+FFFD,
 * a control character a picture of it (U+2400 and on). In JSON, '<' is escaped as well, so that
 * the text may stand in a page's script. */
void sheet_xml(Sheet *text, const char *bytes, size_t n);
void sheet_json(Sheet *text, const char *bytes, size_t n);
/* The same for a terminal: nothing that could steer it. */
void sheet_plain(Sheet *text, const char *bytes, size_t n);

/* "#rrggbb": 0 is nearly white, 1 dark blue; or, with `both_signs`, -1 red, 0 white, 1 blue. */
typedef struct Colour {
    char text[8];
} Colour;
Colour picture_colour(double value, bool both_signs);

/* The head of a picture of that size, white, with the fonts that follow use; its end. */
void picture_begin(Sheet *svg, double width, double height, const char *title);
void picture_end(Sheet *svg);

/* class: "title", "label", "small". anchor: "start", "middle", "end". rotate: degrees. */
void picture_text(Sheet *svg, double x, double y, const char *kind, const char *anchor,
                  double rotate, const char *bytes, size_t n);

/* values[rows][columns] (a row is `stride` floats) as cells with a frame. Cells that are as
 * good as the lowest colour are left to the background. */
void picture_heat_map(Sheet *svg, double x, double y, double cell_width, double cell_height,
                      const float *values, size_t rows, size_t columns, size_t stride,
                      bool both_signs);

/* The colours and what they stand for: a bar of 160 x 12 at (x, y), numbers below. */
void picture_legend(Sheet *svg, double x, double y, const char *what, bool both_signs);

#endif
