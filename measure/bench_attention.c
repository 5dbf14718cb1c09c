#include "measure/bench_attention.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "core/attention.h"
#include "base/clock.h"
#include "measure/bench_limits.h"

enum { ROUNDS = 3, ROWS = 512 }; /* ROWS: queries of one call, as a prompt's chunk has them */

typedef struct Problem {
    const Isa *isa;
    int n_threads;
    size_t n, dim;
    float scale;
    float *q, *k, *v;         /* [n][dim] */
    float *keys;              /* [dim][n]: k transposed */
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
    float *all[] = {p->q, p->k, p->v, p->keys, p->scores, p->textbook, p->blocks};
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

/* Allocates the problem and fills it: queries, keys and values, the keys transposed for the
 * textbook's way, and a cache with both. */
static Status problem_new(Problem *p, Error *error) {
    size_t bytes = p->n * p->dim * sizeof(float);
    float **vectors[] = {&p->q, &p->k, &p->v, &p->keys, &p->textbook, &p->blocks};
    bool complete = true;
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++)
        complete = (*vectors[i] = malloc(bytes)) && complete;
    p->scores = malloc(p->n * p->n * sizeof(float));
    p->rows = malloc(p->n * sizeof *p->rows);
    p->products = matmul_memory_new(p->isa->kernels, 1, 1, p->n_threads);
    p->memory =
        attention_memory_new(p->isa->kernels, p->products, (uint32_t)p->dim, p->n, p->n_threads);
    if (!complete || !p->scores || !p->rows || !p->products || !p->memory)
        return error_set(error, "no memory for the scores of %zu positions", p->n);
    fill(p->q, p->n * p->dim, 1);
    fill(p->k, p->n * p->dim, 2);
    fill(p->v, p->n * p->dim, 3);
    for (size_t i = 0; i < p->n; i++)
        for (size_t d = 0; d < p->dim; d++) p->keys[d * p->n + i] = p->k[i * p->dim + d];
    memset(p->scores, 0, p->n * p->n * sizeof(float)); /* its pages are there before it is timed */
    return store(p, error);
}

/* ---- The two ways ---- */

/* scores[n] = scale * q . k for every position, later ones too. */
static void score(const Problem *p, size_t row, float *scores) {
    memset(scores, 0, p->n * sizeof *scores);
    for (size_t d = 0; d < p->dim; d++)
        p->isa->numeric->add_scaled(scores, p->keys + d * p->n, p->q[row * p->dim + d] * p->scale,
                                    p->n);
}

static void softmax(const Problem *p, float *x) {
    const Numeric *numeric = p->isa->numeric;
    float sum = numeric->softmax_sum(x, numeric->maximum(x, p->n), p->n);
    numeric->scale(x, 1.0f / sum, p->n);
}

/* Three loops over the whole matrix, one after the other, as the formula has them. */
static void run_textbook(const Problem *p) {
    size_t n = p->n, dim = p->dim;
#pragma omp parallel num_threads(p->n_threads)
    {
#pragma omp for schedule(static)
        for (size_t i = 0; i < n; i++) {
            score(p, i, p->scores + i * n);
            for (size_t k = i + 1; k < n; k++) p->scores[i * n + k] = -INFINITY;
        }
#pragma omp for schedule(static)
        for (size_t i = 0; i < n; i++) softmax(p, p->scores + i * n);
#pragma omp for schedule(static)
        for (size_t i = 0; i < n; i++) {
            float *out = p->textbook + i * dim;
            memset(out, 0, dim * sizeof *out);
            for (size_t k = 0; k < n; k++)
                p->isa->numeric->add_scaled(out, p->v + k * dim, p->scores[i * n + k], dim);
        }
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
