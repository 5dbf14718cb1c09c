/* What the kernel files share among themselves. */
#ifndef KERNELS_INTERNAL_H
#define KERNELS_INTERNAL_H

#include "kernels/kernels.h"

/* Working memory of a thread, enough for each kernel file's own Scratch. */
enum { SCRATCH_BYTES = 192 * 1024 };

/* The float types' half of a Kernels table (float.c, built once for each instruction set);
 * the functions are those of Kernels for group 0. */
typedef struct FloatKernels {
    size_t (*input_bytes)(size_t n_rows, size_t n_inputs);
    size_t (*pack_tasks)(size_t n_rows);
    void (*pack)(const float *x, size_t n_rows, size_t n_inputs, size_t task, void *input);
    void (*multiply)(const Product *product, const void *input, size_t n_rows, size_t begin,
                     size_t end, void *scratch);
    double (*spin)(size_t rounds);
} FloatKernels;

extern const FloatKernels float_reference;
#if defined(__x86_64__)
extern const FloatKernels float_avx2, float_avx512;
#elif defined(__aarch64__)
extern const FloatKernels float_neon;
#endif

/* Outputs of panel p that the matrix has: 16, or fewer in the last panel. */
static inline size_t panel_outputs(const Matrix *w, size_t p) {
    size_t left = w->rows - p * PANEL_ROWS;
    return left < PANEL_ROWS ? left : PANEL_ROWS;
}

/* reference.c: functions of a Kernels table, all types. */
size_t reference_input_bytes(size_t group, size_t n_rows, size_t n_inputs);
size_t reference_pack_tasks(size_t group, size_t n_rows);
void reference_pack(size_t group, const float *x, size_t n_rows, size_t n_inputs, size_t task,
                    void *input);
void reference_multiply(const Product *product, const void *input, size_t n_rows, size_t begin,
                        size_t end, void *scratch);
double reference_spin(bool integers, size_t rounds);

#endif
