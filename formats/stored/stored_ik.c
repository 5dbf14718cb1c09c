/* The layouts of blocks (ik_llama.cpp, ggml-common.h and iqk_quantize.cpp of August 2026). The
 * numbers are bytes; `raised` has a bit for each group.
 *
 *     IQ2_K    f16 scale, raised[2], 4-bit sub-scales[8], pairs of bits[64]
 *     IQ3_K    f16 scale, raised[2], signs of sub-scales[2], 4-bit sub-scales[8], pairs of
 * bits[64], third bits[32] IQ4_K    f16 scale, raised[2], upper bits of sub-scales[4], lower
 * bits[8], nibbles[128] IQ5_K    the same, then fifth bits[32] IQ6_K    f16 scale, raised[2], int8
 * sub-scales[16], nibbles[128], upper pairs of bits[64] IQ2_KS   raised and fifth bits of
 * sub-scales[2], lower bits[4], pairs of bits[64] IQ3_KS   fifth bits of sub-scales and raised[2],
 * lower bits[4], pairs of bits[64], third bits[32] IQ4_KS   sub-scales[8], whose lowest bits are
 * raised's, nibbles[128] IQ4_KSS  for each 32 inputs eight numbers of 16 bits, which have a bit of
 * the sub-scale each and 15 bits that tell neighbours of the bits of nibbles apart IQ5_KS
 * sub-scales[8] as IQ4_KS, nibbles[128], fifth bits[32] IQ2_KL   upper bits of sub-scales[2], lower
 * bits[4], nibbles[64], fifth bits[16]: numbers of pairs of levels
 *
 * The scale of a row of IQ2_KS, IQ3_KS and IQ2_KL, a float16, and of IQ4_KS, IQ4_KSS and IQ5_KS, a
 * float32, stands before the row's blocks in a file; here it is before each block. */
#include "formats/stored/stored_ik.h"

#include <string.h>

#include "base/numbers.h"
#include "formats/stored/stored_parts.h"

bool stored_is_ik(StoredType type) {
    return type >= STORED_IQ2_K && type <= STORED_IQ2_KL;
}

/* ---- Codes ---- */

/* Codes of pairs of bits, and (unless NULL) third bits: bit i / 32 of byte i % 32. */
static void codes_of_pairs(const uint8_t *pairs, const uint8_t *third, uint8_t *codes) {
    for (size_t i = 0; i < 256; i++) {
        codes[i] = (uint8_t)stored_pair(pairs, i);
        if (third) codes[i] |= (uint8_t)((third[i % 32] >> i / 32 & 1) << 2);
    }
}

/* Codes of 4 bits; codes i and i + 16 of each 32 share a byte. */
static void codes_of_nibbles(const uint8_t *nibbles, uint8_t *codes) {
    for (size_t g = 0; g < 8; g++) stored_nibbles_32(nibbles + 16 * g, codes + 32 * g);
}

/* Codes of more bits: i and i + 32 of each 64 share a byte of nibbles. The upper bits are one, bit
 * i / 32 of byte i % 32, or two. */
static void codes_with_upper(const uint8_t *nibbles, const uint8_t *upper, bool two,
                             uint8_t *codes) {
    for (size_t i = 0; i < 256; i++) {
        int low = nibbles[i / 64 * 32 + i % 32] >> i % 64 / 32 * 4 & 15;
        int high = two ? stored_pair(upper, i) : upper[i % 32] >> i / 32 & 1;
        codes[i] = (uint8_t)(low | high << 4);
    }
}

/* IQ4_KSS: a bit of a code is that of its 16 bits xor the one above it. Returns the sub-scale. */
static uint8_t codes_kss(const uint8_t *words, uint8_t *codes) {
    uint8_t nibbles[16], sub_scale = 0;
    for (size_t k = 0; k < 8; k++) {
        uint16_t word = stored_u16(words + 2 * k), bits = word & 0xFFFE;
        bits ^= bits >> 1;
        nibbles[2 * k] = (uint8_t)bits;
        nibbles[2 * k + 1] = (uint8_t)(bits >> 8);
        sub_scale |= (uint8_t)((word & 1) << k);
    }
    stored_nibbles_32(nibbles, codes);
    return sub_scale;
}

/* IQ2_KL's pairs of levels, as the numbers of the levels in superblocks_table_iq3_k: the first one
 * is the lower octal digit. */
static const uint8_t pairs_kl[32] = {020, 050, 001, 031, 051, 071, 012, 022, 042, 052, 062,
                                     003, 043, 053, 073, 024, 034, 044, 054, 064, 015, 025,
                                     035, 045, 055, 006, 026, 046, 066, 076, 027, 057};

static void codes_kl(const uint8_t *nibbles, const uint8_t *fifth, uint8_t *codes) {
    for (size_t i = 0; i < 128; i++) {
        size_t g = i / 16, j = i % 16;
        int number = nibbles[g / 2 * 16 + j] >> g % 2 * 4 & 15;
        uint8_t pair = pairs_kl[number | (fifth[j] >> g & 1) << 4];
        codes[2 * i] = pair & 7;
        codes[2 * i + 1] = pair >> 3;
    }
}

/* ---- Scales ---- */

/* Field number i of two bits. */
static int pair_field(const uint8_t *p, size_t i) {
    return p[i / 4] >> i % 4 * 2 & 3;
}

/* A row's scale, which is before the block. */
static void put_scale(bool is_float, const uint8_t *block, const SuperblockCodes *to) {
    to->scales[0] = stored_u16(block);
    if (is_float) to->minima[0] = stored_u16(block + 2);
}

