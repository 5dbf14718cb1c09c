/* Panels of the types with scales inside scales, of codes that are numbers of a table, and of 1 to
 * 3 bits.
 *
 * Such a panel is a run of superblocks. A superblock holds 256 inputs (of q5_0 64, of q5_1 32) of
 * each of the panel's 16 rows (the last superblock has fewer, padded to a whole group): first its
 * header with the scales, then the lines of one group after another, so that a kernel reads a panel
 * from its first byte to its last.
 *
 *     type    header of a superblock                       lines of a group
 *     q4_k    f16 scale[16], f16 minimum[16],               32 inputs: 4 lines of nibbles
 *             then for each of 8 groups
 *             uint8 sub_scale[16], uint8 sub_minimum[16]
 *     q5_k    the same                                      32 inputs: 4 lines of nibbles,
 *                                                           1 line of fifth bits
 *     q6_k    f16 scale[16], 32 bytes of zeros, then        16 inputs: 2 lines of nibbles,
 *             for each of 16 groups int8 sub_scale[16]      1 line of upper pairs of bits
 *     q4_nl   for each of 8 groups f16 scale[16]            32 inputs: 4 lines of nibbles
 *     mxfp4   for each of 8 groups uint8 exponent[16]       32 inputs: 4 lines of nibbles
 *     nvfp4   for each of 16 groups f16 scale[16]           16 inputs: 2 lines of nibbles
 *     nvfp4_t float32 scale[16], then for each of 16        16 inputs: 2 lines of nibbles
 *             groups uint8 sub_scale[16]
 *     q2_k    f16 scale[16], f16 minimum[16], then for      16 inputs: 1 line of pairs of bits
 *             each of 16 groups 16 bytes: sub_scale in
 *             the lower, sub_minimum in the upper nibble
 *     q3_k    f16 scale[16], 32 bytes of zeros, then for    two groups of 16 inputs: 1 line of
 *             each 2 of 16 groups 16 bytes with the lower   pairs of bits each, then 1 line of
 *             nibbles of their sub-scales, then for each    third bits of both
 *             4 of 16 groups 16 bytes with the upper pairs
 *             of bits; the lowest bits are the first group's
 *     iq2,    f16 scale[16], 32 bytes of zeros, then for    as q3_k
 *     iq1     each 2 of 16 groups 16 bytes with the
 *             nibbles of their sub-scales
 *     iq3_xxs, the same for 8 groups                        32 inputs: 4 lines of nibbles
 *     iq3_s
 *     iq4_xs  f16 scale[16], then for each 4 of 8 groups    32 inputs: 4 lines of nibbles
 *             16 bytes with the upper pairs of bits of
 *             their sub-scales, then for each 2 of 8
 *             groups 16 bytes with the lower nibbles
 *     iq2_k   f16 scale[16], for each of 16 groups uint16   16 inputs: 1 line of pairs of bits
 *             raised, then as q3_k
 *     iq2_ks  the same for 8 groups; 16 bytes of zeros      32 inputs: 2 lines of pairs of bits
 *             follow their bits
 *     iq3_k   as iq2_k                                      as q3_k
 *     iq3_ks  as iq2_ks                                     32 inputs: 2 lines of pairs of bits,
 *                                                           1 line of third bits
 *     iq4_k   as iq2_k                                      16 inputs: 2 lines of nibbles
 *     iq5_k   as iq2_k                                      two groups of 16 inputs: 2 lines of
 *                                                           nibbles each, then 1 line of fifth
 *                                                           bits of both
 *     iq6_k   f16 scale[16], for each of 16 groups uint16   16 inputs: 2 lines of nibbles,
 *             raised, then for each int8 sub_scale[16]      1 line of upper pairs of bits
 *     iq4_ks  float32 scale[16], then for each of 8 groups  32 inputs: 4 lines of nibbles
 *             int8 sub_scale[16], an odd number in whose
 *             place of the lowest bit is raised
 *     iq5_ks  the same                                      32 inputs: 4 lines of nibbles,
 *                                                           1 line of fifth bits
 *     q2_0    for each 2 of 8 groups f16 scale[16]          32 inputs: 2 lines of pairs of bits
 *     tq2_0   f16 scale[16]                                 32 inputs: 2 lines of pairs of bits
 *     q1_0    for each 4 of 8 groups f16 scale[16]          32 inputs: 1 line of bits
 *     q5_0    for each of 2 groups f16 scale[16]            32 inputs: 4 lines of nibbles,
 *                                                           1 line of fifth bits
 *     q5_1    f16 scale[16], f16 minimum[16]                the same
 *
 * A line holds a field of a few bits of each code. Byte 4r + i % 4 of a line belongs to row r and
 * has the fields of its inputs i with i / 4 = 0, 1, ..., from the lowest bits on: 8 inputs of
 * nibbles, 16 of pairs, 32 of single bits. (Nibbles lie as in q4.) A q3_k matrix whose last group
 * has none beside it has the lines of both, with zeros. The value of a code q is
 *
 *     q4_k, q5_k, q2_k   (scale * sub_scale) * q - minimum * sub_minimum
 *     q6_k               (scale * sub_scale) * (q - 32)
 *     q3_k               (scale * (sub_scale - 32)) * (q - 4)
 *     q4_nl              scale * superblocks_table_q4_nl[q]
 *     iq4_xs             (scale * (sub_scale - 32)) * superblocks_table_q4_nl[q]
 *     q2_0, tq2_0        scale * (q - 1)
 *     q1_0               scale * (2 q - 1)
 *     q5_0               scale * (q - 16)
 *     q5_1               scale * q - minimum
 *     mxfp4              2^(exponent - 128) * superblocks_table_mxfp4[q]
 *     nvfp4              scale * superblocks_table_mxfp4[q]
 *     nvfp4_t            (scale * superblock_small_float(sub_scale)) * superblocks_table_mxfp4[q]
 *     iq2_k ... iq5_k,   (scale * (sub_scale - 32)) * (level[q] + raised[row] * RAISE)
 *     iq2_ks, iq3_ks
 *     iq6_k              (scale * sub_scale) * (level[q] + raised[row] * RAISE)
 *     iq4_ks, iq5_ks     (scale * (sub_scale | 1)) * (level[q] + (sub_scale & 1) * RAISE)
 *     iq2, iq1           (scale * (2 sub_scale + 1) / 8) * level[q]
 *     iq3_xxs            (scale * (2 sub_scale + 1) / 4) * level[q]
 *     iq3_s              (scale * (2 sub_scale + 1)) * level[q]
 *
 * and all products of scales are exact in float32, but for those of float32 scales, which are
 * rounded. RAISE is 5 for iq2_k and iq2_ks, 4 for those of 3 and 4 bits, 2 and 1 for those of 5
 * and 6. GGUF's types of these names, IQ4_NL being q4_nl, hold the same numbers in another order
 * (NVFP4 is nvfp4_t), and so do IQ2_XXS, IQ2_XS and IQ2_S (iq2; a sub-scale of 32 inputs is that of
 * two groups), IQ1_S and IQ1_M (iq1), and TQ1_0 (tq2_0). */
