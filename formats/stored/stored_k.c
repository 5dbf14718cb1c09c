/* The layouts of blocks (ggml-common.h, and in NumPy gguf-py's quants.py). The numbers are bytes:
 *
 *     Q4_K    f16 scale, f16 minimum, sub-scales[12], nibbles[128]
 *     Q5_K    f16 scale, f16 minimum, sub-scales[12], fifth bits[32], nibbles[128]
 *     Q6_K    nibbles[128], pairs of bits[64], int8 sub-scales[16], f16 scale
 *     Q3_K    third bits[32], pairs of bits[64], sub-scales[12], f16 scale
 *     Q2_K    sub-scales[16], pairs of bits[64], f16 scale, f16 minimum
 *     IQ4_NL  f16 scale, nibbles[16]
 *     IQ4_XS  f16 scale, upper bits of sub-scales[2], lower bits[4], nibbles[128]
 *     MXFP4   exponent, nibbles[16]
 *     NVFP4   scales[4] (unsigned floats of 4 + 3 bits), nibbles[4][8]; a tensor beside the matrix
 *             may hold a factor
 */
#include "formats/stored/stored_k.h"

#include <string.h>

#include "base/numbers.h"
#include "formats/stored/stored_parts.h"

/* Reads eight 6-bit sub-scales and eight 6-bit sub-minima from 12 bytes. The first four of each are
 * the lower six bits of a byte; the others are a nibble and the upper two bits of those bytes. */
static void sub_scales_k4(const uint8_t *p, uint8_t *scales, uint8_t *minima) {
    for (size_t i = 0; i < 4; i++) {
        scales[i] = p[i] & 63;
        minima[i] = p[i + 4] & 63;
        scales[i + 4] = (uint8_t)((p[i + 8] & 15) | (p[i] >> 6) << 4);
        minima[i + 4] = (uint8_t)((p[i + 8] >> 4) | (p[i + 4] >> 6) << 4);
    }
}

/* Unpacks 4-bit or 5-bit codes. Inputs i and i + 32 of each 64 share a byte of nibbles; the fifth
 * bit of input i of group g is bit g of byte i. */
static void codes_k4(const uint8_t *nibbles, const uint8_t *fifth, uint8_t *codes) {
    for (size_t i = 0; i < 256; i++) {
        size_t g = i / 32;
        codes[i] = nibbles[i / 64 * 32 + i % 32] >> (g % 2 ? 4 : 0) & 15;
        if (fifth) codes[i] |= (uint8_t)((fifth[i % 32] >> g & 1) << 4);
    }
}

/* Unpacks Q6_K's 6-bit codes: in each 128 inputs the nibbles of i and i + 64 share a byte. */
static void codes_q6_k(const uint8_t *block, uint8_t *codes) {
    for (size_t i = 0; i < 256; i++) {
        size_t half = i / 128, in = i % 128;
        int nibble = block[64 * half + in % 64] >> (in / 64 ? 4 : 0) & 15;
        codes[i] = (uint8_t)(nibble | stored_pair(block + 128, i) << 4);
    }
}

/* Sub-scale g: 6 bits, stored with 32 added, lower nibbles in the first 8 bytes and upper pairs of
 * bits in the last 4. */
static int sub_scale_q3_k(const uint8_t *p, size_t g) {
    int low = p[g % 8] >> (g < 8 ? 0 : 4) & 15;
    return (low | (p[8 + g % 4] >> g / 4 * 2 & 3) << 4) - 32;
}

/* Code i, 4 above its value: two bits, and a third one that is bit i / 32 of byte i % 32. */
static int code_q3_k(const uint8_t *block, size_t i) {
    return stored_pair(block + 32, i) | (block[i % 32] >> i / 32 & 1) << 2;
}

static int sub_scale_iq4_xs(const uint8_t *block, size_t g) {
    int low = stored_nibble(block + 4, g), high = stored_u16(block + 2) >> 2 * g & 3;
    return (low | high << 4) - 32;
}

/* A scale of NVFP4 (superblock_small_float). The upper bit means nothing, and 127 is 0. */
static uint8_t scale_nvfp4(uint8_t code) {
    return code == 127 ? 0 : code & 127;
}

static void block_nvfp4(const uint8_t *block, const SuperblockCodes *to) {
    const uint32_t factor = float_bits(1.0f);
    for (size_t i = 0; i < 64; i++)
        to->codes[i] = block[4 + i / 16 * 8 + i % 8] >> (i % 16 < 8 ? 0 : 4) & 15;
    for (size_t g = 0; g < 4; g++) to->sub_scales[g] = scale_nvfp4(block[g]);
    to->scales[0] = (uint16_t)factor;
    to->minima[0] = (uint16_t)(factor >> 16);
}

