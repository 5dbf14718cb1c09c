/* The inner loops of attention, built once for each instruction set.
 *
 * A segment is computed block by block: scores of all queries, their softmax weights, their sums of
 * weighted values. A block is one page of the cache. Scores are computed for 16 positions at once,
 * each reduced over the head in index order; outputs for 16 elements of the head at once, each
 * reduced over the positions in order. A tile is a few queries by a few registers, whose
 * accumulators all stay in registers. */
#include "core/attention.h"

#include "core/attention_bf16.h"
#include "kernels/bfloat.h"
#include "kernels/lanes.h"
#include "core/numeric.h"

/* A tile has at most TILE_QUERIES queries; EACH_TILE lists how many registers it has for each
 * number of queries. DIRECT: float16 is widened each time it is loaded, as long as one tile holds
 * all queries. */
#if defined(__AVX512F__)
enum { TILE_QUERIES = 8, TILE_LANES = 4, DIRECT = 1 };
#define EACH_TILE(f) f(1, 4) f(2, 4) f(3, 4) f(4, 4) f(5, 2) f(6, 2) f(7, 2) f(8, 2)
#else /* 16 or 32 registers of 8 or 4 floats */
enum { TILE_QUERIES = 3, TILE_LANES = 2, DIRECT = 0 };
#define EACH_TILE(f) f(1, 2) f(2, 2) f(3, 2)
#endif

enum { BLOCK_LANES = KV_PAGE / LANES };

static inline size_t padded(size_t head_dim) {
    return round_up(head_dim, LANES);
}

/* ---- Reading a page ---- */

/* The keys or the values of one page. The last register of a row of values may reach past the row:
 * pages and scratch are longer by one register, and those lanes are never used. */
typedef struct Elements {
    const void *data; /* keys [head_dim][KV_PAGE], values [KV_PAGE][head_dim] */
    size_t head_dim;
    bool half;      /* float16, else float32 */
    ptrdiff_t next; /* bytes to the same of the next page, to prefetch it; 0: there is none */
} Elements;

LANES_INLINE lanes load(Elements e, size_t at) {
    return e.half ? lanes_load_half((const uint16_t *)e.data + at)
                  : lanes_load((const float *)e.data + at);
}

/* Prefetches from the next page what this page has in n registers from element `at` on. Hardware
 * does not foresee the step from one page to the next. */
LANES_INLINE void prefetch_next(Elements e, size_t at, size_t n) {
    size_t size = e.half ? sizeof(uint16_t) : sizeof(float);
    const char *line = (const char *)e.data + at * size + e.next;
    for (size_t bytes = 0; bytes < n * LANES * size; bytes += 64)
        __builtin_prefetch(line + bytes, 0, 2);
}

/* Copies the elements with their type (`half`) known to the compiler. */
LANES_INLINE Elements with_type(const Elements *elements, bool half) {
    Elements e = *elements;
    e.half = half;
    return e;
}

/* Widens float16 elements once into the job's scratch when there are many queries; otherwise
 * returns them unchanged. */
static Elements widened_for(const AttentionJob *job, Elements e) {
    if (!e.half || (DIRECT && job->n_queries <= TILE_QUERIES)) return e;
    float *out = job->scratch;
    const Elements half = with_type(&e, true);
    for (size_t i = 0; i < KV_PAGE * e.head_dim; i += LANES) {
        lanes_store(out + i, load(half, i));
        if (i % (2 * LANES) == 0) prefetch_next(half, i, 2);
    }
    return (Elements){.data = out, .head_dim = e.head_dim};
}

/* ---- Scores ---- */

