#include "measure/bench_attention.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "core/attention.h"
#include "base/clock.h"
#include "base/lines.h"
#include "measure/bench_limits.h"

enum { ROUNDS = 3, ROWS = 512 }; /* ROWS: queries of one call, as a prompt's chunk has them */

typedef struct Problem {
    const Isa *isa;
    int n_threads;
    size_t n, dim;
    float scale;
    float *q, *k, *v;         /* [n][dim] */
    float *keys;              /* k as a matrix of n outputs and dim inputs, in panels */
    float *values;            /* v as a matrix of dim outputs and n inputs, in panels */
    float *scores;            /* [n][n] */
    float *textbook, *blocks; /* [n][dim], the outputs */
    AttentionRow *rows;       /* [n] */
    AttentionMemory *memory;
    MatmulMemory *products;
    KvCache *cache;
} Problem;

/* Numbers of variance 1/3 or so from -1 to 1, the same each time. */
static void fill(float *x, size_t n, uint32_t seed) {
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = (float)(seed >> 8) * 0x1p-23f - 1.0f;
    }
}

static void problem_free(Problem *p) {
    float *all[] = {p->q, p->k, p->v, p->keys, p->values, p->scores, p->textbook, p->blocks};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
    free(p->rows);
    attention_memory_free(p->memory);
    matmul_memory_free(p->products);
    kvcache_free(p->cache);
}

static Status store(Problem *p, Error *error) {
    KvShape shape = {.type = KV_F32, .n_layers = 1};
    shape.layers[0] =
        (KvLayer){.n_kv_heads = 1, .key_dim = (uint32_t)p->dim, .value_dim = (uint32_t)p->dim};
    if (kvcache_new(&p->cache, &shape, 1, 0, error) != STATUS_OK ||
        kvcache_reserve(p->cache, 0, p->n, error) != STATUS_OK)
        return STATUS_FAILED;
    for (size_t i = 0; i < p->n; i++) {
        kvcache_store(p->cache, 0, (int32_t)i, 0, p->k + i * p->dim, p->v + i * p->dim);
        p->rows[i] = (AttentionRow){0, (int32_t)i};
    }
    kvcache_commit(p->cache, 0, p->n);
    return STATUS_OK;
}

/* out = x[rows][cols] in panels of PANEL_ROWS rows (kernels/tensor.h), the last one filled up with
 * zeros; transposed: x[cols][rows]. */
static void pack(float *out, const float *x, size_t rows, size_t cols, bool transposed) {
    for (size_t panel = 0; panel < rows; panel += PANEL_ROWS)
        for (size_t i = 0; i < cols; i++)
            for (size_t r = panel; r < panel + PANEL_ROWS; r++)
                *out++ = r >= rows ? 0.0f : transposed ? x[i * rows + r] : x[r * cols + i];
}

/* Floats of a matrix in panels. */
static size_t packed_floats(size_t rows, size_t cols) {
    return (rows + PANEL_ROWS - 1) / PANEL_ROWS * PANEL_ROWS * cols;
}

/* Allocates the problem and fills it: queries, keys and values, these as matrices for the
 * textbook's way, and a cache with both. */
static Status problem_new(Problem *p, Error *error) {
    size_t bytes = p->n * p->dim * sizeof(float);
    float **vectors[] = {&p->q, &p->k, &p->v, &p->textbook, &p->blocks};
    bool complete = true;
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++)
        complete = (*vectors[i] = malloc(bytes)) && complete;
    p->keys = lines_new(packed_floats(p->n, p->dim) * sizeof(float));
    p->values = lines_new(packed_floats(p->dim, p->n) * sizeof(float));
    p->scores = lines_new(p->n * p->n * sizeof(float));
    p->rows = malloc(p->n * sizeof *p->rows);
    p->products =
        matmul_memory_new(p->isa->kernels, ROWS, p->n > p->dim ? p->n : p->dim, p->n_threads);
    p->memory =
        attention_memory_new(p->isa->kernels, p->products, (uint32_t)p->dim, p->n, p->n_threads);
    if (!complete || !p->keys || !p->values || !p->scores || !p->rows || !p->products || !p->memory)
        return error_set(error, "no memory for the scores of %zu positions", p->n);
    fill(p->q, p->n * p->dim, 1);
    fill(p->k, p->n * p->dim, 2);
    fill(p->v, p->n * p->dim, 3);
    pack(p->keys, p->k, p->n, p->dim, false);
    pack(p->values, p->v, p->dim, p->n, true);
    memset(p->scores, 0, p->n * p->n * sizeof(float)); /* its pages are there before it is timed */
    return store(p, error);
}

