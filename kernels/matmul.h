/* Products of many matrices at once, divided among threads (kernels.h says what a product is). */
#ifndef KERNELS_MATMUL_H
#define KERNELS_MATMUL_H

#include "kernels/kernels.h"

/* Working memory of matmul for one model: packed inputs and per-thread scratch. */
typedef struct MatmulMemory MatmulMemory;

/* Memory for inputs of up to n_rows x n_inputs and for n_threads threads; in a larger team the
 * other threads only wait. NULL when out of memory. One matmul at a time may use it. */
MatmulMemory *matmul_memory_new(const Kernels *kernels, size_t n_rows, size_t n_inputs,
                                int n_threads);
void matmul_memory_free(MatmulMemory *memory);

/* A thread's scratch (Kernels.scratch_bytes), for its calls of Kernels.multiply between products.
 */
void *matmul_scratch(const MatmulMemory *memory, size_t thread);

/* Products of one input x[n_rows][n_inputs], rows contiguous, or of the n_rows rows of x whose
 * numbers `rows` has in rising order, which needs products of quantized types. */
typedef struct ProductSet {
    const float *x;
    size_t n_rows; /* 0: nothing is computed */
    const Product *products;
    size_t n_products;
    const uint32_t *rows; /* [n_rows], or NULL */
} ProductSet;

/* Computes the products of all sets, whose inputs have the same width. Called by all threads of an
 * OpenMP parallel region, or outside of one; the threads share the work of all sets together, and a
 * barrier ends the call. The products may have different types. */
void matmul(const Kernels *kernels, MatmulMemory *memory, size_t n_inputs, const ProductSet *sets,
            size_t n_sets);

#endif
