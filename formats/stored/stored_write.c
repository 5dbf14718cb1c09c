#include "formats/stored/stored_write.h"

#include <math.h>
#include <string.h>

#include "base/numbers.h"
#include "formats/stored/stored.h"
#include "kernels/panel_pack.h"
#include "kernels/panel_scales.h"

StoredType stored_write_type(TensorType type) {
    if (type == TENSOR_Q8_64) return STORED_Q8_0;
    if (type == TENSOR_BF16_ACT) return STORED_BF16;
    if (type == TENSOR_Q8_MIN || type == TENSOR_VECTOR) return STORED_TYPES;
    if (type == TENSOR_NVFP4) return STORED_NVFP4;
    if (is_superblock_type(type) &&
        (superblock_scales(type) == SCALES_ODD_PARTS || type_has_codebook(type)))
        return STORED_TYPES;
    if (is_superblock_type(type) && (superblock_scale_is_float(type) || weight_types[type].raise))
        return STORED_TYPES;
    /* The first of the types that `type` holds is the one that holds all of its values. */
    for (StoredType s = STORED_F32; s < STORED_TYPES; s++)
        if (stored_type_info(s)->lossless == type) return s;
    return STORED_TYPES;
}

/* ---- Reading a panel ---- */

/* What one block is made of. */
typedef struct BlockParts {
    uint8_t codes[256]; /* as blocks have them: 0 ... 2^bits - 1, or int8 */
    uint16_t scales[8]; /* one for the block; NVFP4: one for each 16 inputs */
    uint16_t minimum;
    uint8_t subs[16], sub_minima[16]; /* Q3_K, IQ4_XS: 32 above the value; MXFP4: the exponent */
} BlockParts;

static uint8_t block_code(TensorType type, int32_t value) {
    if (!type_has_table(type)) return (uint8_t)(value + weight_types[type].zero);
    const int8_t *table = superblock_table(type);
    uint8_t code = 0;
    while (code < 15 && table[code] != value) code++;
    return code;
}

static void read_codes(const Matrix *m, size_t row, size_t first, size_t n, uint8_t *codes) {
    const size_t group = type_group(m->type);
    for (size_t i = 0; i < n;) {
        WeightGroup weights;
        size_t at = (first + i) % group;
        matrix_group(m, row, (first + i) / group, &weights);
        for (; at < group && i < n; at++, i++) codes[i] = block_code(m->type, weights.codes[at]);
    }
}

static uint16_t half_at(const uint8_t *halves, size_t r) {
    uint16_t bits;
    memcpy(&bits, halves + r * sizeof bits, sizeof bits);
    return bits;
}

/* Reads the scales of group g of a superblock for its row r. */
static void read_parts(TensorType type, const uint8_t *superblock, size_t g, size_t r,
                       BlockParts *to, size_t i) {
    uint8_t byte = superblock[superblock_scales_at(type, g) + r];
    switch (superblock_scales(type)) {
    case SCALES_HALVES:
        if (i < sizeof to->scales / sizeof *to->scales)
            to->scales[i] = half_at(superblock + superblock_scales_at(type, g), r);
        if (type_has_minima(type))
            to->minimum = half_at(superblock + superblock_minima_at(type, g), r);
        return;
    case SCALES_NIBBLE_PARTS:
        to->subs[i] = byte & 15;
        to->sub_minima[i] = superblock[superblock_minima_at(type, g) + r] >> 4;
        return;
    case SCALES_6_BIT_PARTS:
        to->subs[i] =
            (uint8_t)((byte >> g % 2 * 4 & 15) |
                      (superblock[superblock_pairs_at(type, g) + r] >> g % 4 * 2 & 3) << 4);
        return;
    default:
        to->subs[i] = byte;
        if (type_has_minima(type))
            to->sub_minima[i] = superblock[superblock_minima_at(type, g) + r];
    }
}

/* Reads the n inputs of a row from input `first` on. */
static void read_block(const Matrix *m, size_t row, size_t first, size_t n, BlockParts *to) {
    const size_t r = row % PANEL_ROWS, p = row / PANEL_ROWS, group = type_group(m->type);
    memset(to, 0, sizeof *to);
    read_codes(m, row, first, n, to->codes);
    if (!is_superblock_type(m->type)) {
        size_t at = first / group * PANEL_ROWS + r;
        to->scales[0] = matrix_scales(m->type, m, p)[at];
        if (type_has_minima(m->type)) to->minimum = matrix_minima(m->type, m, p)[at];
        return;
    }
    for (size_t i = 0; i < n / group; i++) {
        size_t g = first / group + i;
        const uint8_t *superblock = superblock_of(m->type, matrix_panel(m, p), g);
        read_parts(m->type, superblock, g % superblock_groups(m->type), r, to, i);
        if (!superblock_has_parts(m->type)) continue;
        to->scales[0] = half_at(superblock, r);
        if (type_has_minima(m->type)) to->minimum = half_at(superblock + SUPERBLOCK_MINIMA, r);
    }
}

