/* Built once for each instruction set. Sixteen int32 sums lie side by side: for scores, one for
 * each of 16 positions; for outputs, one for each of 16 elements of the head. An instruction
 * multiplies four signed bytes for each of the sums by the same four bytes x. */
#include "kernels/attention_q8.h"

#include <stdbool.h>

#include "kernels/activations.h"
#include "kernels/lanes.h"

/* ---- Sixteen int32 sums ----
 * A compiler that is given more instructions than the ISA's (-march=native) may choose another kind
 * of register for the sums than for the lanes. sums_to_lanes therefore goes through memory, which
 * the compiler removes where the kinds agree. */

LANES_INLINE int32_t four_bytes(const void *p) {
    int32_t x;
    memcpy(&x, p, sizeof x);
    return x;
}

#if defined(__AVX512VNNI__)

typedef __m512i sums;
/* Keeps a sum in its register: gcc would rather move it about. */
#define SUMS_KEEP(a) __asm__("" : "+v"(a))
/* Four bytes for each sum. They are loaded once for several products: a compiler would rather load
 * them for each. */
typedef __m512i sums_four;
LANES_INLINE sums_four sums_load_four(const void *p) {
    sums_four x;
    __asm__("vpbroadcastd %1, %0" : "=v"(x) : "m"(*(const uint32_t *)p));
    return x;
}

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
/* Adds to each sum the products of its four signed bytes with the four bytes of x, 0 ... 127. */
typedef __m512i sums_bytes;
LANES_INLINE sums_bytes sums_load_signed(const int8_t *bytes) {
    return _mm512_loadu_si512(bytes);
}
LANES_INLINE sums sums_add_weighted(sums a, sums_bytes bytes, sums_four x) {
    a = _mm512_dpbusd_epi32(a, x, bytes);
    SUMS_KEEP(a);
    return a;
}
/* Like sums_add_weighted, with signed x. sums_load adds 128 to the bytes to make them unsigned;
 * sums_start begins with `offset`, which is -128 times the sum of all x and cancels this. */
