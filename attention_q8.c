/* Sixteen integer sums side by side: one position each for scores, one element of the head each
 * for outputs. What four bytes of a register are multiplied by is the same for all sixteen. */
#include "attention_q8.h"

#include "kernels/activations.h"
#include "kernels/lanes.h"
#include "numeric.h"

/* ---- sixteen int32 sums in whatever registers there are ----
 * A compiler told of other instructions than those of an ISA (-march=native) may have lanes of one
 * kind and sums of another: they meet in memory, which it takes away where the kinds agree. */

#if defined(__AVX512VNNI__)

typedef __m512i sums;

LANES_INLINE sums sums_set(int32_t x) {
    return _mm512_set1_epi32(x);
}
LANES_INLINE lanes sums_to_lanes(sums a) {
    return _mm512_cvtepi32_ps(a);
}
/* 128 a + b */
LANES_INLINE sums sums_join(sums a, sums b) {
    return _mm512_add_epi32(_mm512_slli_epi32(a, 7), b);
}
/* Adds four products of x[4], 0 ... 127, and signed bytes to each sum. */
LANES_INLINE sums sums_add_weighted(sums a, const int8_t *bytes, int32_t x) {
    return _mm512_dpbusd_epi32(a, _mm512_set1_epi32(x), _mm512_loadu_si512(bytes));
}
/* The same with signed x: bytes are raised by 128 to be unsigned, which `offset`, -128 times the
 * sum of all x, takes out again. */
typedef __m512i sums_bytes;
LANES_INLINE sums sums_start(int32_t offset) {
    return _mm512_set1_epi32(offset);
}
LANES_INLINE sums_bytes sums_load(const int8_t *bytes) {
    return _mm512_xor_si512(_mm512_loadu_si512(bytes), _mm512_set1_epi8(-128));
}
LANES_INLINE sums sums_add_signed(sums a, sums_bytes bytes, int32_t x) {
    return _mm512_dpbusd_epi32(a, bytes, _mm512_set1_epi32(x));
}

#elif defined(__AVX2__)

#include <immintrin.h>

typedef struct sums {
    __m256i a, b;
} sums;

LANES_INLINE sums sums_set(int32_t x) {
    return (sums){_mm256_set1_epi32(x), _mm256_set1_epi32(x)};
}
LANES_INLINE lanes sums_to_lanes(sums x) {
    float v[LANES];
    _mm256_storeu_ps(v, _mm256_cvtepi32_ps(x.a));
    _mm256_storeu_ps(v + 8, _mm256_cvtepi32_ps(x.b));
    return lanes_load(v);
}
LANES_INLINE sums sums_join(sums x, sums y) {
    return (sums){_mm256_add_epi32(_mm256_slli_epi32(x.a, 7), y.a),
                  _mm256_add_epi32(_mm256_slli_epi32(x.b, 7), y.b)};
}
/* Pairs add up in 16 bits: 2 * 127 * 128 is within them, and so it is below. */
LANES_INLINE __m256i sums_add_half(__m256i sum, __m256i unsigned_bytes, __m256i signed_bytes) {
    __m256i pairs = _mm256_maddubs_epi16(unsigned_bytes, signed_bytes);
    return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}
LANES_INLINE sums sums_add_weighted(sums s, const int8_t *bytes, int32_t x) {
    const __m256i *p = (const void *)bytes, weights = _mm256_set1_epi32(x);
    return (sums){sums_add_half(s.a, weights, _mm256_loadu_si256(p)),
                  sums_add_half(s.b, weights, _mm256_loadu_si256(p + 1))};
}
typedef sums sums_bytes;
LANES_INLINE sums sums_start(int32_t offset) {
    (void)offset;
    return sums_set(0);
}
LANES_INLINE sums_bytes sums_load(const int8_t *bytes) {
    const __m256i *p = (const void *)bytes;
    return (sums){_mm256_loadu_si256(p), _mm256_loadu_si256(p + 1)};
}
/* The bytes' signs move to x. */
LANES_INLINE sums sums_add_signed(sums s, sums_bytes w, int32_t x) {
    const __m256i codes = _mm256_set1_epi32(x);
    return (sums){sums_add_half(s.a, _mm256_abs_epi8(w.a), _mm256_sign_epi8(codes, w.a)),
                  sums_add_half(s.b, _mm256_abs_epi8(w.b), _mm256_sign_epi8(codes, w.b))};
}

