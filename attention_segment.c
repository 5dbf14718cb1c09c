/* The inner loops of attention.c, built once for each instruction set.
 *
 * Scores run over positions: one register holds 16 of them, reduced over the head in index
 * order. Outputs run over the head, reduced over positions in order. A tile is a few queries
 * by a few registers, all of whose sums stay in registers. */
#include "attention.h"
#include "attention_q8.h"

#include "lanes.h"

/* A tile is TILE_QUERIES queries at most; EACH_TILE lists their numbers with the registers of
 * each, and DIRECT says that half floats are widened as they are used, not before. */
#if defined(__AVX512F__)
enum { TILE_QUERIES = 8, TILE_LANES = 4, DIRECT = 1 };
#define EACH_TILE(f) f(1, 4) f(2, 4) f(3, 4) f(4, 4) f(5, 2) f(6, 2) f(7, 2) f(8, 2)
#else /* 16 or 32 registers of 8 or 4 floats */
enum { TILE_QUERIES = 3, TILE_LANES = 2, DIRECT = 0 };
#define EACH_TILE(f) f(1, 2) f(2, 2) f(3, 2)
#endif

enum { BLOCK_LANES = KV_PAGE / LANES };

/* Queries of the tile that begins with query i. */
static inline size_t tile_queries(const AttentionJob *job, size_t i) {
    return job->n_queries - i < TILE_QUERIES ? job->n_queries - i : TILE_QUERIES;
}

static inline size_t padded(size_t head_dim) {
    return round_up(head_dim, LANES);
}

/* Keys and values of the current block. The last register of a row of values may reach into what
 * follows the row: pages and scratch are longer by one register, and what those lanes become is
 * never used. */
typedef struct Block {
    const void *keys;   /* [head_dim][KV_PAGE] */
    const void *values; /* [KV_PAGE][head_dim] */
    bool half;          /* they are float16, else float32 */
    ptrdiff_t next;     /* bytes from either to the next block's, to fetch ahead; 0: none */
} Block;

LANES_INLINE lanes load(bool half, const void *from, size_t at) {
    return half ? lanes_load_half((const uint16_t *)from + at)
                : lanes_load((const float *)from + at);
}

/* Starts to load what the next block has where this one has element `at`, n registers of it: the
 * pages of a sequence lie apart, and no hardware foresees the step from one to the next. */
LANES_INLINE void fetch(bool half, const void *from, ptrdiff_t next, size_t at, size_t n) {
    size_t size = half ? sizeof(uint16_t) : sizeof(float);
    const char *line = (const char *)from + at * size + next;
    for (size_t bytes = 0; bytes < n * LANES * size; bytes += 64)
        __builtin_prefetch(line + bytes, 0, 2);
}

static const float *widened(float *out, const void *in, ptrdiff_t next, size_t n) {
    for (size_t i = 0; i < n; i += LANES) {
        lanes_store(out + i, load(true, in, i));
        if (i % (2 * LANES) == 0) fetch(true, in, next, i, 2);
    }
    return out;
}

/* The page's block as the cache has it. A page's values lie as far behind its keys as any other's.
 */
static Block block_of(const AttentionParams *params, const AttentionJob *job, size_t page,
                      bool is_last) {
    size_t layer = params->layer, head = job->kv_head, next = is_last ? page : page + 1;
    const char *keys = kvcache_keys(job->cache, job->sequence, page, layer, head);
    const char *next_keys = kvcache_keys(job->cache, job->sequence, next, layer, head);
    return (Block){.keys = keys,
                   .values = kvcache_values(job->cache, job->sequence, page, layer, head),
                   .half = kvcache_shape(job->cache)->type == KV_F16,
                   .next = next_keys - keys};
}

