/* Reads rows out of the panels of a model.bin (kernels/tensor.h). */
#ifndef FORMATS_STORED_PANEL_ROWS_H
#define FORMATS_STORED_PANEL_ROWS_H

#include "formats/containers/input.h"
#include "kernels/tensor.h"

/* Reads rows [first, first + n) of a matrix whose panels begin at `offset`: out[n][cols]. */
Status panel_rows_read(const InputFile *file, uint64_t offset, TensorType type, size_t cols,
                       size_t first, size_t n, float *out, Error *error);

#endif
