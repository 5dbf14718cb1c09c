#include "modes/inspect/position_picture.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "modes/inspect/picture_image.h"

enum {
    LEFT = 90,
    WIDE = 760,           /* of the vectors */
    MOST_POSITIONS = 512, /* rows of the vectors that are drawn */
    MOST_COLUMNS = 1520,
    ALIKE = 128, /* positions of the map of similarities */
    SIDE = 256,  /* of that map */
    FAR = 256,   /* distances of the curve */
    CIRCLES = 4
};

static void write_line(Sheet *svg, double x, double y, const char *style, const char *text) {
    picture_text(svg, x, y, style, "start", 0, text, strlen(text));
}

/* ---- Axes ------------------------------------------------------------------------------------ */

/* A step between numbers of an axis with n values, so that about `most` numbers stand there. */
static size_t step_of(size_t n, size_t most) {
    size_t step = 1;
    while (n / step > most) step *= 2;
    return step;
}

static void number(Sheet *svg, double x, double y, const char *anchor, size_t value) {
    char text[32];
    int n = snprintf(text, sizeof text, "%zu", value);
    picture_text(svg, x, y, "small", anchor, 0, text, (size_t)n);
}

static void draw_axes(Sheet *svg, double left, double top, double cell, double high, size_t columns,
                      size_t rows, size_t column_step) {
    size_t across = step_of(columns, (size_t)(cell * (double)columns / 30) + 1);
    size_t down = step_of(rows, 16);
    for (size_t i = 0; i < columns; i += across)
        number(svg, left + cell * ((double)i + 0.5), top - 5, "middle", i * column_step);
    for (size_t i = 0; i < rows; i += down)
        number(svg, left - 6, top + high * ((double)i + 0.5) + 3, "end", i);
}

/* ---- The vectors ----------------------------------------------------------------------------- */

/* A map of rows x columns of shades, drawn at (left, top) with cells of cell x high pixels. */
typedef struct Panel {
    double left, top, cell, high;
    size_t rows, columns;
} Panel;

static double panel_bottom(const Panel *p) {
    return p->top + p->high * (double)p->rows;
}

/* Draws the vectors of the first positions, and returns where the panel ends. */
static double draw_vectors(const PositionCode *code, double top, Sheet *svg) {
    static const char *const columns[POSITION_KINDS] = {
        [POSITION_ROPE] = "element of a query or a key",
        [POSITION_SINUSOIDAL] = "element of the vector",
        [POSITION_LEARNED] = "element of the vector",
        [POSITION_ALIBI] = "head"};
    size_t step = (code->n_columns + MOST_COLUMNS - 1) / MOST_COLUMNS;
    Panel p = {.left = LEFT, .top = top + 40, .rows = size_min(code->n_positions, MOST_POSITIONS)};
    p.columns = (code->n_columns + step - 1) / step;
    p.cell = p.columns <= 16 ? 24 : (double)WIDE / (double)p.columns;
    p.high = p.rows <= 64 ? 6 : 384.0 / (double)p.rows;
    bool both_signs = code->kind != POSITION_ALIBI;
    float *vector = malloc(code->n_columns * sizeof *vector), largest = 1.0f;
    uint8_t *cells = malloc(p.rows * p.columns);
    if (!vector || !cells) {
        svg->failed = true;
    } else {
        for (size_t i = 0; code->kind == POSITION_LEARNED && i < code->n; i++)
            largest = i ? fmaxf(largest, fabsf(code->table[i])) : fabsf(code->table[i]);
        for (size_t r = 0; r < p.rows; r++) {
            position_code_vector(code, r, vector);
            for (size_t i = 0; i < p.columns; i++)
                cells[r * p.columns + i] = picture_shade(
                    (double)(largest > 0.0f ? vector[i * step] / largest : 0.0f), both_signs);
        }
        char note[160];
        int n = snprintf(note, sizeof note, "%s", columns[code->kind]);
        if (step > 1)
            n += snprintf(note + n, sizeof note - (size_t)n, ", every %zu. of %zu", step,
                          code->n_columns);
        if (p.rows < code->n_positions)
            snprintf(note + n, sizeof note - (size_t)n, "; the first %zu of %zu positions", p.rows,
                     code->n_positions);
        write_line(svg, LEFT, top + 16, "label", note);
        picture_text(svg, 26, p.top + 60, "label", "middle", -90,
                     code->kind == POSITION_ALIBI ? "distance" : "position", 8);
        draw_axes(svg, p.left, p.top, p.cell, p.high, p.columns, p.rows, step);
        picture_image(svg, p.left, p.top, p.cell * (double)p.columns, panel_bottom(&p) - p.top,
                      cells, p.rows, p.columns, both_signs);
    }
    free(vector);
    free(cells);
    return panel_bottom(&p);
}