/* scores[i][all positions] = q_i . k for n queries, `width` registers of positions at a time. */
LANES_INLINE void score_tile(const AttentionQuery *queries, size_t n, size_t width, Elements keys,
                             float (*scores)[KV_PAGE]) {
    for (size_t lane = 0; lane < BLOCK_LANES; lane += width) {
        lanes sum[TILE_QUERIES][TILE_LANES];
        const float *q[TILE_QUERIES];
        for (size_t i = 0; i < n; i++) q[i] = queries[i].q;
        for (size_t i = 0; i < n; i++)
            for (size_t j = 0; j < width; j++) sum[i][j] = lanes_zero();
        size_t k = lane * LANES;
        for (size_t d = 0; d < keys.head_dim; d++, k += KV_PAGE) {
            lanes key[TILE_LANES];
            for (size_t j = 0; j < width; j++) key[j] = load(keys, k + j * LANES);
            prefetch_next(keys, k, width);
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

/* The counts are constants, so that each case keeps its accumulators in registers. */
#define SCORE_CASE(n, width)                                                                       \
    case n:                                                                                        \
        if (DIRECT && keys.half)                                                                   \
            score_tile(queries, n, width, with_type(&keys, true), scores);                         \
        else                                                                                       \
            score_tile(queries, n, width, with_type(&keys, false), scores);                        \
        break;
static void score_queries(const AttentionQuery *queries, size_t n, Elements keys,
                          float (*scores)[KV_PAGE]) {
    while (n > 0) {
        size_t tile = n < TILE_QUERIES ? n : TILE_QUERIES;
        switch (tile) { EACH_TILE(SCORE_CASE) }
        queries += tile, scores += tile, n -= tile;
    }
}

/* ---- Softmax weights ---- */

/* Positions of a block. */
typedef struct Slots {
    size_t begin, end;
} Slots;

/* The positions that the query sees of the block that starts at position `first`. */
static Slots visible(const AttentionQuery *query, size_t first) {
    size_t begin = query->begin > first ? query->begin - first : 0;
    size_t end = query->end > first ? query->end - first : 0;
    if (end > KV_PAGE) end = KV_PAGE;
    return (Slots){begin < end ? begin : end, end};
}

static float scalar_exp(float x) {
    float v[LANES];
    if (x == 0.0f) return 1.0f; /* the common case; lanes_exp gives the same */
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

/* Adds the bias of each position's distance to the scores s of the block that starts at `first`. */
static void add_relative(const AttentionParams *params, const AttentionQuery *query, size_t first,
                         lanes s[BLOCK_LANES]) {
    const RelativeBias *bias = params->relative;
    const float *weights =
        bias->weights + (size_t)(query->q - bias->q) / params->head_dim * bias->dim;
    size_t width = bias->extent + 2 * KV_PAGE, at = KV_PAGE + bias->extent - 1 + first;
    lanes sum[BLOCK_LANES];
    if (at < query->position) return; /* all positions are further back */
    at -= query->position;
    for (size_t j = 0; j < BLOCK_LANES; j++) sum[j] = lanes_zero();
    for (size_t r = 0; r < bias->dim; r++, at += width) {
        lanes weight = lanes_set(weights[r]);
        for (size_t j = 0; j < BLOCK_LANES; j++)
            sum[j] = lanes_fma(weight, lanes_load(bias->profiles + at + j * LANES), sum[j]);
    }
    for (size_t j = 0; j < BLOCK_LANES; j++) s[j] = lanes_add(s[j], sum[j]);
}

/* Makes the products q . k in scores[KV_PAGE] the scores of the block that starts at `first`:
 * scaled, capped, sloped, with the bias of distances, -infinity where the query does not see.
 * Returns each lane's largest. */
LANES_INLINE lanes finish_scores(const AttentionParams *params, const AttentionQuery *query,
                                 size_t first, Slots seen, float *scores) {
    lanes s[BLOCK_LANES];
    for (size_t j = 0; j < BLOCK_LANES; j++)
        s[j] = lanes_mul(lanes_load(scores + j * LANES), lanes_set(params->scale));
    if (params->softcap > 0.0f)
        for (size_t j = 0; j < BLOCK_LANES; j++) s[j] = soft_capped(s[j], params->softcap);
    if (query->slope != 0.0f)
        for (size_t j = 0; j < BLOCK_LANES; j++)
            s[j] = sloped(s[j], query->slope, first + j * LANES, query->position);
    if (params->relative) add_relative(params, query, first, s);
    for (size_t j = 0; j < BLOCK_LANES; j++) lanes_store(scores + j * LANES, s[j]);
    if (seen.begin != 0 || seen.end != KV_PAGE || query->scores) {
        for (size_t i = 0; i < seen.begin; i++) scores[i] = -INFINITY;
        for (size_t i = seen.end; i < KV_PAGE; i++) scores[i] = -INFINITY;
        for (size_t j = 0; j < BLOCK_LANES; j++) s[j] = lanes_load(scores + j * LANES);
        if (query->scores)
            memcpy(query->scores + first + seen.begin, scores + seen.begin,
                   (seen.end - seen.begin) * sizeof *scores);
    }
    for (size_t j = 1; j < BLOCK_LANES; j++) s[0] = lanes_max(s[0], s[j]);
    return s[0];
}

/* Replaces scores[KV_PAGE] by weights exp(score - max), rounded to bfloat16 where `rounds`. Returns
 * 16 sums of them. */
LANES_INLINE lanes weigh(float *scores, float max, bool rounds) {
    lanes total = lanes_zero();
    for (size_t j = 0; j < BLOCK_LANES; j++, scores += LANES) {
        lanes weight = lanes_exp_falling(lanes_sub(lanes_load(scores), lanes_set(max)));
        lanes_store(scores, weight);
        for (size_t i = 0; rounds && i < LANES; i++) scores[i] = bfloat_activation(scores[i]);
        if (rounds) weight = lanes_load(scores);
        total = lanes_add(total, weight);
    }
    return total;
}

/* The online softmax: replaces the products in job->weights by weights, moves the running maximums
 * and sums on, and sets the outputs' positions and the factors of what they have of earlier blocks,
 * exp(old max - new max). In three steps, each for all queries, because a processor has too many
 * operations of one query under way to begin the next. Factors of 1 are computed too: whether a
 * block raises a maximum is not foreseen. q8_keys: keys of 8 bits, whose next page is prefetched.
 */
static void weigh_block(const AttentionParams *params, const AttentionJob *job, size_t first,
                        const Elements *q8_keys, PageOutput *outputs, lanes *sums) {
    const size_t n = job->n_queries;
    const bool rounds = kvcache_shape(job->cache)->type == KV_BF16;
    float factors[ATTENTION_QUERIES] = {0}; /* first what the maximums grow by, negative */
    for (size_t i = 0; i < n; i++) {
        const AttentionQuery *query = &job->queries[i];
        Slots seen = visible(query, first);
        outputs[i] = (PageOutput){query->partial + PARTIAL_OUT, 1.0f, seen.begin, seen.end};
        if (seen.begin >= seen.end) continue;
        lanes largest = finish_scores(params, query, first, seen, job->weights[i]);
        float *max = &query->partial[PARTIAL_MAX], block_max = lanes_maximum(largest), old = *max;
        *max = block_max > old ? block_max : old;
        factors[i] = old - *max;
    }
    for (size_t i = 0; i < n; i += LANES) { /* NaN, -infinity less itself, becomes 0 first */
        lanes step = lanes_min(lanes_load(factors + i), lanes_zero());
        lanes_store(factors + i, lanes_exp_falling(step));
    }
    for (size_t i = 0; i < n; i++) {
        if (q8_keys) q8_prefetch_keys(q8_keys->data, q8_keys->next, q8_keys->head_dim, i, n);
        if (outputs[i].begin >= outputs[i].end) continue;
        const float max = job->queries[i].partial[PARTIAL_MAX];
        lanes total =
            rounds ? weigh(job->weights[i], max, true) : weigh(job->weights[i], max, false);
        outputs[i].factor = factors[i];
        sums[i] = lanes_fma(sums[i], lanes_set(factors[i]), total);
    }
}

/* ---- Outputs ---- */

/* Adds the values of the positions `seen` to n outputs, in `width` registers of the head from
 * element d on. */
LANES_INLINE void output_columns(const PageOutput *outputs, float (*weights)[KV_PAGE], size_t n,
                                 size_t width, Elements values, Slots seen, size_t d) {
    lanes sum[TILE_QUERIES][TILE_LANES];
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < width; j++)
            sum[i][j] =
                lanes_mul(lanes_load(outputs[i].out + d + j * LANES), lanes_set(outputs[i].factor));
    size_t v = seen.begin * values.head_dim + d;
    for (size_t p = seen.begin; p < seen.end; p++, v += values.head_dim) {
        lanes value[TILE_LANES];
        for (size_t j = 0; j < width; j++) value[j] = load(values, v + j * LANES);
        prefetch_next(values, v, width);
        for (size_t i = 0; i < n; i++) {
            lanes w = lanes_set(weights[i][p]);
            for (size_t j = 0; j < width; j++) sum[i][j] = lanes_fma(w, value[j], sum[i][j]);
        }
    }
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < width; j++) lanes_store(outputs[i].out + d + j * LANES, sum[i][j]);
}

LANES_INLINE void output_tile(const PageOutput *outputs, float (*weights)[KV_PAGE], size_t n,
                              size_t width, Elements values, Slots seen) {
    size_t d = 0;
    for (; d + width * LANES <= padded(values.head_dim); d += width * LANES)
        output_columns(outputs, weights, n, width, values, seen, d);
    for (; d < values.head_dim; d += LANES) output_columns(outputs, weights, n, 1, values, seen, d);
}

/* Adds the values of the positions `seen` to n outputs, which fit a tile. The outputs' factors are
 * used up: they are 1 afterwards. */
#define OUTPUT_CASE(n, width)                                                                      \
    case n:                                                                                        \
        if (DIRECT && values.half)                                                                 \
            output_tile(outputs, weights, n, width, with_type(&values, true), seen);               \
        else                                                                                       \
            output_tile(outputs, weights, n, width, with_type(&values, false), seen);              \
        break;
static void add_positions(PageOutput *outputs, float (*weights)[KV_PAGE], size_t n, Elements values,
                          Slots seen) {
    switch (n) { EACH_TILE(OUTPUT_CASE) }
    for (size_t i = 0; i < n; i++) outputs[i].factor = 1.0f;
}

/* Adds a block's values to n outputs, which fit a tile. The positions that all of them see are
 * added for all at once; what an output sees before and after them is added for it alone. So each
 * output takes its positions in order and touches no masked one. */
static void add_to_tile(PageOutput *outputs, float (*weights)[KV_PAGE], size_t n, Elements values) {
    Slots common = {0, KV_PAGE};
    for (size_t i = 0; i < n; i++) {
        if (outputs[i].begin > common.begin) common.begin = outputs[i].begin;
        if (outputs[i].end < common.end) common.end = outputs[i].end;
    }
    if (common.begin >= common.end) common = (Slots){KV_PAGE, KV_PAGE}; /* nothing in common */
    for (size_t i = 0; i < n; i++) {
        size_t end = outputs[i].end < common.begin ? outputs[i].end : common.begin;
        if (outputs[i].begin < end)
            add_positions(outputs + i, weights + i, 1, values, (Slots){outputs[i].begin, end});
    }
    if (common.begin < common.end) add_positions(outputs, weights, n, values, common);
    for (size_t i = 0; i < n; i++)
        if (outputs[i].end > common.end)
            add_positions(outputs + i, weights + i, 1, values, (Slots){common.end, outputs[i].end});
}

static void add_values(PageOutput *outputs, float (*weights)[KV_PAGE], size_t n, Elements values) {
    while (n > 0) {
        size_t tile = n < TILE_QUERIES ? n : TILE_QUERIES;
        add_to_tile(outputs, weights, tile, values);
        outputs += tile, weights += tile, n -= tile;
    }
}

/* ---- A segment ---- */

static const char *layer_keys(const AttentionParams *params, const AttentionJob *job, size_t page) {
    return kvcache_keys(job->cache, job->sequence, page, params->cache_layer, job->kv_head);
}

/* Computes one block of the segment: a page, with the distance in bytes to the next block's page.
 * That distance is the same for keys and values. */
static void run_block(const AttentionParams *params, const AttentionJob *job, size_t page,
                      ptrdiff_t next, const AttentionQ8 *q8, lanes *sums) {
    size_t n = job->n_queries, first = page * KV_PAGE;
    const KvType type = kvcache_shape(job->cache)->type;
    bool in_keys = kvcache_shape(job->cache)->layers[params->cache_layer].values_in_keys;
    Elements keys = {layer_keys(params, job, page), params->head_dim, type == KV_F16, next};
    Elements values = {.head_dim = params->value_dim, .half = keys.half, .next = next};
    values.data =
        kvcache_values(job->cache, job->sequence, page, params->cache_layer, job->kv_head);
    if (q8) {
        q8->scores(job->scratch, n, keys.data, next, params->head_dim, job->weights);
    } else if (type == KV_BF16) {
        FOR_ISA(attention_bf16).scores(params, job, keys.data);
    } else if (in_keys) {
        FOR_ISA(latent_page).scores(params, job, keys.data, next);
    } else {
        score_queries(job->queries, n, widened_for(job, keys), job->weights);
    }
    PageOutput outputs[ATTENTION_QUERIES];
    weigh_block(params, job, first, q8 ? &keys : NULL, outputs, sums);
    if (type == KV_BF16) {
        FOR_ISA(attention_bf16)
            .add_values(params, job, keys.data, in_keys ? NULL : values.data, outputs);
    } else if (in_keys) {
        FOR_ISA(latent_page).add_values(params, job, keys.data, outputs);
    } else if (q8) {
        q8->add_values(outputs, n, job->weights, values.data, next, params->value_dim);
    } else {
        add_values(outputs, job->weights, n, widened_for(job, values));
    }
}

/* Attention of some queries over one segment of the cache, page by page. It gives partial sums,
 * which the caller joins with the other segments' sums. */
static void segment(const AttentionParams *params, const AttentionJob *job) {
    const AttentionQ8 *q8 =
        kvcache_shape(job->cache)->type == KV_Q8 ? &FOR_ISA(attention_q8) : NULL;
    size_t head_dim = params->head_dim, begin = SIZE_MAX, end = 0;
    lanes sums[ATTENTION_QUERIES];
    for (size_t i = 0; i < job->n_queries; i++) {
        const AttentionQuery *query = &job->queries[i];
        if (query->begin < query->end && query->begin < begin) begin = query->begin;
        if (query->begin < query->end && query->end > end) end = query->end;
        query->partial[PARTIAL_MAX] = -INFINITY;
        sums[i] = lanes_zero();
        memset(query->partial + PARTIAL_OUT, 0, padded(params->value_dim) * sizeof(float));
        if (q8) q8->quantize(query->q, head_dim, (Q8Group *)job->scratch + i * q8_groups(head_dim));
    }
    if (kvcache_shape(job->cache)->type == KV_BF16) FOR_ISA(attention_bf16).begin(params, job);
    for (size_t page = begin / KV_PAGE; page * KV_PAGE < end; page++) {
        bool is_last = (page + 1) * KV_PAGE >= end;
        const char *keys = layer_keys(params, job, page);
        const char *next = layer_keys(params, job, page + !is_last);
        run_block(params, job, page, next - keys, q8, sums);
    }
    for (size_t i = 0; i < job->n_queries; i++)
        job->queries[i].partial[PARTIAL_SUM] = lanes_sum(sums[i]);
}

static void segment_join(float *partial, const float *later, size_t value_dim) {
    float *max = &partial[PARTIAL_MAX], *sum = &partial[PARTIAL_SUM];
    float top = later[PARTIAL_MAX] > *max ? later[PARTIAL_MAX] : *max;
    if (top == -INFINITY) return; /* neither has seen a position */
    float a = scalar_exp(*max - top), b = scalar_exp(later[PARTIAL_MAX] - top);
    *sum = fmaf(*sum, a, later[PARTIAL_SUM] * b);
    *max = top;
    for (size_t d = PARTIAL_OUT; d < PARTIAL_OUT + value_dim; d += LANES) {
        lanes scaled = lanes_mul(lanes_load(later + d), lanes_set(b));
        lanes_store(partial + d, lanes_fma(lanes_load(partial + d), lanes_set(a), scaled));
    }
}

static void segment_finish(float *result, const float *partial, const float *sink,
                           size_t value_dim) {
    float max = partial[PARTIAL_MAX], sum = partial[PARTIAL_SUM], factor = 1.0f;
    if (sink) {
        float top = *sink > max ? *sink : max;
        factor = scalar_exp(max - top);
        sum = fmaf(sum, factor, scalar_exp(*sink - top));
    }
    factor = factor / sum;
    for (size_t d = 0; d < value_dim; d++) result[d] = partial[PARTIAL_OUT + d] * factor;
}

const AttentionKernel FOR_ISA(attention) = {segment, segment_join, segment_finish};
