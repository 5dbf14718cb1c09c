/* Panels of the types with a codebook: GGUF's IQ types of 1 to 3 bits, at the size that they have
 * in a file.
 *
 * An "eight" is a run of 8 inputs of a row. Its magnitudes are those of a point of the codebook
 * (types of 3 bits: of two points, 4 inputs each), and it has a bit for each sign. In the types of
 * 1 bit a point has signs of its own, and one bit tells whether all of its levels are 1 lower or
 * higher. A superblock has 256 inputs of each of the panel's 16 rows, as in superblocks.h; every
 * array is [16], a number for each row:
 *
 *     type       header                              32 inputs, eights e = 0 to 3
 *     iq2_xxs    f16 scale                           uint8 point[4], then for each eight uint8: 7
 *                                                    signs, bit e of sub_scale
 *     iq2_xs     f16 scale, then for each 2 of 16    uint8 point[4], then for each eight uint8: 7
 *                groups uint8: the nibbles of their  signs, the ninth bit of the point
 *                sub-scales, the first one's lower
 *     iq2_s      as iq2_xs                           uint8 point[4], uint8 signs[4], then uint8: a
 *                                                    pair of upper bits of each point
 *     iq3_xxs_g  f16 scale                           uint8 point[8], then as iq2_xxs
 *     iq3_s_g    f16 scale, then as iq2_xs for 8     uint8 point[8], uint8 signs[4], then uint8: a
 *                groups                              ninth bit of each point
 *     iq1_s      f16 scale                           uint8 point[4], then uint16: 3 upper bits of
 *                                                    each point, 3 of sub_scale, 1: levels are
 *                                                    lower
 *     iq1_m      for each 4 of 16 groups uint16: 3   uint8 point[4], then uint16: for each eight 3
 *                bits of sub-scale each; its 4 upper  upper bits of the point, 1: levels are lower
 *                bits are those of the f16 scale,
 *                the lowest first
 *
 * The lowest bits come first. Where 7 bits are signs, the eighth one makes the number of minus
 * signs even. The value of a weight is (scale * (2 sub_scale + 1) * unit) * level, where unit is
 * 1/8, for iq3_xxs_g 1/4 and for iq3_s_g 1. Levels are 8, 25, 43 (2 bits), 4, 12 ... 52, 62
 * (iq3_xxs_g), 1, 3 ... 15 (iq3_s_g), and -8, 0, 8 less 1 or plus 1. A group, which shares a
 * sub-scale and a scale of the activations, has 16 inputs, of the types of 3 bits 32. (Where 32
 * inputs have one sub-scale, two groups have it.) kernels/grids.h has the points. */
#ifndef KERNELS_CODEBOOKS_H
#define KERNELS_CODEBOOKS_H

#include <string.h>

#include "kernels/order.h"
#include "kernels/weight_types.h"

/* Points of the type's codebook, in the order of their numbers: 8 bytes with the levels of each, of
 * the types of 3 bits 4. They are made when they are first asked for. */
const uint8_t *codebook_points(TensorType type);

/* How many points the codebook has: a power of two. */
size_t codebook_size(TensorType type);

TYPE_INLINE bool type_has_codebook(TensorType type) {
    return weight_types[type].codebook != CODEBOOK_NONE;
}

/* Points of an eight: 1, or 2 of 4 inputs each. */
TYPE_INLINE size_t codebook_halves(TensorType type) {
    return weight_types[type].bits == 4 ? 2 : 1;
}

/* True for types whose points have signs, and whose eights have a bit that moves all levels. */
TYPE_INLINE bool codebook_is_moved(TensorType type) {
    return weight_types[type].codebook == CODEBOOK_IQ1;
}

/* True where 7 signs are stored, and the eighth makes their number even. */
TYPE_INLINE bool codebook_is_even(TensorType type) {
    return type == TENSOR_IQ2_XXS || type == TENSOR_IQ2_XS || type == TENSOR_IQ3_XXS_G;
}

/* True where sub-scales are nibbles in the header. */
TYPE_INLINE bool codebook_has_nibbles(TensorType type) {
    return type == TENSOR_IQ2_XS || type == TENSOR_IQ2_S || type == TENSOR_IQ3_S_G;
}

enum { EIGHT = 8, CODEBOOK_INPUTS = 32 };

