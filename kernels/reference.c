/* The definition of every matrix product, in plain C.
 *
 * Slow on purpose: each output is computed by itself, in the order of its inputs, from weights and
 * activations that are read one at a time. All other kernels must give the same bits. */
#include <math.h>
#include <string.h>

#include "kernels/activations.h"
#include "kernels/bfloat.h"
#include "kernels/kernels.h"
#include "kernels/reference_spin.h"

/* out[row][i] = sum over k of w[i][k] * x[row][k], for all rows; `out` is zero before. */
static void float_output(const Product *product, size_t i, const float *x, size_t n_rows) {
    const Matrix *w = product->w;
    for (size_t k = 0; k < w->cols; k++) {
        float weight = matrix_float(w, i, k);
        for (size_t row = 0; row < n_rows; row++) {
            float *out = product->out + row * product->stride + i;
            *out = fmaf(weight, x[row * w->cols + k], *out);
        }
    }
}

/* Like float_output for bf16_act, whose activations are rounded to bfloat16. In each block of 32
 * inputs the even and the odd ones are summed apart, from +0; then both sums are added to each
 * other, and that to the output. Zeros that would fill up the last block change no sum, because a
 * sum that began as +0 is never -0. */
static void bfloat_output(const Product *product, size_t i, const float *x, size_t n_rows) {
    const Matrix *w = product->w;
    for (size_t first = 0; first < w->cols; first += BFLOAT_BLOCK) {
        size_t n = w->cols - first < BFLOAT_BLOCK ? w->cols - first : BFLOAT_BLOCK;
        float weights[BFLOAT_BLOCK];
        for (size_t k = 0; k < n; k++) weights[k] = matrix_float(w, i, first + k);
        for (size_t row = 0; row < n_rows; row++) {
            float sums[2] = {0.0f, 0.0f}; /* of even and of odd inputs */
            for (size_t k = 0; k < n; k++)
                sums[k % 2] = fmaf(weights[k], x[row * w->cols + first + k], sums[k % 2]);
            product->out[row * product->stride + i] += sums[0] + sums[1];
        }
    }
}

/* Like float_output for quantized weights, one group after another. */
static void quantized_output(const Product *product, size_t i, const uint8_t *input,
                             size_t n_rows) {
    const Matrix *w = product->w;
    size_t n = type_group(w->type), groups = activation_groups(n, w->cols);
    for (size_t g = 0; g < groups; g++) {
        WeightGroup weights;
        matrix_group(w, i, g, &weights);
        for (size_t row = 0; row < n_rows; row++) {
            float *out = product->out + row * product->stride + i;
            const uint8_t *group = input + (row * groups + g) * activation_bytes(n);
            const int8_t *x = (const int8_t *)group + ACTIVATION_HEADER;
            float x_scale, x_sum;
            memcpy(&x_scale, group, sizeof x_scale);
            memcpy(&x_sum, group + sizeof x_scale, sizeof x_sum);
            int32_t dot = 0;
            for (size_t k = 0; k < n; k++) dot += weights.codes[k] * x[k];
            *out = fmaf((float)dot, weights.scale * x_scale, *out);
            if (type_has_minima(w->type)) *out = fmaf(-x_sum, weights.minimum, *out);
        }
    }
}

static void multiply(const Product *product, const void *input, size_t n_rows, size_t begin,
                     size_t end, void *scratch) {
    const Matrix *w = product->w;
    size_t last = end * PANEL_ROWS < w->rows ? end * PANEL_ROWS : w->rows;
    (void)scratch;
    for (size_t i = begin * PANEL_ROWS; i < last; i++) {
        for (size_t row = 0; row < n_rows; row++) product->out[row * product->stride + i] = 0.0f;
        if (type_group(w->type)) {
            quantized_output(product, i, input, n_rows);
        } else if (type_input_form(w->type) == FORM_BFLOATS) {
            bfloat_output(product, i, input, n_rows);
        } else {
            float_output(product, i, input, n_rows);
        }
    }
}

/* Activations are packed in blocks of one row; the float types read x itself, but for bf16_act,
 * which reads float32 numbers that were rounded to bfloat16. */
static size_t input_bytes(size_t form, size_t n_rows, size_t n_inputs) {
    if (form == FORM_BFLOATS) return n_rows * n_inputs * sizeof(float);
    return form ? n_rows * activation_groups(form, n_inputs) * activation_bytes(form) : 0;
}

static size_t pack_tasks(size_t form, size_t n_rows) {
    return form == FORM_FLOATS ? 0 : n_rows;
}

static void pack(size_t form, const float *x, size_t n_rows, size_t n_inputs, size_t task,
                 void *input) {
    uint8_t *block = (uint8_t *)input + input_bytes(form, task, n_inputs);
    (void)n_rows;
    x += task * n_inputs;
    if (form_is_codes(form)) {
        quantize_row(form, x, n_inputs, 0, 1, block);
    } else {
        for (size_t k = 0; k < n_inputs; k++) ((float *)block)[k] = bfloat_activation(x[k]);
    }
}

bool kernels_reference_supported(void) {
    return true;
}

const Kernels kernels_reference = {
    .name = "reference",
    .stripe = 1,
    .scratch_bytes = 0,
    .input_bytes = input_bytes,
    .pack_tasks = pack_tasks,
    .pack = pack,
    .multiply = multiply,
    .spin = reference_spin,
};
