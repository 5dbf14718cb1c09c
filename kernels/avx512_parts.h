/* The parts of scales of superblocks.h, for both ways of multiplying with AVX-512. */
#ifndef AVX512_PARTS_H
#define AVX512_PARTS_H

#include <immintrin.h>

#include "kernels/superblocks.h"

/* The levels of a type's table, for byte shuffles. */
typedef struct Levels512 {
    __m512i runs[MOST_TABLES]; /* [superblock_tables] of 16 levels, in each quarter */
    const uint8_t *points;     /* of a codebook */
} Levels512;

/* The levels, each xored with `flip`. */
static inline __attribute__((always_inline)) Levels512 levels_512(TensorType type, char flip) {
    Levels512 levels = {{_mm512_setzero_si512()}, NULL};
    if (type_has_codebook(type)) {
        levels.points = codebook_points(type);
        return levels;
    }
    for (size_t i = 0; type_has_table(type) && i < superblock_tables(type); i++) {
        __m128i run = _mm_loadu_si128((const __m128i *)(superblock_table(type) + 16 * i));
        levels.runs[i] = _mm512_broadcast_i32x4(_mm_xor_si128(run, _mm_set1_epi8(flip)));
    }
    return levels;
}

/* The levels of codes. */
static inline __attribute__((always_inline)) __m512i look_up_512(TensorType type,
                                                                 const Levels512 *levels,
                                                                 __m512i codes) {
    const __m512i *runs = levels->runs;
    __m512i low = _mm512_shuffle_epi8(runs[0], codes);
    if (superblock_tables(type) == 1) return low;
    const __mmask64 second = _mm512_test_epi8_mask(codes, _mm512_set1_epi8(16));
    low = _mm512_mask_shuffle_epi8(low, second, runs[1], codes);
    if (superblock_tables(type) == 2) return low;
    __m512i high = _mm512_shuffle_epi8(runs[2], codes);
    high = _mm512_mask_shuffle_epi8(high, second, runs[3], codes);
    return _mm512_mask_mov_epi8(low, _mm512_test_epi8_mask(codes, _mm512_set1_epi8(32)), high);
}

/* What is added to the levels of group g of a superblock, 4 bytes for each row. */
static inline __attribute__((always_inline)) __m512i superblock_raise_512(TensorType type,
                                                                          const uint8_t *superblock,
                                                                          size_t g) {
    if (!weight_types[type].raise) return _mm512_setzero_si512();
    __mmask16 rows = superblock_raised(superblock, g);
    if (superblock_scales(type) == SCALES_WIDE_PARTS) {
        __m128i parts =
            _mm_loadu_si128((const __m128i *)(superblock + superblock_scales_at(type, g)));
        rows = _mm_test_epi8_mask(parts, _mm_set1_epi8(1));
    }
    return _mm512_maskz_set1_epi32(rows, 0x01010101 * weight_types[type].raise);
}

/* The 16 scales of a superblock. */
static inline __attribute__((always_inline)) __m512 superblock_scale_512(
    TensorType type, const uint8_t *superblock) {
    if (superblock_scale_is_float(type)) return _mm512_loadu_ps(superblock);
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)superblock));
}