/* ---- The two ways ---- */

/* scores[row][n] = q . k of every key, later ones too, for `rows` queries. */
static void score(const Problem *p, size_t first, size_t rows) {
    const Matrix keys = {.type = TENSOR_F32,
                         .rows = p->n,
                         .cols = p->dim,
                         .panel_bytes = PANEL_ROWS * p->dim * sizeof(float),
                         .data = (const uint8_t *)p->keys};
    const Product product = {&keys, p->scores + first * p->n, p->n};
    const ProductSet set = {p->q + first * p->dim, rows, &product, 1, NULL};
    matmul(p->isa->kernels, p->products, p->dim, &set, 1);
}

/* Scales and masks the scores of one query, and makes weights of them. */
static void weigh(const Problem *p, size_t row) {
    const Numeric *numeric = p->isa->numeric;
    float *x = p->scores + row * p->n;
    numeric->scale(x, p->scale, row + 1);
    for (size_t k = row + 1; k < p->n; k++) x[k] = -INFINITY;
    float sum = numeric->softmax_sum(x, numeric->maximum(x, p->n), p->n);
    numeric->scale(x, 1.0f / sum, p->n);
}

/* textbook[row][dim] = the sum of weights[row][n] times the values, for `rows` queries. */
static void add_values(const Problem *p, size_t first, size_t rows) {
    const Matrix values = {.type = TENSOR_F32,
                           .rows = p->dim,
                           .cols = p->n,
                           .panel_bytes = PANEL_ROWS * p->n * sizeof(float),
                           .data = (const uint8_t *)p->values};
    const Product product = {&values, p->textbook + first * p->dim, p->dim};
    const ProductSet set = {p->scores + first * p->n, rows, &product, 1, NULL};
    matmul(p->isa->kernels, p->products, p->n, &set, 1);
}

/* Three steps over the whole matrix, one after the other, as the formula has them: both products by
 * the kernels that multiply the model's matrices. */
static void run_textbook(const Problem *p) {
#pragma omp parallel num_threads(p->n_threads)
    {
        for (size_t first = 0; first < p->n; first += ROWS)
            score(p, first, p->n - first < ROWS ? p->n - first : ROWS);
#pragma omp for schedule(static)
        for (size_t i = 0; i < p->n; i++) weigh(p, i);
        for (size_t first = 0; first < p->n; first += ROWS)
            add_values(p, first, p->n - first < ROWS ? p->n - first : ROWS);
    }
}

static void run_blocks(const Problem *p) {
    const AttentionParams params = {.n_heads = 1,
                                    .n_kv_heads = 1,
                                    .head_dim = (uint32_t)p->dim,
                                    .value_dim = (uint32_t)p->dim,
                                    .scale = p->scale};
    for (size_t first = 0; first < p->n; first += ROWS) {
        size_t rows = p->n - first < ROWS ? p->n - first : ROWS;
#pragma omp parallel num_threads(p->n_threads)
        attention_forward(p->isa->attention, p->memory, &params, p->cache, p->rows + first, rows,
                          p->q + first * p->dim, p->blocks + first * p->dim, NULL);
    }
}

Status bench_attention(const Isa *isa, int n_threads, uint32_t head_dim, size_t n,
                       AttentionSpeed *out, Error *error) {
    Problem p = {.isa = isa,
                 .n_threads = n_threads,
                 .n = n,
                 .dim = head_dim,
                 .scale = 1.0f / sqrtf((float)head_dim)};
    double textbook[ROUNDS], blocks[ROUNDS];
    Status status = problem_new(&p, error);
    for (size_t i = 0; i < ROUNDS && status == STATUS_OK; i++) {
        double start = clock_seconds();
        run_textbook(&p);
        double middle = clock_seconds();
        run_blocks(&p);
        textbook[i] = middle - start;
        blocks[i] = clock_seconds() - middle;
    }
    if (status == STATUS_OK) {
        *out = (AttentionSpeed){.textbook = bench_median(textbook, ROUNDS),
                                .blocks = bench_median(blocks, ROUNDS),
                                .matrix_bytes = 4.0 * (double)n * (double)n,
                                .block_bytes = 4.0 * KV_PAGE * ATTENTION_QUERIES * n_threads};
        for (size_t i = 0; i < n * head_dim; i++)
            out->difference =
                fmax(out->difference, fabs((double)p.textbook[i] - (double)p.blocks[i]));
    }
    problem_free(&p);
    return status;
}
