#include "convert/panels_kept.h"

#include <math.h>
#include <string.h>

#include "base/numbers.h"
#include "formats/containers/source_blocks.h"
#include "formats/stored/stored.h"
#include "kernels/panel_pack.h"

/* Refuses infinities, NaN and weights below the type's floor in a panel that was made of rows from
 * `first` on. */
static Status check_panel(const TensorPlan *t, size_t first, const uint8_t *panel, Error *error) {
    const Matrix w = {t->type, PANEL_ROWS, t->from->cols, t->panel_bytes, panel};
    size_t bad = panel_bad_row(&w, 0), low = panel_low_row(&w, 0);
    if (bad < PANEL_ROWS) return panel_not_finite(t, first + bad, "weight", error);
    if (low == PANEL_ROWS) return STATUS_OK;
    return error_set(error,
                     "%s: tensor '%s': row %zu holds a weight below 2^-40, which %s never has",
                     t->source->path, t->from->name, first + low, tensor_type_info(t->type)->name);
}

/* ---- Panels of a model.bin ---- */

static void size_of_copy(const TensorPlan *t, PanelSizes *most) {
    (void)t, (void)most;
}

static Status copy_panel(const TensorPlan *t, size_t first, PanelWork *w, uint8_t *panel,
                         Error *error) {
    const SourceTensor *from = t->from;
    uint64_t at = from->offset + (uint64_t)(first / PANEL_ROWS) * t->panel_bytes;
    (void)w;
    if (input_read(&t->source->files[from->file], at, panel, t->panel_bytes, error) != STATUS_OK)
        return STATUS_FAILED;
    return check_panel(t, first, panel, error);
}

/* ---- Numbers ---- */

static void size_of_stored(const TensorPlan *t, PanelSizes *most) {
    size_t row_bytes = 0;
    stored_bytes(t->from->stored, t->from->cols, &row_bytes);
    panel_raise_size(&most->stored, PANEL_ROWS * row_bytes);
}

/* Packs rows whose numbers are of the panel's type. */
static Status pack_numbers(const TensorPlan *t, size_t first, PanelWork *w, uint8_t *panel,
                           Error *error) {
    size_t n = panel_rows(t, first), row_bytes;
    stored_bytes(t->from->stored, t->from->cols, &row_bytes);
    if (source_read_blocks(t->source, t->from, first, n, w->stored, error) != STATUS_OK)
        return STATUS_FAILED;
    memset(w->stored + n * row_bytes, 0, (PANEL_ROWS - n) * row_bytes);
    panel_pack_numbers(t->type, t->from->cols, w->stored, panel);
    return check_panel(t, first, panel, error);
}

/* ---- Codes with one scale a group ---- */

static void size_of_codes(const TensorPlan *t, PanelSizes *most) {
    size_t padded = tensor_padded_cols(t->type, t->from->cols);
    size_of_stored(t, most);
    panel_raise_size(&most->codes, PANEL_ROWS * padded);
    panel_raise_size(&most->groups, PANEL_ROWS * padded / tensor_type_info(t->type)->group);
}

static bool halves_finite(const uint16_t *x, size_t n) {
    unsigned bad = 0;
    for (size_t i = 0; i < n; i++) bad |= (x[i] & 0x7C00) == 0x7C00;
    return !bad;
}

/* Packs the codes and scales of the source's blocks without rounding them again. */
static Status repack_codes(const TensorPlan *t, size_t first, PanelWork *w, uint8_t *panel,
                           Error *error) {
    const TensorTypeInfo *info = tensor_type_info(t->type);
    size_t n = panel_rows(t, first), cols = t->from->cols;
    size_t groups = cols / 32, all = PANEL_ROWS * groups;
    uint16_t *minima = info->has_min ? w->scales + all : NULL;
    if (source_read_blocks(t->source, t->from, first, n, w->stored, error) != STATUS_OK)
        return STATUS_FAILED;
    if (n < PANEL_ROWS) {
        memset(w->codes, info->zero, PANEL_ROWS * cols);
        memset(w->scales, 0, 2 * all * sizeof *w->scales);
    }
    stored_to_codes(t->from->stored, w->stored, n * cols, w->codes, w->scales, minima);
    for (size_t r = 0; r < n; r++)
        if (!halves_finite(w->scales + r * groups, groups) ||
            (minima && !halves_finite(minima + r * groups, groups)))
            return panel_not_finite(t, first + r, "scale", error);
    panel_pack_codes(t->type, cols, w->codes, w->scales, minima, panel);
    return STATUS_OK;
}

