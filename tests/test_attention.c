#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <omp.h>

#include "core/isa.h"
#include "base/numbers.h"
#include "kvcache/kvcache_sizes.h"
#include "kernels/attention_q8.h"
#include "core/numeric.h"
#include "kernels/bfloat.h"
#include "tests/tier.h"

/* A build of attention, and the products that it takes for keys and values in bfloat16. */
typedef struct Build {
    const AttentionKernel *attention;
    const Kernels *products;
} Build;

#if defined(__x86_64__)
extern const Kernels kernels_amx_bf16_emulated, kernels_avx512_bf16_emulated;
#endif

/* Build i of this machine, the reference first; the last ones have emulated matrix units. */
static bool build_at(size_t i, Build *build) {
    size_t n = 0;
    for (; isa_available(n); n++)
        if (n == i) *build = (Build){isa_available(n)->attention, isa_available(n)->kernels};
    if (i < n) return true;
#if defined(__x86_64__)
    static const Kernels *const emulated[] = {&kernels_amx_bf16_emulated,
                                              &kernels_avx512_bf16_emulated};
    Error error;
    const Isa *avx2 = isa_choose("avx2", &error);
    if (!avx2 || i - n > 1) return false;
    *build = (Build){avx2->attention, emulated[i - n]};
    return true;
#else
    return false;
#endif
}

static float noise(uint32_t seed) {
    seed = (seed ^ 61) ^ (seed >> 16);
    seed *= 9;
    seed ^= seed >> 4;
    seed *= 0x27d4eb2d;
    seed ^= seed >> 15;
    return (float)(seed >> 8) * 0x1p-23f - 1.0f;
}

/* Rounds n elements to scale * code, the 8-bit codes of docs/numerics.md, in double. */
static void round_to_8_bits(float *x, size_t n) {
    float max = 0;
    for (size_t i = 0; i < n; i++) max = fmaxf(max, fabsf(x[i]));
    for (size_t i = 0; i < n && max > 0; i++)
        x[i] = (float)(nearbyint((double)x[i] * (127.0f / max)) * (max / 127.0f));
}

static void round_groups_to_8_bits(float *x, size_t n) {
    for (size_t i = 0; i < n; i += Q8_GROUP)
        round_to_8_bits(x + i, n - i < Q8_GROUP ? n - i : Q8_GROUP);
}

/* An attention problem: a sequence of n positions, with queries for the last n_rows of them. With a
 * value_dim other than head_dim, the values are the first elements of the keys. */
typedef struct Problem {
    AttentionParams params;
    KvType type;
    size_t n, n_rows;
    KvCache *cache;
    float *q, *k, *v; /* k and v as the cache stores them */
} Problem;

static Problem problem_new(AttentionParams params, KvType type, size_t n, size_t n_rows) {
    bool in_keys = params.value_dim > 0 && params.value_dim != params.head_dim;
    if (!in_keys) params.value_dim = params.head_dim;
    Problem p = {.params = params, .type = type, .n = n, .n_rows = n_rows};
    KvShape shape = kvcache_uniform_shape(1, params.n_kv_heads, params.head_dim, type);
    shape.layers[0].value_dim = params.value_dim;
    shape.layers[0].values_in_keys = in_keys;
    Error error;
    size_t kv_dim = params.n_kv_heads * params.head_dim, q_dim = params.n_heads * params.head_dim;
    assert_int_equal(kvcache_new(&p.cache, &shape, 1, 0, &error), STATUS_OK);
    kvcache_reset(p.cache, 0, 0);
    assert_int_equal(kvcache_reserve(p.cache, 0, n, &error), STATUS_OK);
    p.k = malloc(n * kv_dim * sizeof(float));
    p.v = malloc(n * kv_dim * sizeof(float));
    p.q = malloc(n_rows * q_dim * sizeof(float));
    for (size_t i = 0; i < n * kv_dim; i++) {
        p.k[i] = noise((uint32_t)i * 2 + 1) * 2;
        p.v[i] = noise((uint32_t)i * 2 + 77777);
        if (type == KV_F16) {
            p.k[i] = numbers_half_to_float(numbers_float_to_half(p.k[i]));
            p.v[i] = numbers_half_to_float(numbers_float_to_half(p.v[i]));
        }
        if (type == KV_BF16) {
            p.k[i] = bfloat_activation(p.k[i]);
            p.v[i] = bfloat_activation(p.v[i]);
        }
    }
    for (size_t i = 0; i < n_rows * q_dim; i++) p.q[i] = noise((uint32_t)i * 2 + 999) * 2;
    for (size_t i = 0; i < n; i++)
        kvcache_store(p.cache, 0, (int32_t)i, 0, p.k + i * kv_dim, p.v + i * kv_dim);
    for (size_t i = 0; i < n * kv_dim && type == KV_Q8; i += params.head_dim) {
        round_groups_to_8_bits(p.k + i, params.head_dim);
        round_to_8_bits(p.v + i, params.head_dim);
    }
    if (in_keys) memcpy(p.v, p.k, n * kv_dim * sizeof(float));
    kvcache_commit(p.cache, 0, n);
    return p;
}

