/* Attention over pages whose values are the first elements of their keys, which the pages store
 * once (layers/attention/latent.h). Built once for each instruction set.
 *
 * All heads read the same keys, so that many queries meet a page. Lanes are positions for scores
 * and elements of the value for outputs. Each lane is summed in index order, as
 * core/attention_segment.c does. */
#include "core/attention.h"
#include "kernels/attention_q8.h"
#include "kernels/lanes.h"

/* A tile: some queries by two registers, whose sums all stay in registers. DIRECT: float16 is
 * widened each time it is loaded, which costs no time that the sums need. */
enum { TILE_LANES = 2, PAGE_LANES = KV_PAGE / LANES, BLOCK = TILE_LANES * LANES };
#if defined(__AVX512F__)
enum { TILE_QUERIES = 12, DIRECT = 1 };
#define EACH_TILE(f) f(1) f(2) f(3) f(4) f(5) f(6) f(7) f(8) f(9) f(10) f(11) f(12)
#else /* 16 or 32 registers of 8 or 4 floats */
enum { TILE_QUERIES = 3, DIRECT = 0 };
#define EACH_TILE(f) f(1) f(2) f(3)
#endif

/* 16 neighbouring positions of an element of the keys. */
LANES_INLINE lanes load(const void *keys, bool half, size_t at) {
    return half ? lanes_load_half((const uint16_t *)keys + at)
                : lanes_load((const float *)keys + at);
}

/* ---- Scores ---- */

/* The keys of a page, and how to find the next page's. */
typedef struct Keys {
    const void *data; /* [dim][KV_PAGE] */
    bool half;
    size_t dim;
    ptrdiff_t next; /* bytes; 0: not to be prefetched */
} Keys;

/* Prefetches from the next page what this page has in n bytes from `at` on. Hardware does not
 * foresee the step from one page to the next. */
LANES_INLINE void prefetch_next(const Keys *keys, size_t at, size_t n) {
    const char *line = (const char *)keys->data + at + keys->next;
    for (size_t bytes = 0; bytes < n; bytes += 64) __builtin_prefetch(line + bytes, 0, 2);
}

/* scores[i][p] = queries[i] . key p for n queries and the positions of TILE_LANES registers. */
LANES_INLINE void score_tile(const AttentionQuery *queries, size_t n, Keys keys, bool half,
                             size_t lane, float (*scores)[KV_PAGE]) {
    lanes sum[TILE_QUERIES][TILE_LANES];
    const float *q[TILE_QUERIES];
    size_t at = lane * LANES, size = half ? sizeof(uint16_t) : sizeof(float);
    for (size_t i = 0; i < n; i++) q[i] = queries[i].q;
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < TILE_LANES; j++) sum[i][j] = lanes_zero();
    for (size_t d = 0; d < keys.dim; d++, at += KV_PAGE) {
        lanes key[TILE_LANES];
        prefetch_next(&keys, at * size, BLOCK * size);
        for (size_t j = 0; j < TILE_LANES; j++) key[j] = load(keys.data, half, at + j * LANES);
        for (size_t i = 0; i < n; i++) {
            lanes element = lanes_set(q[i][d]);
            for (size_t j = 0; j < TILE_LANES; j++)
                sum[i][j] = lanes_fma(element, key[j], sum[i][j]);
        }
    }
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < TILE_LANES; j++)
            lanes_store(scores[i] + (lane + j) * LANES, sum[i][j]);
}

/* The counts are constants, so that each case keeps its sums in registers. */
#define SCORE_CASE(n)                                                                              \
    case n:                                                                                        \
        if (DIRECT && keys.half)                                                                   \
            score_tile(queries, n, keys, true, lane, scores);                                      \
        else                                                                                       \
            score_tile(queries, n, keys, false, lane, scores);                                     \
        break;
/* Scores n queries against the keys of TILE_LANES registers, a tile of queries at a time. */
static void score_lanes(const AttentionQuery *queries, size_t n, Keys keys, size_t lane,
                        float (*scores)[KV_PAGE]) {
    while (n > 0) {
        size_t tile = n < TILE_QUERIES ? n : TILE_QUERIES;
        switch (tile) { EACH_TILE(SCORE_CASE) }
        queries += tile, scores += tile, n -= tile;
        keys.next = 0; /* the first tile has prefetched the next page */
    }
}

