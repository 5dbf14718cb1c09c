#include "inspect/position_view.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/numbers.h"
#include "forward_pass.h"
#include "inspect/picture.h"

enum { MOST_POSITIONS = 128, MOST_COLUMNS = 256 };

/* A position code as a heat map. */
typedef struct Code {
    const char *title, *note, *legend;
    const char *rows, *columns; /* what a row and a column stand for */
    bool both_signs;            /* whether values may be negative */
    float *values;              /* [n_positions][n_columns], from -1 to 1 */
    size_t n_positions, n_columns;
} Code;

/* A vector of the model file and its length; NULL when the file has none of that name. */
static const float *vector_of(const ModelFile *file, const char *name, size_t *n) {
    const FileTensor *tensor = modelfile_find(file, name);
    if (!tensor || tensor->type != TENSOR_VECTOR) return NULL;
    *n = (size_t)tensor->rows * (size_t)tensor->cols;
    return modelfile_data(file, tensor);
}

static bool allocate(Code *code, size_t positions, size_t columns) {
    code->n_positions = positions < MOST_POSITIONS ? positions : MOST_POSITIONS;
    code->n_columns = columns < MOST_COLUMNS ? columns : MOST_COLUMNS;
    code->values = calloc(code->n_positions * code->n_columns + 1, sizeof *code->values);
    return code->values != NULL;
}

/* The vector that model.c adds to the embedding; its sines and cosines alternate or fill a half
 * each.
 */
static bool fill_sinusoids(Code *code, const Config *c, const float *freqs, size_t n) {
    if (!allocate(code, c->context, 2 * n)) return false;
    code->title = "Sinusoidal positions";
    code->note =
        "each column is an element of the vector that is added to a token's embedding; the "
        "first are the high frequencies";
    code->columns = "element";
    code->legend = "sine or cosine";
    bool halves = c->sinusoid_layout == SINUSOID_HALVES;
    for (size_t p = 0; p < code->n_positions; p++)
        for (size_t i = 0; i < code->n_columns; i++) {
            float sine, cosine;
            size_t k = halves ? i % n : i / 2;
            sin_cos((float)(p + c->position_offset) * freqs[k], &sine, &cosine);
            bool is_cosine = halves ? i >= n : i % 2 == 1;
            code->values[p * code->n_columns + i] = is_cosine ? cosine : sine;
        }
    return true;
}

static bool fill_rope(Code *code, const Config *c, const float *freqs, size_t n) {
    if (!allocate(code, c->context, n)) return false;
    code->title = "Rotary positions (RoPE)";
    code->note = "columns: pairs of elements of queries and keys, turned by position times "
                 "frequency";
    code->columns = "pair";
    code->legend = "cosine of the angle";
    for (size_t p = 0; p < code->n_positions; p++)
        for (size_t i = 0; i < code->n_columns; i++) {
            float sine, cosine;
            sin_cos((float)p * freqs[i], &sine, &cosine);
            code->values[p * code->n_columns + i] = cosine;
        }
    return true;
}

static bool fill_alibi(Code *code, const Config *c, const float *slopes, size_t n) {
    if (!allocate(code, c->context, n)) return false;
    code->title = "ALiBi";
    code->rows = "distance";
    code->both_signs = false;
    code->note =
        "columns: heads; what is left of a weight at that distance, exp(-slope * distance)";
    code->columns = "head";
    code->legend = "factor of the weight";
    for (size_t p = 0; p < code->n_positions; p++)
        for (size_t i = 0; i < code->n_columns; i++)
            code->values[p * code->n_columns + i] = expf(-fabsf(slopes[i]) * (float)p);
    return true;
}

static bool fill_learned(Code *code, const Config *c, const float *table, size_t n) {
    size_t positions = c->dim ? n / c->dim : 0;
    if (!allocate(code, positions, c->dim)) return false;
    float largest = 0.0f;
    code->title = "Learned positions";
    code->note = "columns: elements of the vector added to a token's embedding, divided by the "
                 "largest";
    code->columns = "element";
    code->legend = "value / largest";
    for (size_t p = 0; p < code->n_positions; p++)
        for (size_t i = 0; i < code->n_columns; i++)
            largest = fmaxf(largest, fabsf(table[p * c->dim + i]));
    for (size_t p = 0; p < code->n_positions && largest > 0.0f; p++)
        for (size_t i = 0; i < code->n_columns; i++)
            code->values[p * code->n_columns + i] = table[p * c->dim + i] / largest;
    return true;
}