static void problem_free(Problem *p) {
    kvcache_free(p->cache);
    free(p->q);
    free(p->k);
    free(p->v);
}

/* softmax(q k / sqrt(d)) by the textbook, in double: the weight of each position in
 * weights[p->n], 0 outside of the window. */
static void oracle_weights(const Problem *p, size_t row, size_t head, double *weights) {
    const AttentionParams *a = &p->params;
    size_t position = p->n - p->n_rows + row, low = 0, dim = a->head_dim;
    size_t kv_head = head / (a->n_heads / a->n_kv_heads), kv_dim = a->n_kv_heads * dim;
    if (a->window && position + 1 > a->window) low = position + 1 - a->window;
    double top = -INFINITY, sum = 0;
    memset(weights, 0, p->n * sizeof *weights);
    float *q = malloc(dim * sizeof *q);
    memcpy(q, p->q + (row * a->n_heads + head) * dim, dim * sizeof *q);
    if (p->type == KV_Q8) round_groups_to_8_bits(q, dim);
    for (size_t e = 0; p->type == KV_BF16 && e < dim; e++) q[e] = bfloat_activation(q[e]);
    for (size_t i = low; i <= position; i++) {
        double s = 0;
        for (size_t e = 0; e < dim; e++) s += (double)q[e] * p->k[i * kv_dim + kv_head * dim + e];
        s *= a->scale;
        if (a->softcap > 0) s = a->softcap * tanh(s / a->softcap);
        if (a->alibi_slopes) s -= a->alibi_slopes[head] * (double)(position - i);
        weights[i] = s;
        if (s > top) top = s;
    }
    if (a->sinks && a->sinks[head] > top) top = a->sinks[head];
    for (size_t i = low; i <= position; i++) sum += weights[i] = exp(weights[i] - top);
    if (a->sinks) sum += exp(a->sinks[head] - top);
    for (size_t i = low; i <= position; i++) weights[i] /= sum;
    free(q);
}

/* Element d of a head's output: the sum of weights[p->n] times values. */
static double oracle(const Problem *p, const double *weights, size_t head, size_t d) {
    const AttentionParams *a = &p->params;
    const float *v = p->v + head / (a->n_heads / a->n_kv_heads) * a->head_dim + d;
    double out = 0;
    for (size_t i = 0; i < p->n; i++)
        out += weights[i] * (double)v[i * a->n_kv_heads * a->head_dim];
    return out;
}

static AttentionMemory *memory_new(Build build, MatmulMemory **products, size_t head_dim, size_t n,
                                   int threads) {
    *products = matmul_memory_new(build.products, 1, 1, threads);
    assert_non_null(*products);
    AttentionMemory *memory =
        attention_memory_new(build.products, *products, (uint32_t)head_dim, n, threads);
    assert_non_null(memory);
    return memory;
}

static void memory_free(AttentionMemory *memory, MatmulMemory *products) {
    attention_memory_free(memory);
    matmul_memory_free(products);
}

