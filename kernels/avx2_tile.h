/* A tile of the integer products with AVX2 or AVX-VNNI: one panel's 16 outputs, in two registers,
 * by up to 6 rows of activations, one group of inputs at a time.
 *
 * Registers. The 12 integer sums of a group stay in registers; four activations of a row are
 * broadcast once for both halves of the panel (dots_split takes one half at a time); the float sums
 * of more than two rows lie in memory between groups, one load and one store each. Left to
 * themselves, gcc moves all products of a group before all sums and clang keeps the sums in an
 * array: both then spill most of them, which costs up to half of the speed. So IN_ORDER, an empty
 * asm, follows each sum, and the loops over rows are written out (EACH_ROW).
 *
 * AVX2 multiplies unsigned by signed bytes and adds pairs of products in 16 bits with saturation
 * (maddubs). Codes of few bits are made unsigned, and their products are added in 16 bits, which
 * wrap around. What was added by raising the codes is taken away in 16 bits as well (pair_sums), so
 * only the sum of the weights themselves must fit:
 *
 *     q4                  8 inputs * 4: 8 * 2 *  8 * 127 = 16256
 *     q4_min, q4_k        8 * 4:        8 * 2 * 15 * 127 = 30480
 *     q5_0                8 * 4:        8 * 2 * 16 * 127 = 32512
 *     q5_k, q5_1          4 * 4:        4 * 2 * 31 * 127 = 31496
 *     q6_k                4 * 4:        4 * 2 * 32 * 127 = 32512
 *     q2_k                4 * 4:        4 * 2 *  3 * 127 =  3048
 *     q3_k                4 * 4:        4 * 2 *  4 * 127 =  4064
 *     4-bit floats        8 * 4:        8 * 2 * 12 * 127 = 24384 (levels are raised by 16)
 *
 *     q2_0, tq2_0         8 * 4:        8 * 2 *  2 * 127 =  4064
 *     q1_0                8 * 4:        8 * 2 *  1 * 127 =  2032 (raised by 1)
 *     iq1                 4 * 4:        4 * 2 *  9 * 127 =  9144 (raised by 16)
 *     iq3_s               8 * 4:        8 * 2 * 15 * 127 = 30480 (raised by 16)
 *     iq2_k               4 * 4:        4 * 2 * 31 * 127 = 31496 (raised by 32)
 *
 * The larger levels of iq2, iq3_xxs, iq3_k and iq3_ks are raised by 64, those of iq2_ks by 32, and
 * a pair of their products, at most 2 * 126 * 127 = 32004, is widened at once.
 *
 * Codes of 8 bits and the levels of q4_nl, iq4_xs and iq4_k to iq6_k are split into magnitude and
 * sign, and the sign moves to the activation: a pair is at most 2 * 128 * 127 = 32512 and is
 * widened at once. With few rows that is vpsignb. A Zen 3 or Zen 4 starts two of those a cycle, in
 * the units that multiply as well, but four exclusive ors: with many rows the sign is a mask
 * (dots_split), and a pair is at least -2 * 128 * 128, the smallest number of 16 bits. AVX-VNNI
 * adds four products to a sum of 32 bits (dpbusd), so all codes are made unsigned. */
#ifndef KERNELS_AVX2_TILE_H
#define KERNELS_AVX2_TILE_H

#ifndef __AVXVNNI__
#define ACTIVATION_PAIR_SUMS
#endif
#include <immintrin.h>

#include "kernels/block_kernels.h"
#include "kernels/order.h"
#include "kernels/superblocks.h"

#define INLINE static inline __attribute__((always_inline))

enum { BLOCK_ROWS = 6, HALVES = 2 };

/* Four signed codes of 8 outputs, split: their magnitudes, then their masks. */
enum { SPLIT_BYTES = 64 };

/* A pass with at most so many rows is memory-bound: float sums stay in registers between groups,
 * and the lines of a later group are prefetched one by one. */
enum { FEW_ROWS = 2 };

/* STEP(r) for each row. `rows` is known to the compiler. */
#define EACH_ROW(rows, STEP)                                                                       \
    do {                                                                                           \
        STEP(0);                                                                                   \
        if ((rows) > 1) STEP(1);                                                                   \
        if ((rows) > 2) STEP(2);                                                                   \
        if ((rows) > 3) STEP(3);                                                                   \
        if ((rows) > 4) STEP(4);                                                                   \
        if ((rows) > 5) STEP(5);                                                                   \
    } while (0)

/* ---- How the weights of a type are multiplied ---- */