static void latent_scores(const AttentionParams *params, const AttentionJob *job, const void *keys,
                          ptrdiff_t next) {
    Keys k = {keys, kvcache_shape(job->cache)->type == KV_F16, params->head_dim, next};
    float *scratch = job->scratch;
    if (k.half && !DIRECT) {
        for (size_t i = 0; i < KV_PAGE * k.dim; i += LANES) {
            lanes_store(scratch + i, load(keys, true, i));
            if (i % (2 * LANES) == 0) prefetch_next(&k, i * sizeof(uint16_t), 64);
        }
        k = (Keys){scratch, false, k.dim, 0};
    }
    for (size_t lane = 0; lane < PAGE_LANES; lane += TILE_LANES)
        score_lanes(job->queries, job->n_queries, k, lane, job->weights);
}

/* ---- Outputs ---- */

/* Transposes 16 rows of lanes, a matrix of 16 x 16. */
LANES_INLINE void transpose(lanes *rows) {
#if defined(__AVX512F__)
    /* Interleaving the upper with the lower half of 256 numbers moves the highest bit of their
     * index to the lowest place; four times exchanges row and column. */
    const __m512i low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    const __m512i high = _mm512_add_epi32(low, _mm512_set1_epi32(8));
    for (int round = 0; round < 4; round++) {
        lanes mixed[LANES];
        for (int i = 0; i < LANES / 2; i++) {
            mixed[2 * i] = _mm512_permutex2var_ps(rows[i], low, rows[i + LANES / 2]);
            mixed[2 * i + 1] = _mm512_permutex2var_ps(rows[i], high, rows[i + LANES / 2]);
        }
        for (int i = 0; i < LANES; i++) rows[i] = mixed[i];
    }
#else
    float from[LANES][LANES], to[LANES][LANES];
    for (int i = 0; i < LANES; i++) lanes_store(from[i], rows[i]);
    for (int i = 0; i < LANES; i++)
        for (int k = 0; k < LANES; k++) to[i][k] = from[k][i];
    for (int i = 0; i < LANES; i++) rows[i] = lanes_load(to[i]);
#endif
}

/* A block of values: n elements of all positions from element d on. */
typedef struct Block {
    float *values; /* [KV_PAGE][BLOCK]; zeros from n up to a multiple of 16 */
    size_t d, n;
} Block;

/* Fills a block from the keys of a page. */
LANES_INLINE void values_of_keys(const void *keys, bool half, const Block *b) {
    for (size_t e = 0; e < b->n; e += LANES)
        for (size_t p = 0; p < KV_PAGE; p += LANES) {
            lanes rows[LANES];
            for (size_t i = 0; i < LANES; i++)
                rows[i] =
                    e + i < b->n ? load(keys, half, (b->d + e + i) * KV_PAGE + p) : lanes_zero();
            transpose(rows);
            for (size_t i = 0; i < LANES; i++)
                lanes_store(b->values + (p + i) * BLOCK + e, rows[i]);
        }
}

/* Adds the values of positions begin ... end - 1 to n outputs, in `width` registers of the head
 * from element d on, whose values are block[KV_PAGE][BLOCK]. */
LANES_INLINE void output_tile(const PageOutput *outputs, float (*weights)[KV_PAGE], size_t n,
                              size_t width, const float *block, size_t d, size_t begin,
                              size_t end) {
    lanes sum[TILE_QUERIES][TILE_LANES];
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < width; j++)
            sum[i][j] =
                lanes_mul(lanes_load(outputs[i].out + d + j * LANES), lanes_set(outputs[i].factor));
    for (size_t p = begin; p < end; p++) {
        lanes value[TILE_LANES];
        for (size_t j = 0; j < width; j++) value[j] = lanes_load(block + p * BLOCK + j * LANES);
        for (size_t i = 0; i < n; i++) {
            lanes weight = lanes_set(weights[i][p]);
            for (size_t j = 0; j < width; j++) sum[i][j] = lanes_fma(weight, value[j], sum[i][j]);
        }
    }
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < width; j++) lanes_store(outputs[i].out + d + j * LANES, sum[i][j]);
}