/* Runs rows first ... first + n - 1 of the problem with a kernel and a number of threads. */
static void run(const Problem *p, Build build, int threads, size_t first, size_t n, float *out) {
    size_t q_dim = p->params.n_heads * p->params.head_dim;
    size_t out_dim = p->params.n_heads * p->params.value_dim;
    MatmulMemory *products;
    AttentionMemory *memory = memory_new(build, &products, p->params.head_dim, p->n, threads);
    AttentionRow *rows = malloc(n * sizeof *rows);
    for (size_t i = 0; i < n; i++)
        rows[i] = (AttentionRow){0, (int32_t)(p->n - p->n_rows + first + i)};
#pragma omp parallel num_threads(threads)
    attention_forward(build.attention, memory, &p->params, p->cache, rows, n, p->q + first * q_dim,
                      out + first * out_dim, NULL);
    free(rows);
    memory_free(memory, products);
}

static const Build reference = {&attention_reference, &kernels_reference};

static const float slopes[] = {0.5f, 0.25f, 0.125f, 0.0625f, 0.03125f, 0.015625f};
static const float sinks[] = {0.5f, 3.0f, -2.0f, 1.0f, 0.0f, 8.0f};

static const struct {
    AttentionParams params;
    KvType type;
    size_t n, n_rows;
} cases[] = {
    {{.n_heads = 6, .n_kv_heads = 6, .head_dim = 8, .scale = 0.35f}, KV_F32, 1, 1},
    {{.n_heads = 6, .n_kv_heads = 6, .head_dim = 16, .scale = 0.25f}, KV_F32, 70, 70},
    {{.n_heads = 6, .n_kv_heads = 2, .head_dim = 20, .scale = 0.3f}, KV_F16, 200, 131},
    {{.n_heads = 6, .n_kv_heads = 1, .head_dim = 5, .scale = 0.5f}, KV_F16, 150, 40},
    {{.n_heads = 6, .n_kv_heads = 3, .head_dim = 64, .scale = 0.3f, .window = 17}, KV_F32, 170, 99},
    {{.n_heads = 6, .n_kv_heads = 3, .head_dim = 64, .scale = 0.3f, .window = 1}, KV_F32, 90, 90},
    {{.n_heads = 6, .n_kv_heads = 2, .head_dim = 48, .scale = 0.9f, .softcap = 3}, KV_F16, 99, 99},
    {{.n_heads = 6, .n_kv_heads = 6, .head_dim = 24, .scale = 0.3f, .alibi_slopes = slopes},
     KV_F32,
     140,
     77},
    {{.n_heads = 6, .n_kv_heads = 2, .head_dim = 32, .scale = 0.4f, .sinks = sinks},
     KV_F32,
     80,
     80},
    {{.n_heads = 6, .n_kv_heads = 2, .head_dim = 16, .scale = 0.4f}, KV_F16, 2500, 3},
    {{.n_heads = 6, .n_kv_heads = 2, .head_dim = 16, .scale = 0.4f, .window = 1300},
     KV_F16,
     2500,
     20},
    {{.n_heads = 71, .n_kv_heads = 1, .head_dim = 16, .scale = 0.4f}, KV_F32, 66, 9},
    {{.n_heads = 135, .n_kv_heads = 1, .head_dim = 16, .scale = 0.4f}, KV_F16, 66, 9},
    {{.n_heads = 6, .n_kv_heads = 6, .head_dim = 8, .scale = 0.35f}, KV_Q8, 1, 1},
    {{.n_heads = 6, .n_kv_heads = 1, .head_dim = 5, .scale = 0.5f}, KV_Q8, 150, 40},
    {{.n_heads = 6, .n_kv_heads = 2, .head_dim = 50, .scale = 0.3f}, KV_Q8, 200, 131},
    {{.n_heads = 6, .n_kv_heads = 3, .head_dim = 64, .scale = 0.3f, .window = 17}, KV_Q8, 170, 99},
    {{.n_heads = 6, .n_kv_heads = 2, .head_dim = 48, .scale = 0.9f, .softcap = 3}, KV_Q8, 99, 99},
    {{.n_heads = 6, .n_kv_heads = 6, .head_dim = 80, .scale = 0.1f, .alibi_slopes = slopes},
     KV_Q8,
     140,
     77},
    {{.n_heads = 6, .n_kv_heads = 2, .head_dim = 128, .scale = 0.1f, .sinks = sinks},
     KV_Q8,
     80,
     80},
    {{.n_heads = 16, .n_kv_heads = 2, .head_dim = 64, .scale = 0.1f}, KV_Q8, 2500, 3},
    {{.n_heads = 6, .n_kv_heads = 2, .head_dim = 16, .scale = 0.4f, .window = 1300},
     KV_Q8,
     2500,
     20},
    {{.n_heads = 71, .n_kv_heads = 1, .head_dim = 16, .scale = 0.4f}, KV_Q8, 66, 9},
    {{.n_heads = 135, .n_kv_heads = 1, .head_dim = 16, .scale = 0.4f}, KV_Q8, 66, 9},
    /* Values in keys: latent attention. */
    {{.n_heads = 6, .n_kv_heads = 1, .head_dim = 29, .value_dim = 21, .scale = 0.2f},
     KV_F32,
     150,
     77},
    {{.n_heads = 20, .n_kv_heads = 1, .head_dim = 80, .value_dim = 64, .scale = 0.1f},
     KV_F16,
     1200,
     3},
    {{.n_heads = 6, .n_kv_heads = 1, .head_dim = 40, .value_dim = 32, .scale = 0.2f, .window = 9},
     KV_F16,
     99,
     99},
    {{.n_heads = 20, .n_kv_heads = 1, .head_dim = 83, .value_dim = 72, .scale = 0.1f},
     KV_F16,
     150,
     77},
    {{.n_heads = 37, .n_kv_heads = 1, .head_dim = 37, .value_dim = 33, .scale = 0.1f, .window = 70},
     KV_F32,
     150,
     9},
    {{.n_heads = 6, .n_kv_heads = 1, .head_dim = 29, .value_dim = 21, .scale = 0.2f},
     KV_Q8,
     150,
     77},
    {{.n_heads = 5, .n_kv_heads = 1, .head_dim = 26, .value_dim = 24, .scale = 0.2f}, KV_Q8, 70, 9},
    {{.n_heads = 20, .n_kv_heads = 1, .head_dim = 96, .value_dim = 72, .scale = 0.1f},
     KV_Q8,
     1200,
     3},
    {{.n_heads = 6, .n_kv_heads = 1, .head_dim = 40, .value_dim = 32, .scale = 0.2f, .window = 9},
     KV_Q8,
     99,
     99},
    /* In bfloat16: heads of any width, windows, many queries, values in keys. */
    {{.n_heads = 6, .n_kv_heads = 6, .head_dim = 8, .scale = 0.35f}, KV_BF16, 1, 1},
    {{.n_heads = 6, .n_kv_heads = 1, .head_dim = 5, .scale = 0.5f}, KV_BF16, 150, 40},
    {{.n_heads = 6, .n_kv_heads = 2, .head_dim = 50, .scale = 0.3f}, KV_BF16, 200, 131},
    {{.n_heads = 6, .n_kv_heads = 3, .head_dim = 64, .scale = 0.3f, .window = 17},
     KV_BF16,
     170,
     99},
    {{.n_heads = 6, .n_kv_heads = 2, .head_dim = 48, .scale = 0.9f, .softcap = 3}, KV_BF16, 99, 99},
    {{.n_heads = 6, .n_kv_heads = 6, .head_dim = 80, .scale = 0.1f, .alibi_slopes = slopes},
     KV_BF16,
     140,
     77},
    {{.n_heads = 6, .n_kv_heads = 2, .head_dim = 200, .scale = 0.1f, .sinks = sinks},
     KV_BF16,
     80,
     80},
    {{.n_heads = 16, .n_kv_heads = 2, .head_dim = 64, .scale = 0.1f}, KV_BF16, 2500, 3},
    {{.n_heads = 6, .n_kv_heads = 2, .head_dim = 16, .scale = 0.4f, .window = 1300},
     KV_BF16,
     2500,
     20},
    {{.n_heads = 135, .n_kv_heads = 1, .head_dim = 16, .scale = 0.4f}, KV_BF16, 66, 9},
    {{.n_heads = 6, .n_kv_heads = 1, .head_dim = 29, .value_dim = 21, .scale = 0.2f},
     KV_BF16,
     150,
     77},
    {{.n_heads = 20, .n_kv_heads = 1, .head_dim = 96, .value_dim = 72, .scale = 0.1f},
     KV_BF16,
     1200,
     3},
    {{.n_heads = 6, .n_kv_heads = 1, .head_dim = 40, .value_dim = 32, .scale = 0.2f, .window = 9},
     KV_BF16,
     99,
     99},
};
enum { N_CASES = sizeof cases / sizeof *cases };

