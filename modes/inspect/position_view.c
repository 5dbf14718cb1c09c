#include "modes/inspect/position_view.h"

#include <math.h>
#include <string.h>

#include "modes/inspect/inspect_options.h"
#include "modes/inspect/position_picture.h"

/* ---- As a table of numbers ---- */

static const double pi = 3.14159265358979323846;

/* Lists the pairs: all of up to 16, else 16 of them. */
static void write_pairs(const PositionCode *code, Sheet *out) {
    size_t step = (code->n + 15) / 16;
    sheet_printf(out, "\n%5s %9s %12s  %s\n", "pair", "elements", "frequency",
                 "positions in a turn");
    for (size_t i = 0; i < code->n; i++) {
        size_t sine, cosine;
        char elements[48];
        if (i % step != 0 && i + 1 != code->n) continue;
        position_code_pair(code, i, &sine, &cosine);
        snprintf(elements, sizeof elements, "%zu, %zu", sine, cosine);
        sheet_printf(out, "%5zu %9s %12.6g  %.6g\n", i, elements, (double)code->table[i],
                     code->table[i] != 0.0f ? 2 * pi / (double)code->table[i] : INFINITY);
    }
}

static void write_slopes(const PositionCode *code, Sheet *out) {
    sheet_printf(out, "\n%5s %10s  %s\n", "head", "slope", "a weight is halved every");
    for (size_t i = 0; i < code->n; i++) {
        double slope = fabs((double)code->table[i]);
        sheet_printf(out, "%5zu %10.6f  %.1f positions\n", i, slope,
                     slope > 0.0 ? log(2.0) / slope : INFINITY);
    }
}

/* Says whether every position has a vector of its own, and which are most alike. */
static void write_nearest(const PositionCode *code, size_t n, Sheet *out) {
    size_t a, b;
    if (code->kind == POSITION_ALIBI || n < 2) return;
    if (code->kind == POSITION_LEARNED && n > POSITION_CODE_MOST) n = POSITION_CODE_MOST;
    double distance = position_code_nearest(code, n, &a, &b);
    if (!(distance > 0.0))
        sheet_printf(out, "Positions %zu and %zu have the same vector.\n", a, b);
    else if (position_code_turns(code))
        sheet_printf(out,
                     "No two of the positions 0 to %zu have the same vector: the most alike, %zu "
                     "apart, differ by %.3g.\n",
                     n - 1, b - a, distance);
    else
        sheet_printf(out,
                     "No two of the positions 0 to %zu have the same vector: the most alike, %zu "
                     "and %zu, differ by %.3g.\n",
                     n - 1, a, b, distance);
}

/* Writes a table of how the position code rates the distances 0, 1, 2, 4 and so on, and for
 * rotations how far the rotated vectors are from exact. */
static void write_distances(const PositionCode *code, Sheet *out) {
    static const char *const headings[POSITION_KINDS] = {
        [POSITION_ROPE] = "score of a query and a key that are alike, over that at distance 0",
        [POSITION_SINUSOIDAL] = "PE(p) . PE(p + distance), over PE(p) . PE(p)",
        [POSITION_LEARNED] = "cosine of the angle between the vectors, mean of all p",
        [POSITION_ALIBI] = "factor of the weight, mean of all heads"};
    size_t most = code->n_positions < 65536 ? code->n_positions : 65536;
    bool turns = position_code_turns(code);
    sheet_printf(out, "\n%8s  %s%s\n", "distance", headings[code->kind],
                 turns ? "; largest error of the turn" : "");
    for (size_t d = 0; d < most; d = d ? 2 * d : 1) {
        sheet_printf(out, "%8zu  %+.4f", d, position_code_by_distance(code, d));
        if (turns)
            sheet_printf(out, "  %.1e",
                         position_code_turning_error(code, d, most < 4096 ? most : 4096));
        sheet_printf(out, "\n");
    }
    if (code->kind == POSITION_ROPE)
        sheet_printf(out, "The vector of position p: the cosine and the sine of p times each "
                          "pair's frequency,\nby which RoPE turns that pair of a query or key.\n");
    if (turns)
        sheet_printf(out, "The vector of position p + distance is that of p, each pair turned by "
                          "the same\nangle, distance times its frequency, whatever p is: the "
                          "error is rounding.\n");
    write_nearest(code, most, out);
}

/* Writes the frequencies or slopes, and how alike positions are by their distance. */
static void write_table(const PositionCode *code, Sheet *out) {
    static const char *const kinds[POSITION_KINDS] = {[POSITION_ROPE] = "rotary positions (RoPE)",
                                                      [POSITION_SINUSOIDAL] = "sinusoids",
                                                      [POSITION_LEARNED] = "learned vectors",
                                                      [POSITION_ALIBI] = "ALiBi"};
    sheet_printf(out, "%s: ", kinds[code->kind]);
    if (position_code_turns(code)) {
        sheet_printf(out, "%zu elements in %zu pairs of a sine and a cosine; %zu positions\n",
                     code->n_columns, code->n, code->n_positions);
        write_pairs(code, out);
    } else if (code->kind == POSITION_ALIBI) {
        sheet_printf(out, "scores fall with the distance by the slope of their head; %zu heads\n",
                     code->n);
        write_slopes(code, out);
    } else {
        sheet_printf(out, "%zu positions of %zu elements\n", code->n_positions, code->n_columns);
    }
    write_distances(code, out);
}

/* ---- The mode ---- */

Status position_view_run(Session *session, Error *error) {
    PositionCode code;
    Sheet out = {0};
    if (position_code_of(&code, session, error) != STATUS_OK) return STATUS_FAILED;
    if (strcmp(inspect_options(session->options)->positions, "table") == 0) {
        write_table(&code, &out);
    } else {
        position_picture_write(&code, session->overridden, &out);
    }
    Status status = out.failed ? error_set(error, "no memory for the picture")
                               : output_write(session->output, out.bytes, out.length, error);
    sheet_free(&out);
    return status;
}