/* The sub-scale of IQ4_KS, an odd number whose byte's lowest bit tells whether levels are raised.
 */
static void put_odd(uint8_t byte, size_t g, const SuperblockCodes *to) {
    to->sub_scales[g] = (uint8_t)((byte >> 1) - 64);
    to->sub_minima[g] = byte & 1;
}

static void put_part(int part, int raised, size_t g, const SuperblockCodes *to) {
    to->sub_scales[g] = (uint8_t)part;
    to->sub_minima[g] = (uint8_t)(raised & 1);
}

/* Sub-scale g of a type with 16 groups. */
static int part_of_16(StoredType type, const uint8_t *block, size_t g) {
    switch (type) {
    case STORED_IQ2_K:
        return stored_nibble(block + 4, g) - 8;
    case STORED_IQ3_K: {
        int size = 2 * stored_nibble(block + 6, g) + 1;
        return stored_u16(block + 4) >> g & 1 ? -size : size;
    }
    case STORED_IQ6_K:
        return (int8_t)block[4 + g];
    default:
        return (stored_nibble(block + 8, g) | pair_field(block + 4, g) << 4) - 32;
    }
}

/* The types with a float16 scale in each block. */
static void block_of_16(StoredType type, const uint8_t *block, const SuperblockCodes *to) {
    to->scales[0] = stored_u16(block);
    for (size_t g = 0; g < 16; g++)
        put_part(part_of_16(type, block, g), stored_u16(block + 2) >> g, g, to);
    switch (type) {
    case STORED_IQ2_K:
        codes_of_pairs(block + 12, NULL, to->codes);
        break;
    case STORED_IQ3_K:
        codes_of_pairs(block + 14, block + 78, to->codes);
        break;
    case STORED_IQ4_K:
        codes_of_nibbles(block + 16, to->codes);
        break;
    case STORED_IQ5_K:
        codes_with_upper(block + 16, block + 144, false, to->codes);
        break;
    default:
        codes_with_upper(block + 20, block + 148, true, to->codes);
        break;
    }
}

/* The types whose rows have a float16 scale. */
static void block_of_8(StoredType type, const uint8_t *block, const SuperblockCodes *to) {
    put_scale(false, block, to);
    block += 2;
    const uint16_t extra = stored_u16(block);
    for (size_t g = 0; g < 8; g++) {
        if (type == STORED_IQ2_KS) {
            put_part((stored_nibble(block + 2, g) | (extra >> (8 + g) & 1) << 4) - 16, extra >> g,
                     g, to);
            continue;
        }
        const int nibble = block[2 + g % 4] >> g / 4 * 4 & 15;
        if (type == STORED_IQ3_KS) {
            put_part((nibble | (extra >> g & 1) << 4) - 16, extra >> (8 + g), g, to);
        } else {
            put_part((nibble | pair_field(block, g) << 4) - 32, 0, g, to);
        }
    }
    if (type == STORED_IQ2_KL) {
        codes_kl(block + 6, block + 70, to->codes);
    } else {
        codes_of_pairs(block + 6, type == STORED_IQ3_KS ? block + 70 : NULL, to->codes);
    }
}

/* The types whose rows have a float32 scale. */
static void block_of_float(StoredType type, const uint8_t *block, const SuperblockCodes *to) {
    put_scale(true, block, to);
    block += 4;
    for (size_t g = 0; g < 8; g++)
        put_odd(type == STORED_IQ4_KSS ? codes_kss(block + 16 * g, to->codes + 32 * g) : block[g],
                g, to);
    if (type == STORED_IQ4_KS) codes_of_nibbles(block + 8, to->codes);
    if (type == STORED_IQ5_KS) codes_with_upper(block + 8, block + 136, false, to->codes);
}

void stored_ik_block_to_superblocks(StoredType type, const uint8_t *block,
                                    const SuperblockCodes *to) {
    const TensorType superblock = stored_type_info(type)->lossless;
    if (type_group(superblock) == 16) {
        block_of_16(type, block, to);
    } else if (superblock_scale_is_float(superblock)) {
        block_of_float(type, block, to);
    } else {
        block_of_8(type, block, to);
    }
}

/* Takes the block apart as for a panel, and computes what superblocks.h defines its values to be.
 */
static void block_to_floats(StoredType type, const uint8_t *block, float *out) {
    const TensorType superblock = stored_type_info(type)->lossless;
    const size_t group = type_group(superblock);
    const int8_t *table = superblock_table(superblock);
    uint8_t codes[256], sub_scales[16], raised[16];
    uint16_t scale[1], upper[1];
    stored_ik_block_to_superblocks(type, block,
                                   &(SuperblockCodes){codes, scale, upper, sub_scales, raised});
    const float whole = superblock_scale_is_float(superblock)
                            ? float_from_bits((uint32_t)upper[0] << 16 | scale[0])
                            : numbers_half_to_float(scale[0]);
    for (size_t i = 0; i < 256; i++) {
        const size_t g = i / group;
        const int part = (int8_t)sub_scales[g];
        const int level = table[codes[i]] + (raised[g] ? weight_types[superblock].raise : 0);
        out[i] = whole * (float)(superblock_scale_is_float(superblock) ? 2 * part + 1 : part) *
                 (float)level;
    }
}

void stored_ik_to_floats(StoredType type, const uint8_t *stored, size_t n, float *out) {
    const StoredTypeInfo *info = stored_type_info(type);
    for (size_t i = 0; i < n; i += info->block, stored += info->block_bytes)
        block_to_floats(type, stored, out + i);
}