#ifndef SUPERBLOCKS_H
#define SUPERBLOCKS_H

#include <string.h>

#include "base/numbers.h"
#include "kernels/codebooks.h"
#include "kernels/weight_types.h"

/* Inputs of a superblock of the types that do not say otherwise. */
enum { SUPERBLOCK_INPUTS = 256 };

/* IQ4_NL's sixteen levels, and those of MXFP4 and NVFP4, doubled to be whole numbers. */
extern const int8_t superblocks_table_q4_nl[16], superblocks_table_mxfp4[16];

/* The levels of GGUF's types with a codebook, in eighths (iq3_xxs: quarters) of those that ggml
 * has: its magnitudes with either sign; for iq1 the levels -8, 0, 8 moved up by 1, then down by 1.
 */
extern const int8_t superblocks_table_iq2[16], superblocks_table_iq1[16],
    superblocks_table_iq3_xxs[16], superblocks_table_iq3_s[16];

/* The two levels of q1_0. */
extern const int8_t superblocks_table_q1_0[16];

/* The levels of ik_llama.cpp's types; its 4-bit types have q4_nl's levels. */
extern const int8_t superblocks_table_iq2_k[16], superblocks_table_iq3_k[16],
    superblocks_table_iq5_k[32], superblocks_table_iq6_k[64];

