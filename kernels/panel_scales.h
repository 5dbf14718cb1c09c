/* Where the scales and minima of a panel of FAMILY_CODES lie: f16 bits, [groups][16]. */
#ifndef PANEL_SCALES_H
#define PANEL_SCALES_H

#include "kernels/tensor.h"

static inline const uint16_t *matrix_scales(const Matrix *w, size_t panel) {
    return (const uint16_t *)(matrix_panel(w, panel) + tensor_lines_bytes(w->type, w->cols));
}

static inline const uint16_t *matrix_minima(const Matrix *w, size_t panel) {
    return matrix_scales(w, panel) + tensor_scales_bytes(w->type, w->cols) / sizeof(uint16_t);
}

#endif