/* scores[i][positions of the block] = q_i . k, for n queries, `width` registers at a time. */
LANES_INLINE void score_tile(const AttentionQuery *queries, size_t n, size_t width, bool half,
                             const void *keys, ptrdiff_t next, size_t head_dim,
                             float (*scores)[KV_PAGE]) {
    for (size_t lane = 0; lane < BLOCK_LANES; lane += width) {
        lanes sum[TILE_QUERIES][TILE_LANES];
        const float *q[TILE_QUERIES];
        for (size_t i = 0; i < n; i++) q[i] = queries[i].q;
        for (size_t i = 0; i < n; i++)
            for (size_t j = 0; j < width; j++) sum[i][j] = lanes_zero();
        size_t k = lane * LANES;
        for (size_t d = 0; d < head_dim; d++, k += KV_PAGE) {
            lanes key[TILE_LANES];
            for (size_t j = 0; j < width; j++) key[j] = load(half, keys, k + j * LANES);
            fetch(half, keys, next, k, width);
            for (size_t i = 0; i < n; i++) {
                lanes element = lanes_set(q[i][d]);
                for (size_t j = 0; j < width; j++)
                    sum[i][j] = lanes_fma(element, key[j], sum[i][j]);
            }
        }
        for (size_t i = 0; i < n; i++)
            for (size_t j = 0; j < width; j++)
                lanes_store(scores[i] + (lane + j) * LANES, sum[i][j]);
    }
}

/* Constant counts, so that each case keeps its sums in registers. */
#define SCORE_CASE(n, width)                                                                       \
    case n:                                                                                        \
        if (DIRECT && block->half)                                                                 \
            score_tile(queries, n, width, true, block->keys, block->next, head_dim, scores);       \
        else                                                                                       \
            score_tile(queries, n, width, false, block->keys, block->next, head_dim, scores);      \
        break;
static void score_queries(const AttentionQuery *queries, size_t n, const Block *block,
                          size_t head_dim, float (*scores)[KV_PAGE]) {
    switch (n) { EACH_TILE(SCORE_CASE) }
}

static float scalar_exp(float x) {
    float v[LANES];
    if (x == 0.0f) return 1.0f; /* as lanes_exp has it; most are */
    lanes_store(v, lanes_exp_falling(lanes_set(x)));
    return v[0];
}

static lanes soft_capped(lanes x, float cap) {
    float v[LANES];
    lanes_store(v, x);
    FOR_ISA(numeric).softcap(v, cap, LANES);
    return lanes_load(v);
}

/* Adds ALiBi's slope times the distance to the scores of positions first, first + 1, ... */
static lanes sloped(lanes x, float slope, size_t first, size_t position) {
    float distance[LANES];
    for (size_t i = 0; i < LANES; i++) distance[i] = (float)(first + i) - (float)position;
    return lanes_fma(lanes_load(distance), lanes_set(slope), x);
}

/* From raw products to weights exp(score - max) in place; the running max and 16 sums move on.
 * Returns what the running sums and outputs must be multiplied by. */
