/* Matrix products on panels: y = W x for rows of activations.
 *
 * kernels/reference.c is plain C and defines the result; every other kernel gives the same
 * bits. Each output element is reduced in index order:
 *
 *     float types      acc = fma(w[k], x[k], acc)                       for k = 0, 1, ...
 *     quantized types  acc = fma((float)dot[g], w_scale[g] * x_scale[g], acc)   for each group
 *                      and, with minima, after it
 *                      acc = fma(-(x_scale[g] * (float)sum_x[g]), w_min[g], acc)
 *
 * where dot and sum_x are exact integers, and a group's activations are quantized as
 *     x_scale = max|x| / 127,  q = clamp(round_to_even(x * (127 / max|x|)), -127, 127)
 * (all zero when max|x| < 1e-30, so that no scale is denormal; a group that holds an infinity
 * or a NaN has the scale NaN, which reaches the output). docs/numerics.md has more. */
#ifndef KERNELS_H
#define KERNELS_H

#include "kernels/tensor.h"

/* One product of a set that shares its input: out[row * stride + i], i < w->rows. */
typedef struct Product {
    const Matrix *w;
    float *out;
    size_t stride; /* floats from one row of out to the next, at least w->rows */
} Product;

/* The kernels of one instruction set.
 *
 * `multiply` wants its activations in a form that is private to the kernel set and depends on
 * n_rows, n_inputs and the weights' group (tensor_type_info: 0 for the float types) alone, so
 * that products of one group size share one packed input. */
typedef struct Kernels {
    const char *name;
    /* Panels that multiply handles together: ranges of panels begin at multiples of it. */
    size_t stripe;
    /* Working memory of one thread's multiply. */
    size_t scratch_bytes;
    /* Bytes of the packed form of x[n_rows][n_inputs], growing with both; 0 when multiply reads
     * x itself. */
    size_t (*input_bytes)(size_t group, size_t n_rows, size_t n_inputs);
    /* Packing falls into independent tasks, 0 <= task < pack_tasks. */
    size_t (*pack_tasks)(size_t group, size_t n_rows);
    void (*pack)(size_t group, const float *x, size_t n_rows, size_t n_inputs, size_t task,
                 void *input);
    /* Panels [begin, end) of the product, for all rows. `input` is the packed form, 64-byte
     * aligned, or x. scratch: scratch_bytes of it, 64-byte aligned, the caller's own. */
    void (*multiply)(const Product *product, const void *input, size_t n_rows, size_t begin,
                     size_t end, void *scratch);
    /* The machine's peak, for `bench`: runs the fastest multiply-add instruction that the set's
     * integer or float products use `rounds` times on registers alone and returns the operations
     * done, two a multiply-add. */
    double (*spin)(bool integers, size_t rounds);
} Kernels;

/* Largest number of rows that one call of matmul takes. */
enum { MATMUL_MAX_ROWS = 512 };

/* Working memory of matmul for one model: packed inputs and per-thread scratch. */
typedef struct MatmulMemory MatmulMemory;

/* For inputs of up to n_rows x n_inputs and n_threads threads (those of a larger team only
 * wait); NULL when out of memory. One matmul at a time may use it. */
MatmulMemory *matmul_memory_new(const Kernels *kernels, size_t n_rows, size_t n_inputs,
                                int n_threads);
void matmul_memory_free(MatmulMemory *memory);

/* Computes every product from the same x[n_rows][n_inputs] (rows contiguous). Called by all
 * threads of an OpenMP parallel region, or outside of one; the threads share the work and
 * meet in a barrier at the end. The products may have different types. */
void matmul(const Kernels *kernels, MatmulMemory *memory, const float *x, size_t n_rows,
            size_t n_inputs, const Product *products, size_t n_products);

extern const Kernels kernels_reference;
#if defined(__x86_64__)
extern const Kernels kernels_avx2, kernels_avx512, kernels_amx;
/* True when the machine has AMX and the kernel lets this process use it. */
bool kernels_amx_enable(void);
#elif defined(__aarch64__)
extern const Kernels kernels_neon, kernels_neon_i8mm;
#endif

#endif
