/* The layouts of blocks, of 256 but for the last two (ggml-common.h, and in NumPy gguf-py's
 * quants.py). The numbers in brackets are bytes, and those in braces bits. An "eight" is a run of 8
 * weights: they share a byte of signs and one point of the codebook (two points of 4 coordinates in
 * the types of 3 bits).
 *
 *     IQ2_XXS  f16 scale, for each 32 weights: points[4], uint32 of 7 sign bits for each eight
 *              and the scale's 4 bits
 *     IQ2_XS   f16 scale, for each eight: point{9} and 7 sign bits; scales[8]
 *     IQ2_S    f16 scale, points[32], signs[32], upper 2 bits of each point[8], scales[8]
 *     IQ3_XXS  f16 scale, points[64], for each 32 weights: uint32 as in IQ2_XXS
 *     IQ3_S    f16 scale, points[64], ninth bits of points[8], signs[32], scales[4]
 *     IQ1_S    f16 scale, points[32], for each 32 weights: 3 upper bits of each of the 4 points,
 *              the scale{3}, the sign of the shift
 *     IQ1_M    points[32], for each eight: 3 upper bits of the point, the sign of the shift; for
 *              each 64 weights: four scales of 3 bits, 4 of the 16 bits of the f16 scale
 *     TQ1_0    five ternary digits in each byte[48], four in each byte[4], f16 scale
 *     TQ2_0    2-bit codes[64], f16 scale
 *     Q2_0     f16 scale, four 2-bit codes in each byte[16]: blocks of 64
 *     Q1_0     f16 scale, eight signs in each byte[16]: blocks of 128
 *
 * Where 7 bits are signs, the eighth sign makes the number of minus signs even. */
#include "formats/stored/stored_iq.h"

#include <string.h>

#include "base/numbers.h"
#include "formats/stored/stored_parts.h"

/* ---- Codebooks ---- */

/* Eight signs, seven of them stored: the eighth makes the number of minus signs even. */
static uint8_t even_signs(uint32_t seven) {
    return codebook_even_signs(seven & 127);
}

/* Eight weights, as codebooks.h has them. */
typedef struct Eight {
    size_t points[2]; /* codebooks of 4 coordinates need two points */
    uint8_t signs;    /* IQ1: 1 where the levels are lower, or 0 */
    uint8_t sub;
} Eight;

/* Reads eight number e, 0 <= e < 32, of a block of 2 or 3 bits. */
static Eight eight_of(StoredType type, const uint8_t *block, size_t e) {
    Eight x = {.signs = 0};
    const uint8_t *at = block + 2;
    uint32_t word;
    switch (type) {
    case STORED_IQ2_XXS:
        word = stored_u32(at + 8 * (e / 4) + 4);
        x.points[0] = at[8 * (e / 4) + e % 4];
        x.signs = even_signs(word >> 7 * (e % 4));
        x.sub = (uint8_t)(word >> 28);
        break;
    case STORED_IQ2_XS:
        word = stored_u16(at + 2 * e);
        x.points[0] = word & 511;
        x.signs = even_signs(word >> 9);
        x.sub = (uint8_t)stored_nibble(at + 64, e / 2);
        break;
    case STORED_IQ2_S:
        x.points[0] = (size_t)(at[e] | (at[64 + e / 4] >> 2 * (e % 4) & 3) << 8);
        x.signs = at[32 + e];
        x.sub = (uint8_t)stored_nibble(at + 72, e / 2);
        break;
    case STORED_IQ3_XXS:
        word = stored_u32(at + 64 + 4 * (e / 4));
        for (size_t i = 0; i < 2; i++) x.points[i] = at[2 * e + i];
        x.signs = even_signs(word >> 7 * (e % 4));
        x.sub = (uint8_t)(word >> 28);
        break;
    default: /* IQ3_S */
        for (size_t i = 0; i < 2; i++)
            x.points[i] = (size_t)(at[2 * e + i] | (at[64 + e / 4] >> (2 * (e % 4) + i) & 1) << 8);
        x.signs = at[72 + e];
        x.sub = (uint8_t)stored_nibble(at + 104, e / 4);
        break;
    }
    return x;
}

/* Reads eight number e of a block of IQ1_S or IQ1_M. */
static Eight eight_of_iq1(StoredType type, const uint8_t *block, size_t e) {
    Eight x = {.signs = 0};
    if (type == STORED_IQ1_S) {
        uint16_t upper = stored_u16(block + 34 + 2 * (e / 4));
        x.points[0] = (size_t)(block[2 + e] | (upper >> 3 * (e % 4) & 7) << 8);
        x.sub = upper >> 12 & 7;
        x.signs = upper >> 15;
        return x;
    }
    int upper = stored_nibble(block + 32, e);
    x.points[0] = (size_t)(block[e] | (upper & 7) << 8);
    x.sub = stored_u16(block + 48 + 2 * (e / 8)) >> 3 * (e / 2 % 4) & 7;
    x.signs = upper >> 3 & 1;
    return x;
}

/* The bits of a block's float16 scale, which IQ1_M keeps in four nibbles. */
static uint16_t scale_of(StoredType type, const uint8_t *block) {
    uint16_t half = 0;
    if (type != STORED_IQ1_M) return stored_u16(block);
    for (size_t i = 0; i < 4; i++)
        half |= (uint16_t)((stored_u16(block + 48 + 2 * i) >> 12) << 4 * i);
    return half;
}

