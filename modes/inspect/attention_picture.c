#include "modes/inspect/attention_picture.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "modes/inspect/picture_image.h"

enum { SHORT_TEXT = 40 }; /* tokens: up to here colours are linear, and cells are rectangles */

/* Where the parts of the picture stand, in pixels: the large map of the mean and, below it, a grid
 * of small maps (tiles), a row for each layer and a column for each head. */
typedef struct Layout {
    double left, top, cell, side; /* of the large map: its corner, a cell's side, its own */
    double tile;                  /* a tile's side */
    double pitch;                 /* from one tile to the next */
    double grid_left;             /* the left edge of the tiles */
    double grid_top, tiles_top;   /* the top of the head numbers, and of the tiles below them */
    double width, height;         /* of the whole picture */
} Layout;

static Layout layout_of(const AttentionMaps *m) {
    enum { GAP = 14, MIN_WIDTH = 640 };
    double n = (double)m->n;
    Layout l = {.left = 130, .top = 200, .grid_left = 90};
    l.cell = m->n <= SHORT_TEXT ? 18 : 720.0 / n;
    l.side = l.cell * n;
    l.tile = m->n <= SHORT_TEXT ? fmax(72, 3 * n) : 120.0;
    l.pitch = l.tile + GAP;
    l.grid_top = l.top + l.side + 60;
    l.tiles_top = l.grid_top + 44;
    l.width = fmax(fmax(l.left + l.side + 120, l.grid_left + l.pitch * m->n_heads + 20), MIN_WIDTH);
    l.height = l.tiles_top + l.pitch * m->n_layers + 20;
    return l;
}

/* ---- Maps ------------------------------------------------------------------------------------ */

static void draw_cells(const AttentionMaps *m, Sheet *svg, double x, double y, double cell,
                       const float *map, const uint32_t *first, size_t n) {
    for (size_t q = 0; q < n; q++)
        picture_strip(svg, x + cell * first[q], y + cell * (double)q, cell, map + q * n + first[q],
                      attention_maps_end(m, q) - first[q]);
}

/* Each cell of the image is a bin of at least one cell of the map and has the largest of them. */
static void draw_bins(const AttentionMaps *m, Sheet *svg, double x, double y, double side,
                      const float *map, const uint32_t *first, size_t n) {
    size_t bin = 1;
    while ((double)(n / bin) > 2 * side) bin++;
    size_t n_bins = (n + bin - 1) / bin;
    uint8_t *cells = malloc(n_bins * n_bins);
    if (!cells) {
        svg->failed = true;
        return;
    }
    memset(cells, PICTURE_CLEAR, n_bins * n_bins);
    for (size_t q = 0; q < n; q++)
        for (size_t k = first[q]; k < attention_maps_end(m, q); k++) {
            uint8_t *cell = &cells[q / bin * n_bins + k / bin];
            uint8_t shade = picture_shade(cbrt((double)map[q * n + k]), false);
            if (*cell == PICTURE_CLEAR || shade > *cell) *cell = shade;
        }
    double drawn = side * (double)(n_bins * bin) / (double)n; /* the last bin may be part empty */
    picture_image(svg, x, y, drawn, drawn, cells, n_bins, n_bins, false);
    free(cells);
}

static void draw_map(const AttentionMaps *m, Sheet *svg, double x, double y, double side,
                     const float *map, const uint32_t *first, size_t n) {
    picture_hatch(svg, x, y, side, side);
    if (n <= SHORT_TEXT) {
        draw_cells(m, svg, x, y, side / (double)n, map, first, n);
    } else {
        draw_bins(m, svg, x, y, side, map, first, n);
    }
}

/* ---- The parts ------------------------------------------------------------------------------- */

/* Draws the title, the description, the scale of colours and what rows, columns and hatching
 * mean. */
static void draw_heading(const AttentionMaps *m, Sheet *svg) {
    Sheet description = {0};
    attention_maps_describe(m, &description);
    picture_text(svg, 20, 28, "title", "start", 0, "What each token attends to", 26);
    picture_text(svg, 20, 48, "label", "start", 0, description.bytes, description.length);
    if (m->n <= SHORT_TEXT) {
        picture_legend(svg, 20, 76, "weight; each row adds up to 1", false);
    } else {
        picture_scale(svg, 20, 76, "weight; each row adds up to 1", false);
        picture_tick(svg, 20, 76, 0.0, "0");
        picture_tick(svg, 20, 76, 0.2154, "0.01");
        picture_tick(svg, 20, 76, 0.4642, "0.1");
        picture_tick(svg, 20, 76, 1.0, "1");
    }
    picture_text(svg, 220, 74, "small", "start", 0, "rows: the token that looks", 26);
    picture_text(svg, 220, 88, "small", "start", 0, "columns: what it looks at", 25);
    picture_hatch(svg, 220, 95, 16, 10);
    picture_text(svg, 242, 103, "small", "start", 0, "masked: it is not looked at", 27);
    sheet_free(&description);
}

