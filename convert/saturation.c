#include "convert/saturation.h"

#include <math.h>

#include "kernels/bfloat.h"

/* The largest numbers of float16 and bfloat16, and where rounding to nearest leaves them. */
static const float HALF = 65504.0f, BEYOND_HALF = 65520.0f;
static const float BFLOAT = 0x1.FEp127f, BEYOND_BFLOAT = 0x1.FFp127f;

static float largest_of(const float *x, size_t n) {
    float largest = 0.0f;
    for (size_t i = 0; i < n; i++) largest = fabsf(x[i]) > largest ? fabsf(x[i]) : largest;
    return largest;
}

void saturation_clamp(TensorType type, float *x, size_t n) {
    if (type != TENSOR_BF16) return;
    for (size_t i = 0; i < n; i++)
        if (fabsf(x[i]) >= BEYOND_BFLOAT) x[i] = copysignf(BFLOAT, x[i]);
}

/* How many of x[n] are at least `least` large. */
static size_t count_from(const float *x, size_t n, float least, float *largest) {
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        if (fabsf(x[i]) < least) continue;
        if (fabsf(x[i]) > *largest) *largest = fabsf(x[i]);
        count++;
    }
    return count;
}

/* Counts in a quantized row, x[cols], which reads as row[cols] after it was packed. */
static size_t count_in_groups(const float *x, const float *row, size_t cols, size_t group,
                              float *largest) {
    size_t count = 0;
    for (size_t at = 0; at < cols; at += group) {
        size_t n = cols - at < group ? cols - at : group;
        float before = largest_of(x + at, n), after = largest_of(row + at, n);
        if (before > HALF && after < before / 2)
            count += count_from(x + at, n, after < HALF ? HALF : after, largest);
    }
    return count;
}

size_t saturation_count(TensorType type, size_t cols, const float *x, const uint8_t *panel,
                        float *row, float *largest) {
    const TensorTypeInfo *info = tensor_type_info(type);
    size_t padded = info->group ? tensor_padded_cols(type, cols) : cols, count = 0;
    float most = largest_of(x, PANEL_ROWS * padded);
    if (!(most > HALF) || type == TENSOR_F32 || type == TENSOR_BF16_ACT)
        return 0; /* nearly always */
    if (type == TENSOR_F16) return count_from(x, PANEL_ROWS * cols, BEYOND_HALF, largest);
    if (type == TENSOR_BF16) return count_from(x, PANEL_ROWS * cols, BEYOND_BFLOAT, largest);
    const Matrix matrix = {.type = type, .rows = PANEL_ROWS, .cols = cols, .data = panel};
    for (size_t r = 0; r < PANEL_ROWS; r++) {
        matrix_row(&matrix, r, row);
        count += count_in_groups(x + r * padded, row, cols, info->group, largest);
    }
    return count;
}

bool saturation_fits(TensorType type, const float *x, size_t n) {
    return type != TENSOR_BF16_ACT || largest_of(x, n) < BEYOND_BFLOAT;
}

size_t saturation_cleared(TensorType type, const float *x, size_t n) {
    size_t count = 0;
    for (size_t i = 0; type == TENSOR_BF16_ACT && i < n; i++)
        count += x[i] != 0.0f && bfloat_activation(x[i]) == 0.0f;
    return count;
}