static float weigh_block(const AttentionParams *params, const AttentionQuery *query, size_t first,
                         size_t begin, size_t end, float *scores, lanes *sums) {
    lanes s[BLOCK_LANES];
    for (size_t j = 0; j < BLOCK_LANES; j++)
        s[j] = lanes_mul(lanes_load(scores + j * LANES), lanes_set(params->scale));
    if (params->softcap > 0.0f)
        for (size_t j = 0; j < BLOCK_LANES; j++) s[j] = soft_capped(s[j], params->softcap);
    if (query->slope != 0.0f)
        for (size_t j = 0; j < BLOCK_LANES; j++)
            s[j] = sloped(s[j], query->slope, first + j * LANES, query->position);
    if (begin > 0 || end < KV_PAGE || query->scores) {
        for (size_t j = 0; j < BLOCK_LANES; j++) lanes_store(scores + j * LANES, s[j]);
        for (size_t i = 0; i < begin; i++) scores[i] = -INFINITY;
        for (size_t i = end; i < KV_PAGE; i++) scores[i] = -INFINITY;
        for (size_t j = 0; j < BLOCK_LANES; j++) s[j] = lanes_load(scores + j * LANES);
    }
    if (query->scores)
        memcpy(query->scores + first + begin, scores + begin, (end - begin) * sizeof *scores);
    lanes m = s[0];
    for (size_t j = 1; j < BLOCK_LANES; j++) m = lanes_max(m, s[j]);
    float block_max = lanes_maximum(m), old_max = *query->max;
    float new_max = block_max > old_max ? block_max : old_max;
    float factor = new_max == old_max ? 1.0f : scalar_exp(old_max - new_max);
    lanes total = lanes_zero();
    for (size_t j = 0; j < BLOCK_LANES; j++) {
        s[j] = lanes_exp_falling(lanes_sub(s[j], lanes_set(new_max)));
        lanes_store(scores + j * LANES, s[j]);
        total = lanes_add(total, s[j]);
    }
    *sums = lanes_fma(*sums, lanes_set(factor), total);
    *query->max = new_max;
    return factor;
}

/* out_i = out_i * factor_i + sum over positions begin <= p < end of weight_i[p] * value[p], for
 * `width` registers of the head from d on. */
LANES_INLINE void output_columns(const AttentionQuery *queries, size_t n, size_t width, size_t d,
                                 const float *factors, float (*weights)[KV_PAGE], bool half,
                                 const void *values, ptrdiff_t next, size_t head_dim, size_t begin,
                                 size_t end) {
    lanes sum[TILE_QUERIES][TILE_LANES];
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < width; j++)
            sum[i][j] =
                lanes_mul(lanes_load(queries[i].out + d + j * LANES), lanes_set(factors[i]));
    size_t v = begin * head_dim + d;
    for (size_t p = begin; p < end; p++, v += head_dim) {
        lanes value[TILE_LANES];
        for (size_t j = 0; j < width; j++) value[j] = load(half, values, v + j * LANES);
        fetch(half, values, next, v, width);
        for (size_t i = 0; i < n; i++) {
            lanes w = lanes_set(weights[i][p]);
            for (size_t j = 0; j < width; j++) sum[i][j] = lanes_fma(w, value[j], sum[i][j]);
        }
    }
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < width; j++) lanes_store(queries[i].out + d + j * LANES, sum[i][j]);
}

LANES_INLINE void output_tile(const AttentionQuery *queries, size_t n, size_t width,
                              const float *factors, float (*weights)[KV_PAGE], bool half,
                              const void *values, ptrdiff_t next, size_t head_dim, size_t begin,
                              size_t end) {
    size_t d = 0;
    for (; d + width * LANES <= padded(head_dim); d += width * LANES)
        output_columns(queries, n, width, d, factors, weights, half, values, next, head_dim, begin,
                       end);
    for (; d < head_dim; d += LANES)
        output_columns(queries, n, 1, d, factors, weights, half, values, next, head_dim, begin,
                       end);
}

#define OUTPUT_CASE(n, width)                                                                      \
    case n:                                                                                        \
        if (DIRECT && block->half)                                                                 \
            output_tile(queries, n, width, factors, weights, true, block->values, block->next,     \
                        head_dim, begin, end);                                                     \
        else                                                                                       \
            output_tile(queries, n, width, factors, weights, false, block->values, block->next,    \
                        head_dim, begin, end);                                                     \
        break;
static void output_queries(const AttentionQuery *queries, size_t n, const float *factors,
                           float (*weights)[KV_PAGE], const Block *block, size_t head_dim,
                           size_t begin, size_t end) {
    switch (n) { EACH_TILE(OUTPUT_CASE) }
}

