/* Products of the float types: their half of a Kernels table (float.c, compiled once for each kind
 * of lanes). The functions are those of Kernels for the forms FORM_FLOATS and FORM_BFLOATS. */
#ifndef KERNELS_FLOAT_H
#define KERNELS_FLOAT_H

#include "kernels/kernels.h"

/* Working memory of a thread, enough for the Scratch of each kernel file. */
enum { SCRATCH_BYTES = 192 * 1024 };

typedef struct FloatKernels {
    size_t (*input_bytes)(size_t form, size_t n_rows, size_t n_inputs);
    size_t (*pack_tasks)(size_t form, size_t n_rows);
    void (*pack)(size_t form, const float *x, size_t n_rows, size_t n_inputs, size_t task,
                 void *input);
    void (*multiply)(const Product *product, const void *input, size_t n_rows, size_t begin,
                     size_t end, void *scratch);
    double (*spin)(size_t rounds); /* as Kernels.spin */
} FloatKernels;

#define DECLARE_FLOAT(name, lanes) extern const FloatKernels float_##lanes;
EACH_ISA(DECLARE_FLOAT)
#undef DECLARE_FLOAT

#endif