/* dpbusd; without AVX-VNNI nothing calls it. */
#ifdef __AVXVNNI__
enum { VNNI = 1 };
INLINE __m256i add_products_of_4(__m256i sum, __m256i w, __m256i x) {
    return _mm256_dpbusd_avx_epi32(sum, w, x);
}
#else
enum { VNNI = 0 };
INLINE __m256i add_products_of_4(__m256i sum, __m256i w, __m256i x) {
    (void)w, (void)x;
    return sum;
}
#endif

INLINE bool type_is_8_bit(TensorType type) {
    return weight_types[type].bits == 8;
}

/* The largest magnitude of a weight's code, less its zero. */
INLINE uint32_t largest_weight(TensorType type) {
    const TensorTypeInfo *info = &weight_types[type];
    if (info->has_table) return info->largest;
    const uint32_t most = (1u << info->bits) - 1 - info->zero;
    return info->zero > most ? info->zero : most;
}

/* True where maddubs takes a weight's magnitude, and the activation its sign. */
INLINE bool is_signed_product(TensorType type) {
    return !VNNI && (type_is_8_bit(type) || (type_has_table(type) && largest_weight(type) > 64));
}

/* How far the multiplied bytes lie above the weights. (dots_wide lowers unsigned codes.) Levels are
 * raised by a power of two. */
INLINE uint32_t raised_by(TensorType type) {
    const uint32_t largest = largest_weight(type);
    if (type_is_8_bit(type)) return VNNI && weight_types[type].is_signed ? 128 : 0;
    if (!type_has_table(type)) return weight_types[type].zero;
    if (largest > 64) return VNNI ? 128 : 0;
    return largest > 1 ? 1u << (32 - __builtin_clz(largest - 1)) : 1;
}

/* How many products of pairs are added up in 16 bits: those of a group, or of half a group. 1 where
 * not all raised levels of a group fit: the offset is that of a whole group. */
INLINE size_t sums_that_fit(TensorType type) {
    const uint32_t fit = 32767 / (2 * 127 * largest_weight(type));
    const size_t all = type_group(type) / 4;
    if (fit >= all) return all;
    return fit < 2 || raised_by(type) ? 1 : (size_t)1 << (31 - __builtin_clz(fit));
}

/* True where each product of pairs is widened to 32 bits at once. */
INLINE bool is_wide_product(TensorType type) {
    return is_signed_product(type) || (!VNNI && sums_that_fit(type) == 1);
}

/* The levels of the type's table, as they are multiplied, for byte shuffles. */
typedef struct Levels {
    __m256i runs[MOST_TABLES]; /* [superblock_tables] of 16 levels, in both halves */
    const uint8_t *points;     /* of a codebook */
} Levels;

INLINE Levels table_of(TensorType type) {
    const __m128i raised = _mm_set1_epi8((char)raised_by(type));
    Levels levels = {{_mm256_setzero_si256()}, NULL};
    if (type_has_codebook(type)) {
        levels.points = codebook_points(type);
        return levels;
    }
    for (size_t i = 0; type_has_table(type) && i < superblock_tables(type); i++) {
        __m128i run = _mm_loadu_si128((const __m128i *)(superblock_table(type) + 16 * i));
        levels.runs[i] = _mm256_broadcastsi128_si256(_mm_add_epi8(run, raised));
    }
    return levels;
}

/* The levels of codes. Bits 4 and 5 of a code, moved to the byte's uppermost bit, choose the run.
 */
INLINE __m256i look_up(TensorType type, const Levels *levels, __m256i codes) {
    const __m256i *runs = levels->runs;
    __m256i low = _mm256_shuffle_epi8(runs[0], codes);
    if (superblock_tables(type) == 1) return low;
    const __m256i second = _mm256_slli_epi16(codes, 3);
    low = _mm256_blendv_epi8(low, _mm256_shuffle_epi8(runs[1], codes), second);
    if (superblock_tables(type) == 2) return low;
    __m256i high = _mm256_blendv_epi8(_mm256_shuffle_epi8(runs[2], codes),
                                      _mm256_shuffle_epi8(runs[3], codes), second);
    return _mm256_blendv_epi8(low, high, _mm256_slli_epi16(codes, 2));
}

/* ---- The weights of a group ---- */

/* Panels are read as they are stored (PACKED), or as unpack_run leaves them for many rows: codes of
 * fewer than 8 bits as bytes, without AVX-VNNI signed ones as magnitudes and masks; scales and
 * minima as float32. */
typedef enum Form { PACKED, UNPACKED } Form;