/* ---- How alike positions are ----------------------------------------------------------------- */

static void draw_similarities(const PositionCode *code, double left, double top, Sheet *svg) {
    size_t n = size_min(code->n_positions, ALIKE);
    uint8_t *cells = malloc(n * n);
    if (!cells) {
        svg->failed = true;
        return;
    }
    for (size_t a = 0; a < n; a++)
        for (size_t b = 0; b < n; b++)
            cells[a * n + b] = picture_shade(position_code_similarity(code, a, b), true);
    write_line(svg, left, top, "label",
               code->kind == POSITION_ROPE ? "score of equal query and key" : "PE(p) . PE(q)");
    draw_axes(svg, left, top + 24, (double)SIDE / (double)n, (double)SIDE / (double)n, n, n, 1);
    picture_image(svg, left, top + 24, SIDE, SIDE, cells, n, n, true);
    free(cells);
}

/* The curve of one function of the distance, from -1 (bottom) to 1, or of factors from 0 on. */
static void draw_curve(const PositionCode *code, size_t head, double left, double top, Sheet *svg) {
    double points[FAR + 1][2];
    size_t n = size_min(code->n_positions, FAR + 1);
    for (size_t d = 0; d < n; d++) {
        double y = code->kind == POSITION_ALIBI
                       ? 2 * exp(-fabs((double)code->table[head]) * (double)d) - 1
                       : position_code_by_distance(code, d);
        points[d][0] = left + (double)d * 400.0 / FAR;
        points[d][1] = top + SIDE * (1 - y) / 2;
    }
    picture_line(svg, (const double(*)[2])points, n);
}

static void draw_by_distance(const PositionCode *code, double left, double top, Sheet *svg) {
    bool alibi = code->kind == POSITION_ALIBI;
    const double frame[][2] = {
        {left, top + 24}, {left, top + 24 + SIDE}, {left + 400, top + 24 + SIDE}};
    const double zero[][2] = {{left, top + 24 + SIDE / 2.0}, {left + 400, top + 24 + SIDE / 2.0}};
    write_line(svg, left, top, "label",
               alibi ? "what is left of a weight, by distance: each head"
                     : "the same, by distance");
    picture_line(svg, frame, 3);
    if (!alibi) picture_line(svg, zero, 2);
    write_line(svg, left - 22, top + 28, "small", "1");
    write_line(svg, left - 22, top + 28 + SIDE / 2.0, "small", alibi ? "0.5" : "0");
    write_line(svg, left - 22, top + 28 + SIDE, "small", alibi ? "0" : "-1");
    for (size_t d = 0; d <= FAR; d += 32)
        number(svg, left + (double)d * 400.0 / FAR, top + 24 + SIDE + 14, "middle", d);
    for (size_t head = 0; head < (alibi ? code->n : 1); head++)
        draw_curve(code, head, left, top + 24, svg);
}

/* ---- How pairs turn -------------------------------------------------------------------------- */

enum { TURNS = 3 }; /* of a pair, from different positions */

/* The numbers beside a circle: one that would lie on another is left out. */
typedef struct Labels {
    double at[2 * TURNS][2];
    size_t n;
} Labels;

static void write_label(Labels *labels, double x, double y, size_t position, Sheet *svg) {
    for (size_t i = 0; i < labels->n; i++)
        if (fabs(labels->at[i][0] - x) < 14 && fabs(labels->at[i][1] - y) < 10) return;
    labels->at[labels->n][0] = x;
    labels->at[labels->n++][1] = y;
    number(svg, x, y, "middle", position);
}

