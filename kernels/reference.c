/* The definition of every matrix product, in plain C.
 *
 * Slow on purpose: each output element is computed by itself, in the order of its inputs, from
 * weights and activations read one at a time. All other kernels must give these bits. */
#include "kernels/activations.h"
#include "kernels/internal.h"
#include "kernels/records.h"

/* Weights of the 16 rows of a panel for one input, as floats. */
static void float_weights(const Matrix *w, const uint8_t *panel, size_t k, float *weights) {
    const uint16_t *half = (const uint16_t *)panel;
    for (size_t r = 0; r < PANEL_ROWS; r++) {
        if (w->type == TENSOR_F32) {
            weights[r] = ((const float *)panel)[PANEL_ROWS * k + r];
        } else if (w->type == TENSOR_F16) {
            weights[r] = half_to_float(half[PANEL_ROWS * k + r]);
        } else {
            weights[r] = bfloat_to_float(half[k / 2 * 2 * PANEL_ROWS + 2 * r + k % 2]);
        }
    }
}

/* out[row][16 p + r] = sum over k of w[16 p + r][k] * x[row][k] */
static void float_panel(const Product *product, size_t p, size_t valid, const float *x,
                        size_t n_rows) {
    const Matrix *w = product->w;
    for (size_t k = 0; k < w->cols; k++) {
        float weights[PANEL_ROWS];
        float_weights(w, matrix_panel(w, p), k, weights);
        for (size_t row = 0; row < n_rows; row++) {
            float *out = product->out + row * product->stride + p * PANEL_ROWS;
            for (size_t r = 0; r < valid; r++)
                out[r] = fmaf(weights[r], x[row * w->cols + k], out[r]);
        }
    }
}

/* The code of input k of row r of a panel: the integer that a scale multiplies. */
static int32_t code_at(TensorType type, const uint8_t *panel, size_t k, size_t r) {
    if (is_record_type(type)) return record_code(type, panel, k, r);
    const uint8_t *byte8 = panel + k / 4 * LINE_BYTES + 4 * r + k % 4;
    if (type == TENSOR_Q8 || type == TENSOR_Q8_64) return (int8_t)*byte8;
    if (type == TENSOR_Q8_MIN) return *byte8;
    uint8_t byte4 = panel[k / 8 * LINE_BYTES + 4 * r + k % 4];
    int32_t nibble = k % 8 < 4 ? byte4 & 15 : byte4 >> 4;
    return type == TENSOR_Q4 ? nibble - 8 : nibble;
}

static float scale_at(const Matrix *w, size_t p, size_t g, size_t r) {
    if (is_record_type(w->type)) return record_scale(w->type, matrix_panel(w, p), g, r);
    return half_to_float(matrix_scales(w, p)[g * PANEL_ROWS + r]);
}

static float minimum_at(const Matrix *w, size_t p, size_t g, size_t r) {
    if (is_record_type(w->type)) return record_minimum(w->type, matrix_panel(w, p), g, r);
    return half_to_float(matrix_minima(w, p)[g * PANEL_ROWS + r]);
}

/* Adds one group's products to the outputs of a panel. `block` is this group of one row. */
static void add_group(const Matrix *w, size_t p, size_t g, size_t valid, const uint8_t *block,
                      float *out) {
    const TensorTypeInfo *info = tensor_type_info(w->type);
    float x_scale, x_sum;
    memcpy(&x_scale, block, sizeof x_scale);
    memcpy(&x_sum, block + sizeof x_scale, sizeof x_sum);
    const int8_t *x = (const int8_t *)block + ACTIVATION_HEADER;
    for (size_t r = 0; r < valid; r++) {
        int32_t dot = 0;
        for (size_t k = 0; k < info->group; k++)
            dot += code_at(w->type, matrix_panel(w, p), g * info->group + k, r) * x[k];
        out[r] = fmaf((float)dot, scale_at(w, p, g, r) * x_scale, out[r]);
        if (info->has_min) out[r] = fmaf(-x_sum, minimum_at(w, p, g, r), out[r]);
    }
}

static void quantized_panel(const Product *product, size_t p, size_t valid, const uint8_t *input,
                            size_t n_rows) {
    const Matrix *w = product->w;
    size_t group = tensor_type_info(w->type)->group;
    size_t groups = activation_groups(group, w->cols), bytes = activation_bytes(group);
    for (size_t row = 0; row < n_rows; row++) {
        float *out = product->out + row * product->stride + p * PANEL_ROWS;
        for (size_t g = 0; g < groups; g++)
            add_group(w, p, g, valid, input + (row * groups + g) * bytes, out);
    }
}

void reference_multiply(const Product *product, const void *input, size_t n_rows, size_t begin,
                        size_t end, void *scratch) {
    (void)scratch;
    for (size_t p = begin; p < end; p++) {
        size_t valid = panel_outputs(product->w, p);
        for (size_t row = 0; row < n_rows; row++)
            memset(product->out + row * product->stride + p * PANEL_ROWS, 0, valid * sizeof(float));
        if (tensor_type_info(product->w->type)->group) {
            quantized_panel(product, p, valid, input, n_rows);
        } else {
            float_panel(product, p, valid, input, n_rows);
        }
    }
}

size_t reference_input_bytes(size_t group, size_t n_rows, size_t n_inputs) {
    return group ? n_rows * activation_groups(group, n_inputs) * activation_bytes(group) : 0;
}

size_t reference_pack_tasks(size_t group, size_t n_rows) {
    return group ? n_rows : 0;
}

/* Blocks of one row. */
void reference_pack(size_t group, const float *x, size_t n_rows, size_t n_inputs, size_t task,
                    void *input) {
    pack_activation_row(group, x, n_rows, n_inputs, task, 1, input);
}

double reference_spin(bool integers, size_t rounds) {
    volatile int32_t factor = 1;
    volatile float float_factor = 0.0f;
    int32_t sum = 0, a = factor;
    float float_sum = 0.0f, b = float_factor;
    for (size_t r = 0; r < rounds; r++) {
        if (integers) {
            sum = (int32_t)((uint32_t)sum * (uint32_t)a + 1u);
        } else {
            float_sum = fmaf(b, b, float_sum);
        }
    }
    factor = sum;
    float_factor = float_sum;
    return 2.0 * (double)rounds;
}

const Kernels kernels_reference = {
    .name = "reference",
    .stripe = 1,
    .scratch_bytes = 0,
    .input_bytes = reference_input_bytes,
    .pack_tasks = reference_pack_tasks,
    .pack = reference_pack,
    .multiply = reference_multiply,
    .spin = reference_spin,
};