TYPE_INLINE const int8_t *superblock_table(TensorType type) {
    switch (type) {
    case TENSOR_Q4_NL:
    case TENSOR_IQ4_XS:
    case TENSOR_IQ4_K:
    case TENSOR_IQ4_KS:
        return superblocks_table_q4_nl;
    case TENSOR_Q1_0:
        return superblocks_table_q1_0;
    case TENSOR_IQ2:
        return superblocks_table_iq2;
    case TENSOR_IQ1:
        return superblocks_table_iq1;
    case TENSOR_IQ3_XXS:
        return superblocks_table_iq3_xxs;
    case TENSOR_IQ3_S:
        return superblocks_table_iq3_s;
    case TENSOR_IQ2_K:
    case TENSOR_IQ2_KS:
        return superblocks_table_iq2_k;
    case TENSOR_IQ3_K:
    case TENSOR_IQ3_KS:
        return superblocks_table_iq3_k;
    case TENSOR_IQ5_K:
    case TENSOR_IQ5_KS:
        return superblocks_table_iq5_k;
    case TENSOR_IQ6_K:
        return superblocks_table_iq6_k;
    default:
        return superblocks_table_mxfp4;
    }
}

/* How many runs of 16 levels the table has. */
enum { MOST_TABLES = 4 };
TYPE_INLINE size_t superblock_tables(TensorType type) {
    const uint8_t bits = weight_types[type].bits;
    return bits > 4 ? (size_t)1 << (bits - 4) : 1;
}

static inline bool is_superblock_type(TensorType type) {
    return weight_types[type].family == FAMILY_SUPERBLOCKS;
}

/* ---- Layout of a superblock ---- */

TYPE_INLINE SuperblockScales superblock_scales(TensorType type) {
    return weight_types[type].scales;
}

/* True for types with a scale (and minimum) for the superblock and a part for each group. */
TYPE_INLINE bool superblock_has_parts(TensorType type) {
    return superblock_scales(type) != SCALES_HALVES && superblock_scales(type) != SCALES_POWERS;
}

/* True where the superblock's scale is a float32; else it is a float16. */
TYPE_INLINE bool superblock_scale_is_float(TensorType type) {
    return superblock_scales(type) == SCALES_FLOAT_PARTS ||
           superblock_scales(type) == SCALES_WIDE_PARTS;
}

/* Groups of a whole superblock. */
TYPE_INLINE size_t superblock_groups(TensorType type) {
    const size_t inputs = weight_types[type].superblock_inputs;
    return (inputs ? inputs : SUPERBLOCK_INPUTS) / type_group(type);
}

/* How many groups share a float16 scale of a type with SCALES_HALVES. */
TYPE_INLINE size_t superblock_shared(TensorType type) {
    return weight_types[type].shared ? weight_types[type].shared : 1;
}

/* Offset of the superblock's float16 minima; its scales are at the beginning, and float32 ones end
 * where minima would. */
enum {
    SUPERBLOCK_MINIMA = PANEL_ROWS * sizeof(uint16_t),
    SUPERBLOCK_PARTS = 2 * SUPERBLOCK_MINIMA
};

/* Offset of the scales of group g: 16 sub-scales, float16 scales or exponents. Of 6-bit and of odd
 * parts: of their (lower) nibbles, which are shifted by 4 bits for odd g. */
TYPE_INLINE size_t superblock_scales_at(TensorType type, size_t g) {
    switch (superblock_scales(type)) {
    case SCALES_HALVES:
        return g / superblock_shared(type) * (type_has_minima(type) ? 2 : 1) * SUPERBLOCK_MINIMA;
    case SCALES_POWERS:
        return g * PANEL_ROWS;
    case SCALES_PARTS:
        return SUPERBLOCK_PARTS + g * 2 * PANEL_ROWS;
    case SCALES_6_BIT_PARTS:
    case SCALES_ODD_PARTS:
        return SUPERBLOCK_PARTS + g / 2 * PANEL_ROWS;
    default:
        return SUPERBLOCK_PARTS + g * PANEL_ROWS;
    }
}

