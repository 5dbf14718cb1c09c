#include "modes/inspect/picture.h"

#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/unicode.h"

/* ---- Text ------------------------------------------------------------------------------------ */

void sheet_free(Sheet *text) {
    free(text->bytes);
    *text = (Sheet){0};
}

enum { SHEET_BYTES = 1 << 20 }; /* when a sheet with `write` passes its bytes on */

void sheet_flush(Sheet *text) {
    if (text->failed || text->length == 0) return;
    text->failed = !text->write(text->context, text->bytes, text->length);
    text->length = 0;
}

void sheet_add(Sheet *text, const char *bytes, size_t n) {
    if (text->write && text->length >= SHEET_BYTES) sheet_flush(text);
    if (text->failed) return;
    if (!array_reserve(&text->bytes, &text->capacity, text->length + n + 1, 1)) {
        text->failed = true;
        return;
    }
    if (n) memcpy(text->bytes + text->length, bytes, n);
    text->length += n;
    text->bytes[text->length] = '\0';
}

void sheet_printf(Sheet *text, const char *format, ...) {
    char line[1024];
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (n < 0) return;
    sheet_add(text, line, (size_t)n < sizeof line ? (size_t)n : sizeof line - 1);
}

typedef enum Escape { ESCAPE_XML, ESCAPE_JSON, ESCAPE_PLAIN } Escape;

static void add_control(Sheet *text, unsigned char c, Escape kind) {
    if (kind == ESCAPE_JSON) {
        sheet_printf(text, "\\u%04x", c);
        return;
    }
    char symbol[4];
    sheet_add(text, symbol, utf8_encode(c == 0x7F ? 0x2421 : 0x2400u + c, symbol));
}

static void escape(Sheet *text, const char *bytes, size_t n, Escape kind) {
    for (size_t i = 0; i < n;) {
        uint32_t c;
        size_t length = utf8_decode(bytes + i, n - i, &c);
        if (length == 0) {
            sheet_add(text, UTF8_REPLACEMENT, 3);
            length = 1;
        } else if (c < 0x20 || c == 0x7F) {
            add_control(text, (unsigned char)c, kind);
        } else if (kind == ESCAPE_JSON && c < 0x7F && strchr("\"\\<>&", (int)c)) {
            sheet_printf(text, "\\u%04x", c);
        } else if (kind == ESCAPE_XML && c < 0x7F && strchr("<>&\"", (int)c)) {
            sheet_printf(text, "&#%u;", c);
        } else {
            sheet_add(text, bytes + i, length);
        }
        i += length;
    }
}

void sheet_xml(Sheet *text, const char *bytes, size_t n) {
    escape(text, bytes, n, ESCAPE_XML);
}

void sheet_json(Sheet *text, const char *bytes, size_t n) {
    escape(text, bytes, n, ESCAPE_JSON);
}

void sheet_plain(Sheet *text, const char *bytes, size_t n) {
    escape(text, bytes, n, ESCAPE_PLAIN);
}

/* ---- Colours --------------------------------------------------------------------------------- */

/* The colour at `at`, from 0 to 1, on a scale of n evenly spaced RGB stops. */
static Colour interpolate(const double (*stops)[3], size_t n, double at) {
    Colour colour;
    if (!(at >= 0.0)) at = 0.0;
    if (at > 1.0) at = 1.0;
    double position = at * (double)(n - 1);
    size_t i = (size_t)position < n - 1 ? (size_t)position : n - 2;
    double fraction = position - (double)i;
    unsigned rgb[3];
    for (size_t k = 0; k < 3; k++)
        rgb[k] = (unsigned)(stops[i][k] + fraction * (stops[i + 1][k] - stops[i][k]) + 0.5);
    snprintf(colour.text, sizeof colour.text, "#%02x%02x%02x", rgb[0] & 255, rgb[1] & 255,
             rgb[2] & 255);
    return colour;
}

Colour picture_colour(double value, bool both_signs) {
    /* Each stop is darker than the one before, so that a black and white print can be read. */
    static const double one_sign[][3] = {{247, 250, 252}, {200, 221, 240}, {115, 179, 216},
                                         {40, 121, 185},  {8, 64, 129},    {5, 24, 60}};
    static const double signs[][3] = {
        {150, 20, 40}, {225, 120, 90}, {248, 248, 248}, {100, 160, 210}, {10, 60, 130}};
    return both_signs ? interpolate(signs, 5, (value + 1.0) / 2.0)
                      : interpolate(one_sign, 6, value);
}

/* ---- Shapes ---------------------------------------------------------------------------------- */

void picture_begin(Sheet *svg, double width, double height, const char *title) {
    sheet_printf(svg,
                 "<svg xmlns=\"http://www.w3.org/2000/svg\" "
                 "xmlns:xlink=\"http://www.w3.org/1999/xlink\" width=\"%.0f\" height=\"%.0f\" "
                 "viewBox=\"0 0 %.0f %.0f\">\n<title>",
                 width, height, width, height);
    sheet_xml(svg, title, strlen(title));
    sheet_printf(svg, "</title>\n<style>text{font-family:'DejaVu Sans',Verdana,sans-serif;"
                      "fill:#222}.title{font-size:15px;font-weight:bold}.label{font-size:11px}"
                      ".small{font-size:9px;fill:#555}.page{fill:#fff}.line{stroke:#777;fill:none}"
                      ".ground{fill:#eceef0}.stripe{stroke:#b4bac0}\n");
    sheet_printf(svg, "@media(prefers-color-scheme:dark){text{fill:#e6e6e6}.small{fill:#b0b0b0}"
                      ".page{fill:#15181c}.line{stroke:#9a9a9a}.ground{fill:#2b3036}"
                      ".stripe{stroke:#555c64}}</style>\n");
    sheet_printf(svg, "<defs><pattern id=\"hatch\" width=\"4\" height=\"4\" "
                      "patternUnits=\"userSpaceOnUse\"><rect class=\"ground\" width=\"4\" "
                      "height=\"4\"/><path class=\"stripe\" d=\"M-1 1 L1 -1 M0 4 L4 0 M3 5 L5 3\" "
                      "stroke-width=\"0.8\"/></pattern></defs>\n"
                      "<rect class=\"page\" width=\"100%%\" height=\"100%%\"/>\n");
}