/* Where the parts of a group of a panel lie. */
typedef struct GroupWeights {
    const uint8_t *lines;
    const uint8_t *scales, *minima; /* f16, parts or exponents; UNPACKED: float32 */
    const uint8_t *starts;          /* UNPACKED, signed products: what sums start with, int32 */
    const uint8_t *superblock;      /* f16 scales that the parts are multiplied by */
    size_t g;                       /* number of the group in the superblock */
    const uint8_t *later;           /* PACKED: lines of a later group */
    const CodebookGroup *open;      /* PACKED: of a type with a codebook */
} GroupWeights;

INLINE __m256i load_line(const uint8_t *p) {
    return _mm256_load_si256((const __m256i *)p);
}

INLINE __m256i load_bytes(const uint8_t *p) {
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p));
}

/* What is added to the levels of a group, 4 bytes for each of 8 outputs. */
INLINE __m256i load_raise(TensorType type, Form form, const GroupWeights *w, size_t half) {
    if (!weight_types[type].raise || form == UNPACKED) return _mm256_setzero_si256();
    __m256i bit = _mm256_set1_epi32(1), rows = bit;
    if (superblock_scales(type) == SCALES_WIDE_PARTS) {
        rows = load_bytes(w->scales + 8 * half);
    } else {
        bit = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
        rows = _mm256_set1_epi32(superblock_raised(w->superblock, w->g) >> 8 * half);
    }
    rows = _mm256_cmpeq_epi32(_mm256_and_si256(rows, bit), bit);
    return _mm256_and_si256(rows, _mm256_set1_epi8((char)weight_types[type].raise));
}

/* The levels, raised where they are, or the codes of types without a table. */
INLINE __m256i weights_of(TensorType type, __m256i codes, const Levels *levels, __m256i raise) {
    if (!type_has_table(type)) return codes;
    codes = look_up(type, levels, codes);
    return weight_types[type].raise ? _mm256_add_epi8(codes, raise) : codes;
}

/* Inputs 4 c to 4 c + 3 of group number g (of a superblock) for 8 outputs, as bytes to multiply. */
INLINE __m256i load_weights(TensorType type, Form form, const uint8_t *lines, size_t g, size_t c,
                            size_t half, const Levels *levels, __m256i raise) {
    const uint8_t *own = lines + 32 * half;
    if (type_is_8_bit(type) || form == UNPACKED) {
        __m256i w = load_line(own + c * LINE_BYTES);
        bool flips = type_is_8_bit(type) && weight_types[type].is_signed == (bool)VNNI;
        return flips ? _mm256_xor_si256(w, _mm256_set1_epi8(-128)) : w;
    }
    const size_t lower = superblock_lower_bits(type), fields = 8 / lower; /* of a byte */
    __m256i code = load_line(own + c / fields * LINE_BYTES);
    if (c % fields) code = _mm256_srli_epi16(code, (int)(c % fields * lower));
    code = _mm256_and_si256(code, _mm256_set1_epi8(superblock_lower_mask(type)));
    if (!superblock_upper_bits(type)) return weights_of(type, code, levels, raise);
    size_t from = superblock_upper_bits(type) * c;
    __m256i upper = load_line(own + superblock_upper_at(type, g));
    if (superblock_groups_beside(type) > 1)
        upper =
            _mm256_srl_epi16(upper, _mm_cvtsi64_si128((int64_t)superblock_upper_shift(type, g)));
    upper = from < lower ? _mm256_slli_epi16(upper, (int)(lower - from))
                         : _mm256_srli_epi16(upper, (int)(from - lower));
    const __m256i mask = _mm256_set1_epi8(superblock_upper_mask(type));
    code = _mm256_or_si256(code, _mm256_and_si256(upper, mask));
    return weights_of(type, code, levels, raise);
}

/* 8 float16 numbers as floats. */
INLINE __m256 load_halves(const uint8_t *p) {
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
}

/* The 6-bit parts of group g from the bytes that hold their nibbles and their upper pairs. */
INLINE __m256i six_bits(__m256i nibbles, __m256i pairs, size_t g) {
    nibbles = _mm256_srl_epi32(nibbles, _mm_cvtsi64_si128((int64_t)(g % 2 * 4)));
    pairs = _mm256_srl_epi32(pairs, _mm_cvtsi64_si128((int64_t)(g % 4 * 2)));
    nibbles = _mm256_and_si256(nibbles, _mm256_set1_epi32(15));
    pairs = _mm256_slli_epi32(_mm256_and_si256(pairs, _mm256_set1_epi32(3)), 4);
    return _mm256_sub_epi32(_mm256_or_si256(nibbles, pairs), _mm256_set1_epi32(32));
}

