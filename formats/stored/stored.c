#include "formats/stored/stored.h"

#include <math.h>
#include <string.h>

#include "base/numbers.h"
#include "formats/stored/stored_ik.h"
#include "formats/stored/stored_iq.h"
#include "formats/stored/stored_k.h"
#include "formats/stored/stored_parts.h"

/* Unpacks the 32 codes of one block, as panel_pack_codes and superblocks_pack take them. */
static void block_codes(StoredType type, const uint8_t *block, uint8_t *codes) {
    const uint8_t *nibbles;
    uint32_t fifth = 0;
    switch (type) {
    case STORED_Q8_0:
        memcpy(codes, block + 2, 32);
        return;
    case STORED_Q4_0:
        nibbles = block + 2;
        break;
    case STORED_Q4_1:
        nibbles = block + 4;
        break;
    case STORED_Q5_0:
        memcpy(&fifth, block + 2, 4);
        nibbles = block + 6;
        break;
    default:
        memcpy(&fifth, block + 4, 4);
        nibbles = block + 8;
        break;
    }
    stored_nibbles_32(nibbles, codes);
    for (size_t i = 0; i < 32; i++) codes[i] |= (uint8_t)((fifth >> i & 1) << 4);
}

void stored_to_codes(StoredType type, const void *stored, size_t n, uint8_t *codes,
                     uint16_t *scales, uint16_t *minima) {
    const uint8_t *block = stored;
    for (size_t b = 0; b < n / 32; b++, block += stored_type_info(type)->block_bytes) {
        block_codes(type, block, codes + 32 * b);
        scales[b] = stored_u16(block);
        /* A panel's minimum is subtracted, GGUF's is added: flip the sign. */
        if (minima) minima[b] = stored_u16(block + 2) ^ 0x8000;
    }
}

static void blocks_to_floats(StoredType type, const uint8_t *block, size_t n, float *out) {
    const TensorTypeInfo *panel = &weight_types[stored_type_info(type)->lossless];
    for (size_t b = 0; b < n / 32; b++, block += stored_type_info(type)->block_bytes, out += 32) {
        uint8_t codes[32];
        block_codes(type, block, codes);
        float scale = numbers_half_to_float(stored_u16(block));
        float minimum = panel->has_min ? numbers_half_to_float(stored_u16(block + 2)) : 0.0f;
        for (size_t i = 0; i < 32; i++) {
            int code = panel->is_signed ? (int8_t)codes[i] : codes[i] - panel->zero;
            out[i] = scale * (float)code;
            if (panel->has_min) out[i] += minimum;
        }
    }
}

void stored_to_superblocks(StoredType type, TensorType panel, const void *stored, size_t n,
                           const SuperblockCodes *row) {
    const StoredTypeInfo *info = stored_type_info(type);
    const uint8_t *block = stored;
    /* Scales and minima belong to a superblock, in types without parts to a group. */
    bool by_group = !superblock_has_parts(panel);
    size_t groups = info->block / type_group(panel);
    for (size_t b = 0; b < n / info->block; b++, block += info->block_bytes) {
        size_t scale = by_group ? b * groups : b * info->block / SUPERBLOCK_INPUTS;
        const SuperblockCodes to = {row->codes + b * info->block, row->scales + scale,
                                    row->minima + scale, row->sub_scales + b * groups,
                                    row->sub_minima + b * groups};
        if (type == STORED_Q5_0 || type == STORED_Q5_1) {
            bool has_min = type_has_minima(panel);
            stored_to_codes(type, block, 32, to.codes, to.scales, has_min ? to.minima : NULL);
        } else if (stored_is_ik(type)) {
            stored_ik_block_to_superblocks(type, block, &to);
        } else if (stored_type_info(type)->wide != TENSOR_VECTOR) {
            stored_iq_block_to_superblocks(type, panel, block, &to);
        } else if (weight_types[panel].shared) {
            stored_few_levels_to_superblocks(type, block, &to);
        } else {
            stored_k_block_to_superblocks(type, block, &to);
        }
    }
}

/* The value of 8 bits: sign, 4 bits of the exponent, 3 of the mantissa (Open Compute Project, "OFP8
 * formats"). The largest magnitude is NaN; there is no infinity. */
static float e4m3_to_float(uint8_t code) {
    int exponent = code >> 3 & 15, mantissa = code & 7;
    if ((code & 0x7F) == 0x7F) return NAN;
    float magnitude =
        exponent ? (float)(8 + mantissa) * float_from_bits((uint32_t)(exponent + 117) << 23)
                 : (float)mantissa / 512.0f;
    return code & 0x80 ? -magnitude : magnitude;
}

/* 2^(code - 127), NaN for 255. */
static float e8m0_to_float(uint8_t code) {
    if (code == 255) return NAN;
    return code ? float_from_bits((uint32_t)code << 23) : float_from_bits(0x00400000u);
}

static void bytes_to_floats(StoredType type, const uint8_t *stored, size_t n, float *out) {
    for (size_t i = 0; i < n; i++)
        out[i] = type == STORED_F8_E4M3   ? e4m3_to_float(stored[i])
                 : type == STORED_F8_E8M0 ? e8m0_to_float(stored[i])
                                          : (float)(int8_t)stored[i];
}

void stored_to_floats(StoredType type, const void *stored, size_t n, float *out) {
    const uint16_t *half = stored;
    switch (type) {
    case STORED_F32:
        memcpy(out, stored, n * sizeof *out);
        break;
    case STORED_F16:
        for (size_t i = 0; i < n; i++) out[i] = numbers_half_to_float(half[i]);
        break;
    case STORED_BF16:
        for (size_t i = 0; i < n; i++) out[i] = bfloat_to_float(half[i]);
        break;
    case STORED_Q4_0:
    case STORED_Q4_1:
    case STORED_Q5_0:
    case STORED_Q5_1:
    case STORED_Q8_0:
        blocks_to_floats(type, stored, n, out);
        break;
    case STORED_F8_E4M3:
    case STORED_F8_E8M0:
    case STORED_I8:
        bytes_to_floats(type, stored, n, out);
        break;
    case STORED_IQ3_S:
    case STORED_IQ3_XXS:
    case STORED_IQ2_S:
    case STORED_IQ2_XS:
    case STORED_IQ2_XXS:
    case STORED_IQ1_M:
    case STORED_IQ1_S:
    case STORED_TQ2_0:
    case STORED_TQ1_0:
    case STORED_Q2_0:
    case STORED_Q1_0:
        stored_iq_to_floats(type, stored, n, out);
        break;
    default:
        if (stored_is_ik(type)) {
            stored_ik_to_floats(type, stored, n, out);
            break;
        }
        stored_k_to_floats(type, stored, n, out);
        break;
    }
}
