#include "formats/stored/panel_rows.h"

#include <stdlib.h>

Status panel_rows_read(const InputFile *file, uint64_t offset, TensorType type, size_t cols,
                       size_t first, size_t n, float *out, Error *error) {
    size_t panel_bytes;
    if (!tensor_panel_bytes(type, cols, &panel_bytes))
        return error_set(error, "%s: a panel is too large", file->path);
    uint8_t *panel = aligned_alloc(64, round_up(panel_bytes, 64));
    if (!panel) return error_set(error, "no memory for a panel");
    const Matrix matrix = {
        .type = type, .rows = PANEL_ROWS, .cols = cols, .panel_bytes = panel_bytes, .data = panel};
    Status status = STATUS_OK;
    for (size_t i = 0; status == STATUS_OK && i < n; i++) {
        size_t row = first + i;
        if (i == 0 || row % PANEL_ROWS == 0)
            status = input_read(file, offset + row / PANEL_ROWS * panel_bytes, panel, panel_bytes,
                                error);
        if (status == STATUS_OK) matrix_row(&matrix, row % PANEL_ROWS, out + i * cols);
    }
    free(panel);
    return status;
}