/* A group's scales of the outputs from 8 * half on. */
INLINE __m256 load_scales(TensorType type, Form form, const GroupWeights *w, size_t half) {
    if (form == UNPACKED) return _mm256_load_ps((const float *)w->scales + 8 * half);
    if (!is_superblock_type(type) || superblock_scales(type) == SCALES_HALVES)
        return load_halves(w->scales + 16 * half);
    if (type_has_codebook(type)) {
        __m256 parts = _mm256_cvtepi32_ps(load_bytes(w->open->parts + 8 * half));
        parts = _mm256_mul_ps(parts, _mm256_set1_ps(superblock_part_unit(type)));
        return _mm256_mul_ps(load_halves((const uint8_t *)(w->open->scales + 8 * half)), parts);
    }
    const uint8_t *own = w->scales + 8 * half;
    __m256i part = load_bytes(own);
    if (superblock_scales(type) == SCALES_POWERS) {
        __m256i bits = _mm256_slli_epi32(part, 23);
        bits = _mm256_max_epu32(bits, _mm256_set1_epi32(0x00400000));
        return _mm256_mul_ps(_mm256_castsi256_ps(bits), _mm256_set1_ps(0.5f));
    }
    if (superblock_scales(type) == SCALES_FLOAT_PARTS) {
        __m256 floats = _mm256_castsi256_ps(_mm256_slli_epi32(part, 20));
        floats = _mm256_mul_ps(floats, _mm256_set1_ps(0x1p119f));
        return _mm256_mul_ps(_mm256_loadu_ps((const float *)w->superblock + 8 * half), floats);
    }
    switch (superblock_scales(type)) {
    case SCALES_SIGNED_PARTS:
        part = _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)own));
        break;
    case SCALES_WIDE_PARTS:
        part = _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)own));
        part = _mm256_or_si256(part, _mm256_set1_epi32(1));
        break;
    case SCALES_NIBBLE_PARTS:
        part = _mm256_and_si256(part, _mm256_set1_epi32(15));
        break;
    case SCALES_6_BIT_PARTS:
        part = six_bits(
            part, load_bytes(w->superblock + superblock_pairs_at(type, w->g) + 8 * half), w->g);
        break;
    case SCALES_ODD_PARTS:
        part = _mm256_srl_epi32(part, _mm_cvtsi64_si128((int64_t)(w->g % 2 * 4)));
        part = _mm256_slli_epi32(_mm256_and_si256(part, _mm256_set1_epi32(15)), 1);
        part = _mm256_or_si256(part, _mm256_set1_epi32(1));
        break;
    default:
        break;
    }
    __m256 factor = _mm256_cvtepi32_ps(part);
    if (weight_types[type].halved)
        factor = _mm256_mul_ps(factor, _mm256_set1_ps(superblock_part_unit(type)));
    if (superblock_scale_is_float(type))
        return _mm256_mul_ps(_mm256_loadu_ps((const float *)w->superblock + 8 * half), factor);
    return _mm256_mul_ps(load_halves(w->superblock + 16 * half), factor);
}

/* A group's minima. */
INLINE __m256 load_minima(TensorType type, Form form, const GroupWeights *w, size_t half) {
    if (form == UNPACKED) return _mm256_load_ps((const float *)w->minima + 8 * half);
    if (!is_superblock_type(type)) return load_halves(w->minima + 16 * half);
    if (superblock_scales(type) == SCALES_HALVES) return load_halves(w->minima + 16 * half);
    __m256i part = load_bytes(w->minima + 8 * half);
    if (superblock_scales(type) == SCALES_NIBBLE_PARTS) part = _mm256_srli_epi32(part, 4);
    return _mm256_mul_ps(load_halves(w->superblock + SUPERBLOCK_MINIMA + 16 * half),
                         _mm256_cvtepi32_ps(part));
}

/* Prefetches, with inputs 4 c to 4 c + 3, the part of a later group's lines that goes with them: a
 * core can't keep all lines of a group in flight at once. */
INLINE void prefetch_part(TensorType type, Form form, size_t rows, const GroupWeights *w,
                          size_t c) {
    const size_t steps = type_group(type) / 4;
    const size_t bytes =
        is_superblock_type(type) ? superblock_group_bytes(type) : group_bytes(type);
    if (form == UNPACKED || rows > FEW_ROWS) return;
    UNROLL
    for (size_t at = 0; at < bytes; at += LINE_BYTES)
        if (at * steps / bytes == c) _mm_prefetch((const char *)w->later + at, _MM_HINT_T1);
}

