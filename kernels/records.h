/* Panels of the types with scales inside scales, and of 4-bit codes that are numbers of a table.
 *
 * Such a panel is a run of records. A record holds 256 inputs of each of the panel's 16 rows (the
 * last record has fewer, padded to a whole group): first its header with the scales, then the lines
 * of one group after another, so that a kernel reads a panel from its first byte to its last.
 *
 *     type    header of a record                            lines of a group
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
 *
 * Nibbles lie as in q4: input i of row r in byte 4r + i % 4 of line i / 8, low for i % 8 < 4.
 * In a line of upper bits, byte 4r + i % 4 has a bit (or a pair of bits) for each of i / 4 = 0, 1,
 * ..., from the lowest on. The value of a code q is
 *
 *     q4_k, q5_k   (scale * sub_scale) * q - minimum * sub_minimum
 *     q6_k         (scale * sub_scale) * (q - 32)
 *     q4_nl        scale * records_table_q4_nl[q]
 *     mxfp4        2^(exponent - 128) * records_table_mxfp4[q]
 *     nvfp4        scale * records_table_mxfp4[q]
 *
 * and all products of scales are exact in float32. GGUF's Q4_K, Q5_K, Q6_K, IQ4_NL and MXFP4 hold
 * the same numbers in another order. */
#ifndef RECORDS_H
#define RECORDS_H

#include "base/numbers.h"
#include "kernels/weight_types.h"

enum { RECORD_INPUTS = 256 };

/* IQ4_NL's sixteen levels, and those of MXFP4 and NVFP4, doubled to be whole numbers. */
extern const int8_t records_table_q4_nl[16], records_table_mxfp4[16];

TYPE_INLINE const int8_t *record_table(TensorType type) {
    return type == TENSOR_Q4_NL ? records_table_q4_nl : records_table_mxfp4;
}

static inline bool is_record_type(TensorType type) {
    return weight_types[type].family == FAMILY_RECORDS;
}

/* ---- Layout of a record ---- */

TYPE_INLINE RecordScales record_scales(TensorType type) {
    return weight_types[type].scales;
}

/* True for types with a float16 scale (and minimum) for the record and a part for each group. */
TYPE_INLINE bool record_has_parts(TensorType type) {
    return record_scales(type) == SCALES_PARTS || record_scales(type) == SCALES_SIGNED_PARTS;
}

/* Groups of a whole record. */
TYPE_INLINE size_t record_groups(TensorType type) {
    return RECORD_INPUTS / type_group(type);
}

/* Offset of the record's float16 minima; its float16 scales are at the beginning. */
enum { RECORD_MINIMA = PANEL_ROWS * sizeof(uint16_t), RECORD_PARTS = 2 * RECORD_MINIMA };

/* Offset of the scales of group g: 16 sub-scales, float16 scales or exponents. */
TYPE_INLINE size_t record_scales_at(TensorType type, size_t g) {
    size_t bytes = type_has_minima(type) || record_scales(type) == SCALES_HALVES ? 2 : 1;
    return (record_has_parts(type) ? RECORD_PARTS : 0) + g * bytes * PANEL_ROWS;
}

/* Offset of the sub-minima of group g. */
TYPE_INLINE size_t record_minima_at(TensorType type, size_t g) {
    return record_scales_at(type, g) + PANEL_ROWS;
}

/* Bytes of the header, which the lines follow. */
TYPE_INLINE size_t record_header_bytes(TensorType type) {
    return record_scales_at(type, record_groups(type));
}

/* Bits of a code above its nibble: 1 for q5_k, 2 for q6_k, else 0. */
TYPE_INLINE size_t record_upper_bits(TensorType type) {
    return weight_types[type].bits - 4u;
}

/* Mask of the upper bits in a code's byte. */
TYPE_INLINE char record_upper_mask(TensorType type) {
    return (char)(((1u << record_upper_bits(type)) - 1) << 4);
}

/* Bytes of a group's lines of nibbles, which its line of upper bits follows. */
TYPE_INLINE size_t record_nibble_bytes(TensorType type) {
    return type_group(type) / 8 * LINE_BYTES;
}

/* Bytes of all lines of a group. */
TYPE_INLINE size_t record_group_bytes(TensorType type) {
    return record_nibble_bytes(type) + (record_upper_bits(type) ? LINE_BYTES : 0);
}

TYPE_INLINE size_t record_bytes(TensorType type) {
    return record_header_bytes(type) + record_groups(type) * record_group_bytes(type);
}

/* The record that holds group g of a panel, and the lines of that group. */
static inline const uint8_t *record_of(TensorType type, const uint8_t *panel, size_t g) {
    return panel + g / record_groups(type) * record_bytes(type);
}

static inline const uint8_t *record_lines(TensorType type, const uint8_t *panel, size_t g) {
    return record_of(type, panel, g) + record_header_bytes(type) +
           g % record_groups(type) * record_group_bytes(type);
}

/* 2^(exponent - 128). The exponent 255 gives infinity, where the standard has NaN. */
static inline float mxfp4_scale(uint8_t exponent) {
    uint32_t bits = (uint32_t)exponent << 23, least = 0x00400000u;
    return 0.5f * float_from_bits(bits > least ? bits : least);
}

/* ---- Writing; tensor.h reads ---- */

/* The contents of 16 rows, as quantizers and importers make them. Row r begins at r * padded cols
 * in `codes` and at r * groups in every other array, even where a type has only one number for
 * each record. */
typedef struct RecordCodes {
    uint8_t *codes;      /* as stored: 0..15, 0..31 for q5_k, 0..63 for q6_k */
    uint16_t *scales;    /* f16: one for each record; q4_nl, nvfp4: for each group; mxfp4: unused */
    uint16_t *minima;    /* f16: one for each record; q4_k and q5_k only */
    uint8_t *sub_scales; /* one for each group; int8 for q6_k; mxfp4's exponents; else unused */
    uint8_t *sub_minima; /* one for each group; q4_k and q5_k only */
} RecordCodes;

/* Makes a panel of 16 rows, as panel_pack_codes does for the other types. Rows past the matrix's
 * end must be zeros throughout. */
void records_pack(TensorType type, size_t cols, const RecordCodes *rows, uint8_t *panel);

/* The first row of the panel that has a scale or minimum which is not finite, or an exponent that
 * makes weights infinite; PANEL_ROWS when there is none. */
size_t records_bad_row(TensorType type, size_t cols, const uint8_t *panel);

#endif
