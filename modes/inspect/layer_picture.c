#include "modes/inspect/layer_picture.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LEFT = 200, WIDTH = 640, LINE = 128, GAP = 12 };

/* The picture so far: where the next part stands, or, without svg, how high it becomes. */
typedef struct Drawing {
    Sheet *svg;
    double y;
} Drawing;

static void caption(const Drawing *d, double y, const char *style, const char *text) {
    picture_text(d->svg, LEFT - 10, y, style, "end", 0, text, strlen(text));
}

/* Draws x[rows][columns] as cells as wide as the picture, at most 14 pixels, the largest magnitude
 * in full colour. */
static void draw_cells(Drawing *d, const char *name, const float *x, size_t rows, size_t columns,
                       bool both_signs, double highest) {
    char text[64];
    double width = fmin((double)WIDTH / (double)columns, 14.0), height = rows > 1 ? 9.0 : 14.0;
    float *scaled = malloc((rows * columns + 1) * sizeof *scaled);
    if (!scaled) {
        d->svg->failed = true;
        return;
    }
    for (size_t i = 0; i < rows * columns; i++)
        scaled[i] = highest > 0.0 ? (float)((double)x[i] / highest) : 0.0f;
    caption(d, d->y + 10, "label", name);
    if (both_signs) {
        snprintf(text, sizeof text, "\xC2\xB1%.4g", highest);
        caption(d, d->y + 23, "small", text);
    }
    picture_heat_map(d->svg, LEFT, d->y, width, height, scaled, rows, columns, columns, both_signs);
    d->y += fmax(height * (double)rows, both_signs ? 26.0 : 14.0) + GAP;
    free(scaled);
}

static double magnitude(const float *x, size_t n) {
    const VectorStatistics s = layer_trace_statistics(x, n);
    return fmax(fabs(s.largest), fabs(s.smallest));
}

/* Draws a vector in lines of 128 cells; NULL: nothing. The last line is filled up with zeros. */
static void draw_vector(Drawing *d, const char *name, const float *x, size_t n) {
    size_t columns = n < LINE ? n : LINE, rows = (n + LINE - 1) / LINE;
    if (!x || n == 0) return;
    float *padded = calloc(rows * columns, sizeof *padded);
    if (!padded) {
        d->svg->failed = true;
        return;
    }
    memcpy(padded, x, n * sizeof *padded);
    draw_cells(d, name, padded, rows, columns, true, magnitude(x, n));
    free(padded);
}

/* The weights of all heads, with the tokens above them. */
static void draw_weights(Drawing *d, const LayerTrace *t, uint32_t n_heads) {
    const AttentionMaps *m = &t->maps;
    size_t n = t->position + 1, step = 1;
    double width = fmin((double)WIDTH / (double)n, 14.0);
    float *weights = malloc(n_heads * n * sizeof *weights);
    Sheet label = {0};
    while ((double)step * width < 12) step++;
    if (!weights) {
        d->svg->failed = true;
        return;
    }
    d->y += 70;
    for (size_t k = 0; k < n; k += step) {
        attention_maps_label(m, k, 12, &label);
        picture_text(d->svg, LEFT + width * ((double)k + 0.6), d->y - 4, "small", "start", -60,
                     label.bytes, label.length);
    }
    for (uint32_t head = 0; head < n_heads; head++)
        memcpy(weights + head * n, attention_map(m, t->layer, head) + t->position * m->n,
               n * sizeof *weights);
    draw_cells(d, "weights: heads by tokens", weights, n_heads, n, false, 1.0);
    sheet_free(&label);
    free(weights);
}

/* Draws one branch of a layer from top to bottom: x, its norm, attention or hidden units, the
 * output, and x + output. */
static void draw_branch(Drawing *d, const LayerTrace *t, const TracedBranch *b) {
    const Config *c = modelfile_config(t->maps.session->file);
    const HeadShape h = config_heads(c, t->layer);
    d->y += 20; /* room before the heading, and less after it: it belongs to what follows */
    picture_text(d->svg, 20, d->y, "title", "start", 0, b->branch->kind->name,
                 strlen(b->branch->kind->name));
    d->y += 14;
    draw_vector(d, "x", b->before, c->dim);
    draw_vector(d, "norm(x)", b->read, c->dim);
    if (b->q && b->attended) {
        draw_cells(d, "queries: heads by width", b->q, h.n_heads, h.head_dim, true,
                   magnitude(b->q, (size_t)h.n_heads * h.head_dim));
        draw_weights(d, t, h.n_heads);
        draw_cells(d, "sums of values", b->attended, h.n_heads, h.value_dim, true,
                   magnitude(b->attended, (size_t)h.n_heads * h.value_dim));
    }
    draw_vector(d, "hidden, activated", b->hidden, b->n_hidden);
    draw_vector(d, b->branch->post ? "norm(output)" : "output", b->out, c->dim);
    draw_vector(d, "x + output", b->added, c->dim);
}

static void draw_parts(Drawing *d, const LayerTrace *t) {
    Sheet line = {0};
    attention_maps_describe(&t->maps, &line);
    sheet_printf(&line, "; at position %zu, ", t->position);
    Sheet label = {0};
    attention_maps_label(&t->maps, t->position, 24, &label);
    sheet_add(&line, label.bytes, label.length);
    char title[64];
    int n = snprintf(title, sizeof title, "What layer %zu makes of a position", t->layer);
    picture_text(d->svg, 20, 28, "title", "start", 0, title, (size_t)n);
    picture_text(d->svg, 20, 48, "label", "start", 0, line.bytes, line.length);
    d->y = 70;
    for (size_t i = 0; i < t->n_branches; i++) draw_branch(d, t, &t->branches[i]);
    draw_vector(d, "x after the layer", t->after, modelfile_config(t->maps.session->file)->dim);
    sheet_free(&line);
    sheet_free(&label);
}

/* The height of the picture follows from drawing it once. */
void layer_picture_write(const LayerTrace *t, Sheet *svg) {
    Sheet unseen = {0};
    Drawing measured = {.svg = &unseen}, d = {.svg = svg};
    draw_parts(&measured, t);
    picture_begin(svg, LEFT + WIDTH + 40, measured.y + 10, "layer");
    draw_parts(&d, t);
    picture_end(svg);
    if (unseen.failed) svg->failed = true;
    sheet_free(&unseen);
}
