#include "convert/panel_maker.h"

#include <stdlib.h>

#include "base/numbers.h"

void panel_raise_size(size_t *size, size_t needed) {
    if (*size < needed) *size = needed;
}

bool panel_work_new(PanelWork *work, const PanelSizes *sizes, struct ConvertLosses *losses) {
    /* 64 more bytes each, as a size may be 0; scales and subs have room for minima, too. */
    *work = (PanelWork){.floats = malloc(sizes->floats * sizeof(float) + 64),
                        .codes = malloc(sizes->codes + 64),
                        .scales = malloc(2 * sizes->groups * sizeof(uint16_t) + 64),
                        .subs = malloc(2 * sizes->groups + 64),
                        .stored = malloc(sizes->stored + 64),
                        .losses = losses};
    return work->floats && work->codes && work->scales && work->subs && work->stored;
}

void panel_work_free(PanelWork *work) {
    free(work->floats);
    free(work->codes);
    free(work->scales);
    free(work->subs);
    free(work->stored);
}

size_t panel_rows(const TensorPlan *t, size_t first) {
    size_t left = t->from->rows - first;
    return left < t->panel_rows ? left : t->panel_rows;
}

SuperblockCodes panel_superblock_row(const PanelWork *w, size_t cols, size_t groups, size_t r) {
    return (SuperblockCodes){w->codes + r * cols, w->scales + r * groups,
                             w->scales + (PANEL_ROWS + r) * groups, w->subs + r * groups,
                             w->subs + (PANEL_ROWS + r) * groups};
}

Status panel_not_finite(const TensorPlan *t, size_t row, const char *what, Error *error) {
    return error_set(error, "%s: tensor '%s': row %zu holds a %s that is not finite",
                     t->source->path, t->from->name, row, what);
}

static bool all_finite(const float *x, size_t n) {
    unsigned bad = 0;
    for (size_t i = 0; i < n; i++) bad |= (float_bits(x[i]) & 0x7F800000u) == 0x7F800000u;
    return !bad;
}

Status panel_read_floats(const TensorPlan *t, size_t first, size_t n, const char *what, float *x,
                         Error *error) {
    size_t cols = t->from->cols;
    if (source_reading_floats(&t->reading, t->source, t->from, first, n, x, error) != STATUS_OK)
        return STATUS_FAILED;
    for (size_t r = 0; r < n; r++)
        if (!all_finite(x + r * cols, cols)) return panel_not_finite(t, first + r, what, error);
    return STATUS_OK;
}