static void attention_is_the_textbook_formula(void **state) {
    (void)state;
    for (size_t c = 0; c < N_CASES; c++) {
        Problem p = problem_new(cases[c].params, cases[c].type, cases[c].n, cases[c].n_rows);
        size_t width = p.params.n_heads * p.params.value_dim;
        float *out = malloc(p.n_rows * width * sizeof *out);
        double worst = 0, *weights = malloc(p.n * sizeof *weights);
        run(&p, reference, 1, 0, p.n_rows, out);
        for (size_t i = 0, last = SIZE_MAX; i < p.n_rows * width; i += tier_count(1001, 7, 7)) {
            size_t row = i / width, head = i % width / p.params.value_dim;
            if (i / p.params.value_dim != last) oracle_weights(&p, row, head, weights);
            last = i / p.params.value_dim;
            double d = fabs(out[i] - oracle(&p, weights, head, i % p.params.value_dim));
            if (d > worst) worst = d;
        }
        /* The bound for 14-bit weights: 64 errors of half a unit that all have the same sign. */
        double largest = p.params.value_dim < p.params.head_dim ? 2 : 1; /* of the values */
        double most = largest * (cases[c].type == KV_Q8 ? 64 * 0.5 / 16383 : 5e-6);
        /* The weights have 8 bits, and their errors, half a unit of each, may all have one sign. */
        if (cases[c].type == KV_BF16) most = largest * 0x1p-8;
        if (worst > most) fail_msg("case %zu: off by %g", c, worst);
        free(weights);
        free(out);
        problem_free(&p);
    }
}