/* The integers that the 16 scales of a superblock are multiplied by for group g. */
static inline __attribute__((always_inline)) __m512i superblock_parts_512(TensorType type,
                                                                          const uint8_t *superblock,
                                                                          size_t g) {
    __m128i bytes = _mm_loadu_si128((const __m128i *)(superblock + superblock_scales_at(type, g)));
    if (superblock_scales(type) == SCALES_SIGNED_PARTS) return _mm512_cvtepi8_epi32(bytes);
    if (superblock_scales(type) == SCALES_WIDE_PARTS)
        return _mm512_cvtepi8_epi32(_mm_or_si128(bytes, _mm_set1_epi8(1)));
    if (superblock_scales(type) == SCALES_NIBBLE_PARTS)
        bytes = _mm_and_si128(bytes, _mm_set1_epi8(15));
    if (superblock_scales(type) == SCALES_6_BIT_PARTS) {
        const __m128i low = _mm_set1_epi8(15), two = _mm_set1_epi8(3);
        __m128i upper =
            _mm_loadu_si128((const __m128i *)(superblock + superblock_pairs_at(type, g)));
        bytes = _mm_srl_epi16(bytes, _mm_cvtsi64_si128((int64_t)(g % 2 * 4)));
        upper = _mm_srl_epi16(upper, _mm_cvtsi64_si128((int64_t)(g % 4 * 2)));
        upper = _mm_slli_epi16(_mm_and_si128(upper, two), 4);
        bytes = _mm_or_si128(_mm_and_si128(bytes, low), upper);
        return _mm512_cvtepi8_epi32(_mm_sub_epi8(bytes, _mm_set1_epi8(32)));
    }
    if (superblock_scales(type) == SCALES_ODD_PARTS) {
        bytes = _mm_srl_epi16(bytes, _mm_cvtsi64_si128((int64_t)(g % 2 * 4)));
        bytes = _mm_add_epi8(bytes, bytes);
        bytes = _mm_or_si128(_mm_and_si128(bytes, _mm_set1_epi8(30)), _mm_set1_epi8(1));
    }
    return _mm512_cvtepu8_epi32(bytes);
}

/* What the 16 scales of a superblock are multiplied by for group g: 8-bit floats, or integers times
 * the type's power of two. */
static inline __attribute__((always_inline)) __m512 superblock_factors_512(
    TensorType type, const uint8_t *superblock, size_t g) {
    if (superblock_scales(type) == SCALES_FLOAT_PARTS) {
        __m512i bits = _mm512_slli_epi32(superblock_parts_512(type, superblock, g), 20);
        return _mm512_mul_ps(_mm512_castsi512_ps(bits), _mm512_set1_ps(0x1p119f));
    }
    __m512 factors = _mm512_cvtepi32_ps(superblock_parts_512(type, superblock, g));
    if (!weight_types[type].halved) return factors;
    return _mm512_mul_ps(factors, _mm512_set1_ps(superblock_part_unit(type)));
}

/* Inputs 4 c to 4 c + 3 of a group of a type with a codebook, as signed levels of 16 outputs. */
static inline __attribute__((always_inline)) __m512i eights_512(TensorType type,
                                                                const uint8_t *points,
                                                                const CodebookGroup *open,
                                                                size_t c) {
    const size_t e = c / 2, halves = codebook_halves(type);
    const uint16_t *p = open->points[halves == 2 ? c : e];
    const __m512i number = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p));
    const __m512i one = _mm512_set1_epi8(1);
    __m512i levels = halves == 2 ? _mm512_i32gather_epi32(number, points, 4)
                                 : _mm512_i32gather_epi32(number, points + c % 2 * 4, 8);
    __m512i rows = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)open->signs[e]));
    rows = _mm512_mullo_epi32(rows, _mm512_set1_epi32(0x01010101));
    const __mmask64 minus =
        _mm512_test_epi8_mask(rows, _mm512_set1_epi32(c % 2 ? (int)0x80402010 : 0x08040201));
    if (codebook_is_moved(type)) {
        __m512i higher = _mm512_add_epi8(levels, one);
        return _mm512_mask_sub_epi8(higher, minus, levels, one);
    }
    return _mm512_mask_sub_epi8(levels, minus, _mm512_setzero_si512(), levels);
}

/* Its scales. */
static inline __attribute__((always_inline)) __m512 codebook_scales_512(TensorType type,
                                                                        const CodebookGroup *open) {
    const __m128i bytes = _mm_loadu_si128((const __m128i *)open->parts);
    const __m512 parts = _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(bytes)),
                                       _mm512_set1_ps(superblock_part_unit(type)));
    return _mm512_mul_ps(_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)open->scales)), parts);
}

#endif