#elif defined(__ARM_FEATURE_DOTPROD) && !defined(LANES_PLAIN)

typedef struct sums {
    int32x4_t v[4];
} sums;
typedef struct sums_bytes {
    int8x16_t v[4];
} sums_bytes;

LANES_INLINE sums sums_set(int32_t x) {
    LANES_EACH(sums, vdupq_n_s32(x));
}
LANES_INLINE lanes sums_to_lanes(sums x) {
    LANES_EACH(lanes, vcvtq_f32_s32(x.v[i]));
}
LANES_INLINE sums sums_join(sums x, sums y) {
    LANES_EACH(sums, vaddq_s32(vshlq_n_s32(x.v[i], 7), y.v[i]));
}
LANES_INLINE sums sums_start(int32_t offset) {
    (void)offset;
    return sums_set(0);
}
LANES_INLINE sums_bytes sums_load(const int8_t *bytes) {
    LANES_EACH(sums_bytes, vld1q_s8(bytes + 16 * i));
}
LANES_INLINE sums sums_add_signed(sums s, sums_bytes w, int32_t x) {
    LANES_EACH(sums, vdotq_s32(s.v[i], w.v[i], vreinterpretq_s8_s32(vdupq_n_s32(x))));
}
LANES_INLINE sums sums_add_weighted(sums s, const int8_t *bytes, int32_t x) {
    return sums_add_signed(s, sums_load(bytes), x);
}

#else /* plain C: the definition */

typedef struct sums {
    int32_t v[LANES];
} sums;
typedef struct sums_bytes {
    int8_t v[4 * LANES];
} sums_bytes;

#define SUMS_EACH(expression)                                                                      \
    sums r;                                                                                        \
    for (int i = 0; i < LANES; i++) r.v[i] = expression;                                           \
    return r
LANES_INLINE sums sums_set(int32_t x) {
    SUMS_EACH(x);
}
LANES_INLINE lanes sums_to_lanes(sums x) {
    float v[LANES];
    for (int i = 0; i < LANES; i++) v[i] = (float)x.v[i];
    return lanes_load(v);
}
LANES_INLINE sums sums_join(sums x, sums y) {
    SUMS_EACH(128 * x.v[i] + y.v[i]);
}
LANES_INLINE sums sums_start(int32_t offset) {
    (void)offset;
    return sums_set(0);
}
LANES_INLINE sums_bytes sums_load(const int8_t *bytes) {
    sums_bytes r;
    memcpy(r.v, bytes, sizeof r.v);
    return r;
}
LANES_INLINE sums sums_add_signed(sums s, sums_bytes w, int32_t x) {
    int8_t c[4];
    memcpy(c, &x, sizeof c);
    SUMS_EACH(s.v[i] + w.v[4 * i] * c[0] + w.v[4 * i + 1] * c[1] + w.v[4 * i + 2] * c[2] +
              w.v[4 * i + 3] * c[3]);
}
LANES_INLINE sums sums_add_weighted(sums s, const int8_t *bytes, int32_t x) {
    return sums_add_signed(s, sums_load(bytes), x);
}

#endif

/* A tile is a few queries by a few registers, all of whose sums stay in registers. EACH_TILE lists
 * how many registers go with how many queries. */
#if defined(__AVX512VNNI__)
enum { TILE_QUERIES = 8, TILE_LANES = 4, LINE = 4 * LANES };
#define EACH_TILE(f) f(1, 4) f(2, 4) f(3, 2) f(4, 2) f(5, 1) f(6, 1) f(7, 1) f(8, 1)
#else
enum { TILE_QUERIES = 2, TILE_LANES = 1, LINE = 4 * LANES };
#define EACH_TILE(f) f(1, 1) f(2, 1)
#endif

static inline size_t tile_queries(size_t left) {
    return left < TILE_QUERIES ? left : TILE_QUERIES;
}

LANES_INLINE int32_t four_bytes(const void *p) {
    int32_t x;
    memcpy(&x, p, sizeof x);
    return x;
}