/* ---- Integer sums of a group, dot[row][half] ---- */

INLINE __m256i broadcast_4_codes(const int8_t *p) {
    int32_t codes;
    memcpy(&codes, p, sizeof codes);
    return _mm256_set1_epi32(codes);
}

/* What a row's sums lack where weights are raised: in 32 bits, without VNNI in pairs of 16 bits. */
INLINE __m256i correction(TensorType type, const int32_t *offset) {
    __m256i whole = _mm256_set1_epi32(*offset);
    uint32_t raised = raised_by(type);
    if (raised == 0) return _mm256_setzero_si256();
    if (!VNNI) return _mm256_slli_epi16(whole, __builtin_ctz(raised));
    return raised < 128 ? _mm256_srai_epi32(whole, __builtin_ctz(128 / raised)) : whole;
}

/* Unsigned codes of few bits. */
INLINE void dots_unsigned(TensorType type, Form form, size_t rows, const GroupWeights *w,
                          const int8_t *codes, const int32_t *offsets, const Levels *table,
                          __m256i (*dot)[HALVES]) {
    const size_t group = type_group(type), run = sums_that_fit(type), end = group / 4;
    const __m256i raise_a = load_raise(type, form, w, 0), raise_b = load_raise(type, form, w, 1);
    const __m256i ones = _mm256_set1_epi16(1);
    __m256i earlier[BLOCK_ROWS][HALVES]; /* the 32-bit sums of the first run, in memory */
    UNROLL
    for (size_t first = 0; first < end; first += run) {
        UNROLL
        for (size_t c = first; c < first + run; c++) {
            prefetch_part(type, form, rows, w, c);
            __m256i a = load_weights(type, form, w->lines, w->g, c, 0, table, raise_a);
            __m256i b = load_weights(type, form, w->lines, w->g, c, 1, table, raise_b);
#define STEP(r)                                                                                    \
    do {                                                                                           \
        __m256i x = broadcast_4_codes(codes + (r)*group + 4 * c);                                  \
        __m256i with_a = _mm256_maddubs_epi16(a, x), with_b = _mm256_maddubs_epi16(b, x);          \
        dot[r][0] = c > first ? _mm256_add_epi16(dot[r][0], with_a) : with_a;                      \
        IN_ORDER(dot[r][0]);                                                                       \
        dot[r][1] = c > first ? _mm256_add_epi16(dot[r][1], with_b) : with_b;                      \
        IN_ORDER(dot[r][1]);                                                                       \
    } while (0)
            EACH_ROW(rows, STEP);
#undef STEP
        }
#define STEP(r)                                                                                    \
    do {                                                                                           \
        if (raised_by(type)) {                                                                     \
            __m256i whole = correction(type, offsets + (r));                                       \
            dot[r][0] = _mm256_add_epi16(dot[r][0], whole);                                        \
            dot[r][1] = _mm256_add_epi16(dot[r][1], whole);                                        \
        }                                                                                          \
        __m256i with_a = _mm256_madd_epi16(dot[r][0], ones);                                       \
        __m256i with_b = _mm256_madd_epi16(dot[r][1], ones);                                       \
        if (first + run < end) {                                                                   \
            earlier[r][0] = with_a, earlier[r][1] = with_b;                                        \
            IN_MEMORY(earlier[r][0]);                                                              \
            IN_MEMORY(earlier[r][1]);                                                              \
        } else {                                                                                   \
            dot[r][0] = first ? _mm256_add_epi32(with_a, earlier[r][0]) : with_a;                  \
            dot[r][1] = first ? _mm256_add_epi32(with_b, earlier[r][1]) : with_b;                  \
        }                                                                                          \
    } while (0)
        EACH_ROW(rows, STEP);
#undef STEP
    }
}

/* x with the signs of w. Weights in memory are read for each row: six rows leave no register. */
INLINE __m256i with_signs(__m256i x, __m256i w, bool in_memory, const uint8_t *line) {
    __m256i signed_x;
    if (!in_memory) return _mm256_sign_epi8(x, w);
    __asm__("vpsignb %2, %1, %0" : "=x"(signed_x) : "x"(x), "m"(*(const __m256i *)line));
    return signed_x;
}

/* broadcast_4_codes for each half: kept from one half to the other, codes would have to be spilled.
 */
