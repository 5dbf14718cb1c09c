#include "convert/losses.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "convert/saturation.h"

typedef void Note(const char *line, void *context);

bool losses_new(ConvertLosses *losses, const Source *source) {
    *losses = (ConvertLosses){.saturated = calloc(source->n_tensors + 1, sizeof(size_t))};
    return losses->saturated;
}

void losses_free(ConvertLosses *losses) {
    free(losses->saturated);
}

/* ---- Counting ---- */

void losses_count_saturated(ConvertLosses *losses, const TensorPlan *t, float *x,
                            const uint8_t *panel) {
    size_t cols = t->from->cols;
    float largest = 0.0f, *row = x + PANEL_ROWS * tensor_padded_cols(t->type, cols);
    size_t n = saturation_count(t->type, cols, x, panel, row, &largest);
    if (n == 0) return;
#pragma omp critical(convert_saturated)
    {
        losses->saturated[t->from - t->source->tensors] += n;
        if (largest > losses->largest) losses->largest = largest;
    }
}

void losses_count_cleared(ConvertLosses *losses, const TensorPlan *t, const float *x) {
    size_t n = saturation_cleared(t->type, x, PANEL_ROWS * t->from->cols);
    if (n > 0) atomic_fetch_add(&losses->cleared, n);
}

/* Reads the panel's rows again and compares them with what the panel gives back. */
Status losses_measure(ConvertLosses *losses, const TensorPlan *t, size_t first,
                      const uint8_t *panel, float *x, Error *error) {
    size_t n = panel_rows(t, first), cols = t->from->cols;
    const Matrix matrix = {.type = t->type, .rows = PANEL_ROWS, .cols = cols, .data = panel};
    float *row = x + PANEL_ROWS * tensor_padded_cols(t->type, cols);
    double errors = 0.0, squares = 0.0;
    if (source_reading_floats(&t->reading, t->source, t->from, first, n, x, error) != STATUS_OK)
        return STATUS_FAILED;
    for (size_t r = 0; r < n; r++) {
        matrix_row(&matrix, r, row);
        for (size_t k = 0; k < cols; k++) {
            double weight = (double)x[r * cols + k], d = weight - (double)row[k];
            errors += d * d;
            squares += weight * weight;
        }
    }
#pragma omp critical(convert_errors)
    {
        losses->errors[t->from->stored] += errors;
        losses->squares[t->from->stored] += squares;
    }
    return STATUS_OK;
}

/* ---- Saying ---- */

static void tell_errors(const ConvertLosses *losses, Note *note, void *context) {
    for (StoredType type = STORED_F32; type < STORED_TYPES; type++) {
        const StoredTypeInfo *info = stored_type_info(type);
        char line[160];
        double error = losses->errors[type], square = losses->squares[type];
        if (!(error > 0.0)) continue;
        snprintf(
            line, sizeof line,
            "%s has no equal here: converted to %s, which moved the weights by %.3g%% of their "
            "size (root mean square)",
            info->name, tensor_type_info(info->lossless)->name,
            square > 0.0 ? 100.0 * sqrt(error / square) : 0.0);
        note(line, context);
    }
}

/* Says that weights of a model.bin which were rounded before are rounded again, and which types
 * most of them have: the first tensor's, an embedding, is often another than the rest. */
static void tell_second_rounding(const TensorPlan *tensors, size_t n, Note *note, void *context) {
    double weights[TENSOR_TYPES][TENSOR_TYPES] = {{0.0}}, most = 0.0;
    TensorType from = TENSOR_TYPES, to = TENSOR_TYPES;
    for (size_t i = 0; i < n; i++) {
        const SourceTensor *t = tensors[i].from;
        TensorType type = tensors[i].type;
        if (t->stored != STORED_PANELS || (t->panels == type && !t->sums) || t->shares) continue;
        if (!tensor_type_info(t->panels)->group || !tensor_type_info(type)->group) continue;
        weights[t->panels][type] += (double)t->rows * (double)t->cols;
        if (weights[t->panels][type] <= most) continue;
        most = weights[t->panels][type];
        from = t->panels;
        to = type;
    }
    if (from == TENSOR_TYPES) return;
    char line[200];
    snprintf(line, sizeof line,
             "weights of %s are rounded a second time, to %s: the result is less exact than from "
             "the original model",
             tensor_type_info(from)->name, tensor_type_info(to)->name);
    note(line, context);
}