/* Bytes of a superblock's header and of 32 inputs. */
TYPE_INLINE size_t codebook_header_bytes(TensorType type) {
    const size_t groups = 256 / weight_types[type].group, scale = 2 * PANEL_ROWS;
    if (type == TENSOR_IQ1_M) return groups / 4 * 2 * PANEL_ROWS;
    return scale + (codebook_has_nibbles(type) ? groups / 2 * PANEL_ROWS : 0);
}
TYPE_INLINE size_t codebook_inputs_bytes(TensorType type) {
    switch (type) {
    case TENSOR_IQ2_XXS:
    case TENSOR_IQ2_XS:
        return 8 * PANEL_ROWS;
    case TENSOR_IQ2_S:
        return 9 * PANEL_ROWS;
    case TENSOR_IQ3_XXS_G:
        return 12 * PANEL_ROWS;
    case TENSOR_IQ3_S_G:
        return 13 * PANEL_ROWS;
    default:
        return 6 * PANEL_ROWS;
    }
}

/* A group of a panel, taken apart. */
typedef struct CodebookGroup {
    uint16_t points[8][PANEL_ROWS]; /* [eights of the group * codebook_halves] */
    uint8_t signs[4][PANEL_ROWS];   /* [eights]; of moved levels 0xFF: lower, or 0: higher */
    uint8_t parts[PANEL_ROWS];      /* 2 sub_scale + 1 */
    uint16_t scales[PANEL_ROWS];    /* f16 */
} CodebookGroup;

/* Completes seven stored sign bits: the eighth makes the number of set bits even. */
TYPE_INLINE uint8_t codebook_even_signs(uint32_t seven) {
    return (uint8_t)(seven | (uint32_t)__builtin_parity(seven) << 7);
}

/* A number of each of the 16 rows. Compilers make vector instructions of these on every processor,
 * where loops over rows would need a proof that arrays lie apart. */
typedef uint8_t RowBytes __attribute__((vector_size(PANEL_ROWS)));
typedef uint16_t RowShorts __attribute__((vector_size(2 * PANEL_ROWS)));

/* codebook_even_signs of 16 rows, whose uppermost bits are something else. */
TYPE_INLINE void codebook_complete_signs(RowBytes *signs) {
    RowBytes parity = *signs + *signs; /* the seven, moved up */
    parity ^= parity << 4;
    parity ^= parity << 2;
    parity ^= parity << 1;
    *signs = (*signs & 127) | (parity & 128);
}

/* Reads eight e of 32 inputs: the numbers of its points, and its signs. */
TYPE_INLINE void codebook_open_eight(TensorType type, const uint8_t *inputs, size_t e,
                                     uint16_t (*points)[PANEL_ROWS], uint8_t *signs) {
    const size_t halves = codebook_halves(type);
    const uint8_t *rest = inputs + 4 * halves * PANEL_ROWS;
    RowBytes low, own, upper;
    RowShorts bits, number[2]; /* of one point, or two */
    memcpy(&low, inputs + halves * e * PANEL_ROWS, sizeof low);
    number[0] = number[1] = __builtin_convertvector(low, RowShorts);
    if (halves == 2) {
        memcpy(&low, inputs + (2 * e + 1) * PANEL_ROWS, sizeof low);
        number[1] = __builtin_convertvector(low, RowShorts);
    }
    if (codebook_is_moved(type)) {
        memcpy(&bits, rest, sizeof bits);
        number[0] |= (bits >> (uint16_t)((type == TENSOR_IQ1_S ? 3 : 4) * e) & 7) << 8;
        bits = bits >> (uint16_t)(type == TENSOR_IQ1_S ? 15 : 4 * e + 3) & 1;
        own = -__builtin_convertvector(bits, RowBytes);
    } else {
        memcpy(&own, rest + e * PANEL_ROWS, sizeof own);
        upper = own;
        if (codebook_is_even(type)) {
            codebook_complete_signs(&own);
        } else {
            memcpy(&upper, rest + 4 * PANEL_ROWS, sizeof upper);
        }
        bits = __builtin_convertvector(upper, RowShorts);
        if (type == TENSOR_IQ2_XS) number[0] |= (bits >> 7) << 8;
        if (type == TENSOR_IQ2_S) number[0] |= (bits >> (uint16_t)(2 * e) & 3) << 8;
        if (type == TENSOR_IQ3_S_G) {
            number[0] |= (bits >> (uint16_t)(2 * e) & 1) << 8;
            number[1] |= (bits >> (uint16_t)(2 * e + 1) & 1) << 8;
        }
    }
    memcpy(points[0], &number[0], sizeof *number);
    if (halves == 2) memcpy(points[1], &number[1], sizeof *number);
    memcpy(signs, &own, sizeof own);
}