/* Adds positions begin ... end - 1 to n outputs, which fit a tile. */
#define OUTPUT_CASE(count)                                                                         \
    case count:                                                                                    \
        if (b->n > LANES)                                                                          \
            output_tile(outputs, weights, count, TILE_LANES, b->values, b->d, begin, end);         \
        else                                                                                       \
            output_tile(outputs, weights, count, 1, b->values, b->d, begin, end);                  \
        break;
static void add_positions(const PageOutput *outputs, float (*weights)[KV_PAGE], size_t n,
                          const Block *b, size_t begin, size_t end) {
    switch (n) { EACH_TILE(OUTPUT_CASE) }
}

/* Adds what outputs of a tile see, which differs. What all of them see is added for all at once;
 * what an output sees before and after it is added for that output alone. So each output takes its
 * positions in order and touches no masked one. The first addition uses up an output's factor. */
static void add_differing(const PageOutput *outputs, float (*weights)[KV_PAGE], size_t n,
                          const Block *b) {
    PageOutput tile[TILE_QUERIES] = {{0}};
    size_t begin = 0, end = KV_PAGE;
    for (size_t i = 0; i < n; i++) {
        tile[i] = outputs[i];
        if (tile[i].begin > begin) begin = tile[i].begin;
        if (tile[i].end < end) end = tile[i].end;
    }
    if (begin >= end) begin = end = KV_PAGE; /* nothing in common */
    for (size_t i = 0; i < n; i++) {
        size_t until = tile[i].end < begin ? tile[i].end : begin;
        if (tile[i].begin >= until) continue;
        add_positions(tile + i, weights + i, 1, b, tile[i].begin, until);
        tile[i].factor = 1.0f;
    }
    if (begin < end) {
        add_positions(tile, weights, n, b, begin, end);
        for (size_t i = 0; i < n; i++) tile[i].factor = 1.0f;
    }
    for (size_t i = 0; i < n; i++)
        if (end < tile[i].end) add_positions(tile + i, weights + i, 1, b, end, tile[i].end);
}

/* Adds a page of 8-bit keys to the outputs, each key's first elements as its value. The queries'
 * codes come first in the scratch. */
static void add_codes(const AttentionParams *params, const AttentionJob *job, const void *keys,
                      const PageOutput *outputs) {
    Q8Group *queries = job->scratch;
    int8_t *scratch = (int8_t *)(queries + job->n_queries * q8_groups(params->head_dim));
    FOR_ISA(attention_q8)
        .add_key_values(outputs, job->n_queries, job->weights, keys, params->head_dim,
                        params->value_dim, scratch);
}

/* Adds weight * value of a page's positions to the outputs, a block of the values' elements and a
 * tile of queries at a time. The value of a position is the first value_dim elements of its key. */
static void latent_add_values(const AttentionParams *params, const AttentionJob *job,
                              const void *keys, const PageOutput *outputs) {
    const KvType type = kvcache_shape(job->cache)->type;
    size_t n = job->n_queries;
    bool alike = true; /* all outputs see the whole page */
    if (type == KV_Q8) {
        add_codes(params, job, keys, outputs);
        return;
    }
    for (size_t i = 0; i < n; i++)
        if (outputs[i].begin > 0 || outputs[i].end < KV_PAGE) alike = false;
    for (size_t d = 0; d < params->value_dim; d += BLOCK) {
        size_t left = params->value_dim - d;
        const Block b = {job->scratch, d, left < BLOCK ? left : BLOCK};
        if (type == KV_F16) {
            values_of_keys(keys, true, &b);
        } else {
            values_of_keys(keys, false, &b);
        }
        for (size_t i = 0; i < n; i += TILE_QUERIES) {
            size_t tile = n - i < TILE_QUERIES ? n - i : TILE_QUERIES;
            if (alike) {
                add_positions(outputs + i, job->weights + i, tile, &b, 0, KV_PAGE);
            } else {
                add_differing(outputs + i, job->weights + i, tile, &b);
            }
        }
    }
}

const LatentPage FOR_ISA(latent_page) = {latent_scores, latent_add_values};