/* The tensor with most weights that its type does not hold, of those that are not taken[] yet. */
static size_t most_saturated(const ConvertLosses *losses, size_t n_tensors, const size_t *taken,
                             size_t n_taken) {
    size_t most = SIZE_MAX;
    for (size_t i = 0; i < n_tensors; i++) {
        bool is_taken = losses->saturated[i] == 0;
        for (size_t k = 0; k < n_taken; k++) is_taken = is_taken || taken[k] == i;
        if (!is_taken && (most == SIZE_MAX || losses->saturated[i] > losses->saturated[most]))
            most = i;
    }
    return most;
}

/* Counts the weights that became smaller because their type holds none as large, and names the
 * tensors that have most of them. */
static void tell_saturated(const ConvertLosses *losses, const TensorPlan *tensors, size_t n_tensors,
                           Note *note, void *context) {
    enum { MOST_NAMES = 3 };
    size_t total = 0, touched = 0, named[MOST_NAMES], n = 0, at;
    char line[600];
    for (size_t i = 0; i < n_tensors; i++) {
        total += losses->saturated[i];
        touched += losses->saturated[i] > 0;
    }
    if (total == 0) return;
    size_t length = (size_t)snprintf(
        line, sizeof line,
        total == 1
            ? "%zu weight (%g) is beyond the range of its type and became smaller:"
            : "%zu weights (up to %g) are beyond the range of their type and became smaller:",
        total, (double)losses->largest);
    while (n < MOST_NAMES && (at = most_saturated(losses, n_tensors, named, n)) != SIZE_MAX) {
        length += (size_t)snprintf(line + length, sizeof line - length, "%s %zu in '%.60s' (%s)",
                                   n ? "," : "", losses->saturated[at], tensors[at].from->name,
                                   tensor_type_info(tensors[at].type)->name);
        named[n++] = at;
    }
    if (touched > n)
        snprintf(line + length, sizeof line - length, ", and in %zu more tensors", touched - n);
    note(line, context);
}

/* Says what bf16_act has lost: the lower bits of weights that were no bfloat16 numbers, and weights
 * below 2^-40. Nothing is said where there was no loss. */
static void tell_bfloats(const ConvertLosses *losses, const TensorPlan *tensors, size_t n,
                         Note *note, void *context) {
    const char *rounded = NULL;
    size_t cleared = atomic_load(&losses->cleared);
    char line[200], low[60];
    for (size_t i = 0; i < n && !rounded; i++) {
        const SourceTensor *t = tensors[i].from;
        bool panels = t->stored == STORED_PANELS;
        TensorType from = panels ? t->panels : stored_type_info(t->stored)->lossless;
        if (t->shares || tensors[i].type != TENSOR_BF16_ACT) continue;
        if (t->stored == STORED_RANDOM) continue; /* it had no bits before */
        if (type_is_bfloat(from) && !t->sums && t->add == 0.0f) continue;
        rounded = panels ? tensor_type_info(from)->name : stored_type_info(t->stored)->name;
    }
    if (!rounded && cleared == 0) return;
    snprintf(low, sizeof low, "%zu with |w| < 2^-40 became 0", cleared);
    if (rounded) {
        snprintf(line, sizeof line, "bf16_act: weights of %s are rounded to 8 significant bits%s%s",
                 rounded, cleared ? "; " : "", cleared ? low : "");
    } else {
        snprintf(line, sizeof line, "bf16_act: weights are kept without loss, but %s", low);
    }
    note(line, context);
}

void losses_tell(const ConvertLosses *losses, const TensorPlan *tensors, size_t n, Note *note,
                 void *context) {
    tell_errors(losses, note, context);
    tell_second_rounding(tensors, n, note, context);
    tell_saturated(losses, tensors, n, note, context);
    tell_bfloats(losses, tensors, n, note, context);
}