/* Draws one pair: its circle, and the same turn from three positions. */
static void draw_circle(const PositionCode *code, size_t pair, size_t turn, double x, double y,
                        float *vector, Sheet *svg) {
    enum { POINTS = 49, RADIUS = 52 };
    double circle[POINTS][2];
    char text[64];
    for (int i = 0; i < POINTS; i++) {
        double angle = 2 * 3.14159265358979 * i / (POINTS - 1);
        circle[i][0] = x + RADIUS * cos(angle);
        circle[i][1] = y - RADIUS * sin(angle);
    }
    picture_line(svg, (const double(*)[2])circle, POINTS);
    Labels labels = {.n = 0};
    for (size_t from = 0; from < TURNS; from++) {
        double chord[2][2];
        for (size_t end = 0; end < 2; end++) {
            size_t p = from * 5 + end * turn, at[2];
            position_code_vector(code, p, vector);
            position_code_pair(code, pair, &at[0], &at[1]);
            float sine = vector[at[0]], cosine = vector[at[1]];
            chord[end][0] = x + RADIUS * (double)cosine;
            chord[end][1] = y - RADIUS * (double)sine;
            sheet_printf(svg, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"/>\n",
                         chord[end][0], chord[end][1], end ? "#2879b9" : "#d2691e");
            double away = 1.2;
            write_label(&labels, x + away * RADIUS * (double)cosine,
                        y - away * RADIUS * (double)sine + 3, p, svg);
        }
        picture_line(svg, (const double(*)[2])chord, 2);
    }
    int n = snprintf(text, sizeof text, "pair %zu: %zu further turns by %.1f\xC2\xB0", pair, turn,
                     fmod((double)turn * (double)code->table[pair] * 180 / 3.14159265358979, 360));
    picture_text(svg, x, y + RADIUS + 30, "small", "middle", 0, text, (size_t)n);
}

static void draw_turns(const PositionCode *code, double top, Sheet *svg) {
    enum { TURN = 3 };
    char text[200];
    float *vector = malloc(code->n_columns * sizeof *vector);
    if (!vector) {
        svg->failed = true;
        return;
    }
    snprintf(text, sizeof text,
             "Position p + %d is position p, each pair turned by its own angle, whatever p is "
             "(largest error at %zu positions: %.0e)",
             TURN, size_min(code->n_positions, 4096),
             position_code_turning_error(code, TURN, size_min(code->n_positions, 4096)));
    write_line(svg, 20, top, "label", text);
    for (size_t i = 0; i < CIRCLES && i < code->n; i++)
        draw_circle(code, i * (code->n > 8 ? 2 : 1), TURN, 110 + 200 * (double)i, top + 85, vector,
                    svg);
    free(vector);
}

/* ---- The picture ----------------------------------------------------------------------------- */

void position_picture_write(const PositionCode *code, const char *overridden, Sheet *svg) {
    static const struct {
        const char *title, *note, *legend;
    } texts[POSITION_KINDS] = {
        [POSITION_ROPE] = {"Rotary positions (RoPE)",
                           "pairs of elements of queries and keys are turned by position times "
                           "frequency; the first pairs have the high frequencies",
                           "sine and cosine of the angle"},
        [POSITION_SINUSOIDAL] = {"Sinusoidal positions",
                                 "the vector PE(p) is added to the embedding; the first elements "
                                 "have the high frequencies",
                                 "sine or cosine"},
        [POSITION_LEARNED] = {"Learned positions", "the vector is added to the embedding",
                              "value / largest"},
        [POSITION_ALIBI] = {"ALiBi",
                            "what is left of a weight at a distance, "
                            "exp(-slope * distance)",
                            "factor of the weight"}};
    Sheet body = {0};
    const char *name = code->config->name;
    double bottom = draw_vectors(code, 104, &body) + 40;
    bool alibi = code->kind == POSITION_ALIBI;
    if (!alibi) draw_similarities(code, LEFT, bottom, &body);
    draw_by_distance(code, alibi ? LEFT : LEFT + SIDE + 70, bottom, &body);
    bottom += SIDE + 80;
    if (position_code_turns(code)) {
        draw_turns(code, bottom, &body);
        bottom += 190;
    }
    picture_begin(svg, LEFT + WIDE + 50, bottom, texts[code->kind].title);
    write_line(svg, 20, 28, "title", texts[code->kind].title);
    write_line(svg, 20, 48, "label", texts[code->kind].note);
    picture_text(svg, 200, 86, "small", "start", 0, name, strlen(name) < 80 ? strlen(name) : 80);
    if (overridden) {
        write_line(svg, 200, 73, "small", "overridden:");
        picture_text(svg, 260, 73, "small", "start", 0, overridden,
                     strlen(overridden) < 120 ? strlen(overridden) : 120);
    }
    picture_legend(svg, 20, 78, texts[code->kind].legend, !alibi);
    sheet_add(svg, body.bytes ? body.bytes : "", body.length);
    if (body.failed) svg->failed = true;
    picture_end(svg);
    sheet_free(&body);
}