static void quantize(const float *query, size_t head_dim, Q8Group *out) {
    for (size_t first = 0; first < head_dim; first += KV_Q8_GROUP, out++) {
        size_t n = head_dim - first < KV_Q8_GROUP ? head_dim - first : KV_Q8_GROUP;
        float group[KV_Q8_GROUP] = {0};
        memcpy(group, query + first, n * sizeof *group);
        out->scale = quantize_group(group, KV_Q8_GROUP, out->codes, &out->offset);
    }
}

LANES_INLINE void score_tile(const Q8Group *queries, size_t n, size_t width, const void *keys,
                             ptrdiff_t next, size_t head_dim, float (*scores)[KV_PAGE]) {
    const size_t groups = q8_groups(head_dim), quads = (head_dim + 3) / 4;
    const int8_t *codes = keys;
    const float *key_scales = (const float *)(codes + quads * 4 * KV_PAGE);
    for (size_t lane = 0; lane < KV_PAGE; lane += width * LANES) {
        lanes acc[TILE_QUERIES][TILE_LANES];
        for (size_t i = 0; i < n; i++)
            for (size_t j = 0; j < width; j++) acc[i][j] = lanes_zero();
        for (size_t g = 0; g < groups; g++) {
            sums dot[TILE_QUERIES][TILE_LANES];
            for (size_t i = 0; i < n; i++)
                for (size_t j = 0; j < width; j++)
                    dot[i][j] = sums_start(queries[i * groups + g].offset);
            size_t first = g * KV_Q8_GROUP / 4;
            size_t end = quads - first < KV_Q8_GROUP / 4 ? quads : first + KV_Q8_GROUP / 4;
            for (size_t c = first; c < end; c++) {
                sums_bytes key[TILE_LANES];
                for (size_t j = 0; j < width; j++) {
                    const int8_t *at = codes + (c * KV_PAGE + lane + j * LANES) * 4;
                    key[j] = sums_load(at);
                    __builtin_prefetch(at + next, 0, 2);
                }
                for (size_t i = 0; i < n; i++) {
                    int32_t x = four_bytes(queries[i * groups + g].codes + 4 * (c - first));
                    for (size_t j = 0; j < width; j++)
                        dot[i][j] = sums_add_signed(dot[i][j], key[j], x);
                }
            }
            for (size_t j = 0; j < width; j++) {
                const float *at = key_scales + g * KV_PAGE + lane + j * LANES;
                lanes scale = lanes_load(at);
                __builtin_prefetch((const char *)at + next, 0, 2);
                for (size_t i = 0; i < n; i++)
                    acc[i][j] = lanes_fma(
                        sums_to_lanes(dot[i][j]),
                        lanes_mul(scale, lanes_set(queries[i * groups + g].scale)), acc[i][j]);
            }
        }
        for (size_t i = 0; i < n; i++)
            for (size_t j = 0; j < width; j++) lanes_store(scores[i] + lane + j * LANES, acc[i][j]);
    }
}

#define SCORE_CASE(n, width)                                                                       \
    case n:                                                                                        \
        score_tile(queries, n, width, keys, next, head_dim, scores);                               \
        break;
static void score_queries(const Q8Group *queries, size_t n, const void *keys, ptrdiff_t next,
                          size_t head_dim, float (*scores)[KV_PAGE]) {
    while (n > 0) {
        size_t tile = tile_queries(n);
        switch (tile) { EACH_TILE(SCORE_CASE) }
        queries += tile * q8_groups(head_dim), scores += tile, n -= tile;
    }
}

/* Bytes of four positions' codes: whole registers of them. */
static inline size_t values_step(size_t head_dim) {
    return 4 * round_up(head_dim, LANES);
}