INLINE __m256i broadcast_again(const int8_t *p) {
    __m256i codes;
    __asm__ volatile("vpbroadcastd %1, %0" : "=x"(codes) : "m"(*(const int8_t(*)[4])p));
    return codes;
}

/* Signed codes as unpack_split leaves them: magnitudes, and masks that are -1 where a weight is
 * below zero. x ^ -1 is -x - 1, so that the products of a group lack its magnitudes below zero,
 * with which a sum starts. One half at a time, so that magnitude and mask stay in registers. */
INLINE void dots_split(TensorType type, size_t rows, const GroupWeights *w, const int8_t *codes,
                       __m256i (*dot)[HALVES]) {
    const size_t group = type_group(type);
    const __m256i ones = _mm256_set1_epi16(1);
    UNROLL
    for (size_t h = 0; h < HALVES; h++) {
        const uint8_t *own = w->lines + h * group * PANEL_ROWS;
        const __m256i start = load_line(w->starts + 32 * h);
        UNROLL
        for (size_t c = 0; c < group / 4; c++) {
            const __m256i size = load_line(own + c * SPLIT_BYTES);
            const __m256i mask = load_line(own + c * SPLIT_BYTES + 32);
#define STEP(r)                                                                                    \
    do {                                                                                           \
        __m256i x = _mm256_xor_si256(broadcast_again(codes + (r)*group + 4 * c), mask);            \
        __m256i products = _mm256_madd_epi16(_mm256_maddubs_epi16(size, x), ones);                 \
        dot[r][h] = _mm256_add_epi32(c ? dot[r][h] : start, products);                             \
        IN_ORDER(dot[r][h]);                                                                       \
    } while (0)
            EACH_ROW(rows, STEP);
#undef STEP
        }
    }
}

/* Codes whose products of pairs are widened at once: signed ones as they are stored, and raised
 * levels. */
INLINE void dots_wide(TensorType type, Form form, size_t rows, const GroupWeights *w,
                      const int8_t *codes, const Levels *table, __m256i (*dot)[HALVES]) {
    const size_t group = type_group(type);
    const __m256i raise_a = load_raise(type, form, w, 0), raise_b = load_raise(type, form, w, 1);
    const bool has_signs = is_signed_product(type);
    const bool in_memory = type_is_8_bit(type) && !is_unsigned_8(type);
    const __m256i ones = _mm256_set1_epi16(1);
    UNROLL
    for (size_t c = 0; c < group / 4; c++) {
        const uint8_t *line = w->lines + c * LINE_BYTES;
        prefetch_part(type, form, rows, w, c);
        __m256i a = load_weights(type, form, w->lines, w->g, c, 0, table, raise_a);
        __m256i b = load_weights(type, form, w->lines, w->g, c, 1, table, raise_b);
        __m256i size_a = has_signs ? _mm256_abs_epi8(a) : a;
        __m256i size_b = has_signs ? _mm256_abs_epi8(b) : b;
#define STEP(r)                                                                                    \
    do {                                                                                           \
        __m256i x = broadcast_4_codes(codes + (r)*group + 4 * c);                                  \
        __m256i x_a = has_signs ? with_signs(x, a, in_memory, line) : x;                           \
        __m256i with_a = _mm256_maddubs_epi16(size_a, x_a);                                        \
        with_a = _mm256_madd_epi16(with_a, ones);                                                  \
        dot[r][0] = c ? _mm256_add_epi32(dot[r][0], with_a) : with_a;                              \
        IN_ORDER(dot[r][0]);                                                                       \
        __m256i x_b = has_signs ? with_signs(x, b, in_memory, line + 32) : x;                      \
        __m256i with_b = _mm256_maddubs_epi16(size_b, x_b);                                        \
        with_b = _mm256_madd_epi16(with_b, ones);                                                  \
        dot[r][1] = c ? _mm256_add_epi32(dot[r][1], with_b) : with_b;                              \
        IN_ORDER(dot[r][1]);                                                                       \
    } while (0)
        EACH_ROW(rows, STEP);
#undef STEP
    }
}