/* Reads the scales of group g, whose 32 inputs are at `inputs`. */
TYPE_INLINE void codebook_open_scales(TensorType type, const uint8_t *superblock, size_t g,
                                      const uint8_t *inputs, CodebookGroup *to) {
    const uint8_t *rest = inputs + 4 * codebook_halves(type) * PANEL_ROWS;
    RowBytes parts = {0};
    RowShorts shorts, scales;
    memcpy(&scales, superblock, sizeof scales);
    if (type == TENSOR_IQ2_XXS || type == TENSOR_IQ3_XXS_G) {
        UNROLL
        for (size_t e = 0; e < 4; e++) {
            RowBytes own;
            memcpy(&own, rest + e * PANEL_ROWS, sizeof own);
            parts |= own >> 7 << (uint8_t)e;
        }
    } else if (type == TENSOR_IQ1_S) {
        memcpy(&shorts, rest, sizeof shorts);
        parts = __builtin_convertvector(shorts >> 12 & 7, RowBytes);
    } else if (type == TENSOR_IQ1_M) {
        memcpy(&shorts, superblock + g / 4 * sizeof shorts, sizeof shorts);
        parts = __builtin_convertvector(shorts >> (uint16_t)(3 * (g % 4)) & 7, RowBytes);
        scales >>= 12;
        for (size_t i = 1; i < 4; i++) {
            memcpy(&shorts, superblock + i * sizeof shorts, sizeof shorts);
            scales |= shorts >> 12 << (uint16_t)(4 * i);
        }
    } else {
        memcpy(&parts, superblock + (2 + g / 2) * PANEL_ROWS, sizeof parts);
        parts = parts >> (uint8_t)(g % 2 * 4) & 15;
    }
    parts = 2 * parts + 1;
    memcpy(to->parts, &parts, sizeof parts);
    memcpy(to->scales, &scales, sizeof scales);
}

/* Takes group g of a superblock apart. */
TYPE_INLINE void codebook_open(TensorType type, const uint8_t *superblock, size_t g,
                               CodebookGroup *to) {
    const size_t group = weight_types[type].group, halves = codebook_halves(type);
    const size_t first = g * group / EIGHT % 4;
    const uint8_t *inputs = superblock + codebook_header_bytes(type) +
                            g * group / CODEBOOK_INPUTS * codebook_inputs_bytes(type);
    UNROLL /* needs a number of turns that is known even where the type is not */
        for (size_t e = 0; e < CODEBOOK_INPUTS / EIGHT; e++) if (e < group / EIGHT)
            codebook_open_eight(type, inputs, first + e, to->points + halves * e, to->signs[e]);
    codebook_open_scales(type, superblock, g, inputs, to);
}

/* The levels of input i of group g that was opened. */
static inline int32_t codebook_level(TensorType type, const uint8_t *points,
                                     const CodebookGroup *group, size_t i, size_t r) {
    const size_t halves = codebook_halves(type), n = EIGHT / halves;
    const int32_t level = (int8_t)points[group->points[i / n][r] * n + i % n];
    const bool minus = group->signs[i / EIGHT][r] >> i % EIGHT & 1;
    if (codebook_is_moved(type)) return minus ? level - 1 : level + 1;
    return minus ? -level : level;
}

/* ---- Writing ---- */

/* What an eight's 8 codes are in a SuperblockCodes (superblocks.h) of such a type: the lower 8 bits
 * of its point and the others, the same of the second point, and the signs, or 1 where levels are
 * lower. */
enum { EIGHT_POINT, EIGHT_UPPER, EIGHT_SECOND, EIGHT_SECOND_UPPER, EIGHT_SIGNS };

/* Adds group g of row r, whose codes and scales these are, to a superblock that was zeros before.
 */
void codebook_pack(TensorType type, const uint8_t *codes, uint16_t scale, uint8_t sub_scale,
                   size_t g, size_t r, uint8_t *superblock);

#endif