/* ---- Superblocks: groups whose scales are quantized in turn (kernels/superblocks.h) ---- */

/* Says why the scales of row r in the working memory are refused. Those of float32 may be finite
 * and still too large. */
static Status refuse_scales(const TensorPlan *t, size_t first, size_t r,
                            const SuperblockCodes *rows, Error *error) {
    size_t groups = t->from->cols / type_group(t->type);
    for (size_t i = r * groups; superblock_scale_is_float(t->type) && i < (r + 1) * groups; i++) {
        float scale = float_from_bits(rows->scales[i] | (uint32_t)rows->minima[i] << 16);
        if (isfinite(scale) && fabsf(scale) > SUPERBLOCK_LARGEST_SCALE)
            return error_set(error,
                             "%s: tensor '%s': row %zu has the scale %g, and the largest that is "
                             "read is 2^96 (7.9e28)",
                             t->source->path, t->from->name, first + r, (double)scale);
    }
    return panel_not_finite(t, first + r, "scale", error);
}

/* Gives n groups the factor of NVFP4, which the source has beside the matrix, as their scale in
 * float32: its lower half lies in `scales`, its upper half in `minima`. */
static void set_factor(const SuperblockCodes *rows, size_t n, float factor) {
    for (size_t i = 0; i < n; i++) {
        rows->scales[i] = (uint16_t)float_bits(factor);
        rows->minima[i] = (uint16_t)(float_bits(factor) >> 16);
    }
}

/* Packs the codes, scales and sub-scales of the source's blocks without rounding them again. */
static Status repack_superblocks(const TensorPlan *t, size_t first, PanelWork *w, uint8_t *panel,
                                 Error *error) {
    const SourceTensor *from = t->from;
    size_t n = panel_rows(t, first), row_bytes;
    size_t groups = from->cols / type_group(t->type), all = PANEL_ROWS * groups;
    const SuperblockCodes rows = panel_superblock_row(w, from->cols, groups, 0);
    float factor = 1.0f;
    stored_bytes(from->stored, from->cols, &row_bytes);
    if (from->blocks.present && source_read_scale(t->source, from, &factor, error) != STATUS_OK)
        return STATUS_FAILED;
    if (source_read_blocks(t->source, from, first, n, w->stored, error) != STATUS_OK)
        return STATUS_FAILED;
    if (n < PANEL_ROWS) {
        memset(w->codes, 0, PANEL_ROWS * from->cols);
        memset(w->scales, 0, 2 * all * sizeof *w->scales);
        memset(w->subs, 0, 2 * all);
    }
    for (size_t r = 0; r < n; r++) {
        const SuperblockCodes row = panel_superblock_row(w, from->cols, groups, r);
        stored_to_superblocks(from->stored, t->type, w->stored + r * row_bytes, from->cols, &row);
    }
    if (from->blocks.present) set_factor(&rows, n * groups, factor);
    superblocks_pack(t->type, from->cols, &rows, panel);
    size_t bad = superblocks_bad_row(t->type, from->cols, panel);
    return bad == PANEL_ROWS ? STATUS_OK : refuse_scales(t, first, bad, &rows, error);
}

/* ---- The choice ---- */

static const PanelMaker copies = {size_of_copy, copy_panel};
static const PanelMaker numbers = {size_of_stored, pack_numbers};
static const PanelMaker codes = {size_of_codes, repack_codes};
static const PanelMaker superblocks = {size_of_codes, repack_superblocks};

const PanelMaker *panels_kept(const SourceTensor *t, TensorType type) {
    const StoredTypeInfo *info = stored_type_info(t->stored);
    if (t->sums) return NULL;
    if (t->stored == STORED_PANELS) return t->panels == type ? &copies : NULL;
    const bool holds_all = info->lossless == type || (info->wide == type && type != TENSOR_VECTOR);
    if (!holds_all || t->values || t->add != 0.0f || !source_has_blocks(t)) return NULL;
    if (info->same_blocks) {
        if (t->blocks.present && type != TENSOR_NVFP4_T) return NULL;
        return is_superblock_type(type) ? &superblocks : &codes;
    }
    bool are_numbers = t->stored <= STORED_BF16 && t->cols % 2 == 0;
    return are_numbers && !t->minus_exp && !t->blocks.present ? &numbers : NULL;
}
