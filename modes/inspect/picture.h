/* Sheet: a text buffer that grows, with escaping for XML, JSON and terminals. picture_...: heat
 * maps and their labels, written to a Sheet as SVG. */
#ifndef PICTURE_H
#define PICTURE_H

#include <stddef.h>

#include "base/status.h"

/* Zero-initialize it, and free it with sheet_free. When an allocation fails, `failed` is set and
 * everything added later is dropped: check it once, at the end.
 *
 * With `write` set, the sheet is a stream: each time that it holds about a megabyte, and in
 * sheet_flush, it passes its bytes to `write` and starts empty again. When `write` returns false,
 * `failed` is set. */
typedef struct Sheet {
    char *bytes; /* NUL-terminated when it is not NULL */
    size_t length, capacity;
    bool failed;
    bool (*write)(void *context, const char *bytes, size_t n);
    void *context;
} Sheet;

void sheet_free(Sheet *text);
/* Passes what is left to `write`, which must be set. */
void sheet_flush(Sheet *text);
void sheet_add(Sheet *text, const char *bytes, size_t n);
/* Adds at most 1,023 bytes. */
void sheet_printf(Sheet *text, const char *format, ...) PRINTF_LIKE(2, 3);

/* Add bytes that nobody has checked, escaped for where they are shown. A byte that is not part of a
 * UTF-8 sequence becomes U+FFFD. Control characters become the symbols U+2400 to U+2421, or \u00xx
 * in JSON. */
void sheet_xml(Sheet *text, const char *bytes, size_t n); /* XML text or an attribute's value */
/* A JSON string without its quotes; <, > and & are escaped too, for JSON inside <script>. */
void sheet_json(Sheet *text, const char *bytes, size_t n);
void sheet_plain(Sheet *text, const char *bytes, size_t n); /* for a terminal */

/* "#rrggbb", NUL-terminated. */
typedef struct Colour {
    char text[8];
} Colour;
/* The colour of a value: 0 is nearly white and 1 dark blue; with both_signs -1 is red, 0 white and
 * 1 blue. Values outside are clamped. */
Colour picture_colour(double value, bool both_signs);

/* Writes the SVG's head: a picture of that size, in pixels, on white, or on near black where the
 * reader prefers dark colours, and the styles of its text. picture_end closes it. */
void picture_begin(Sheet *svg, double width, double height, const char *title);
void picture_end(Sheet *svg);

/* Writes bytes[n] at (x, y), escaped. style: "title", "label" or "small". anchor, the end of the
 * text that stands at x: "start", "middle" or "end". rotate: degrees, clockwise. */
void picture_text(Sheet *svg, double x, double y, const char *style, const char *anchor,
                  double rotate, const char *bytes, size_t n);

/* Draws values[rows][columns], whose rows are `stride` floats apart, as coloured cells in a frame.
 * Cells near 0 are left out: the background has their colour. */
void picture_heat_map(Sheet *svg, double x, double y, double cell_width, double cell_height,
                      const float *values, size_t rows, size_t columns, size_t stride,
                      bool both_signs);

/* Draws values[n] from 0 to 1 as a row of square cells without a frame, the first at (x, y). */
void picture_strip(Sheet *svg, double x, double y, double cell, const float *values, size_t n);

/* Draws a frame filled with stripes, for what is masked. */
void picture_hatch(Sheet *svg, double x, double y, double width, double height);

/* Draws a line through n points (x, y). */
void picture_line(Sheet *svg, const double (*points)[2], size_t n);

/* Draws the scale of colours: `what` as its title, and a bar of PICTURE_SCALE x 12 pixels at
 * (x, y). picture_tick writes a number below it, `at` from 0 to 1. */
enum { PICTURE_SCALE = 160 };
void picture_scale(Sheet *svg, double x, double y, const char *what, bool both_signs);
void picture_tick(Sheet *svg, double x, double y, double at, const char *text);

/* Draws the scale of colours with the numbers of its ends and its middle. */
void picture_legend(Sheet *svg, double x, double y, const char *what, bool both_signs);

#endif
