#include "formats/stored.h"

#include <string.h>

#include "base/numbers.h"

static const StoredTypeInfo types[STORED_TYPES] = {
    [STORED_F32] = {"F32", 1, 4, TENSOR_F32, false, false},
    [STORED_F16] = {"F16", 1, 2, TENSOR_F16, false, false},
    [STORED_BF16] = {"BF16", 1, 2, TENSOR_BF16, false, false},
    [STORED_Q8_0] = {"Q8_0", 32, 34, TENSOR_Q8, true, false},
    [STORED_Q4_0] = {"Q4_0", 32, 18, TENSOR_Q4, true, false},
    [STORED_Q4_1] = {"Q4_1", 32, 20, TENSOR_Q4_MIN, true, false},
    [STORED_Q5_0] = {"Q5_0", 32, 22, TENSOR_Q8, true, false},
    [STORED_Q5_1] = {"Q5_1", 32, 24, TENSOR_Q8_MIN, true, false},
    [STORED_Q4_K] = {"Q4_K", 256, 144, TENSOR_Q4_K, true, false},
    [STORED_Q5_K] = {"Q5_K", 256, 176, TENSOR_Q5_K, true, false},
    [STORED_Q6_K] = {"Q6_K", 256, 210, TENSOR_Q6_K, true, false},
    [STORED_IQ4_NL] = {"IQ4_NL", 32, 18, TENSOR_Q4_NL, true, false},
    [STORED_MXFP4] = {"MXFP4", 32, 17, TENSOR_MXFP4, true, false},
    [STORED_Q3_K] = {"Q3_K", 256, 110, TENSOR_Q6_K, true, false},
    [STORED_IQ4_XS] = {"IQ4_XS", 256, 136, TENSOR_Q4_NL, true, true},
    [STORED_Q2_K] = {"Q2_K", 256, 84, TENSOR_Q4_K, false, true},
    [STORED_IQ3_S] = {"IQ3_S", 256, 110, TENSOR_Q4_K, true, true},
    [STORED_IQ3_XXS] = {"IQ3_XXS", 256, 98, TENSOR_Q4_K, true, true},
    [STORED_IQ2_S] = {"IQ2_S", 256, 82, TENSOR_Q4_K, false, true},
    [STORED_IQ2_XS] = {"IQ2_XS", 256, 74, TENSOR_Q4_K, false, true},
    [STORED_IQ2_XXS] = {"IQ2_XXS", 256, 66, TENSOR_Q4_K, false, true},
    [STORED_IQ1_M] = {"IQ1_M", 256, 56, TENSOR_Q4_K, false, true},
    [STORED_IQ1_S] = {"IQ1_S", 256, 50, TENSOR_Q4_K, false, true},
    [STORED_TQ2_0] = {"TQ2_0", 256, 66, TENSOR_Q4, true, false},
    [STORED_TQ1_0] = {"TQ1_0", 256, 54, TENSOR_Q4, true, false},
    [STORED_LLAMA2C_Q8] = {"int8 with float32 scales", 1, 1, TENSOR_F32, false, false},
    [STORED_RANDOM] = {"random", 1, 0, TENSOR_F32, false, false},
};

const StoredTypeInfo *stored_type_info(StoredType type) {
    return &types[type];
}

bool stored_bytes(StoredType type, size_t n, size_t *bytes) {
    return n % types[type].block == 0 &&
           size_mul(n / types[type].block, types[type].block_bytes, bytes);
}

static uint16_t u16(const uint8_t *p) {
    uint16_t value;
    memcpy(&value, p, sizeof value);
    return value;
}

/* The 32 codes of one block, as panel_pack_codes takes them, and where its scales are:
 * GGUF keeps inputs i and i + 16 in the two halves of one byte. */
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
    for (size_t i = 0; i < 16; i++) {
        codes[i] = nibbles[i] & 15;
        codes[i + 16] = nibbles[i] >> 4;
    }
    if (type == STORED_Q4_0 || type == STORED_Q4_1) return;
    /* Q5_0 is around 16; its panel holds int8. */
    uint8_t zero = type == STORED_Q5_0 ? 16 : 0;
    for (size_t i = 0; i < 32; i++) codes[i] = (uint8_t)((codes[i] | (fifth >> i & 1) << 4) - zero);
}

void stored_to_codes(StoredType type, const void *stored, size_t n, uint8_t *codes,
                     uint16_t *scales, uint16_t *minima) {
    const uint8_t *block = stored;
    if (types[type].block == 256) {
        for (size_t b = 0; b < n / 256; b++, block += types[type].block_bytes)
            stored_ternary_to_codes(type, block, codes + 256 * b, scales + 8 * b);
        return;
    }
    for (size_t b = 0; b < n / 32; b++, block += types[type].block_bytes) {
        block_codes(type, block, codes + 32 * b);
        scales[b] = u16(block);
        /* A panel's minimum is subtracted, GGUF's is added. */
        if (minima) minima[b] = u16(block + 2) ^ 0x8000;
    }
}

static void blocks_to_floats(StoredType type, const uint8_t *block, size_t n, float *out) {
    bool has_min = type == STORED_Q4_1 || type == STORED_Q5_1;
    bool is_signed = type == STORED_Q8_0 || type == STORED_Q5_0;
    for (size_t b = 0; b < n / 32; b++, block += types[type].block_bytes, out += 32) {
        uint8_t codes[32];
        block_codes(type, block, codes);
        float scale = half_to_float(u16(block));
        float minimum = has_min ? half_to_float(u16(block + 2)) : 0.0f;
        int zero = type == STORED_Q4_0 ? 8 : 0;
        for (size_t i = 0; i < 32; i++) {
            int code = is_signed ? (int8_t)codes[i] : codes[i] - zero;
            out[i] = scale * (float)code;
            if (has_min) out[i] += minimum;
        }
    }
}

void stored_to_floats(StoredType type, const void *stored, size_t n, float *out) {
    const uint16_t *half = stored;
    switch (type) {
    case STORED_F32:
        memcpy(out, stored, n * sizeof *out);
        break;
    case STORED_F16:
        for (size_t i = 0; i < n; i++) out[i] = half_to_float(half[i]);
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
    case STORED_IQ3_S:
    case STORED_IQ3_XXS:
    case STORED_IQ2_S:
    case STORED_IQ2_XS:
    case STORED_IQ2_XXS:
    case STORED_IQ1_M:
    case STORED_IQ1_S:
    case STORED_TQ2_0:
    case STORED_TQ1_0:
        stored_iq_to_floats(type, stored, n, out);
        break;
    default:
        stored_k_to_floats(type, stored, n, out);
        break;
    }
}
