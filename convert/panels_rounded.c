#include "convert/panels_rounded.h"

#include <string.h>

#include "convert/losses.h"
#include "convert/quantize.h"
#include "convert/quantize_superblocks.h"
#include "convert/saturation.h"
#include "kernels/panel_pack.h"

/* Reads a panel's rows from `first` on, padded with zeros to `padded` columns; rows beyond the
 * tensor are zero. */
static Status read_padded(const TensorPlan *t, size_t first, size_t padded, float *x,
                          Error *error) {
    size_t n = panel_rows(t, first), cols = t->from->cols;
    if (panel_read_floats(t, first, n, "weight", x, error) != STATUS_OK) return STATUS_FAILED;
    for (size_t r = n; padded > cols && r-- > 0;) {
        memmove(x + r * padded, x + r * cols, cols * sizeof *x);
        memset(x + r * padded + cols, 0, (padded - cols) * sizeof *x);
    }
    memset(x + n * padded, 0, (PANEL_ROWS - n) * padded * sizeof *x);
    return STATUS_OK;
}

/* ---- Vectors ---- */

static void size_of_vector(const TensorPlan *t, PanelSizes *most) {
    (void)t, (void)most;
}

static Status read_vector(const TensorPlan *t, size_t first, PanelWork *w, uint8_t *panel,
                          Error *error) {
    (void)w;
    return panel_read_floats(t, first, panel_rows(t, first), "value", (void *)panel, error);
}

/* ---- Float types ---- */

/* The losses need a row more. */
static void size_of_floats(const TensorPlan *t, PanelSizes *most) {
    panel_raise_size(&most->floats, (PANEL_ROWS + 1) * tensor_padded_cols(t->type, t->from->cols));
}

static Status round_floats(const TensorPlan *t, size_t first, PanelWork *w, uint8_t *panel,
                           Error *error) {
    size_t cols = t->from->cols;
    if (read_padded(t, first, cols, w->floats, error) != STATUS_OK) return STATUS_FAILED;
    for (size_t r = 0; r < PANEL_ROWS; r++)
        if (!saturation_fits(t->type, w->floats + r * cols, cols))
            return error_set(
                error, "%s: tensor '%s': row %zu holds a weight that %s has no number for",
                t->source->path, t->from->name, first + r, tensor_type_info(t->type)->name);
    losses_count_cleared(w->losses, t, w->floats);
    losses_count_saturated(w->losses, t, w->floats, panel);
    saturation_clamp(t->type, w->floats, PANEL_ROWS * cols);
    panel_pack_floats(t->type, cols, w->floats, panel);
    return STATUS_OK;
}

/* ---- Codes with one scale a group ---- */

static void size_of_codes(const TensorPlan *t, PanelSizes *most) {
    size_t padded = tensor_padded_cols(t->type, t->from->cols);
    size_of_floats(t, most);
    panel_raise_size(&most->codes, PANEL_ROWS * padded);
    panel_raise_size(&most->groups, PANEL_ROWS * padded / tensor_type_info(t->type)->group);
}

/* Quantizes each row to codes, scales and minima, and packs them as a panel. */
static Status quantize_codes(const TensorPlan *t, size_t first, PanelWork *w, uint8_t *panel,
                             Error *error) {
    const TensorTypeInfo *info = tensor_type_info(t->type);
    size_t padded = tensor_padded_cols(t->type, t->from->cols), groups = padded / info->group;
    uint16_t *minima = info->has_min ? w->scales + PANEL_ROWS * groups : NULL;
    if (read_padded(t, first, padded, w->floats, error) != STATUS_OK) return STATUS_FAILED;
    for (size_t r = 0; r < PANEL_ROWS; r++)
        quantize_row(t->type, padded, w->floats + r * padded, t->importance, w->codes + r * padded,
                     w->scales + r * groups, minima ? minima + r * groups : NULL);
    panel_pack_codes(t->type, t->from->cols, w->codes, w->scales, minima, panel);
    losses_count_saturated(w->losses, t, w->floats, panel);
    return STATUS_OK;
}

/* ---- Superblocks: groups whose scales are quantized in turn (kernels/superblocks.h) ---- */

static Status quantize_to_superblocks(const TensorPlan *t, size_t first, PanelWork *w,
                                      uint8_t *panel, Error *error) {
    size_t padded = tensor_padded_cols(t->type, t->from->cols);
    size_t groups = padded / type_group(t->type);
    if (read_padded(t, first, padded, w->floats, error) != STATUS_OK) return STATUS_FAILED;
    for (size_t r = 0; r < PANEL_ROWS; r++) {
        SuperblockCodes row = panel_superblock_row(w, padded, groups, r);
        quantize_superblocks(t->type, padded, w->floats + r * padded, t->importance, &row);
    }
    SuperblockCodes all = panel_superblock_row(w, padded, groups, 0);
    superblocks_pack(t->type, t->from->cols, &all, panel);
    losses_count_saturated(w->losses, t, w->floats, panel);
    return STATUS_OK;
}

/* ---- The choice ---- */

static const PanelMaker vectors = {size_of_vector, read_vector};
static const PanelMaker floats = {size_of_floats, round_floats};
static const PanelMaker codes = {size_of_codes, quantize_codes};
static const PanelMaker superblocks = {size_of_codes, quantize_to_superblocks};

const PanelMaker *panels_rounded(TensorType type) {
    if (type == TENSOR_VECTOR) return &vectors;
    if (is_superblock_type(type)) return &superblocks;
    return tensor_type_info(type)->group ? &codes : &floats;
}