/* All codes, with AVX-VNNI. `dot` holds what the sums begin with. */
INLINE void dots_vnni(TensorType type, Form form, size_t rows, const GroupWeights *w,
                      const int8_t *codes, const Levels *table, __m256i (*dot)[HALVES]) {
    const size_t group = type_group(type);
    const __m256i raise_a = load_raise(type, form, w, 0), raise_b = load_raise(type, form, w, 1);
    UNROLL
    for (size_t c = 0; c < group / 4; c++) {
        prefetch_part(type, form, rows, w, c);
        __m256i a = load_weights(type, form, w->lines, w->g, c, 0, table, raise_a);
        __m256i b = load_weights(type, form, w->lines, w->g, c, 1, table, raise_b);
#define STEP(r)                                                                                    \
    do {                                                                                           \
        __m256i x = broadcast_4_codes(codes + (r)*group + 4 * c);                                  \
        dot[r][0] = add_products_of_4(dot[r][0], a, x);                                            \
        IN_ORDER(dot[r][0]);                                                                       \
        dot[r][1] = add_products_of_4(dot[r][1], b, x);                                            \
        IN_ORDER(dot[r][1]);                                                                       \
    } while (0)
        EACH_ROW(rows, STEP);
#undef STEP
    }
}

/* ---- Types with a codebook ---- */

/* An eight of each of 8 outputs. Two registers have its levels and, in each byte, 1 or -1 where a
 * level is lower or has a minus sign: [0] has rows 0, 1, 4 and 5 of the half, [1] the others, so
 * that adding neighbours up gives the 8 outputs in order. */
typedef struct Eights {
    __m256i levels[2], signs[2];
} Eights;

/* Levels of 8 outputs; p[codebook_halves] + r are their numbers of points. (Looked up into an array
 * first, both take longer on a Zen 3.) */
INLINE void points_of_8(TensorType type, const uint8_t *points, const uint16_t (*p)[PANEL_ROWS],
                        size_t r, __m256i levels[2]) {
    if (codebook_halves(type) == 1) {
        const long long *at = (const long long *)points;
        const uint16_t *n = p[0] + r;
        levels[0] = _mm256_setr_epi64x(at[n[0]], at[n[1]], at[n[4]], at[n[5]]);
        levels[1] = _mm256_setr_epi64x(at[n[2]], at[n[3]], at[n[6]], at[n[7]]);
        return;
    }
    const int *at = (const int *)points;
    const uint16_t *n = p[0] + r, *m = p[1] + r;
    levels[0] = _mm256_setr_epi32(at[n[0]], at[m[0]], at[n[1]], at[m[1]], at[n[4]], at[m[4]],
                                  at[n[5]], at[m[5]]);
    levels[1] = _mm256_setr_epi32(at[n[2]], at[m[2]], at[n[3]], at[m[3]], at[n[6]], at[m[6]],
                                  at[n[7]], at[m[7]]);
}

/* Eight e of the group, for the outputs from 8 * half on. */
INLINE Eights load_eights(TensorType type, const uint8_t *points, const CodebookGroup *open,
                          size_t e, size_t half) {
    const __m256i bits = _mm256_set1_epi64x((long long)0x8040201008040201ull);
    const __m256i rows =
        _mm256_broadcastq_epi64(_mm_loadl_epi64((const __m128i *)(open->signs[e] + 8 * half)));
    const __m256i first =
        _mm256_setr_epi64x(0, 0x0101010101010101, 0x0404040404040404, 0x0505050505050505);
    Eights eights;
    points_of_8(type, points, open->points + codebook_halves(type) * e, 8 * half, eights.levels);
    UNROLL
    for (size_t i = 0; i < 2; i++) {
        const __m256i from = _mm256_add_epi8(first, _mm256_set1_epi8((char)(2 * i)));
        const __m256i set = _mm256_and_si256(_mm256_shuffle_epi8(rows, from), bits);
        eights.signs[i] = _mm256_or_si256(_mm256_cmpeq_epi8(set, bits), _mm256_set1_epi8(1));
        if (!codebook_is_moved(type)) continue;
        /* Magnitudes and signs of the moved levels, none of which is 0. */
        eights.signs[i] = _mm256_add_epi8(eights.levels[i], eights.signs[i]);
        eights.levels[i] = _mm256_abs_epi8(eights.signs[i]);
    }
    return eights;
}

/* The products of a group. Two eights' products of pairs are added up in 16 bits: at most 2 * 2 *
 * 62 * 127 = 31496. */