static void the_bits_are_the_same_on_any_kernel_threads_and_chunks(void **state) {
    (void)state;
    static const int threads[] = {1, 2, 3, 5};
    static const size_t chunks[] = {1, 7, 512};
    for (size_t c = 0; c < N_CASES; c++) {
        if (!tier_takes(c, 7, 1)) continue;
        Problem p = problem_new(cases[c].params, cases[c].type, cases[c].n, cases[c].n_rows);
        size_t bytes = p.n_rows * p.params.n_heads * p.params.value_dim * sizeof(float);
        float *want = malloc(bytes), *got = malloc(bytes);
        run(&p, reference, 1, 0, p.n_rows, want);
        Build build;
        for (size_t k = 0; build_at(k, &build); k++) {
            for (size_t t = 0; t < 4; t++) {
                for (size_t s = 0; s < 3; s++) {
                    if (!tier_takes(c + k + t * 3 + s, 11, 2)) continue;
                    memset(got, 0xFF, bytes);
                    for (size_t first = 0; first < p.n_rows; first += chunks[s]) {
                        size_t n = p.n_rows - first < chunks[s] ? p.n_rows - first : chunks[s];
                        run(&p, build, threads[t], first, n, got);
                    }
                    if (memcmp(want, got, bytes) != 0)
                        fail_msg("case %zu, kernel %zu, %d threads, chunks of %zu", c, k,
                                 threads[t], chunks[s]);
                    if (k == 0 && t > 0) break; /* the reference is slow: once is enough */
                }
            }
        }
        free(want);
        free(got);
        problem_free(&p);
    }
}

