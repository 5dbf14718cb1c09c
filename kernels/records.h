/* Panels of the types with scales inside scales, and of 4-bit codes that are numbers of a table.
 *
 * Such a panel is a run of records, each of 256 inputs of its 16 rows (the last one of fewer,
 * filled up to a whole group): the record's scales first, then the lines of one group after
 * another, so that a panel is read from its first byte to its last.
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
 *
 * Nibbles lie as in q4: input i of row r in byte 4r + i % 4 of line i / 8, low for i % 8 < 4.
 * In a line of upper bits byte 4r + i % 4 has, for i / 4 = 0, 1, ..., a bit (or a pair of bits)
 * each, from the lowest. The value of a code q is
 *
 *     q4_k, q5_k   (scale * sub_scale) * q - minimum * sub_minimum
 *     q6_k         (scale * sub_scale) * (q - 32)
 *     q4_nl        scale * table_q4_nl[q]
 *     mxfp4        2^(exponent - 128) * table_mxfp4[q]
 *
 * where all products are exact in float32. GGUF's Q4_K, Q5_K, Q6_K, IQ4_NL and MXFP4 hold the
 * same numbers in another order. */
#ifndef RECORDS_H
#define RECORDS_H

#include "base/numbers.h"
#include "kernels/tensor.h"

enum { RECORD_INPUTS = 256 };

/* IQ4_NL's sixteen levels, and MXFP4's doubled, so that they are whole. */
extern const int8_t table_q4_nl[16], table_mxfp4[16];

static inline bool is_record_type(TensorType type) {
    return type >= TENSOR_Q4_K && type <= TENSOR_MXFP4;
}

/* Questions that kernels ask with the type known to the compiler. */
#define RECORD_INLINE static inline __attribute__((always_inline))

/* Types with a scale and a minimum; and those whose codes are numbers of a table. */
RECORD_INLINE bool record_has_minima(TensorType type) {
    return type == TENSOR_Q4_K || type == TENSOR_Q5_K;
}

RECORD_INLINE bool record_has_table(TensorType type) {
    return type == TENSOR_Q4_NL || type == TENSOR_MXFP4;
}

RECORD_INLINE const int8_t *record_table(TensorType type) {
    return type == TENSOR_MXFP4 ? table_mxfp4 : table_q4_nl;
}

/* Inputs that share a scale. */
static inline size_t record_group(TensorType type) {
    return type == TENSOR_Q6_K ? 16 : 32;
}

static inline size_t record_header_bytes(TensorType type) {
    return type == TENSOR_Q4_NL ? 256 : type == TENSOR_MXFP4 ? 128 : 320;
}

/* Lines of a group. */
static inline size_t record_group_bytes(TensorType type) {
    return type == TENSOR_Q5_K ? 320 : type == TENSOR_Q6_K ? 192 : 256;
}

static inline size_t record_bytes(TensorType type) {
    return record_header_bytes(type) +
           RECORD_INPUTS / record_group(type) * record_group_bytes(type);
}

/* The record of group g in a panel, and the group's lines. */
static inline const uint8_t *record_of(TensorType type, const uint8_t *panel, size_t g) {
    return panel + g / (RECORD_INPUTS / record_group(type)) * record_bytes(type);
}

static inline const uint8_t *record_lines(TensorType type, const uint8_t *panel, size_t g) {
    return record_of(type, panel, g) + record_header_bytes(type) +
           g % (RECORD_INPUTS / record_group(type)) * record_group_bytes(type);
}

/* Bytes of a panel of so many groups. */
size_t records_bytes(TensorType type, size_t groups);

/* 2^(exponent - 128); 255, which the standard has for NaN, is infinite here. */
static inline float mxfp4_scale(uint8_t exponent) {
    uint32_t bits = (uint32_t)exponent << 23, least = 0x00400000u;
    return 0.5f * float_from_bits(bits > least ? bits : least);
}

/* The integer that the scale of group g of row r multiplies, for input k; the scale; and what is
 * subtracted, 0 for the types without. */
int record_code(TensorType type, const uint8_t *panel, size_t k, size_t r);
float record_scale(TensorType type, const uint8_t *panel, size_t g, size_t r);
float record_minimum(TensorType type, const uint8_t *panel, size_t g, size_t r);

/* What 16 rows consist of, as quantizers and importers make it: row r has its elements from
 * r * padded cols (codes) and r * groups (all others) on, whether it uses all of them or not. */
typedef struct RecordCodes {
    uint8_t *codes;      /* as stored: 0..15, 0..31 for q5_k, 0..63 for q6_k */
    uint16_t *scales;    /* f16: one a record, of q4_nl one a group; none for mxfp4 */
    uint16_t *minima;    /* f16: one a record, q4_k and q5_k alone */
    uint8_t *sub_scales; /* one a group: q4_k, q5_k; int8 for q6_k; the exponents of mxfp4 */
    uint8_t *sub_minima; /* one a group: q4_k, q5_k */
} RecordCodes;

/* Makes a panel of them, as panel_pack_codes does for the other types. Rows past the matrix's
 * end must be zeros throughout. */
void panel_pack_records(TensorType type, size_t cols, const RecordCodes *rows, uint8_t *panel);

/* The first row of the panel that has a scale or minimum which is not finite, or an exponent that
 * makes weights infinite; PANEL_ROWS: none. */
size_t records_bad_row(TensorType type, size_t cols, const uint8_t *panel);

#endif