INLINE void dots_eights(TensorType type, size_t rows, const GroupWeights *w, const int8_t *codes,
                        const Levels *table, __m256i (*dot)[HALVES]) {
    const size_t group = type_group(type);
    const __m256i ones = _mm256_set1_epi16(1);
    UNROLL
    for (size_t h = 0; h < HALVES; h++) {
        __m256i pairs[BLOCK_ROWS][2], sums[BLOCK_ROWS][2];
        UNROLL
        for (size_t e = 0; e < group / EIGHT; e++) {
            const Eights eights = load_eights(type, table->points, w->open, e, h);
            if (h == 0) prefetch_part(type, PACKED, rows, w, 2 * e);
            if (h == 0) prefetch_part(type, PACKED, rows, w, 2 * e + 1);
#define STEP(r)                                                                                    \
    do {                                                                                           \
        long long eight;                                                                           \
        memcpy(&eight, codes + (r)*group + EIGHT * e, sizeof eight);                               \
        const __m256i x = _mm256_set1_epi64x(eight);                                               \
        UNROLL                                                                                     \
        for (size_t i = 0; i < 2; i++) {                                                           \
            __m256i with =                                                                         \
                _mm256_maddubs_epi16(eights.levels[i], _mm256_sign_epi8(x, eights.signs[i]));      \
            pairs[r][i] = e % 2 ? _mm256_add_epi16(pairs[r][i], with) : with;                      \
            if (e % 2 == 0) continue;                                                              \
            with = _mm256_madd_epi16(pairs[r][i], ones);                                           \
            sums[r][i] = e > 1 ? _mm256_add_epi32(sums[r][i], with) : with;                        \
        }                                                                                          \
    } while (0)
            EACH_ROW(rows, STEP);
#undef STEP
        }
#define STEP(r) dot[r][h] = _mm256_hadd_epi32(sums[r][0], sums[r][1])
        EACH_ROW(rows, STEP);
#undef STEP
    }
}

/* ---- A group of a tile ---- */

/* Adds the products of a group of weights with a group of a packed block to the float sums. */
INLINE void add_group(TensorType type, Form form, size_t rows, const GroupWeights *w,
                      const uint8_t *block, const Levels *table, __m256 (*sums)[HALVES]) {
    const float *x_scales = (const float *)block, *x_sums = x_scales + rows;
    const int32_t *offsets = (const int32_t *)block + 2 * rows;
    const int8_t *codes = (const int8_t *)block + ACTIVATION_HEADER * rows;
    /* 32-bit sums lack these times the sum of the activations. */
    const bool has_eights = type_has_codebook(type) && form == PACKED;
    const int lowered = VNNI || has_eights         ? 0
                        : is_unsigned_8(type)      ? -128
                        : sums_that_fit(type) == 1 ? (int)raised_by(type)
                                                   : 0;
    const bool is_split = is_signed_product(type) && form == UNPACKED;
    __m256i dot[BLOCK_ROWS][HALVES];
    if (has_eights) {
        dots_eights(type, rows, w, codes, table, dot);
    } else if (VNNI) {
#define STEP(r) dot[r][0] = dot[r][1] = correction(type, offsets + r)
        EACH_ROW(rows, STEP);
#undef STEP
        dots_vnni(type, form, rows, w, codes, table, dot);
    } else if (is_split) {
        dots_split(type, rows, w, codes, dot);
    } else if (is_wide_product(type)) {
        dots_wide(type, form, rows, w, codes, table, dot);
    } else {
        dots_unsigned(type, form, rows, w, codes, offsets, table, dot);
    }
    if (lowered) { /* what the offsets are less */
        const __m256i factor = _mm256_set1_epi16((short)lowered);
#define STEP(r)                                                                                    \
    do {                                                                                           \
        __m256i whole = _mm256_madd_epi16(_mm256_set1_epi32(offsets[r]), factor);                  \
        dot[r][0] = _mm256_add_epi32(dot[r][0], whole);                                            \
        dot[r][1] = _mm256_add_epi32(dot[r][1], whole);                                            \
    } while (0)
        EACH_ROW(rows, STEP);
#undef STEP
    }
    UNROLL
    for (size_t h = 0; h < HALVES; h++) {
        __m256 scale = load_scales(type, form, w, h), minimum = scale;
        if (type_has_minima(type)) minimum = load_minima(type, form, w, h);
#define STEP(r)                                                                                    \
    do {                                                                                           \
        __m256 factor = _mm256_mul_ps(scale, _mm256_set1_ps(x_scales[r]));                         \
        __m256 sum = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dot[r][h]), factor, sums[r][h]);           \
        if (type_has_minima(type))                                                                 \
            sum = _mm256_fnmadd_ps(_mm256_set1_ps(x_sums[r]), minimum, sum);                       \
        sums[r][h] = sum;                                                                          \
        if (rows > FEW_ROWS) IN_MEMORY(sums[r][h]);                                                \
    } while (0)
        EACH_ROW(rows, STEP);
#undef STEP
    }
}

#endif