/* Values at masked positions must not reach any output, not even as NaN times zero. */
static void a_masked_position_contributes_exactly_nothing(void **state) {
    const KvType type = *(const KvType *)*state;
    AttentionParams params = {
        .n_heads = 4, .n_kv_heads = 2, .head_dim = 16, .value_dim = 16, .scale = 0.3f};
    params.window = 20;
    Problem p = problem_new(params, type, 100, 100);
    size_t width = 64, bytes = 60 * width * sizeof(float);
    float *want = malloc(bytes), *got = malloc(bytes), nan[32];
    for (size_t i = 0; i < 32; i++) nan[i] = NAN;
    p.n_rows = 100;
    Build build;
    for (size_t k = 0; build_at(k, &build); k++) {
        Problem part = p;
        MatmulMemory *products;
        AttentionMemory *memory = memory_new(build, &products, params.head_dim, p.n, 1);
        AttentionRow rows[20];
        for (int32_t i = 0; i < 20; i++) rows[i] = (AttentionRow){0, 40 + i};
        const float *q = part.q + 40 * width;
        attention_forward(build.attention, memory, &params, p.cache, rows, 20, q, want, NULL);
        float saved_k[100][32], saved_v[100][32];
        for (size_t i = 0; i < 100; i++) {
            memcpy(saved_k[i], p.k + i * 32, sizeof saved_k[i]);
            memcpy(saved_v[i], p.v + i * 32, sizeof saved_v[i]);
            if (i < 21 || i > 59) kvcache_store(p.cache, 0, (int32_t)i, 0, nan, nan);
        }
        attention_forward(build.attention, memory, &params, p.cache, rows, 20, q, got, NULL);
        assert_memory_equal(want, got, 20 * width * sizeof(float));
        for (size_t i = 0; i < 100; i++)
            kvcache_store(p.cache, 0, (int32_t)i, 0, saved_k[i], saved_v[i]);
        memory_free(memory, products);
    }
    free(want);
    free(got);
    problem_free(&p);
}

typedef struct Seen {
    PassObserver observer;
    double sums[100];
    int32_t first[100];
    size_t n[100];
} Seen;

static void see(PassObserver *observer, size_t layer, size_t row, size_t head, int32_t first,
                float *weights, size_t n) {
    Seen *seen = (Seen *)observer;
    (void)layer;
    if (head != 3) return;
    seen->sums[row] = 0;
    for (size_t i = 0; i < n; i++) seen->sums[row] += weights[i];
    seen->first[row] = first;
    seen->n[row] = n;
}

static void an_observer_sees_rows_that_sum_to_one_and_nothing_of_the_future(void **state) {
    (void)state;
    AttentionParams params = {
        .n_heads = 4, .n_kv_heads = 2, .head_dim = 16, .value_dim = 16, .scale = 0.3f};
    params.window = 30;
    Problem p = problem_new(params, KV_F16, 100, 100);
    float *plain = malloc(100 * 64 * sizeof *plain), *watched = malloc(100 * 64 * sizeof *watched);
    Seen seen = {.observer = {.attended = see}};
    MatmulMemory *products;
    AttentionMemory *memory = memory_new(reference, &products, params.head_dim, p.n, 1);
    AttentionRow rows[100];
    for (int32_t i = 0; i < 100; i++) rows[i] = (AttentionRow){0, i};
    attention_forward(&attention_reference, memory, &params, p.cache, rows, 100, p.q, plain, NULL);
    attention_forward(&attention_reference, memory, &params, p.cache, rows, 100, p.q, watched,
                      &seen.observer);
    assert_memory_equal(plain, watched, 100 * 64 * sizeof *plain);
    for (int i = 0; i < 100; i++) {
        assert_true(fabs(seen.sums[i] - 1) < 1e-5);
        assert_int_equal(seen.first[i] + (int)seen.n[i] - 1, i);
        assert_int_equal(seen.n[i], i < 30 ? i + 1 : 30);
    }
    memory_free(memory, products);
    free(plain);
    free(watched);
    problem_free(&p);
}

static KvType types[] = {KV_F32, KV_F16, KV_Q8, KV_BF16};

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attention_is_the_textbook_formula),
        cmocka_unit_test(the_bits_are_the_same_on_any_kernel_threads_and_chunks),
        cmocka_unit_test_prestate(a_masked_position_contributes_exactly_nothing, &types[0]),
        cmocka_unit_test_prestate(a_masked_position_contributes_exactly_nothing, &types[1]),
        cmocka_unit_test_prestate(a_masked_position_contributes_exactly_nothing, &types[2]),
        cmocka_unit_test_prestate(a_masked_position_contributes_exactly_nothing, &types[3]),
        cmocka_unit_test(an_observer_sees_rows_that_sum_to_one_and_nothing_of_the_future),
    };
    return cmocka_run_group_tests_name("attention", tests, NULL, NULL);
}