/* The visible positions of the query within the block that starts at `first`. */
static void visible(const AttentionQuery *query, size_t first, size_t *begin, size_t *end) {
    *begin = query->begin > first ? query->begin - first : 0;
    *end = query->end > first ? query->end - first : 0;
    if (*begin > KV_PAGE) *begin = KV_PAGE;
    if (*end > KV_PAGE) *end = KV_PAGE;
    if (*begin > *end) *begin = *end;
}

/* Queries that see different parts of the block share what they have in common: what one sees
 * before and after it is added alone, so that every query goes through its positions in order
 * and touches no masked one. */
static void output_block(const AttentionJob *job, const Block *block, size_t head_dim, size_t first,
                         const float *factors, float (*weights)[KV_PAGE]) {
    float ones[TILE_QUERIES];
    for (size_t i = 0; i < TILE_QUERIES; i++) ones[i] = 1.0f;
    for (size_t i = 0; i < job->n_queries; i += TILE_QUERIES) {
        const AttentionQuery *queries = job->queries + i;
        size_t n = tile_queries(job, i);
        size_t begin[TILE_QUERIES], end[TILE_QUERIES], low = 0, high = KV_PAGE;
        for (size_t k = 0; k < n; k++) {
            visible(&queries[k], first, &begin[k], &end[k]);
            if (begin[k] > low) low = begin[k];
            if (end[k] < high) high = end[k];
        }
        if (low >= high) {
            for (size_t k = 0; k < n; k++)
                output_queries(queries + k, 1, factors + i + k, weights + i + k, block, head_dim,
                               begin[k], end[k]);
            continue;
        }
        const float *tile_factors = factors + i;
        for (size_t k = 0; k < n; k++) {
            if (begin[k] == low) continue;
            /* Some see more at the front: from here on their factors are spent, so everybody's
             * are applied first. */
            for (size_t m = 0; m < n; m++)
                output_queries(queries + m, 1, factors + i + m, weights + i + m, block, head_dim,
                               begin[m], low);
            tile_factors = ones;
            break;
        }
        output_queries(queries, n, tile_factors, weights + i, block, head_dim, low, high);
        for (size_t k = 0; k < n; k++)
            if (end[k] > high)
                output_queries(queries + k, 1, ones, weights + i + k, block, head_dim, high,
                               end[k]);
    }
}

/* What the queries of a job see: cached positions least ... most - 1. */
typedef struct Span {
    size_t least, most;
} Span;

static void segment_floats(const AttentionParams *params, const AttentionJob *job, Span span,
                           float (*weights)[KV_PAGE], lanes *sums) {
    size_t head_dim = params->head_dim;
    float factors[ATTENTION_QUERIES];
    for (size_t page = span.least / KV_PAGE; page * KV_PAGE < span.most; page++) {
        Block block = block_of(params, job, page, (page + 1) * KV_PAGE >= span.most);
        /* Many queries: widened once for all of them, keys and values in turn in the same place,
         * which stays in the first-level cache. */
        bool widens = block.half && !(DIRECT && job->n_queries <= TILE_QUERIES);
        ptrdiff_t next = block.next;
        if (widens) block.half = false, block.next = 0;
        if (widens) block.keys = widened(job->scratch, block.keys, next, KV_PAGE * head_dim);
        for (size_t i = 0; i < job->n_queries; i += TILE_QUERIES)
            score_queries(job->queries + i, tile_queries(job, i), &block, head_dim, weights + i);
        for (size_t i = 0; i < job->n_queries; i++) {
            size_t begin, end;
            visible(&job->queries[i], page * KV_PAGE, &begin, &end);
            factors[i] = begin == end ? 1.0f
                                      : weigh_block(params, &job->queries[i], page * KV_PAGE, begin,
                                                    end, weights[i], &sums[i]);
        }
        if (widens) block.values = widened(job->scratch, block.values, next, KV_PAGE * head_dim);
        output_block(job, &block, head_dim, page * KV_PAGE, factors, weights);
    }
}