/* True where the upper pairs of 6-bit parts fit between the float16 scales and the nibbles: those
 * of 8 groups fill the 32 bytes there, if no bits of raised groups are there. */
TYPE_INLINE bool superblock_pairs_inside(TensorType type) {
    return superblock_groups(type) == 8 && !weight_types[type].raise;
}

/* Offset of the 16 bits that tell in which rows the levels of group g are raised; types with
 * SCALES_WIDE_PARTS have them in the lowest bits of their parts. */
TYPE_INLINE size_t superblock_raised_at(size_t g) {
    return SUPERBLOCK_MINIMA + g * sizeof(uint16_t);
}
TYPE_INLINE uint16_t superblock_raised(const uint8_t *superblock, size_t g) {
    uint16_t rows;
    memcpy(&rows, superblock + superblock_raised_at(g), sizeof rows);
    return rows;
}

/* Offset of the upper pairs of bits of the 6-bit parts of group g, shifted by 2 (g % 4) bits. */
TYPE_INLINE size_t superblock_pairs_at(TensorType type, size_t g) {
    const size_t first = superblock_pairs_inside(type)
                             ? SUPERBLOCK_MINIMA
                             : superblock_scales_at(type, superblock_groups(type));
    return first + g / 4 * PANEL_ROWS;
}

/* Offset of the minima of group g: float16 numbers, bytes, or the upper nibbles of bytes. */
TYPE_INLINE size_t superblock_minima_at(TensorType type, size_t g) {
    const size_t at = superblock_scales_at(type, g);
    if (superblock_scales(type) == SCALES_HALVES) return at + SUPERBLOCK_MINIMA;
    return at + (superblock_scales(type) == SCALES_PARTS ? PANEL_ROWS : 0);
}

/* Bytes of the header, which the lines follow. */
TYPE_INLINE size_t superblock_header_bytes(TensorType type) {
    if (type_has_codebook(type)) return codebook_header_bytes(type);
    if (superblock_scales(type) == SCALES_6_BIT_PARTS && !superblock_pairs_inside(type))
        return superblock_pairs_at(type, superblock_groups(type));
    return superblock_scales_at(type, superblock_groups(type));
}

/* Bits of a code in the lines that have its lowest bits: 4, 2 or 1. */
TYPE_INLINE size_t superblock_lower_bits(TensorType type) {
    return 32 / weight_types[type].line_inputs;
}

/* Bits of a code above these: 1 for types of 3 and 5 bits, 2 for types of 6 bits, else 0. */
TYPE_INLINE size_t superblock_upper_bits(TensorType type) {
    if (type_has_codebook(type)) return 0;
    return weight_types[type].bits - superblock_lower_bits(type);
}

/* Masks of the lower and of the upper bits in a code's byte. */
TYPE_INLINE char superblock_lower_mask(TensorType type) {
    return (char)((1u << superblock_lower_bits(type)) - 1);
}
TYPE_INLINE char superblock_upper_mask(TensorType type) {
    return (char)(((1u << superblock_upper_bits(type)) - 1) << superblock_lower_bits(type));
}

/* Bytes of a group's lines of lower bits. */
TYPE_INLINE size_t superblock_lower_bytes(TensorType type) {
    if (type_has_codebook(type)) return 0;
    return type_group(type) / weight_types[type].line_inputs * LINE_BYTES;
}

/* How many groups share a line of upper bits, which follows the lower bits of all of them: 2 where
 * one group has fewer than fill it, else 1. With a codebook: how many groups 32 inputs are. */
TYPE_INLINE size_t superblock_groups_beside(TensorType type) {
    if (type_has_codebook(type)) return CODEBOOK_INPUTS / type_group(type);
    return superblock_upper_bits(type) * type_group(type) == 16 ? 2 : 1;
}

/* Bytes of all lines of the groups that share a line. */
TYPE_INLINE size_t superblock_beside_bytes(TensorType type) {
    if (type_has_codebook(type)) return codebook_inputs_bytes(type);
    return superblock_groups_beside(type) * superblock_lower_bytes(type) +
           (superblock_upper_bits(type) ? LINE_BYTES : 0);
}

/* Bytes of the lines of a group, or its part of them. */
TYPE_INLINE size_t superblock_group_bytes(TensorType type) {
    return superblock_beside_bytes(type) / superblock_groups_beside(type);
}

