/* Where the scales and minima of a panel of FAMILY_CODES lie: f16 bits, [groups][16]. `type` is
 * w->type, which the kernels know when they are compiled. */
#ifndef PANEL_SCALES_H
#define PANEL_SCALES_H

#include "kernels/tensor.h"

static inline const uint16_t *matrix_scales(TensorType type, const Matrix *w, size_t panel) {
    return (const uint16_t *)(matrix_panel(w, panel) + type_lines_bytes(type, w->cols));
}

static inline const uint16_t *matrix_minima(TensorType type, const Matrix *w, size_t panel) {
    return matrix_scales(type, w, panel) + type_scales_bytes(type, w->cols) / sizeof(uint16_t);
}

#endif
