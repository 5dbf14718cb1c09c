#include "inspect/picture.h"

#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Text ------------------------------------------------------------------------------------ */

void sheet_free(Sheet *text) {
    free(text->bytes);
    *text = (Sheet){0};
}

enum { SHEET_BYTES = 1 << 20 };

void sheet_flush(Sheet *text) {
    if (text->failed || text->length == 0) return;
    text->failed = !text->write(text->context, text->bytes, text->length);
    text->length = 0;
}

void sheet_add(Sheet *text, const char *bytes, size_t n) {
    if (text->write && text->length >= SHEET_BYTES) sheet_flush(text);
    if (text->failed) return;
    if (text->length + n + 1 > text->capacity) {
        size_t capacity = 2 * (text->length + n) + 4096;
        char *larger = realloc(text->bytes, capacity);
        if (!larger) {
            text->failed = true;
            return;
        }
        text->bytes = larger;
        text->capacity = capacity;
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

/* The bytes of the character that begins here; 0: none does. */
static size_t character(const unsigned char *s, size_t n) {
    unsigned char c = s[0];
    size_t length = c < 0x80                ? 1
                    : c >= 0xC2 && c < 0xE0 ? 2
                    : c >= 0xE0 && c < 0xF0 ? 3
                    : c >= 0xF0 && c < 0xF5 ? 4
                                            : 0;
    if (length == 0 || length > n) return 0;
    for (size_t i = 1; i < length; i++)
        if ((s[i] & 0xC0) != 0x80) return 0;
    if ((c == 0xE0 && s[1] < 0xA0) || (c == 0xED && s[1] >= 0xA0) || (c == 0xF0 && s[1] < 0x90) ||
        (c == 0xF4 && s[1] >= 0x90))
        return 0;
    return length;
}

typedef enum Escape { ESCAPE_XML, ESCAPE_JSON, ESCAPE_PLAIN } Escape;

static void escape(Sheet *text, const char *bytes, size_t n, Escape kind) {
    bool is_json = kind == ESCAPE_JSON;
    for (size_t i = 0; i < n;) {
        unsigned char c = (unsigned char)bytes[i];
        size_t length = character((const unsigned char *)bytes + i, n - i);
        if (length == 0) {
            sheet_add(text, "\xEF\xBF\xBD", 3);
            length = 1;
        } else if (c < 0x20 || c == 0x7F) {
            /* U+2400 + c, in JSON as the character itself. */
            if (is_json) {
                sheet_printf(text, "\\u%04x", c);
            } else {
                const char symbol[3] = {(char)0xE2, (char)0x90,
                                        (char)(0x80 + (c == 0x7F ? 33 : c))};
                sheet_add(text, symbol, 3);
            }
        } else if (is_json && (c == '"' || c == '\\' || c == '<' || c == '>' || c == '&')) {
            sheet_printf(text, "\\u%04x", c);
        } else if (kind == ESCAPE_XML && (c == '<' || c == '>' || c == '&' || c == '"')) {
            sheet_printf(text, "&#%d;", c);
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

static Colour mix(const double (*stops)[3], size_t n, double at) {
    Colour colour;
    if (!(at >= 0.0)) at = 0.0;
    if (at > 1.0) at = 1.0;
    double place = at * (double)(n - 1);
    size_t i = (size_t)place < n - 1 ? (size_t)place : n - 2;
    double part = place - (double)i;
    unsigned rgb[3];
    for (size_t k = 0; k < 3; k++)
        rgb[k] = (unsigned)(stops[i][k] + part * (stops[i + 1][k] - stops[i][k]) + 0.5);
    snprintf(colour.text, sizeof colour.text, "#%02x%02x%02x", rgb[0] & 255, rgb[1] & 255,
             rgb[2] & 255);
    return colour;
}

Colour picture_colour(double value, bool both_signs) {
    /* Each step darker than the one before it, so that a print without colours still reads. */
    static const double one[][3] = {{247, 250, 252}, {200, 221, 240}, {115, 179, 216},
                                    {40, 121, 185},  {8, 64, 129},    {5, 24, 60}};
    static const double two[][3] = {
        {150, 20, 40}, {225, 120, 90}, {248, 248, 248}, {100, 160, 210}, {10, 60, 130}};
    return both_signs ? mix(two, 5, (value + 1.0) / 2.0) : mix(one, 6, value);
}

/* ---- Shapes ---------------------------------------------------------------------------------- */

void picture_begin(Sheet *svg, double width, double height, const char *title) {
    sheet_printf(svg,
                 "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
                 "viewBox=\"0 0 %.0f %.0f\">\n<title>",
                 width, height, width, height);
    sheet_xml(svg, title, strlen(title));
    sheet_printf(svg, "</title>\n<style>text{font-family:'DejaVu Sans',Verdana,sans-serif;"
                      "fill:#222}.title{font-size:15px;font-weight:bold}.label{font-size:11px}"
                      ".small{font-size:9px;fill:#555}</style>\n"
                      "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n");
}

void picture_end(Sheet *svg) {
    sheet_printf(svg, "</svg>\n");
}

void picture_text(Sheet *svg, double x, double y, const char *kind, const char *anchor,
                  double rotate, const char *bytes, size_t n) {
    sheet_printf(svg, "<text class=\"%s\" text-anchor=\"%s\" x=\"%.1f\" y=\"%.1f\"", kind, anchor,
                 x, y);
    if (rotate != 0.0) sheet_printf(svg, " transform=\"rotate(%.0f %.1f %.1f)\"", rotate, x, y);
    sheet_printf(svg, " xml:space=\"preserve\">");
    sheet_xml(svg, bytes, n);
    sheet_printf(svg, "</text>\n");
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
        for (size_t c = 0; c < columns;) {
            /* Neighbours of one colour are one rectangle. */
            double value = (double)values[r * stride + c];
            Colour colour = picture_colour(value, both_signs);
            size_t n = 1;
            while (c + n < columns &&
                   strcmp(picture_colour((double)values[r * stride + c + n], both_signs).text,
                          colour.text) == 0)
                n++;
            if (fabs(value) > 0.004)
                sheet_printf(
                    svg,
                    "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" fill=\"%s\"/>\n",
                    x + cell_width * (double)c, y + cell_height * (double)r, cell_width * (double)n,
                    cell_height, colour.text);
            c += n;
        }
    sheet_printf(svg, "</g>\n");
}

void picture_legend(Sheet *svg, double x, double y, const char *what, bool both_signs) {
    enum { STEPS = 40, WIDTH = 160 };
    float values[STEPS];
    for (int i = 0; i < STEPS; i++) {
        float at = ((float)i + 0.5f) / STEPS;
        values[i] = both_signs ? 2 * at - 1 : at;
    }
    picture_text(svg, x, y - 5, "label", "start", 0, what, strlen(what));
    picture_heat_map(svg, x, y, (double)WIDTH / STEPS, 12, values, 1, STEPS, STEPS, both_signs);
    const char *low = both_signs ? "-1" : "0", *middle = both_signs ? "0" : "0.5";
    picture_text(svg, x, y + 24, "small", "middle", 0, low, strlen(low));
    picture_text(svg, x + WIDTH / 2.0, y + 24, "small", "middle", 0, middle, strlen(middle));
    picture_text(svg, x + WIDTH, y + 24, "small", "middle", 0, "1", 1);
}
