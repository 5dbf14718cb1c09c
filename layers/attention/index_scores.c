#include "layers/attention/index_scores.h"

#include "kernels/lanes.h"

/* A tile is TILE_HEADS heads by TILE_LANES registers of positions. */
enum { TILE_HEADS = 4, TILE_LANES = 2, TILE_POSITIONS = TILE_LANES * LANES };

/* Adds a head's part to the scores of 16 positions. */
LANES_INLINE lanes add_head(lanes sum, float weight, float scale, lanes product) {
    lanes positive = lanes_max(lanes_mul(product, lanes_set(scale)), lanes_zero());
    return lanes_fma(lanes_set(weight), positive, sum);
}

/* Element d of 16 keys from position p on. */
LANES_INLINE lanes load_keys(const void *keys, KvType type, size_t dim, size_t d, size_t p) {
    if (type == KV_BF16) {
        const uint32_t *pairs = (const uint32_t *)keys + bf16_key_pair(dim, d / 2, p);
        return d % 2 ? lanes_bfloat_high(pairs) : lanes_bfloat_low(pairs);
    }
    size_t at = d * KV_PAGE + p;
    return type == KV_F16 ? lanes_load_half((const uint16_t *)keys + at)
                          : lanes_load((const float *)keys + at);
}

/* Adds n heads from `head` on to the scores of the positions from `first` on. */
LANES_INLINE void add_heads(const IndexQuery *query, size_t head, size_t n, const void *keys,
                            KvType type, ptrdiff_t next, size_t first, lanes *scores) {
    lanes sum[TILE_HEADS][TILE_LANES];
    const float *q = query->q + head * query->dim;
    size_t size = type == KV_F32 ? sizeof(float) : sizeof(uint16_t);
    for (size_t h = 0; h < n; h++)
        for (size_t j = 0; j < TILE_LANES; j++) sum[h][j] = lanes_zero();
    for (size_t d = 0; d < query->dim; d++) {
        size_t at = d * KV_PAGE + first;
        lanes key[TILE_LANES];
        for (size_t j = 0; j < TILE_LANES; j++)
            key[j] = load_keys(keys, type, query->dim, d, first + j * LANES);
        if (head == 0) __builtin_prefetch((const char *)keys + at * size + next, 0, 2);
        for (size_t h = 0; h < n; h++) {
            lanes element = lanes_set(q[h * query->dim + d]);
            for (size_t j = 0; j < TILE_LANES; j++)
                sum[h][j] = lanes_fma(element, key[j], sum[h][j]);
        }
    }
    for (size_t h = 0; h < n; h++)
        for (size_t j = 0; j < TILE_LANES; j++)
            scores[j] = add_head(scores[j], query->weights[head + h], query->scale, sum[h][j]);
}

/* The counts of heads are constants, so that a tile's accumulators stay in registers. */
LANES_INLINE void score_floats(const IndexQuery *query, const void *keys, KvType type,
                               ptrdiff_t next, float *scores) {
    for (size_t first = 0; first < KV_PAGE; first += TILE_POSITIONS) {
        lanes sum[TILE_LANES];
        size_t head = 0;
        for (size_t j = 0; j < TILE_LANES; j++) sum[j] = lanes_zero();
        for (; head + TILE_HEADS <= query->n_heads; head += TILE_HEADS)
            add_heads(query, head, TILE_HEADS, keys, type, next, first, sum);
        for (; head < query->n_heads; head++)
            add_heads(query, head, 1, keys, type, next, first, sum);
        for (size_t j = 0; j < TILE_LANES; j++) lanes_store(scores + first + j * LANES, sum[j]);
    }
}

/* The scratch of 8-bit keys: products of all heads, then the queries in codes. */
static Q8Group *codes_of(const IndexQuery *query) {
    return (Q8Group *)(query->scratch + query->n_heads * KV_PAGE);
}

static void score_codes(const IndexQuery *query, const void *keys, ptrdiff_t next, float *scores) {
    float(*products)[KV_PAGE] = (void *)query->scratch;
    FOR_ISA(attention_q8).scores(codes_of(query), query->n_heads, keys, next, query->dim, products);
    for (size_t p = 0; p < KV_PAGE; p += LANES) {
        lanes sum = lanes_zero();
        for (size_t h = 0; h < query->n_heads; h++)
            sum = add_head(sum, query->weights[h], query->scale, lanes_load(products[h] + p));
        lanes_store(scores + p, sum);
    }
}

static void index_scores_begin(const IndexQuery *query) {
    size_t n_groups = q8_groups(query->dim);
    if (query->type != KV_Q8) return;
    for (size_t h = 0; h < query->n_heads; h++)
        FOR_ISA(attention_q8)
            .quantize(query->q + h * query->dim, query->dim, codes_of(query) + h * n_groups);
}

static void page(const IndexQuery *query, const void *keys, ptrdiff_t next, float *scores) {
    if (query->type == KV_Q8) {
        score_codes(query, keys, next, scores);
    } else if (query->type == KV_F16) {
        score_floats(query, keys, KV_F16, next, scores);
    } else if (query->type == KV_BF16) {
        score_floats(query, keys, KV_BF16, next, scores);
    } else {
        score_floats(query, keys, KV_F32, next, scores);
    }
}

const IndexScores FOR_ISA(index_scores) = {index_scores_begin, page};