void stored_k_block_to_superblocks(StoredType type, const uint8_t *block,
                                   const SuperblockCodes *to) {
    switch (type) {
    case STORED_Q4_K:
    case STORED_Q5_K:
        to->scales[0] = stored_u16(block);
        to->minima[0] = stored_u16(block + 2);
        sub_scales_k4(block + 4, to->sub_scales, to->sub_minima);
        codes_k4(block + (type == STORED_Q5_K ? 48 : 16), type == STORED_Q5_K ? block + 16 : NULL,
                 to->codes);
        break;
    case STORED_Q6_K:
        to->scales[0] = stored_u16(block + 208);
        memcpy(to->sub_scales, block + 192, 16);
        codes_q6_k(block, to->codes);
        break;
    case STORED_Q3_K:
        to->scales[0] = stored_u16(block + 108);
        for (size_t g = 0; g < 16; g++) to->sub_scales[g] = (uint8_t)sub_scale_q3_k(block + 96, g);
        for (size_t i = 0; i < 256; i++) to->codes[i] = (uint8_t)code_q3_k(block, i);
        break;
    case STORED_Q2_K:
        to->scales[0] = stored_u16(block + 80);
        to->minima[0] = stored_u16(block + 82);
        for (size_t g = 0; g < 16; g++) {
            to->sub_scales[g] = block[g] & 15;
            to->sub_minima[g] = block[g] >> 4;
        }
        for (size_t i = 0; i < 256; i++) to->codes[i] = (uint8_t)stored_pair(block + 16, i);
        break;
    case STORED_IQ4_XS:
        to->scales[0] = stored_u16(block);
        for (size_t g = 0; g < 8; g++) {
            to->sub_scales[g] = (uint8_t)sub_scale_iq4_xs(block, g);
            stored_nibbles_32(block + 8 + 16 * g, to->codes + 32 * g);
        }
        break;
    case STORED_IQ4_NL:
        to->scales[0] = stored_u16(block);
        stored_nibbles_32(block + 2, to->codes);
        break;
    case STORED_NVFP4:
        block_nvfp4(block, to);
        break;
    default: /* MXFP4 */
        to->sub_scales[0] = block[0];
        stored_nibbles_32(block + 1, to->codes);
        break;
    }
}

/* Takes the block apart as for a panel, and computes what superblocks.h defines its values to be.
 */
static void block_to_floats(StoredType type, const uint8_t *block, float *out) {
    uint8_t codes[256], sub_scales[16], sub_minima[16];
    uint16_t scales[8], minima[8];
    stored_k_block_to_superblocks(
        type, block, &(SuperblockCodes){codes, scales, minima, sub_scales, sub_minima});
    for (size_t i = 0; i < stored_type_info(type)->block; i++) {
        if (type == STORED_IQ4_NL) {
            out[i] = numbers_half_to_float(scales[0]) * (float)superblocks_table_q4_nl[codes[i]];
        } else if (type == STORED_IQ4_XS) {
            out[i] = numbers_half_to_float(scales[0]) * (float)(int8_t)sub_scales[i / 32] *
                     (float)superblocks_table_q4_nl[codes[i]];
        } else if (type == STORED_NVFP4) {
            out[i] = superblock_small_float(sub_scales[i / 16]) *
                     (float)superblocks_table_mxfp4[codes[i]];
        } else if (type == STORED_MXFP4) {
            out[i] = mxfp4_scale(sub_scales[0]) * (float)superblocks_table_mxfp4[codes[i]];
        } else if (type == STORED_Q6_K || type == STORED_Q3_K) {
            float sub = (float)(int8_t)sub_scales[i / 16];
            int zero = type == STORED_Q6_K ? 32 : 4;
            out[i] = numbers_half_to_float(scales[0]) * sub * (float)(codes[i] - zero);
        } else {
            size_t g = i / (type == STORED_Q2_K ? 16 : 32);
            out[i] = numbers_half_to_float(scales[0]) * (float)sub_scales[g] * (float)codes[i] -
                     numbers_half_to_float(minima[0]) * (float)sub_minima[g];
        }
    }
}

void stored_k_nvfp4_to_floats(const uint8_t *stored, size_t n, float factor, float *out) {
    uint8_t codes[64] = {0}, sub_scales[4] = {0};
    uint16_t scales[1] = {0}, minima[1] = {0};
    for (size_t b = 0; b < n / 64; b++, stored += 36, out += 64) {
        block_nvfp4(stored, &(SuperblockCodes){codes, scales, minima, sub_scales, NULL});
        for (size_t i = 0; i < 64; i++)
            out[i] = factor * superblock_small_float(sub_scales[i / 16]) *
                     (float)superblocks_table_mxfp4[codes[i]];
    }
}

void stored_k_to_floats(StoredType type, const uint8_t *stored, size_t n, float *out) {
    const StoredTypeInfo *info = stored_type_info(type);
    for (size_t i = 0; i < n; i += info->block, stored += info->block_bytes)
        block_to_floats(type, stored, out + i);
}
