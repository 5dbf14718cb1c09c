/* Matrix products on panels: y = W x for rows of activations.
 *
 * kernels/reference.c is plain C and defines the result; every other kernel gives the same
 * bits. Each output element is reduced in index order:
 *
 *     float types      acc = fma(w[k], x[k], acc)                       for k = 0, 1, ...
 *     bf16_act         even = fma(w[k], x[k], even), odd = fma(w[k + 1], x[k + 1], odd), both from
 *                      +0 over blocks of 32 inputs, whose x are rounded to bfloat16, and to +0
 *                      below 2^-40;  acc = acc + (even + odd)              after each block
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

#include "kernels/isa_list.h"
#include "kernels/tensor.h"

/* One product of a set that shares its input: out[row * stride + i], i < w->rows. */
typedef struct Product {
    const Matrix *w;
    float *out;
    size_t stride; /* floats from one row of out to the next, at least w->rows */
} Product;

/* The kernels of one instruction set.
 *
 * `multiply` reads activations in a packed form that is private to the kernel set. The form depends
 * only on n_rows, n_inputs and the form that the weights' type reads (type_input_form), so products
 * with the same form share one packed input. */
typedef struct Kernels {
    const char *name;
    /* Panels that multiply handles together: it is fastest with ranges of whole stripes. */
    size_t stripe;
    /* Working memory of one thread's multiply. */
    size_t scratch_bytes;
    /* Bytes of the packed form of x[n_rows][n_inputs], which grow with both numbers; 0 when
     * multiply reads x itself. */
    size_t (*input_bytes)(size_t form, size_t n_rows, size_t n_inputs);
    /* Packing consists of independent tasks, 0 <= task < pack_tasks. */
    size_t (*pack_tasks)(size_t form, size_t n_rows);
    void (*pack)(size_t form, const float *x, size_t n_rows, size_t n_inputs, size_t task,
                 void *input);
    /* Computes panels [begin, end) of the product, for all rows. `input` is the packed form,
     * 64-byte aligned, or x. `scratch` has scratch_bytes, 64-byte aligned, for the calling thread
     * only. */
    void (*multiply)(const Product *product, const void *input, size_t n_rows, size_t begin,
                     size_t end, void *scratch);
    /* Measures the machine's peak for `bench`: runs the instructions that multiply-adds of this
     * type need `rounds` times, on registers alone, and returns the number of operations, two for
     * each multiply-add. */
    double (*spin)(TensorType type, size_t rounds);
    /* Whether a witness (bfloat_witness.h) has the bits of fma: a set whose instructions round in
     * an order of their own is not offered without. NULL: there is nothing to ask. */
    bool (*agrees)(void);
    /* False where the set before it is faster on this machine, though this one works: it is then
     * taken only where it is asked for. NULL: always true. */
    bool (*is_faster)(void);
} Kernels;

/* Largest number of rows that one call of matmul (matmul.h) takes. */
enum { MATMUL_MAX_ROWS = 512 };

/* kernels_NAME and kernels_NAME_supported: the kernels of each instruction set, and whether this
 * machine has it and lets this process use it. */
#define DECLARE_KERNELS(name, lanes)                                                               \
    extern const Kernels kernels_##name;                                                           \
    bool kernels_##name##_supported(void);
EACH_ISA(DECLARE_KERNELS)
#undef DECLARE_KERNELS

#endif
