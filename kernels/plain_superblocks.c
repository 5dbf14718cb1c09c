/* Plain C kernels of the types of superblocks.h, in the place of NAME_superblocks.c: for
 * build/first/run (Makefile), which tells the first story before the rest is built.
 *
 * The shipped models have none of these types, and their kernels take a fifth of that build. The
 * activations come packed as the instruction set's other kernels have them; the bits are those of
 * kernels/reference.c. Not a part of the library. */
#include <math.h>

#if defined(__AVX512F__)
#include "kernels/avx512_steps.h"
#elif defined(__AVX2__)
#include "kernels/avx2_tile.h"
#else
#include "kernels/neon_steps.h"
#endif

/* A BlockKernel. */
static void block_plain(const Matrix *w, size_t p, size_t rows, const uint8_t *block, float *out,
                        size_t stride, size_t outputs) {
    const size_t group = type_group(w->type), groups = activation_groups(group, w->cols);
    for (size_t g = 0; g < groups; g++, block += rows * activation_bytes(group)) {
        const float *x_scales = (const float *)block, *x_sums = x_scales + rows;
        const int8_t *x = (const int8_t *)block + ACTIVATION_HEADER * rows;
        for (size_t i = 0; i < outputs; i++) {
            WeightGroup weights;
            matrix_group(w, p * PANEL_ROWS + i, g, &weights);
            for (size_t r = 0; r < rows; r++) {
                float *sum = out + r * stride + i;
                int32_t dot = 0;
                for (size_t k = 0; k < group; k++) dot += weights.codes[k] * x[r * group + k];
                *sum = fmaf((float)dot, weights.scale * x_scales[r], g ? *sum : 0.0f);
                if (type_has_minima(w->type)) *sum = fmaf(-x_sums[r], weights.minimum, *sum);
            }
        }
    }
}

#define PLAIN_ENTRY(type) [TENSOR_##type] = {.block_rows = BLOCK_ROWS, .block = block_plain},

const BlockKernels SUPERBLOCK_KERNELS[TENSOR_TYPES] = {EACH_SUPERBLOCK_TYPE(PLAIN_ENTRY)};
