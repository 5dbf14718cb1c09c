/* The inner loops of attention.c, built once for each instruction set.
 *
 * Scores run over positions: one register holds 16 of them, reduced over the head in index
 * order. Outputs run over the head, reduced over positions in order. A tile is a few queries
 * by a few registers, all of whose sums stay in registers. */
#include "attention.h"
#include "attention_q8.h"

#include "kernels/lanes.h"
#include "numeric.h"

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
    size_t head_dim;
    bool half;      /* they are float16, else float32 */
    ptrdiff_t next; /* bytes from either to the next block's, to fetch ahead; 0: no next one */
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
                   .head_dim = params->head_dim,
                   .half = kvcache_shape(job->cache)->type == KV_F16,
                   .next = next_keys - keys};
}

/* The block with its type known to the compiler. */
LANES_INLINE Block of_type(const Block *block, bool half) {
    Block b = *block;
    b.half = half;
    return b;
}

/* scores[i][positions of the block] = q_i . k, for n queries, `width` registers at a time. */
LANES_INLINE void score_tile(const AttentionQuery *queries, size_t n, size_t width, Block b,
                             float (*scores)[KV_PAGE]) {
    for (size_t lane = 0; lane < BLOCK_LANES; lane += width) {
        lanes sum[TILE_QUERIES][TILE_LANES];
        const float *q[TILE_QUERIES];
        for (size_t i = 0; i < n; i++) q[i] = queries[i].q;
        for (size_t i = 0; i < n; i++)
            for (size_t j = 0; j < width; j++) sum[i][j] = lanes_zero();
        size_t k = lane * LANES;
        for (size_t d = 0; d < b.head_dim; d++, k += KV_PAGE) {
            lanes key[TILE_LANES];
            for (size_t j = 0; j < width; j++) key[j] = load(b.half, b.keys, k + j * LANES);
            fetch(b.half, b.keys, b.next, k, width);
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
            score_tile(queries, n, width, of_type(block, true), scores);                           \
        else                                                                                       \
            score_tile(queries, n, width, of_type(block, false), scores);                          \
        break;
static void score_queries(const AttentionQuery *queries, size_t n, const Block *block,
                          float (*scores)[KV_PAGE]) {
    switch (n) { EACH_TILE(SCORE_CASE) }
}

/* Positions of a block. */
typedef struct Range {
    size_t begin, end;
} Range;

/* What the query sees of the block that starts at `first`. */
static Range visible(const AttentionQuery *query, size_t first) {
    size_t begin = query->begin > first ? query->begin - first : 0;
    size_t end = query->end > first ? query->end - first : 0;
    if (end > KV_PAGE) end = KV_PAGE;
    return (Range){begin < end ? begin : end, end};
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
                         Range seen, float *scores, lanes *sums) {
    lanes s[BLOCK_LANES];
    for (size_t j = 0; j < BLOCK_LANES; j++)
        s[j] = lanes_mul(lanes_load(scores + j * LANES), lanes_set(params->scale));
    if (params->softcap > 0.0f)
        for (size_t j = 0; j < BLOCK_LANES; j++) s[j] = soft_capped(s[j], params->softcap);
    if (query->slope != 0.0f)
        for (size_t j = 0; j < BLOCK_LANES; j++)
            s[j] = sloped(s[j], query->slope, first + j * LANES, query->position);
    if (seen.begin > 0 || seen.end < KV_PAGE || query->scores) {
        for (size_t j = 0; j < BLOCK_LANES; j++) lanes_store(scores + j * LANES, s[j]);
        for (size_t i = 0; i < seen.begin; i++) scores[i] = -INFINITY;
        for (size_t i = seen.end; i < KV_PAGE; i++) scores[i] = -INFINITY;
        for (size_t j = 0; j < BLOCK_LANES; j++) s[j] = lanes_load(scores + j * LANES);
    }
    if (query->scores)
        memcpy(query->scores + first + seen.begin, scores + seen.begin,
               (seen.end - seen.begin) * sizeof *scores);
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

/* Queries, and what each brings to the values: out_i = out_i * factor_i + sum over the positions p
 * of a range of weight_i[p] * value[p]. */
typedef struct Tile {
    const AttentionQuery *queries;
    const float *factors;
    float (*weights)[KV_PAGE];
} Tile;

LANES_INLINE Tile tile_from(Tile t, size_t i) {
    return (Tile){t.queries + i, t.factors + i, t.weights + i};
}

/* n queries' outputs in `width` registers of the head from d on. */
LANES_INLINE void output_columns(Tile t, size_t n, size_t width, Block b, Range seen, size_t d) {
    lanes sum[TILE_QUERIES][TILE_LANES];
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < width; j++)
            sum[i][j] =
                lanes_mul(lanes_load(t.queries[i].out + d + j * LANES), lanes_set(t.factors[i]));
    size_t v = seen.begin * b.head_dim + d;
    for (size_t p = seen.begin; p < seen.end; p++, v += b.head_dim) {
        lanes value[TILE_LANES];
        for (size_t j = 0; j < width; j++) value[j] = load(b.half, b.values, v + j * LANES);
        fetch(b.half, b.values, b.next, v, width);
        for (size_t i = 0; i < n; i++) {
            lanes w = lanes_set(t.weights[i][p]);
            for (size_t j = 0; j < width; j++) sum[i][j] = lanes_fma(w, value[j], sum[i][j]);
        }
    }
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < width; j++) lanes_store(t.queries[i].out + d + j * LANES, sum[i][j]);
}

LANES_INLINE void output_tile(Tile t, size_t n, size_t width, Block b, Range seen) {
    size_t d = 0;
    for (; d + width * LANES <= padded(b.head_dim); d += width * LANES)
        output_columns(t, n, width, b, seen, d);
    for (; d < b.head_dim; d += LANES) output_columns(t, n, 1, b, seen, d);
}

#define OUTPUT_CASE(n, width)                                                                      \
    case n:                                                                                        \
        if (DIRECT && block->half)                                                                 \
            output_tile(tile, n, width, of_type(block, true), seen);                               \
        else                                                                                       \
            output_tile(tile, n, width, of_type(block, false), seen);                              \
        break;
static void output_queries(Tile tile, size_t n, const Block *block, Range seen) {
    switch (n) { EACH_TILE(OUTPUT_CASE) }
}

/* Queries that see different parts of the block share what they have in common: what one sees
 * before and after it is added alone, so that every query goes through its positions in order
 * and touches no masked one. */
static void output_block(const AttentionJob *job, const Block *block, size_t first, Tile all) {
    float ones[TILE_QUERIES];
    for (size_t i = 0; i < TILE_QUERIES; i++) ones[i] = 1.0f;
    for (size_t i = 0; i < job->n_queries; i += TILE_QUERIES) {
        Tile tile = tile_from(all, i);
        size_t n = tile_queries(job, i);
        Range seen[TILE_QUERIES], common = {0, KV_PAGE};
        bool ragged = false;
        for (size_t k = 0; k < n; k++) {
            seen[k] = visible(&tile.queries[k], first);
            if (seen[k].begin > common.begin) common.begin = seen[k].begin;
            if (seen[k].end < common.end) common.end = seen[k].end;
        }
        if (common.begin >= common.end) common = (Range){KV_PAGE, KV_PAGE}; /* each alone */
        for (size_t k = 0; k < n; k++) ragged |= seen[k].begin != common.begin;
        for (size_t k = 0; ragged && k < n; k++) { /* which spends everybody's factor */
            size_t end = seen[k].end < common.begin ? seen[k].end : common.begin;
            output_queries(tile_from(tile, k), 1, block, (Range){seen[k].begin, end});
        }
        if (ragged) tile.factors = ones;
        if (common.begin < common.end) output_queries(tile, n, block, common);
        tile.factors = ones;
        for (size_t k = 0; k < n; k++)
            if (seen[k].end > common.end)
                output_queries(tile_from(tile, k), 1, block, (Range){common.end, seen[k].end});
    }
}

/* What the queries of a job see: cached positions least ... most - 1. */
typedef struct Span {
    size_t least, most;
} Span;

static void segment_floats(const AttentionParams *params, const AttentionJob *job, Span span,
                           float (*weights)[KV_PAGE], lanes *sums) {
    float factors[ATTENTION_QUERIES];
    for (size_t page = span.least / KV_PAGE; page * KV_PAGE < span.most; page++) {
        const Block cached = block_of(params, job, page, (page + 1) * KV_PAGE >= span.most);
        const size_t n = KV_PAGE * cached.head_dim, first = page * KV_PAGE;
        Block block = cached;
        /* Many queries: widened once for all of them, keys and values in turn in one place. */
        bool widens = block.half && !(DIRECT && job->n_queries <= TILE_QUERIES);
        if (widens) block.half = false, block.next = 0;
        if (widens) block.keys = widened(job->scratch, cached.keys, cached.next, n);
        for (size_t i = 0; i < job->n_queries; i += TILE_QUERIES)
            score_queries(job->queries + i, tile_queries(job, i), &block, weights + i);
        for (size_t i = 0; i < job->n_queries; i++) {
            Range seen = visible(&job->queries[i], first);
            factors[i] = 1.0f;
            if (seen.begin < seen.end)
                factors[i] =
                    weigh_block(params, &job->queries[i], first, seen, weights[i], &sums[i]);
        }
        if (widens) block.values = widened(job->scratch, cached.values, cached.next, n);
        output_block(job, &block, first, (Tile){job->queries, factors, weights});
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
            Range seen = visible(&job->queries[i], page * KV_PAGE);
            sees[i] = seen.begin < seen.end;
            if (!sees[i]) {
                memset(weights[i], 0, sizeof weights[i]);
                continue;
            }
            factors[i] =
                weigh_block(params, &job->queries[i], page * KV_PAGE, seen, weights[i], &sums[i]);
            q8->weigh(weights[i], block.values, head_dim, seen.begin, seen.end);
            low = seen.begin < low ? seen.begin : low;
            high = seen.end > high ? seen.end : high;
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