/* ---- Writing a block: stored_k.c has the layouts ---- */

static void put_half(uint8_t *to, uint16_t bits) {
    memcpy(to, &bits, sizeof bits);
}

static void put_nibbles_32(const uint8_t *codes, uint8_t *to) {
    for (size_t i = 0; i < 16; i++) to[i] = (uint8_t)((codes[i] & 15) | codes[i + 16] << 4);
}

static void put_fifth_bits_32(const uint8_t *codes, uint8_t *to) {
    for (size_t i = 0; i < 32; i++) to[i / 8] |= (uint8_t)(codes[i] >> 4 << i % 8);
}

/* Pairs of bits of codes[256]; pairs i, i + 32, i + 64 and i + 96 of each 128 share a byte. */
static void put_pairs(const uint8_t *codes, int shift, uint8_t *to) {
    for (size_t i = 0; i < 256; i++)
        to[i / 128 * 32 + i % 32] |= (uint8_t)((codes[i] >> shift & 3) << i % 128 / 32 * 2);
}

static void put_k4(const BlockParts *p, bool has_fifth, uint8_t *to) {
    uint8_t *subs = to + 4, *fifth = to + 16, *nibbles = to + (has_fifth ? 48 : 16);
    put_half(to, p->scales[0]);
    put_half(to + 2, p->minimum);
    for (size_t i = 0; i < 4; i++) {
        subs[i] = (uint8_t)(p->subs[i] | (p->subs[i + 4] >> 4) << 6);
        subs[i + 4] = (uint8_t)(p->sub_minima[i] | (p->sub_minima[i + 4] >> 4) << 6);
        subs[i + 8] = (uint8_t)((p->subs[i + 4] & 15) | p->sub_minima[i + 4] << 4);
    }
    for (size_t i = 0; i < 256; i++) {
        size_t g = i / 32;
        nibbles[i / 64 * 32 + i % 32] |= (uint8_t)((p->codes[i] & 15) << g % 2 * 4);
        if (has_fifth) fifth[i % 32] |= (uint8_t)(p->codes[i] >> 4 << g);
    }
}

static void put_q6_k(const BlockParts *p, uint8_t *to) {
    for (size_t i = 0; i < 256; i++)
        to[i / 128 * 64 + i % 64] |= (uint8_t)((p->codes[i] & 15) << i % 128 / 64 * 4);
    put_pairs(p->codes, 4, to + 128);
    memcpy(to + 192, p->subs, 16);
    put_half(to + 208, p->scales[0]);
}

static void put_q3_k(const BlockParts *p, uint8_t *to) {
    for (size_t i = 0; i < 256; i++) to[i % 32] |= (uint8_t)(p->codes[i] >> 2 << i / 32);
    put_pairs(p->codes, 0, to + 32);
    for (size_t g = 0; g < 16; g++) {
        to[96 + g % 8] |= (uint8_t)((p->subs[g] & 15) << g / 8 * 4);
        to[104 + g % 4] |= (uint8_t)(p->subs[g] >> 4 << g / 4 * 2);
    }
    put_half(to + 108, p->scales[0]);
}

static void put_q2_k(const BlockParts *p, uint8_t *to) {
    for (size_t g = 0; g < 16; g++) to[g] = (uint8_t)(p->subs[g] | p->sub_minima[g] << 4);
    put_pairs(p->codes, 0, to + 16);
    put_half(to + 80, p->scales[0]);
    put_half(to + 82, p->minimum);
}

static void put_iq4_xs(const BlockParts *p, uint8_t *to) {
    uint16_t upper = 0;
    put_half(to, p->scales[0]);
    for (size_t g = 0; g < 8; g++) {
        upper |= (uint16_t)(p->subs[g] >> 4 << 2 * g);
        to[4 + g / 2] |= (uint8_t)((p->subs[g] & 15) << g % 2 * 4);
        put_nibbles_32(p->codes + 32 * g, to + 8 + 16 * g);
    }
    put_half(to + 2, upper);
}