TYPE_INLINE size_t superblock_bytes(TensorType type) {
    return superblock_header_bytes(type) + superblock_groups(type) * superblock_group_bytes(type);
}

/* What odd parts are multiplied by: a power of two. */
TYPE_INLINE float superblock_part_unit(TensorType type) {
    return 1.0f / (float)(1 << weight_types[type].halved);
}

/* Offset in a superblock of the lower bits of group g. */
TYPE_INLINE size_t superblock_lines_at(TensorType type, size_t g) {
    const size_t beside = superblock_groups_beside(type);
    return superblock_header_bytes(type) + g / beside * superblock_beside_bytes(type) +
           g % beside * superblock_lower_bytes(type);
}

/* The distance in bytes from the lower bits of group g to the line with its upper bits, and the
 * shift of the group's fields in that line. */
TYPE_INLINE size_t superblock_upper_at(TensorType type, size_t g) {
    const size_t beside = superblock_groups_beside(type);
    return (beside - g % beside) * superblock_lower_bytes(type);
}
TYPE_INLINE size_t superblock_upper_shift(TensorType type, size_t g) {
    return g % superblock_groups_beside(type) * 4;
}

/* The superblock that holds group g of a panel, and the lines of that group. */
static inline const uint8_t *superblock_of(TensorType type, const uint8_t *panel, size_t g) {
    return panel + g / superblock_groups(type) * superblock_bytes(type);
}

static inline const uint8_t *superblock_lines(TensorType type, const uint8_t *panel, size_t g) {
    return superblock_of(type, panel, g) + superblock_lines_at(type, g % superblock_groups(type));
}

/* 2^(exponent - 128). The exponent 255 gives infinity, where the standard has NaN. */
static inline float mxfp4_scale(uint8_t exponent) {
    uint32_t bits = (uint32_t)exponent << 23, least = 0x00400000u;
    return 0.5f * float_from_bits(bits > least ? bits : least);
}

/* The 8-bit floats of nvfp4_t, halved because the levels are doubled: as E4M3 has them, 4 bits of
 * the exponent and 3 of the mantissa, and the upper bit is a fifth one of the exponent. All are
 * finite. */
static inline float superblock_small_float(uint8_t code) {
    return float_from_bits((uint32_t)code << 20) * 0x1p119f;
}

/* Larger float32 scales than this are refused: no weight may be infinite. */
#define SUPERBLOCK_LARGEST_SCALE 0x1p96f

/* ---- Writing; tensor.h reads ---- */

/* The contents of 16 rows, as quantizers and importers make them. Row r begins at r * padded cols
 * in `codes` and at r * groups in every other array, even where a type has only one number for
 * each superblock. */
typedef struct SuperblockCodes {
    uint8_t *codes;   /* as stored: 0 ... 2^bits - 1; with a codebook EIGHT_POINT and so on */
    uint16_t *scales; /* f16: one for each superblock; SCALES_HALVES: for each group (the first of
                         those that share one counts); mxfp4: unused. Of float32 scales: the lower
                         halves of their bits */
    uint16_t *minima; /* f16: one for each superblock, SCALES_HALVES: for each group; types with
                         minima only. Of float32 scales: the upper halves of their bits */
    uint8_t *sub_scales; /* one for each group; int8 for q6_k, q3_k and iq4_xs (-32 ... 31) and
                            others; odd parts: n of 2 n + 1 (iq4_ks, iq5_ks: -64 ... 63); mxfp4's
                            exponents; 8-bit floats; else unused */
    uint8_t *sub_minima; /* one for each group; types with minima and parts only. Types with raised
                            levels: 1 where they are raised, else 0 */
} SuperblockCodes;

/* Makes a panel of 16 rows, as panel_pack_codes does for the other types. Rows past the matrix's
 * end must be zeros throughout. */
void superblocks_pack(TensorType type, size_t cols, const SuperblockCodes *rows, uint8_t *panel);

/* The first row of the panel that has a scale or minimum which is not finite, or an exponent that
 * makes weights infinite; PANEL_ROWS when there is none. */
size_t superblocks_bad_row(TensorType type, size_t cols, const uint8_t *panel);

#endif
