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
#include "formats/stored/stored_grids.h"
#include "formats/stored/stored_parts.h"

/* ---- Codebooks ---- */

/* The levels [grid->digits] of point number `index`, which the grid has. */
static void grid_point(const Grid *grid, size_t index, uint8_t *levels) {
    size_t block = grid->n_before - 1u;
    while (grid->before[block] > index) block--;
    size_t left = index - grid->before[block], word = 8 * block;
    for (size_t n; left >= (n = (size_t)__builtin_popcountll(grid->words[word])); word++) left -= n;
    uint64_t bits = grid->words[word];
    for (; left > 0; left--) bits &= bits - 1;
    size_t number = 64 * word + (size_t)__builtin_ctzll(bits);
    for (size_t i = 0; i < grid->digits; i++, number /= grid->base)
        levels[i] = (uint8_t)(number % grid->base);
}

/* Eight signs, seven of them stored: the eighth makes the number of minus signs even. */
static uint8_t even_signs(uint32_t seven) {
    return (uint8_t)((seven & 127) | (uint32_t)__builtin_parity(seven & 127) << 7);
}

/* Eight weights, each scale * (2 sub + 1) * unit * (level + shift), negated where its bit of
 * `signs` is set. */
typedef struct Eight {
    size_t points[2]; /* codebooks of 4 coordinates need two points */
    uint8_t signs, sub;
    float shift;
} Eight;

/* The codebook of an IQ type. */
typedef struct Book {
    const Grid *grid; /* points of 4 or 8 coordinates, each an index of a level */
    int8_t levels[8]; /* magnitudes of weights; with signs in IQ1 */
    float unit;       /* what scales are multiplied by: scale * (2 * sub-scale + 1) * unit */
} Book;

static Book book_of(StoredType type) {
    switch (type) {
    case STORED_IQ2_XXS:
        return (Book){&grid_iq2_xxs, {8, 25, 43}, 0.125f};
    case STORED_IQ2_XS:
        return (Book){&grid_iq2_xs, {8, 25, 43}, 0.125f};
    case STORED_IQ2_S:
        return (Book){&grid_iq2_s, {8, 25, 43}, 0.125f};
    case STORED_IQ3_XXS:
        return (Book){&grid_iq3_xxs, {4, 12, 20, 28, 36, 44, 52, 62}, 0.25f};
    case STORED_IQ3_S:
        return (Book){&grid_iq3_s, {1, 3, 5, 7, 9, 11, 13, 15}, 1.0f};
    default:
        return (Book){&grid_iq1, {-1, 0, 1}, 1.0f};
    }
}

/* Reads eight number e, 0 <= e < 32, of a block of 2 or 3 bits. */
static Eight eight_of(StoredType type, const uint8_t *block, size_t e) {
    Eight x = {.shift = 0.0f};
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
        x.shift = upper & 0x8000 ? -0.125f : 0.125f;
        return x;
    }
    int upper = stored_nibble(block + 32, e);
    x.points[0] = (size_t)(block[e] | (upper & 7) << 8);
    x.sub = stored_u16(block + 48 + 2 * (e / 8)) >> 3 * (e / 2 % 4) & 7;
    x.shift = upper & 8 ? -0.125f : 0.125f;
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

/* Reads eight number e of a block, and the numbers of its levels. */
static Eight read_eight(StoredType type, const Grid *grid, const uint8_t *block, size_t e,
                        uint8_t *levels) {
    const bool one = type == STORED_IQ1_S || type == STORED_IQ1_M;
    const Eight x = one ? eight_of_iq1(type, block, e) : eight_of(type, block, e);
    for (size_t i = 0; i < 8; i += grid->digits)
        grid_point(grid, x.points[i / grid->digits], levels + i);
    return x;
}

/* The index of a weight's value in the superblock type's table (superblocks.c), which lists the
 * levels of either sign or shift: IQ3 from the lowest to the highest, IQ2 and IQ1 first the three
 * of plus. */
static uint8_t superblock_code(StoredType type, const Eight *x, size_t i, uint8_t level) {
    const bool minus = x->signs >> i & 1;
    switch (type) {
    case STORED_IQ3_S:
    case STORED_IQ3_XXS:
        return (uint8_t)(minus ? 7 - level : 8 + level);
    case STORED_IQ1_S:
    case STORED_IQ1_M:
        return (uint8_t)(level + (x->shift < 0.0f ? 3 : 0));
    default:
        return (uint8_t)(level + (minus ? 3 : 0));
    }
}

void stored_iq_block_to_superblocks(StoredType type, const uint8_t *block,
                                    const SuperblockCodes *to) {
    const Grid *grid = book_of(type).grid;
    const size_t group = type_group(stored_type_info(type)->lossless);
    to->scales[0] = scale_of(type, block);
    for (size_t e = 0; e < 32; e++) {
        uint8_t levels[8];
        const Eight x = read_eight(type, grid, block, e, levels);
        to->sub_scales[8 * e / group] = x.sub;
        for (size_t i = 0; i < 8; i++)
            to->codes[8 * e + i] = superblock_code(type, &x, i, levels[i]);
    }
}

static void eight_to_floats(StoredType type, const Book *book, const uint8_t *block, size_t e,
                            float *out) {
    uint8_t levels[8];
    const Eight x = read_eight(type, book->grid, block, e, levels);
    const float scale =
        numbers_half_to_float(scale_of(type, block)) * (float)(2 * x.sub + 1) * book->unit;
    for (size_t i = 0; i < 8; i++) {
        float value = scale * ((float)book->levels[levels[i]] + x.shift);
        out[i] = x.signs >> i & 1 ? -value : value;
    }
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
    const Book book = book_of(type);
    for (size_t i = 0; i < n; i += info->block, stored += info->block_bytes, out += info->block) {
        if (weight_types[info->lossless].shared) {
            few_levels_to_floats(type, stored, out);
            continue;
        }
        for (size_t e = 0; e < 32; e++) eight_to_floats(type, &book, stored, e, out + 8 * e);
    }
}