/* Numbers along the rows (down) or the columns, every step-th. */
static void draw_axis(Sheet *svg, double x, double y, double cell, size_t n, bool down) {
    size_t step = n > 64 ? 16 : n > 16 ? 8 : n > 8 ? 4 : 1;
    for (size_t i = 0; i < n; i += step) {
        char text[16];
        int length = snprintf(text, sizeof text, "%zu", i);
        double at = cell * ((double)i + 0.5);
        if (down) {
            picture_text(svg, x - 6, y + at + 3, "small", "end", 0, text, (size_t)length);
        } else {
            picture_text(svg, x + at, y - 5, "small", "middle", 0, text, (size_t)length);
        }
    }
}

static void draw(const Session *session, const Code *code, Sheet *svg) {
    double wide = code->n_columns > 64 ? 720.0 / (double)code->n_columns : 11;
    double high = code->n_positions > 64 ? 5 : 9, left = 70, top = 130;
    if (code->n_columns <= 16) wide = 24;
    double width = left + wide * (double)code->n_columns + 30;
    double height = top + high * (double)code->n_positions + 20;
    const char *name = model_config(session->model)->name;
    picture_begin(svg, width < 800 ? 800 : width, height, code->title);
    picture_text(svg, 20, 28, "title", "start", 0, code->title, strlen(code->title));
    picture_text(svg, 20, 48, "label", "start", 0, code->note, strlen(code->note));
    picture_text(svg, 200, 86, "small", "start", 0, name, strlen(name) < 80 ? strlen(name) : 80);
    if (session->overridden) {
        const char *text = session->overridden;
        picture_text(svg, 20, 64, "small", "start", 0, "overridden:", 11);
        picture_text(svg, 90, 64, "small", "start", 0, text,
                     strlen(text) < 120 ? strlen(text) : 120);
    }
    picture_legend(svg, 20, 76, code->legend, code->both_signs);
    picture_text(svg, left, top - 20, "label", "start", 0, code->columns, strlen(code->columns));
    picture_text(svg, 22, top + 60, "label", "middle", -90, code->rows, strlen(code->rows));
    draw_axis(svg, left, top, high, code->n_positions, true);
    draw_axis(svg, left, top, wide, code->n_columns, false);
    picture_heat_map(svg, left, top, wide, high, code->values, code->n_positions, code->n_columns,
                     code->n_columns, code->both_signs);
    picture_end(svg);
}

Status position_view_run(Session *session, Error *error) {
    const Config *c = model_config(session->model);
    const ModelFile *file = session->file;
    Code code = {.rows = "position", .both_signs = true};
    size_t n = 0;
    bool filled = false;
    const float *table = NULL;
    switch (c->position) {
    case POSITION_SINUSOIDAL:
        if ((table = vector_of(file, "sinusoid.freqs", &n)))
            filled = fill_sinusoids(&code, c, table, n);
        break;
    case POSITION_ROPE:
        table = vector_of(file, "rope.freqs", &n);
        /* Those that the model turns by: --override and the context may have changed them. */
        if (table && n == session->model->n_pairs[0]) table = session->model->weights.rope_freqs[0];
        if (table) filled = fill_rope(&code, c, table, n);
        break;
    case POSITION_ALIBI:
        if ((table = vector_of(file, "alibi.slopes", &n))) filled = fill_alibi(&code, c, table, n);
        break;
    case POSITION_LEARNED:
        if ((table = vector_of(file, "position_embedding", &n)))
            filled = fill_learned(&code, c, table, n);
        break;
    default:
        return error_set(error, "%s: the model has no position code", modelfile_path(file));
    }
    if (!table)
        return error_set(error, "%s: the table of positions is missing", modelfile_path(file));
    Sheet svg = {0};
    if (filled) draw(session, &code, &svg);
    Status status = !filled || svg.failed
                        ? error_set(error, "no memory for the picture")
                        : output_write(session->output, svg.bytes, svg.length, error);
    sheet_free(&svg);
    free(code.values);
    return status;
}