/* Reads eight number e of a block. */
static Eight read_eight(StoredType type, const uint8_t *block, size_t e) {
    const bool one = type == STORED_IQ1_S || type == STORED_IQ1_M;
    return one ? eight_of_iq1(type, block, e) : eight_of(type, block, e);
}

/* Puts the eight where a panel with a codebook has it. */
static void put_points(const Eight *x, uint8_t *codes) {
    memset(codes, 0, EIGHT);
    codes[EIGHT_POINT] = (uint8_t)x->points[0];
    codes[EIGHT_UPPER] = (uint8_t)(x->points[0] >> 8);
    codes[EIGHT_SECOND] = (uint8_t)x->points[1];
    codes[EIGHT_SECOND_UPPER] = (uint8_t)(x->points[1] >> 8);
    codes[EIGHT_SIGNS] = x->signs;
}

/* The level of weight i of the eight. */
static int level_of(TensorType book, const Eight *x, size_t i) {
    const size_t n = EIGHT / codebook_halves(book);
    const int level = (int8_t)codebook_points(book)[x->points[i / n] * n + i % n];
    if (codebook_is_moved(book)) return x->signs ? level - 1 : level + 1;
    return x->signs >> i & 1 ? -level : level;
}

/* The number of a level in the table of a type that holds levels. */
static uint8_t code_of_level(TensorType panel, int level) {
    const int8_t *table = superblock_table(panel);
    uint8_t code = 0;
    while (code < 15 && table[code] != level) code++;
    return code;
}

void stored_iq_block_to_superblocks(StoredType type, TensorType panel, const uint8_t *block,
                                    const SuperblockCodes *to) {
    const TensorType book = stored_type_info(type)->lossless;
    to->scales[0] = scale_of(type, block);
    for (size_t e = 0; e < 32; e++) {
        const Eight x = read_eight(type, block, e);
        uint8_t *codes = to->codes + EIGHT * e;
        to->sub_scales[EIGHT * e / type_group(panel)] = x.sub;
        if (type_has_codebook(panel)) put_points(&x, codes);
        for (size_t i = 0; i < EIGHT && !type_has_codebook(panel); i++)
            codes[i] = code_of_level(panel, level_of(book, &x, i));
    }
}

static void eight_to_floats(StoredType type, const uint8_t *block, size_t e, float *out) {
    const TensorType book = stored_type_info(type)->lossless;
    const Eight x = read_eight(type, block, e);
    const float scale = numbers_half_to_float(scale_of(type, block)) * (float)(2 * x.sub + 1) *
                        superblock_part_unit(book);
    for (size_t i = 0; i < EIGHT; i++) out[i] = scale * (float)level_of(book, &x, i);
}

/* ---- Two to four levels ---- */

/* Ternary digit i of a block of TQ1_0. A byte holds its digits as a fraction of 256: multiplying it
 * by 3 moves the next digit above its 8 bits. */
static int digit_tq1(const uint8_t *block, size_t i) {
    static const uint8_t powers[] = {1, 3, 9, 27, 81};
    uint8_t byte = i < 160   ? (uint8_t)(block[i % 32] * powers[i / 32])
                   : i < 240 ? (uint8_t)(block[32 + i % 16] * powers[(i - 160) / 16])
                             : (uint8_t)(block[48 + i % 4] * powers[(i - 240) / 4]);
    return byte * 3 >> 8;
}

/* The code of weight i: its level (-1, 0, 1 or 2) + 1, in Q1_0 its bit. */
static uint8_t code_of_few(StoredType type, const uint8_t *block, size_t i) {
    switch (type) {
    case STORED_TQ1_0:
        return (uint8_t)digit_tq1(block, i);
    case STORED_TQ2_0:
        return (uint8_t)stored_pair(block, i);
    case STORED_Q2_0:
        return block[2 + i / 4] >> i % 4 * 2 & 3;
    default: /* Q1_0 */
        return block[2 + i / 8] >> i % 8 & 1;
    }
}

void stored_few_levels_to_superblocks(StoredType type, const uint8_t *block,
                                      const SuperblockCodes *to) {
    size_t n = stored_type_info(type)->block;
    size_t at = type == STORED_TQ1_0 ? 52 : type == STORED_TQ2_0 ? 64 : 0;
    for (size_t i = 0; i < n; i++) to->codes[i] = code_of_few(type, block, i);
    for (size_t g = 0; g < n / 32; g++) to->scales[g] = stored_u16(block + at);
}

static void few_levels_to_floats(StoredType type, const uint8_t *block, float *out) {
    uint8_t codes[256];
    uint16_t scales[8];
    stored_few_levels_to_superblocks(type, block,
                                     &(SuperblockCodes){.codes = codes, .scales = scales});
    for (size_t i = 0; i < stored_type_info(type)->block; i++) {
        int level = type == STORED_Q1_0 ? 2 * codes[i] - 1 : codes[i] - 1;
        out[i] = numbers_half_to_float(scales[0]) * (float)level;
    }
}

void stored_iq_to_floats(StoredType type, const uint8_t *stored, size_t n, float *out) {
    const StoredTypeInfo *info = stored_type_info(type);
    for (size_t i = 0; i < n; i += info->block, stored += info->block_bytes, out += info->block) {
        if (weight_types[info->lossless].shared) {
            few_levels_to_floats(type, stored, out);
            continue;
        }
        for (size_t e = 0; e < 32; e++) eight_to_floats(type, stored, e, out + EIGHT * e);
    }
}