LANES_INLINE sums sums_start(int32_t offset) {
    return _mm512_set1_epi32(offset);
}
LANES_INLINE sums_bytes sums_load(const int8_t *bytes) {
    return _mm512_xor_si512(_mm512_loadu_si512(bytes), _mm512_set1_epi8(-128));
}
LANES_INLINE sums sums_add_signed(sums a, sums_bytes bytes, sums_four x) {
    a = _mm512_dpbusd_epi32(a, bytes, x);
    SUMS_KEEP(a);
    return a;
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
/* Pairs of products add up in 16 bits without overflow: at most 2 * 127 * 128, here and below. */
LANES_INLINE __m256i sums_add_half(__m256i sum, __m256i unsigned_bytes, __m256i signed_bytes) {
    __m256i pairs = _mm256_maddubs_epi16(unsigned_bytes, signed_bytes);
    return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}
typedef sums sums_bytes;
typedef __m256i sums_four;
LANES_INLINE sums_four sums_load_four(const void *p) {
    return _mm256_set1_epi32(four_bytes(p));
}
LANES_INLINE sums sums_add_weighted(sums s, sums_bytes w, sums_four x) {
    return (sums){sums_add_half(s.a, x, w.a), sums_add_half(s.b, x, w.b)};
}
LANES_INLINE sums sums_start(int32_t offset) {
    (void)offset;
    return sums_set(0);
}
LANES_INLINE sums_bytes sums_load(const int8_t *bytes) {
    const __m256i *p = (const void *)bytes;
    return (sums){_mm256_loadu_si256(p), _mm256_loadu_si256(p + 1)};
}
/* maddubs wants one unsigned operand: the bytes' signs move to x. */
#define sums_load_signed sums_load
LANES_INLINE sums sums_add_signed(sums s, sums_bytes w, sums_four x) {
    return (sums){sums_add_half(s.a, _mm256_abs_epi8(w.a), _mm256_sign_epi8(x, w.a)),
                  sums_add_half(s.b, _mm256_abs_epi8(w.b), _mm256_sign_epi8(x, w.b))};
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
typedef int8x16_t sums_four;
LANES_INLINE sums_four sums_load_four(const void *p) {
    return vreinterpretq_s8_s32(vdupq_n_s32(four_bytes(p)));
}
LANES_INLINE sums sums_add_signed(sums s, sums_bytes w, sums_four x) {
    LANES_EACH(sums, vdotq_s32(s.v[i], w.v[i], x));
}
#define sums_load_signed sums_load
#define sums_add_weighted sums_add_signed

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
typedef int32_t sums_four;
LANES_INLINE sums_four sums_load_four(const void *p) {
    return four_bytes(p);
}
LANES_INLINE sums sums_add_signed(sums s, sums_bytes w, sums_four x) {
    int8_t c[4];
    memcpy(c, &x, sizeof c);
    SUMS_EACH(s.v[i] + w.v[4 * i] * c[0] + w.v[4 * i + 1] * c[1] + w.v[4 * i + 2] * c[2] +
              w.v[4 * i + 3] * c[3]);
}
#define sums_load_signed sums_load
#define sums_add_weighted sums_add_signed

#endif

/* ---- Storing ---- */

/* Copies the group of x[dim] that begins at element `first`, padded with zeros because codes are
 * made in whole registers. Returns the number of elements before the padding. */
static size_t copy_group(const float *x, size_t dim, size_t first, float group[Q8_GROUP]) {
    size_t n = dim - first < Q8_GROUP ? dim - first : Q8_GROUP;
    memset(group, 0, Q8_GROUP * sizeof *group);
    memcpy(group, x + first, n * sizeof *group);
    return n;
}

static void quantize(const float *query, size_t head_dim, Q8Group *out) {
    for (size_t first = 0; first < head_dim; first += Q8_GROUP, out++) {
        float group[Q8_GROUP];
        const float *x = query + first;
        if (head_dim - first < Q8_GROUP) {
            copy_group(query, head_dim, first, group);
            x = group;
        }
        out->scale = quantize_group(x, Q8_GROUP, out->codes, &out->offset);
    }
}

/* Quantizes a key by groups and stores it in a slot of its page: four elements side by side, one
 * scale a group. */
static void store_key(void *keys, size_t head_dim, size_t slot, const float *key) {
    int8_t *codes = keys;
    float *scales = (float *)(void *)(codes + round_up(head_dim, 4) * Q8_PAGE);
    for (size_t first = 0; first < head_dim; first += Q8_GROUP, scales += Q8_PAGE) {
        float group[Q8_GROUP];
        int8_t of_group[Q8_GROUP];
        int32_t offset;
        size_t n = copy_group(key, head_dim, first, group);
        scales[slot] = quantize_group(group, Q8_GROUP, of_group, &offset);
        for (size_t i = 0; i < n; i += 4)
            memcpy(codes + ((first + i) / 4 * Q8_PAGE + slot) * 4, of_group + i, 4);
    }
}

/* Quantizes a value and stores it in a slot of its page: four slots side by side, one scale each.
 */
static void store_value(void *values, size_t head_dim, size_t slot, const float *value) {
    size_t width = round_up(head_dim, LANES);
    float group[Q8_GROUP];
    uint32_t largest = 0;
    for (size_t first = 0; first < head_dim; first += Q8_GROUP) {
        copy_group(value, head_dim, first, group);
        uint32_t of_group = largest_magnitude(group, Q8_GROUP);
        largest = of_group > largest ? of_group : largest;
    }
    float scale = code_scale(largest);
    int8_t *own = (int8_t *)values + slot / 4 * width * 4 + slot % 4, codes[Q8_GROUP] = {0};
    for (size_t first = 0; first < head_dim; first += Q8_GROUP) {
        size_t n = copy_group(value, head_dim, first, group);
        if (scale > 0.0f) round_to_codes(group, Q8_GROUP, 127.0f / float_from_bits(largest), codes);
        for (size_t i = 0; i < n; i++) own[(first + i) * 4] = codes[i];
    }
    ((float *)(void *)((int8_t *)values + width * Q8_PAGE))[slot] = scale;
}

/* A tile is a few queries by a few registers of 16 sums, all of which stay in registers. The lists
 * say how many registers a tile has for each number of queries. An output has two sums, which share
 * the values. */
#if defined(__AVX512VNNI__)
enum { SCORE_QUERIES = 6, OUTPUT_QUERIES = 3, TILE_LANES = 4, LINE = 4 * LANES };
#define EACH_SCORE_TILE(f) f(1, 4) f(2, 4) f(3, 4) f(4, 2) f(5, 2) f(6, 2)
#define EACH_OUTPUT_TILE(f) f(1, 4) f(2, 4) f(3, 4)
#else
enum { SCORE_QUERIES = 2, OUTPUT_QUERIES = 2, TILE_LANES = 1, LINE = 4 * LANES };
#define EACH_SCORE_TILE(f) f(1, 1) f(2, 1)
#define EACH_OUTPUT_TILE(f) f(1, 1) f(2, 1)
#endif

/* ---- Scores ---- */

/* Computes the scores of n queries with the keys of one page: for each group of elements the int8
 * dot product, times the scales of the query's and the key's group, summed over the groups. next:
 * bytes from this page to the one that is prefetched; 0: none. */
LANES_INLINE void score_tile(const Q8Group *queries, size_t n, size_t width, const void *keys,
                             ptrdiff_t next, size_t head_dim, float (*scores)[Q8_PAGE]) {
    const size_t groups = q8_groups(head_dim), quads = (head_dim + 3) / 4;
    const int8_t *codes = keys;
    const float *key_scales = (const float *)(codes + quads * 4 * Q8_PAGE);
    size_t line = 0; /* of the next page */
    for (size_t lane = 0; lane < Q8_PAGE; lane += width * LANES) {
        lanes acc[SCORE_QUERIES][TILE_LANES];
        for (size_t i = 0; i < n; i++)
            for (size_t j = 0; j < width; j++) acc[i][j] = lanes_zero();
        for (size_t g = 0; g < groups; g++) {
            sums dot[SCORE_QUERIES][TILE_LANES];
            for (size_t i = 0; i < n; i++)
                for (size_t j = 0; j < width; j++)
                    dot[i][j] = sums_start(queries[i * groups + g].offset);
            size_t first = g * Q8_GROUP / 4;
            size_t end = quads - first < Q8_GROUP / 4 ? quads : first + Q8_GROUP / 4;
            for (size_t c = first; c < end; c++) {
                sums_bytes key[TILE_LANES];
                for (size_t j = 0; j < width; j++)
                    key[j] = sums_load(codes + (c * Q8_PAGE + lane + j * LANES) * 4);
                if (next && (width > 1 || c % 2)) {
                    q8_prefetch(codes + next, true, line, (width + 1) / 2, SIZE_MAX);
                    line += (width + 1) / 2;
                }
                for (size_t i = 0; i < n; i++) {
                    sums_four x = sums_load_four(queries[i * groups + g].codes + 4 * (c - first));
                    for (size_t j = 0; j < width; j++)
                        dot[i][j] = sums_add_signed(dot[i][j], key[j], x);
                }
            }
            for (size_t j = 0; j < width; j++) {
                lanes scale = lanes_load(key_scales + g * Q8_PAGE + lane + j * LANES);
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
                          size_t head_dim, float (*scores)[Q8_PAGE]) {
    if (n > Q8_FEW_QUERIES) next = 0;
    while (n > 0) {
        size_t tile = n < SCORE_QUERIES ? n : SCORE_QUERIES;
        switch (tile) { EACH_SCORE_TILE(SCORE_CASE) }
        queries += tile * q8_groups(head_dim), scores += tile, n -= tile;
        next = 0; /* the first tile has prefetched the half of the keys */
    }
}

/* ---- Outputs ---- */

/* A query's weights for a page in codes. They overwrite the weights that they are made from. */
typedef struct Q8Weights {
    uint8_t high[Q8_PAGE], low[Q8_PAGE]; /* the code is 128 * high + low */
    float scale;
} Q8Weights;
_Static_assert(sizeof(Q8Weights) <= Q8_PAGE * sizeof(float), "codes replace weights in place");

/* Bytes of the codes of four positions. */
static inline size_t values_step(size_t head_dim) {
    return 4 * round_up(head_dim, LANES);
}

/* Finishes a Q8Weights whose largest scaled weight has the bits `largest`. Returns what the scaled
 * weights are multiplied by, or 0 when all codes are 0 and nothing is left to do. */
static float start_codes(Q8Weights *out, uint32_t largest) {
    float max = float_from_bits(largest);
    if (max >= 1e-30f && largest < 0x7F800000u) {
        out->scale = max / 16383.0f;
        return 16383.0f / max;
    }
    memset(out, 0, sizeof *out);
    out->scale = largest >= 0x7F800000u ? NAN : 0.0f;
    return 0.0f;
}

#if defined(__AVX512VNNI__)

/* A mask of the positions below n. */
static uint64_t below(size_t n) {
    return n < Q8_PAGE ? ((uint64_t)1 << n) - 1 : UINT64_MAX;
}

/* Replaces weights[Q8_PAGE] by a Q8Weights; only weights begin ... end - 1 count. It gives the same
 * bits as the plain C below, without going through memory. */
static void quantize_weights(float *weights, const float *scales, size_t begin, size_t end) {
    const uint64_t counts = below(end) & ~below(begin);
    /* Packing keeps to the 128-bit parts of its operands. */
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const __m512i magnitude = _mm512_set1_epi32(0x7FFFFFFF), seven = _mm512_set1_epi16(127);
    __m512 scaled[4];
    __m512i largest = _mm512_setzero_si512(), code[4];
    for (size_t j = 0; j < 4; j++) {
        scaled[j] =
            _mm512_maskz_mul_ps((__mmask16)(counts >> 16 * j), _mm512_loadu_ps(weights + 16 * j),
                                _mm512_loadu_ps(scales + 16 * j));
        scaled[j] = _mm512_max_ps(_mm512_setzero_ps(), scaled[j]); /* NaN stays NaN */
        /* Zero may have a sign where a forged page has negative scales. */
        largest =
            _mm512_max_epu32(largest, _mm512_and_si512(_mm512_castps_si512(scaled[j]), magnitude));
    }
    Q8Weights *out = (Q8Weights *)(void *)weights;
    float inverse = start_codes(out, _mm512_reduce_max_epu32(largest));
    if (inverse == 0.0f) return;
    for (size_t j = 0; j < 4; j++)
        code[j] = _mm512_cvtps_epi32(_mm512_mul_ps(scaled[j], _mm512_set1_ps(inverse)));
    __m512i a = _mm512_packus_epi32(code[0], code[1]), b = _mm512_packus_epi32(code[2], code[3]);
    __m512i high = _mm512_packus_epi16(_mm512_srli_epi16(a, 7), _mm512_srli_epi16(b, 7));
    __m512i low = _mm512_packus_epi16(_mm512_and_si512(a, seven), _mm512_and_si512(b, seven));
    _mm512_storeu_si512(out->high, _mm512_permutexvar_epi32(order, high));
    _mm512_storeu_si512(out->low, _mm512_permutexvar_epi32(order, low));
}

#else

/* Replaces weights[Q8_PAGE] by a Q8Weights; only weights begin ... end - 1 count, as above. */
static void quantize_weights(float *weights, const float *scales, size_t begin, size_t end) {
    float scaled[Q8_PAGE];
    for (size_t p = 0; p < Q8_PAGE; p++) {
        scaled[p] = weights[p] * scales[p];
        /* Only a forged page has negative scales. NaN stays NaN. */
        scaled[p] = scaled[p] < 0.0f ? 0.0f : scaled[p];
    }
    for (size_t p = 0; p < begin; p++) scaled[p] = 0.0f;
    for (size_t p = end; p < Q8_PAGE; p++) scaled[p] = 0.0f;
    Q8Weights *out = (Q8Weights *)(void *)weights;
    float inverse = start_codes(out, largest_magnitude(scaled, Q8_PAGE));
    if (inverse == 0.0f) return;
    int32_t codes[Q8_PAGE];
    for (size_t p = 0; p < Q8_PAGE; p++) {
        float shifted = scaled[p] * inverse + 12582912.0f; /* rounds to nearest even */
        codes[p] = (int32_t)(float_bits(shifted) - float_bits(12582912.0f));
    }
    for (size_t p = 0; p < Q8_PAGE; p++) out->high[p] = (uint8_t)(codes[p] >> 7);
    for (size_t p = 0; p < Q8_PAGE; p++) out->low[p] = (uint8_t)(codes[p] & 127);
}

#endif

/* The values of a page and the positions that any of the queries sees. */
typedef struct Values {
    const int8_t *codes;
    size_t head_dim, begin, end;
    const int8_t *next; /* the next page's */
    size_t line, lines; /* its first cache line that is not prefetched, and the end of all */
    size_t step;        /* lines to prefetch for each four positions of a tile */
} Values;

/* Adds the weighted values' elements from d on (`width` registers of them) to the n outputs. */
LANES_INLINE void output_tile(const PageOutput *outputs, size_t n, size_t width,
                              const float (*weights)[Q8_PAGE], Values *values, size_t d) {
    const Values v = *values;
    const size_t step = values_step(v.head_dim);
    const bool fetches = v.line < v.lines;
    size_t line = v.line;
    sums high[OUTPUT_QUERIES][TILE_LANES], low[OUTPUT_QUERIES][TILE_LANES];
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < width; j++) high[i][j] = low[i][j] = sums_set(0);
    for (size_t p = v.begin / 4 * 4; p < v.end; p += 4) {
        const int8_t *at = v.codes + p / 4 * step + 4 * d;
        sums_bytes value[TILE_LANES];
        for (size_t j = 0; j < width; j++) value[j] = sums_load_signed(at + j * LINE);
        if (fetches) {
            q8_prefetch(v.next, true, line, v.step, v.lines);
            line += v.step;
        }
        for (size_t i = 0; i < n; i++) {
            const Q8Weights *own = (const Q8Weights *)(const void *)weights[i];
            sums_four x = sums_load_four(own->high + p), y = sums_load_four(own->low + p);
            for (size_t j = 0; j < width; j++) {
                high[i][j] = sums_add_weighted(high[i][j], value[j], x);
                low[i][j] = sums_add_weighted(low[i][j], value[j], y);
            }
        }
    }
    values->line = line;
    for (size_t i = 0; i < n; i++) {
        const Q8Weights *own = (const Q8Weights *)(const void *)weights[i];
        if (outputs[i].begin >= outputs[i].end) continue;
        for (size_t j = 0; j < width; j++) {
            float *out = outputs[i].out + d + j * LANES;
            lanes before = lanes_mul(lanes_load(out), lanes_set(outputs[i].factor));
            lanes dot = sums_to_lanes(sums_join(high[i][j], low[i][j]));
            lanes_store(out, lanes_fma(dot, lanes_set(own->scale), before));
        }
    }
}

#define OUTPUT_CASE(n, width)                                                                      \
    case n:                                                                                        \
        for (; d + (width)*LANES <= padded; d += (width)*LANES)                                    \
            output_tile(outputs, n, width, weights, &v, d);                                        \
        for (; d < padded; d += LANES) output_tile(outputs, n, 1, weights, &v, d);                 \
        break;
/* Adds the values of a page, each times its softmax weight, to the outputs of n queries. */
static void add_values(const PageOutput *outputs, size_t n, float (*all_weights)[Q8_PAGE],
                       const void *values, ptrdiff_t next, size_t head_dim) {
    const float *scales =
        (const float *)((const int8_t *)values + Q8_PAGE / 4 * values_step(head_dim));
    Values v = {.codes = values, .head_dim = head_dim, .begin = Q8_PAGE};
    const bool few = n <= Q8_FEW_QUERIES;
    v.next = (const int8_t *)values + next;
    v.lines = next ? q8_value_bytes(head_dim) : 0; /* a byte of a value makes a line */
    v.line = few ? v.lines / 4 : v.lines;
    v.step = n > OUTPUT_QUERIES ? (TILE_LANES + 1) / 2 : TILE_LANES;
    const size_t each = v.line / (n + !n) + 1;
    for (size_t i = 0; i < n; i++) {
        q8_prefetch(v.next, few, each * i, each, v.line);
        size_t begin = outputs[i].begin, end = outputs[i].end;
        if (begin >= end) {
            memset(all_weights[i], 0, sizeof all_weights[i]);
            continue;
        }
        quantize_weights(all_weights[i], scales, begin, end);
        v.begin = begin < v.begin ? begin : v.begin;
        v.end = end > v.end ? end : v.end;
    }
    const float(*weights)[Q8_PAGE] = (const float(*)[Q8_PAGE])all_weights;
    const size_t padded = round_up(head_dim, LANES);
    for (size_t d = 0; n > 0; d = 0) {
        size_t tile = n < OUTPUT_QUERIES ? n : OUTPUT_QUERIES;
        switch (tile) { EACH_OUTPUT_TILE(OUTPUT_CASE) }
        outputs += tile, weights += tile, n -= tile;
    }
}

/* ---- Outputs of values that lie in keys ---- */

/* Copies the codes of a page's keys[Q8_PAGE][key_width] to the order of values,
 * out[Q8_PAGE / 4][width][4], with zeros from element key_width on. Both widths are multiples of
 * 4. */
static void key_codes_to_values(const int8_t *codes, size_t key_width, size_t width, int8_t *out) {
    for (size_t p = 0; p < Q8_PAGE; p += 4) {
        for (size_t d = 0; d < width; d += 4, out += 16) {
            const int8_t *from = codes + (d / 4 * Q8_PAGE + p) * 4; /* [4 positions][4 elements] */
            if (d >= key_width) {
                memset(out, 0, 16);
                continue;
            }
#ifdef __SSSE3__
            const __m128i order =
                _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
            __m128i block = _mm_loadu_si128((const __m128i *)(const void *)from);
            _mm_storeu_si128((__m128i *)(void *)out, _mm_shuffle_epi8(block, order));
#else
            for (size_t i = 0; i < 16; i++) out[i] = from[i % 4 * 4 + i / 4];
#endif
        }
    }
}

/* Adds elements d ... end - 1, which have one scale, to n outputs, which fit a tile. */
#define GROUP_CASE(n, width)                                                                       \
    case n:                                                                                        \
        for (; (width) > 1 && d + 2 * LANES <= end; d += 2 * LANES)                                \
            output_tile(outputs, n, (width) > 1 ? 2 : 1, weights, &v, d);                          \
        for (; d < end; d += LANES) output_tile(outputs, n, 1, weights, &v, d);                    \
        break;
static void add_group(const PageOutput *outputs, size_t n, const float (*weights)[Q8_PAGE],
                      Values v, size_t d, size_t end) {
    switch (n) { EACH_OUTPUT_TILE(GROUP_CASE) }
}

/* Adds weight * value to the outputs, where a value is the first value_dim elements of a key
 * (latent attention). The key's codes are first copied to the order of values. Its scales differ
 * from group to group; they are multiplied into the weights, which are quantized anew for each
 * group. */
static void add_key_values(const PageOutput *outputs, size_t n, float (*weights)[Q8_PAGE],
                           const void *keys, size_t key_dim, size_t value_dim, int8_t *scratch) {
    const size_t width = round_up(value_dim, LANES), key_width = round_up(key_dim, 4);
    const float *scales = (const float *)(const void *)((const int8_t *)keys + key_width * Q8_PAGE);
    Values v = {.codes = scratch, .head_dim = value_dim, .begin = Q8_PAGE};
    key_codes_to_values(keys, key_width, width, scratch);
    for (size_t i = 0; i < n; i++) {
        if (outputs[i].begin >= outputs[i].end) continue;
        v.begin = outputs[i].begin < v.begin ? outputs[i].begin : v.begin;
        v.end = outputs[i].end > v.end ? outputs[i].end : v.end;
    }
    for (size_t d = 0; d < value_dim; d += Q8_GROUP, scales += Q8_PAGE) {
        size_t end = d + Q8_GROUP < width ? d + Q8_GROUP : width;
        for (size_t first = 0, tile; first < n; first += tile) {
            float scaled[OUTPUT_QUERIES][Q8_PAGE];
            tile = n - first < OUTPUT_QUERIES ? n - first : OUTPUT_QUERIES;
            memcpy(scaled, weights + first, tile * sizeof *scaled);
            for (size_t i = 0; i < tile; i++)
                quantize_weights(scaled[i], scales, outputs[first + i].begin,
                                 outputs[first + i].end);
            add_group(outputs + first, tile, (const float(*)[Q8_PAGE])scaled, v, d, end);
        }
    }
}

const AttentionQ8 FOR_ISA(attention_q8) = {store_key,     store_value, quantize,
                                           score_queries, add_values,  add_key_values};