/* The unsigned float of 4 + 3 bits that is twice the float16 number; 0 where there is none. */
static uint8_t scale_nvfp4(uint16_t bits) {
    float value = numbers_half_to_float(bits);
    for (uint8_t code = 0; code < 127; code++) {
        int exponent = code >> 3, mantissa = code & 7;
        if (ldexpf((float)(exponent ? 8 + mantissa : mantissa), exponent ? exponent - 11 : -10) ==
            value)
            return code;
    }
    return 0;
}

static void put_nvfp4(const BlockParts *p, uint8_t *to) {
    for (size_t g = 0; g < 4; g++) to[g] = scale_nvfp4(p->scales[g]);
    for (size_t i = 0; i < 64; i++)
        to[4 + i / 16 * 8 + i % 8] |= (uint8_t)(p->codes[i] << (i % 16 < 8 ? 0 : 4));
}

/* Writes a block from its parts; `to` is zeros before. */
static void put_block(StoredType type, const BlockParts *p, uint8_t *to) {
    switch (type) {
    case STORED_Q8_0:
        put_half(to, p->scales[0]);
        memcpy(to + 2, p->codes, 32);
        break;
    case STORED_Q4_1: /* whose minimum is added */
        put_half(to, p->scales[0]);
        put_half(to + 2, p->minimum ^ 0x8000);
        put_nibbles_32(p->codes, to + 4);
        break;
    case STORED_Q5_0:
        put_half(to, p->scales[0]);
        put_fifth_bits_32(p->codes, to + 2);
        put_nibbles_32(p->codes, to + 6);
        break;
    case STORED_Q5_1:
        put_half(to, p->scales[0]);
        put_half(to + 2, p->minimum ^ 0x8000);
        put_fifth_bits_32(p->codes, to + 4);
        put_nibbles_32(p->codes, to + 8);
        break;
    case STORED_Q4_0:
    case STORED_IQ4_NL:
        put_half(to, p->scales[0]);
        put_nibbles_32(p->codes, to + 2);
        break;
    case STORED_Q4_K:
    case STORED_Q5_K:
        put_k4(p, type == STORED_Q5_K, to);
        break;
    case STORED_Q6_K:
        put_q6_k(p, to);
        break;
    case STORED_Q3_K:
        put_q3_k(p, to);
        break;
    case STORED_Q2_K:
        put_q2_k(p, to);
        break;
    case STORED_IQ4_XS:
        put_iq4_xs(p, to);
        break;
    case STORED_MXFP4:
        to[0] = p->subs[0];
        put_nibbles_32(p->codes, to + 1);
        break;
    case STORED_NVFP4:
        put_nvfp4(p, to);
        break;
    case STORED_TQ2_0:
        put_pairs(p->codes, 0, to);
        put_half(to + 64, p->scales[0]);
        break;
    case STORED_Q2_0:
        put_half(to, p->scales[0]);
        for (size_t i = 0; i < 64; i++) to[2 + i / 4] |= (uint8_t)(p->codes[i] << i % 4 * 2);
        break;
    default: /* Q1_0 */
        put_half(to, p->scales[0]);
        for (size_t i = 0; i < 128; i++) to[2 + i / 8] |= (uint8_t)(p->codes[i] << i % 8);
        break;
    }
}

/* ---- A row ---- */

static void put_floats(StoredType type, const float *x, size_t n, uint8_t *out) {
    if (type == STORED_F32) {
        memcpy(out, x, n * sizeof *x);
        return;
    }
    for (size_t i = 0; i < n; i++)
        put_half(out + 2 * i,
                 type == STORED_F16 ? numbers_float_to_half(x[i]) : panel_float_to_bfloat(x[i]));
}

bool stored_write_row(StoredType type, const Matrix *m, size_t row, float *scratch, uint8_t *out) {
    const StoredTypeInfo *info = stored_type_info(type);
    float *values = scratch, *back = scratch + m->cols;
    matrix_row(m, row, values);
    if (info->block == 1) put_floats(type, values, m->cols, out);
    for (size_t i = 0; info->block > 1 && i < m->cols; i += info->block) {
        uint8_t *block = out + i / info->block * info->block_bytes;
        BlockParts parts;
        memset(block, 0, info->block_bytes);
        read_block(m, row, i, info->block, &parts);
        put_block(type, &parts, block);
    }
    stored_to_floats(type, out, m->cols, back);
    for (size_t i = 0; i < m->cols; i++)
        if (values[i] != back[i]) return false;
    return true;
}