/* Writes each token, or every so many, at its row of the large map and, turned, at its column. */
static void draw_tokens(const AttentionMaps *m, const Layout *l, Sheet *svg) {
    Sheet label = {0}, line = {0};
    size_t step = 1;
    while ((double)step * l->cell < 15) step++;
    for (size_t i = 0; i < m->n; i += step) {
        double at = l->cell * ((double)i + 0.5);
        attention_maps_label(m, i, 12, &label);
        line.length = 0;
        if (step > 1) sheet_printf(&line, "%zu ", i);
        sheet_add(&line, label.bytes, label.length);
        picture_text(svg, l->left - 6, l->top + at + 4, "label", "end", 0, line.bytes, line.length);
        picture_text(svg, l->left + at + 4, l->top - 6, "label", "start", -60, line.bytes,
                     line.length);
    }
    sheet_free(&label);
    sheet_free(&line);
}

/* Draws the mean, striped where no layer sees. */
static void draw_mean(const AttentionMaps *m, const Layout *l, Sheet *svg) {
    float *mean = malloc(m->n * m->n * sizeof *mean);
    uint32_t *first = malloc(m->n * sizeof *first);
    if (!mean || !first) {
        svg->failed = true;
    } else {
        for (size_t q = 0; q < m->n; q++) {
            first[q] = (uint32_t)q;
            for (size_t layer = 0; layer < m->n_layers; layer++)
                if (attention_maps_attends(m, layer) && m->first[layer * m->n + q] < first[q])
                    first[q] = m->first[layer * m->n + q];
        }
        attention_maps_mean(m, 0, m->n_layers, mean);
        draw_map(m, svg, l->left, l->top, l->side, mean, first, m->n);
        draw_tokens(m, l, svg);
        picture_text(svg, l->left, l->top + l->side + 18, "label", "start", 0,
                     "the mean of all layers and heads", 32);
    }
    free(mean);
    free(first);
}

/* Numbers the heads, and brackets those that share keys and values. */
static void draw_heads(const AttentionMaps *m, const Layout *l, Sheet *svg) {
    char text[48];
    size_t layer = 0;
    while (layer + 1 < m->n_layers && !attention_maps_attends(m, layer)) layer++;
    uint32_t n = attention_maps_heads(m, layer), n_kv = attention_maps_kv_heads(m, layer);
    for (uint32_t head = 0; head < m->n_heads; head++) {
        int length = snprintf(text, sizeof text, "head %u", head);
        picture_text(svg, l->grid_left + l->pitch * head + l->tile / 2, l->tiles_top - 6, "small",
                     "middle", 0, text, (size_t)length);
    }
    if (n != m->n_heads || n_kv >= n) return;
    for (uint32_t kv = 0; kv < n_kv; kv++) {
        double left = l->grid_left + l->pitch * (kv * n / n_kv);
        double right = l->grid_left + l->pitch * ((kv + 1) * n / n_kv - 1) + l->tile;
        double y = l->grid_top + 16;
        const double bracket[][2] = {{left, y + 8}, {left, y}, {right, y}, {right, y + 8}};
        int length = snprintf(text, sizeof text,
                              right - left < 150 ? "keys %u" : "share keys and values %u", kv);
        picture_line(svg, bracket, 4);
        picture_text(svg, (left + right) / 2, y - 5, "small", "middle", 0, text, (size_t)length);
    }
}

/* Draws the small maps: a row for each layer, labelled with its window or chunk, and in it a map
 * for each head. A layer without attention has a label only. */
static void draw_tiles(const AttentionMaps *m, const Layout *l, Sheet *svg) {
    char text[48];
    draw_heads(m, l, svg);
    for (uint32_t layer = 0; layer < m->n_layers; layer++) {
        const Config *c = modelfile_config(m->session->file);
        double y = l->tiles_top + l->pitch * layer, middle = y + l->tile / 2;
        bool attends = attention_maps_attends(m, layer);
        int n = snprintf(text, sizeof text, "layer %u%s", layer, attends ? "" : ": none");
        picture_text(svg, l->grid_left - 8, middle + 3, "small", "end", 0, text, (size_t)n);
        if (attends && (c->window[layer] || c->chunk[layer])) {
            n = c->window[layer] ? snprintf(text, sizeof text, "window %u", c->window[layer])
                                 : snprintf(text, sizeof text, "chunks of %u", c->chunk[layer]);
            picture_text(svg, l->grid_left - 8, middle + 15, "small", "end", 0, text, (size_t)n);
        }
        uint32_t n_heads = attends ? attention_maps_heads(m, layer) : 0;
        for (uint32_t head = 0; head < n_heads; head++)
            draw_map(m, svg, l->grid_left + l->pitch * head, y, l->tile,
                     attention_map(m, layer, head), m->first + layer * m->n, m->n);
    }
}

void attention_picture_write(const AttentionMaps *m, Sheet *svg) {
    const Layout l = layout_of(m);
    picture_begin(svg, l.width, l.height, "attention");
    draw_heading(m, svg);
    draw_mean(m, &l, svg);
    draw_tiles(m, &l, svg);
    picture_end(svg);
}