static void weigh(float *weights, const void *values, size_t head_dim, size_t begin, size_t end) {
    const float *scales =
        (const float *)((const int8_t *)values + KV_PAGE / 4 * values_step(head_dim));
    float scaled[KV_PAGE];
    for (size_t p = 0; p < KV_PAGE; p++) {
        scaled[p] = weights[p] * scales[p];
        scaled[p] = scaled[p] < 0.0f ? 0.0f : scaled[p]; /* of a forged page; NaN stays */
    }
    for (size_t p = 0; p < begin; p++) scaled[p] = 0.0f;
    for (size_t p = end; p < KV_PAGE; p++) scaled[p] = 0.0f;
    uint32_t largest = largest_magnitude(scaled, KV_PAGE);
    float max = float_from_bits(largest);
    Q8Weights *out = (Q8Weights *)(void *)weights;
    if (!(max >= 1e-30f) || largest >= 0x7F800000u) {
        memset(out, 0, sizeof *out);
        out->scale = largest >= 0x7F800000u ? NAN : 0.0f;
        return;
    }
    float inverse = 16383.0f / max;
    int32_t codes[KV_PAGE];
    for (size_t p = 0; p < KV_PAGE; p++) {
        float shifted = scaled[p] * inverse + 12582912.0f; /* rounds to nearest even */
        codes[p] = (int32_t)(float_bits(shifted) - float_bits(12582912.0f));
    }
    for (size_t p = 0; p < KV_PAGE; p++) out->high[p] = (uint8_t)(codes[p] >> 7);
    for (size_t p = 0; p < KV_PAGE; p++) out->low[p] = (uint8_t)(codes[p] & 127);
    out->scale = max / 16383.0f;
}

LANES_INLINE void output_tile(const AttentionQuery *queries, size_t n, size_t width,
                              const bool *sees, const float *factors,
                              const float (*weights)[KV_PAGE], const void *values, ptrdiff_t next,
                              size_t head_dim, size_t begin, size_t end, size_t d) {
    const size_t step = values_step(head_dim);
    const int8_t *codes = values;
    sums high[TILE_QUERIES][TILE_LANES], low[TILE_QUERIES][TILE_LANES];
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < width; j++) high[i][j] = low[i][j] = sums_set(0);
    for (size_t p = begin / 4 * 4; p < end; p += 4) {
        const int8_t *at = codes + p / 4 * step + 4 * d;
        for (size_t j = 0; j < width; j++) __builtin_prefetch(at + j * LINE + next, 0, 2);
        for (size_t i = 0; i < n; i++) {
            const Q8Weights *own = (const Q8Weights *)(const void *)weights[i];
            for (size_t j = 0; j < width; j++) {
                high[i][j] =
                    sums_add_weighted(high[i][j], at + j * LINE, four_bytes(own->high + p));
                low[i][j] = sums_add_weighted(low[i][j], at + j * LINE, four_bytes(own->low + p));
            }
        }
    }
    for (size_t i = 0; i < n; i++) {
        const Q8Weights *own = (const Q8Weights *)(const void *)weights[i];
        if (!sees[i]) continue;
        for (size_t j = 0; j < width; j++) {
            float *out = queries[i].out + d + j * LANES;
            lanes before = lanes_mul(lanes_load(out), lanes_set(factors[i]));
            lanes dot = sums_to_lanes(sums_join(high[i][j], low[i][j]));
            lanes_store(out, lanes_fma(dot, lanes_set(own->scale), before));
        }
    }
}

#define OUTPUT_CASE(n, width)                                                                      \
    case n:                                                                                        \
        for (; d + (width)*LANES <= padded; d += (width)*LANES)                                    \
            output_tile(queries, n, width, sees, factors, weights, values, next, head_dim, begin,  \
                        end, d);                                                                   \
        for (; d < padded; d += LANES)                                                             \
            output_tile(queries, n, 1, sees, factors, weights, values, next, head_dim, begin, end, \
                        d);                                                                        \
        break;
static void output_queries(const AttentionQuery *queries, size_t n, const bool *sees,
                           const float *factors, const float (*weights)[KV_PAGE],
                           const void *values, ptrdiff_t next, size_t head_dim, size_t begin,
                           size_t end) {
    const size_t padded = round_up(head_dim, LANES);
    for (size_t d = 0; n > 0; d = 0) {
        size_t tile = tile_queries(n);
        switch (tile) { EACH_TILE(OUTPUT_CASE) }
        queries += tile, sees += tile, factors += tile, weights += tile, n -= tile;
    }
}

const AttentionQ8 FOR_ISA(attention_q8) = {quantize, score_queries, weigh, output_queries};
