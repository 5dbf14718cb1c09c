#include "core/attention_bf16.h"

#include "kernels/bfloat.h"
#include "kernels/lanes.h"

/* Rows x[n][n_inputs], rounded, as the kernels read them. */
static void pack_rows(const AttentionBf16 *b, const float *x, size_t n, size_t n_inputs, void *to) {
    size_t tasks = b->kernels->pack_tasks(FORM_BFLOATS, n);
    for (size_t task = 0; task < tasks; task++)
        b->kernels->pack(FORM_BFLOATS, x, n, n_inputs, task, to);
}

/* out[n][stride] = the products of n packed rows with a matrix of `rows` outputs by `cols` inputs.
 */
static void multiply_rows(const AttentionBf16 *b, const uint16_t *matrix, size_t rows, size_t cols,
                          const void *packed, size_t n, float *out, size_t stride) {
    const Matrix w = {TENSOR_BF16_ACT, rows, cols, PANEL_ROWS * bf16_key_bytes(cols),
                      (const uint8_t *)matrix};
    const Product product = {&w, out, stride};
    b->kernels->multiply(&product, packed, n, 0, matrix_panels(&w), b->scratch);
}

static void bf16_begin(const AttentionParams *params, const AttentionJob *job) {
    const AttentionBf16 *b = job->bf16;
    size_t dim = params->head_dim, n = job->n_queries;
    for (size_t i = 0; i < n; i++)
        memcpy(b->rows + i * dim, job->queries[i].q, dim * sizeof(float));
    pack_rows(b, b->rows, n, dim, b->q);
}

static void bf16_scores(const AttentionParams *params, const AttentionJob *job, const void *keys) {
    multiply_rows(job->bf16, keys, KV_PAGE, params->head_dim, job->bf16->q, job->n_queries,
                  job->weights[0], KV_PAGE);
}

/* ---- Values ---- */

/* Whether one of n numbers is an infinity or NaN. */
static bool any_not_finite(const uint16_t *x, size_t n) {
    uint16_t most = 0;
    for (size_t i = 0; i < n; i++) {
        uint16_t magnitude = x[i] & 0x7FFF;
        most = magnitude > most ? magnitude : most;
    }
    return most >= 0x7F80;
}

/* The first value_dim elements of a page's keys as its values: of the positions begin ... end - 1;
 * the others are +0. */
static void values_of_keys(const uint16_t *keys, size_t head_dim, size_t value_dim, size_t begin,
                           size_t end, uint16_t *values) {
    memset(values, 0, KV_PAGE * bf16_value_bytes(value_dim));
    for (size_t e = 0; e < value_dim; e++)
        for (size_t p = begin; p < end; p++)
            values[bf16_value_place(e, p)] = keys[bf16_key_place(head_dim, e, p)];
}

/* A copy of a page's values in which all positions but begin ... end - 1 are +0. */
static void copy_seen(const uint16_t *from, size_t value_dim, size_t begin, size_t end,
                      uint16_t *values) {
    memset(values, 0, KV_PAGE * bf16_value_bytes(value_dim));
    for (size_t e = 0; e < value_dim; e++)
        for (size_t p = begin; p < end; p++)
            values[bf16_value_place(e, p)] = from[bf16_value_place(e, p)];
}

/* out = out * factor + the page's sums, for n outputs that see some of the page. The factor and the
 * sums of earlier pages are float32 numbers of any size, so this is not a product of bf16_act. */
static void add_products(const AttentionBf16 *b, const uint16_t *values, size_t value_dim,
                         const PageOutput *outputs, float (*weights)[KV_PAGE], size_t n) {
    size_t width = round_up(value_dim, LANES);
    pack_rows(b, weights[0], n, KV_PAGE, b->weights);
    for (size_t d = 0; d < width; d += ATTENTION_BF16_OUTPUTS) {
        size_t rows = width - d < ATTENTION_BF16_OUTPUTS ? width - d : ATTENTION_BF16_OUTPUTS;
        multiply_rows(b, values + d * KV_PAGE, rows, KV_PAGE, b->weights, n, b->rows, rows);
        for (size_t i = 0; i < n; i++) {
            if (outputs[i].begin >= outputs[i].end) continue;
            const lanes factor = lanes_set(outputs[i].factor);
            for (size_t e = 0; e < rows; e += LANES) {
                float *out = outputs[i].out + d + e;
                lanes sum = lanes_load(b->rows + i * rows + e);
                lanes_store(out, lanes_fma(lanes_load(out), factor, sum));
            }
        }
    }
}

/* Adds weight * value of a page's positions to the outputs, by one product for all queries. Where
 * some see a part of the page and a value is not finite, each gets a product without what it does
 * not see. */
static void bf16_add_values(const AttentionParams *params, const AttentionJob *job,
                            const void *keys, const void *values, const PageOutput *outputs) {
    const AttentionBf16 *b = job->bf16;
    const size_t n = job->n_queries, dim = params->value_dim;
    const uint16_t *page = values;
    bool masked = false;
    if (!page) values_of_keys(keys, params->head_dim, dim, 0, KV_PAGE, b->values), page = b->values;
    for (size_t i = 0; i < n; i++) {
        if (outputs[i].begin == 0 && outputs[i].end == KV_PAGE) continue;
        masked = true;
        if (outputs[i].begin >= outputs[i].end) /* these were not made from scores */
            memset(job->weights[i], 0, sizeof job->weights[i]);
    }
    if (!masked || !any_not_finite(page, KV_PAGE * bf16_value_bytes(dim) / sizeof *page)) {
        add_products(b, page, dim, outputs, job->weights, n);
        return;
    }
    /* A masked position has the weight 0, which would not make 0 of an infinity or NaN. */
    for (size_t i = 0; i < n; i++) {
        size_t begin = outputs[i].begin, end = outputs[i].end;
        if (begin >= end) continue;
        if (values) copy_seen(values, dim, begin, end, b->values);
        if (!values) values_of_keys(keys, params->head_dim, dim, begin, end, b->values);
        add_products(b, b->values, dim, outputs + i, job->weights + i, 1);
    }
}

const AttentionBf16Page FOR_ISA(attention_bf16) = {bf16_begin, bf16_scores, bf16_add_values};