void picture_end(Sheet *svg) {
    sheet_printf(svg, "</svg>\n");
}

void picture_text(Sheet *svg, double x, double y, const char *style, const char *anchor,
                  double rotate, const char *bytes, size_t n) {
    sheet_printf(svg, "<text class=\"%s\" text-anchor=\"%s\" x=\"%.1f\" y=\"%.1f\"", style, anchor,
                 x, y);
    if (rotate != 0.0) sheet_printf(svg, " transform=\"rotate(%.0f %.1f %.1f)\"", rotate, x, y);
    sheet_printf(svg, " xml:space=\"preserve\">");
    sheet_xml(svg, bytes, n);
    sheet_printf(svg, "</text>\n");
}

/* How many values from the first on have its colour, of n > 0. */
static size_t run_of_colour(const float *values, size_t n, bool both_signs) {
    const Colour first = picture_colour((double)values[0], both_signs);
    size_t run = 1;
    while (run < n && strcmp(picture_colour((double)values[run], both_signs).text, first.text) == 0)
        run++;
    return run;
}

/* Draws a row of cells but for those near 0. Neighbours of one colour become one rectangle. */
static void draw_row(Sheet *svg, double x, double y, double cell_width, double cell_height,
                     const float *values, size_t columns, bool both_signs) {
    for (size_t c = 0; c < columns;) {
        size_t n = run_of_colour(values + c, columns - c, both_signs);
        if (fabs((double)values[c]) > 0.004)
            sheet_printf(
                svg, "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" fill=\"%s\"/>\n",
                x + cell_width * (double)c, y, cell_width * (double)n, cell_height,
                picture_colour((double)values[c], both_signs).text);
        c += n;
    }
}

void picture_strip(Sheet *svg, double x, double y, double cell, const float *values, size_t n) {
    sheet_printf(svg,
                 "<g shape-rendering=\"crispEdges\"><rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" "
                 "height=\"%.2f\" fill=\"%s\"/>\n",
                 x, y, cell * (double)n, cell, picture_colour(0.0, false).text);
    draw_row(svg, x, y, cell, cell, values, n, false);
    sheet_printf(svg, "</g>\n");
}

void picture_heat_map(Sheet *svg, double x, double y, double cell_width, double cell_height,
                      const float *values, size_t rows, size_t columns, size_t stride,
                      bool both_signs) {
    double width = cell_width * (double)columns, height = cell_height * (double)rows;
    sheet_printf(svg,
                 "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\" "
                 "stroke=\"#999\" stroke-width=\"0.7\"/>\n<g shape-rendering=\"crispEdges\">\n",
                 x, y, width, height, picture_colour(0.0, both_signs).text);
    for (size_t r = 0; r < rows; r++)
        draw_row(svg, x, y + cell_height * (double)r, cell_width, cell_height, values + r * stride,
                 columns, both_signs);
    sheet_printf(svg, "</g>\n");
}

void picture_hatch(Sheet *svg, double x, double y, double width, double height) {
    sheet_printf(svg,
                 "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" "
                 "fill=\"url(#hatch)\" stroke=\"#999\" stroke-width=\"0.7\"/>\n",
                 x, y, width, height);
}

void picture_line(Sheet *svg, const double (*points)[2], size_t n) {
    sheet_printf(svg, "<polyline class=\"line\" points=\"");
    for (size_t i = 0; i < n; i++) sheet_printf(svg, "%.1f,%.1f ", points[i][0], points[i][1]);
    sheet_printf(svg, "\"/>\n");
}

void picture_scale(Sheet *svg, double x, double y, const char *what, bool both_signs) {
    enum { STEPS = 40 };
    float values[STEPS];
    for (int i = 0; i < STEPS; i++) {
        float at = ((float)i + 0.5f) / STEPS;
        values[i] = both_signs ? 2 * at - 1 : at;
    }
    picture_text(svg, x, y - 5, "label", "start", 0, what, strlen(what));
    picture_heat_map(svg, x, y, (double)PICTURE_SCALE / STEPS, 12, values, 1, STEPS, STEPS,
                     both_signs);
}

void picture_tick(Sheet *svg, double x, double y, double at, const char *text) {
    picture_text(svg, x + at * PICTURE_SCALE, y + 24, "small", "middle", 0, text, strlen(text));
}

void picture_legend(Sheet *svg, double x, double y, const char *what, bool both_signs) {
    picture_scale(svg, x, y, what, both_signs);
    picture_tick(svg, x, y, 0.0, both_signs ? "-1" : "0");
    picture_tick(svg, x, y, 0.5, both_signs ? "0" : "0.5");
    picture_tick(svg, x, y, 1.0, "1");
}