/* The same loop over 8-bit blocks: attention_q8.c multiplies. */
static void segment_q8(const AttentionParams *params, const AttentionJob *job, Span span,
                       float (*weights)[KV_PAGE], lanes *sums) {
    const AttentionQ8 *q8 = &FOR_ISA(attention_q8);
    size_t head_dim = params->head_dim, n = job->n_queries;
    Q8Group *queries = (void *)job->scratch;
    float factors[ATTENTION_QUERIES];
    bool sees[ATTENTION_QUERIES];
    for (size_t i = 0; i < n; i++)
        q8->quantize(job->queries[i].q, head_dim, queries + i * q8_groups(head_dim));
    for (size_t page = span.least / KV_PAGE; page * KV_PAGE < span.most; page++) {
        const Block block = block_of(params, job, page, (page + 1) * KV_PAGE >= span.most);
        size_t low = KV_PAGE, high = 0;
        q8->scores(queries, n, block.keys, block.next, head_dim, weights);
        for (size_t i = 0; i < n; i++) {
            size_t begin, end;
            visible(&job->queries[i], page * KV_PAGE, &begin, &end);
            sees[i] = begin < end;
            if (!sees[i]) {
                memset(weights[i], 0, sizeof weights[i]);
                continue;
            }
            factors[i] = weigh_block(params, &job->queries[i], page * KV_PAGE, begin, end,
                                     weights[i], &sums[i]);
            q8->weigh(weights[i], block.values, head_dim, begin, end);
            low = begin < low ? begin : low;
            high = end > high ? end : high;
        }
        q8->outputs(job->queries, n, sees, factors, weights, block.values, block.next, head_dim,
                    low, high);
    }
}

static void segment(const AttentionParams *params, const AttentionJob *job) {
    size_t head_dim = params->head_dim;
    Span span = {SIZE_MAX, 0};
    lanes sums[ATTENTION_QUERIES];
    for (size_t i = 0; i < job->n_queries; i++) {
        const AttentionQuery *query = &job->queries[i];
        if (query->begin < query->end && query->begin < span.least) span.least = query->begin;
        if (query->begin < query->end && query->end > span.most) span.most = query->end;
        *query->max = -INFINITY;
        sums[i] = lanes_zero();
        memset(query->out, 0, padded(head_dim) * sizeof(float));
    }
    float(*weights)[KV_PAGE] = (void *)(job->scratch + attention_scratch_floats(head_dim) -
                                        (size_t)ATTENTION_QUERIES * KV_PAGE);
    if (kvcache_shape(job->cache)->type == KV_Q8) {
        segment_q8(params, job, span, weights, sums);
    } else {
        segment_floats(params, job, span, weights, sums);
    }
    for (size_t i = 0; i < job->n_queries; i++) *job->queries[i].sum = lanes_sum(sums[i]);
}

static void join(float *max, float *sum, float *out, float next_max, float next_sum,
                 const float *next_out, size_t head_dim) {
    float top = next_max > *max ? next_max : *max;
    if (top == -INFINITY) return; /* neither has seen a position */
    float a = scalar_exp(*max - top), b = scalar_exp(next_max - top);
    *sum = fmaf(*sum, a, next_sum * b);
    *max = top;
    for (size_t d = 0; d < head_dim; d += LANES) {
        lanes scaled = lanes_mul(lanes_load(next_out + d), lanes_set(b));
        lanes_store(out + d, lanes_fma(lanes_load(out + d), lanes_set(a), scaled));
    }
}

static void finish(float *result, float max, float sum, const float *out, const float *sink,
                   size_t head_dim) {
    float factor = 1.0f;
    if (sink) {
        float top = *sink > max ? *sink : max;
        factor = scalar_exp(max - top);
        sum = fmaf(sum, factor, scalar_exp(*sink - top));
    }
    factor = factor / sum;
    for (size_t d = 0; d < head_dim; d++) result[d] = out[d] * factor;
}

const AttentionKernel FOR_ISA(attention) = {segment, join, finish};
