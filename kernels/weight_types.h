/* The types of weights: one entry of weight_types each, which everything else asks.
 * docs/adding-a-type.md says how to add one.
 *
 * Kernels are compiled once for each type: where a type is a constant the compiler replaces the
 * functions below by numbers. */
#ifndef WEIGHT_TYPES_H
#define WEIGHT_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum { PANEL_ROWS = 16, LINE_BYTES = 64 };

/* The numbers are part of the file format: never change one, append only. */
typedef enum TensorType {
    TENSOR_VECTOR = 0, /* float32 in plain order: norms, biases, tables */
    TENSOR_F32 = 1,
    TENSOR_F16 = 2,
    TENSOR_BF16 = 3,
    TENSOR_Q8 = 4,     /* int8 codes, a scale for each 32 inputs of a row */
    TENSOR_Q8_64 = 5,  /* the same, for each 64 inputs */
    TENSOR_Q4 = 6,     /* 4-bit codes, a scale for each 32 inputs */
    TENSOR_Q4_MIN = 7, /* 4-bit codes, a scale and a minimum for each 32 inputs */
    TENSOR_Q8_MIN = 8, /* uint8 codes, a scale and a minimum for each 32 inputs */
    TENSOR_Q4_K = 9,   /* 4-bit codes; for each 32 inputs 6-bit parts of f16 scale and minimum */
    TENSOR_Q5_K = 10,  /* the same with 5-bit codes */
    TENSOR_Q6_K = 11,  /* 6-bit codes; for each 16 inputs an int8 part of an f16 scale */
    TENSOR_Q4_NL = 12, /* 16 uneven levels, an f16 scale for each 32 inputs */
    TENSOR_MXFP4 = 13, /* 4-bit floats, a power of two for each 32 inputs */
    TENSOR_NVFP4 = 14, /* 4-bit floats, an f16 scale for each 16 inputs */
    TENSOR_Q2_K = 15,  /* 2-bit codes; for each 16 inputs 4-bit parts of f16 scale and minimum */
    TENSOR_Q3_K = 16,  /* 3-bit codes; for each 16 inputs a 6-bit part of an f16 scale */
    TENSOR_IQ2 = 17,   /* 3-bit codes of 6 levels; for each 16 inputs an odd part of an f16 scale */
    TENSOR_IQ1 = 18,   /* the same, with other levels */
    TENSOR_IQ3_XXS = 19, /* 16 levels; for each 32 inputs an odd part of an f16 scale */
    TENSOR_IQ3_S = 20,   /* the same, with other levels */
    TENSOR_IQ4_XS = 21,  /* q4_nl's levels; for each 32 inputs a 6-bit part of an f16 scale */
    TENSOR_Q2_0 = 22,    /* the levels -1, 0, 1, 2; an f16 scale for each 64 inputs */
    TENSOR_TQ2_0 = 23,   /* the same, for each 256 */
    TENSOR_Q1_0 = 24,    /* the levels -1 and 1; an f16 scale for each 128 inputs */
    TENSOR_NVFP4_T = 25, /* nvfp4 with a float32 factor; for each 16 inputs an 8-bit float */
    TENSOR_IQ2_K = 26,   /* 4 levels, raised or not, and a 6-bit part for each 16 inputs */
    TENSOR_IQ2_KS = 27,  /* the same for each 32 inputs */
    TENSOR_IQ3_K = 28,   /* 8 levels, raised or not, and a 6-bit part for each 16 inputs */
    TENSOR_IQ3_KS = 29,  /* the same for each 32 inputs */
    TENSOR_IQ4_K = 30,   /* q4_nl's levels, raised or not, and a 6-bit part for each 16 inputs */
    TENSOR_IQ4_KS = 31,  /* the same, with an odd part of a float32 for each 32 inputs */
    TENSOR_IQ5_K = 32,   /* 32 levels, raised or not, and a 6-bit part for each 16 inputs */
    TENSOR_IQ5_KS = 33,  /* the same, with an odd part of a float32 for each 32 inputs */
    TENSOR_IQ6_K = 34,   /* 64 levels, raised or not, and an int8 part for each 16 inputs */
    TENSOR_Q5_0 = 35,    /* 5-bit codes around zero, an f16 scale for each 32 inputs */
    TENSOR_Q5_1 = 36,    /* 5-bit codes, an f16 scale and minimum for each 32 inputs */
    /* bf16 without numbers below 2^-40; activations are rounded to bf16 as well */
    TENSOR_BF16_ACT = 37,
    /* Numbers of points in a codebook (codebooks.h), an odd part of an f16 scale for each 16 inputs
     */
    TENSOR_IQ2_XXS = 38,
    TENSOR_IQ2_XS = 39,
    TENSOR_IQ2_S = 40,
    TENSOR_IQ3_XXS_G = 41, /* for each 32 inputs */
    TENSOR_IQ3_S_G = 42,   /* for each 32 inputs */
    TENSOR_IQ1_S = 43,
    TENSOR_IQ1_M = 44,
    TENSOR_TYPES
} TensorType;

/* Types whose panels have the same layout, and which share the functions that read and write it. */
typedef enum PanelFamily {
    FAMILY_NONE,        /* a vector: no panels */
    FAMILY_FLOATS,      /* tensor.h: lines of weights */
    FAMILY_CODES,       /* tensor.h: lines of codes, then scales, then minima */
    FAMILY_SUPERBLOCKS, /* superblocks.h: scales inside scales, and codes that are numbers of a
                           table */
    PANEL_FAMILIES
} PanelFamily;

/* The types of the two quantized families, for tables of kernels. */
#define EACH_CODE_TYPE(X) X(Q8) X(Q8_64) X(Q4) X(Q4_MIN) X(Q8_MIN)
#define EACH_SUPERBLOCK_TYPE(X)                                                                    \
    X(Q4_K)                                                                                        \
    X(Q5_K)                                                                                        \
    X(Q6_K)                                                                                        \
    X(Q4_NL)                                                                                       \
    X(MXFP4)                                                                                       \
    X(NVFP4)                                                                                       \
    X(Q2_K)                                                                                        \
    X(Q3_K)                                                                                        \
    X(IQ2)                                                                                         \
    X(IQ1)                                                                                         \
    X(IQ3_XXS)                                                                                     \
    X(IQ3_S)                                                                                       \
    X(IQ4_XS)                                                                                      \
    X(Q2_0)                                                                                        \
    X(TQ2_0)                                                                                       \
    X(Q1_0)                                                                                        \
    X(NVFP4_T)                                                                                     \
    X(IQ2_K)                                                                                       \
    X(IQ2_KS)                                                                                      \
    X(IQ3_K)                                                                                       \
    X(IQ3_KS)                                                                                      \
    X(IQ4_K)                                                                                       \
    X(IQ4_KS)                                                                                      \
    X(IQ5_K)                                                                                       \
    X(IQ5_KS)                                                                                      \
    X(IQ6_K)                                                                                       \
    X(Q5_0)                                                                                        \
    X(Q5_1)                                                                                        \
    X(IQ2_XXS)                                                                                     \
    X(IQ2_XS)                                                                                      \
    X(IQ2_S)                                                                                       \
    X(IQ3_XXS_G)                                                                                   \
    X(IQ3_S_G)                                                                                     \
    X(IQ1_S)                                                                                       \
    X(IQ1_M)

/* How a superblock stores the scales of its groups. */
typedef enum SuperblockScales {
    SCALES_PARTS,        /* a float16 for the superblock, times a uint8 for each group */
    SCALES_SIGNED_PARTS, /* a float16 for the superblock, times an int8 for each group */
    SCALES_NIBBLE_PARTS, /* the same as SCALES_PARTS with a nibble each for scale and minimum */
    SCALES_6_BIT_PARTS,  /* a float16 for the superblock, times 6 bits less 32 for each group */
    SCALES_ODD_PARTS,    /* a float16 for the superblock, times 2 n + 1 for each group's nibble n */
    SCALES_OF_CODEBOOKS, /* the same, of up to 4 bits that lie as codebooks.h says */
    SCALES_FLOAT_PARTS,  /* a float32 for the superblock, times an 8-bit float for each group */
    SCALES_WIDE_PARTS,   /* a float32 for the superblock, times an odd int8 for each group */
    SCALES_HALVES,       /* a float16 for each group (and one for its minimum), or for each few
                            groups */
    SCALES_POWERS        /* an exponent of 2 for each group */
} SuperblockScales;

/* The codebook whose points a type's codes are (codebooks.h). */
typedef enum Codebook {
    CODEBOOK_NONE,
    CODEBOOK_IQ2_XXS,
    CODEBOOK_IQ2_XS,
    CODEBOOK_IQ2_S,
    CODEBOOK_IQ1,
    CODEBOOK_IQ3_XXS,
    CODEBOOK_IQ3_S,
    CODEBOOKS
} Codebook;

typedef struct TensorTypeInfo {
    const char *name; /* "q8" */
    PanelFamily family;
    uint32_t
        line_inputs; /* inputs of each row in one 64-byte line; in a superblock, of a line with the
                        lower bits of codes: 8 (4 bits of each), 16 (2 bits) or 32 (1 bit) */
    uint32_t group;  /* inputs that share a scale; 0 for types without scales. The activations
                        have a scale for so many inputs, too */
    bool has_min;    /* a minimum for each group is subtracted from scale * code */
    uint8_t bits;    /* of a code */
    uint8_t zero;    /* the stored code that means 0: codes lie so far above their value */
    bool is_signed;  /* codes are int8 as stored */
    bool has_table;  /* codes are numbers of a table's levels */
    uint8_t largest; /* the largest magnitude of its levels */
    uint8_t raise;   /* how much higher the levels of some groups are, which a bit of each
                        group tells; 0: of none */
    uint8_t halved;  /* scales with odd parts: how often they are halved */
    SuperblockScales scales; /* FAMILY_SUPERBLOCKS only */
    uint8_t shared; /* SCALES_HALVES: how many groups share a float16; 0: each has its own */
    uint8_t superblock_inputs; /* inputs of a superblock; 0: 256 */
    Codebook codebook;         /* codes are points; `bits` and `largest` are those of a level */
    bool bfloat_inputs;        /* activations are rounded to bfloat16, and multiplied in blocks of
                                  BFLOAT_BLOCK inputs */
} TensorTypeInfo;

static const TensorTypeInfo weight_types[TENSOR_TYPES] = {
    [TENSOR_VECTOR] = {"vector", FAMILY_NONE, .line_inputs = 16},
    [TENSOR_F32] = {"f32", FAMILY_FLOATS, .line_inputs = 1},
    [TENSOR_F16] = {"f16", FAMILY_FLOATS, .line_inputs = 2},
    [TENSOR_BF16] = {"bf16", FAMILY_FLOATS, .line_inputs = 2},
    [TENSOR_Q8] = {"q8", FAMILY_CODES, 4, 32, .bits = 8, .is_signed = true},
    [TENSOR_Q8_64] = {"q8_64", FAMILY_CODES, 4, 64, .bits = 8, .is_signed = true},
    [TENSOR_Q4] = {"q4", FAMILY_CODES, 8, 32, .bits = 4, .zero = 8},
    [TENSOR_Q4_MIN] = {"q4_min", FAMILY_CODES, 8, 32, true, .bits = 4},
    [TENSOR_Q8_MIN] = {"q8_min", FAMILY_CODES, 4, 32, true, .bits = 8},
    [TENSOR_Q4_K] = {"q4_k", FAMILY_SUPERBLOCKS, 8, 32, true, .bits = 4, .scales = SCALES_PARTS},
    [TENSOR_Q5_K] = {"q5_k", FAMILY_SUPERBLOCKS, 8, 32, true, .bits = 5, .scales = SCALES_PARTS},
    [TENSOR_Q6_K] = {"q6_k", FAMILY_SUPERBLOCKS, 8, 16, .bits = 6, .zero = 32,
                     .scales = SCALES_SIGNED_PARTS},
    [TENSOR_Q4_NL] = {"q4_nl", FAMILY_SUPERBLOCKS, 8, 32, .bits = 4, .has_table = true,
                      .largest = 127, .scales = SCALES_HALVES},
    [TENSOR_MXFP4] = {"mxfp4", FAMILY_SUPERBLOCKS, 8, 32, .bits = 4, .has_table = true,
                      .largest = 12, .scales = SCALES_POWERS},
    [TENSOR_NVFP4] = {"nvfp4", FAMILY_SUPERBLOCKS, 8, 16, .bits = 4, .has_table = true,
                      .largest = 12, .scales = SCALES_HALVES},
    [TENSOR_Q2_K] = {"q2_k", FAMILY_SUPERBLOCKS, 16, 16, true, .bits = 2,
                     .scales = SCALES_NIBBLE_PARTS},
    [TENSOR_Q3_K] = {"q3_k", FAMILY_SUPERBLOCKS, 16, 16, .bits = 3, .zero = 4,
                     .scales = SCALES_6_BIT_PARTS},
    [TENSOR_IQ2] = {"iq2", FAMILY_SUPERBLOCKS, 16, 16, .bits = 3, .has_table = true, .largest = 43,
                    .halved = 3, .scales = SCALES_ODD_PARTS},
    [TENSOR_IQ1] = {"iq1", FAMILY_SUPERBLOCKS, 16, 16, .bits = 3, .has_table = true, .largest = 9,
                    .halved = 3, .scales = SCALES_ODD_PARTS},
    [TENSOR_IQ3_XXS] = {"iq3_xxs", FAMILY_SUPERBLOCKS, 8, 32, .bits = 4, .has_table = true,
                        .largest = 62, .halved = 2, .scales = SCALES_ODD_PARTS},
    [TENSOR_IQ3_S] = {"iq3_s", FAMILY_SUPERBLOCKS, 8, 32, .bits = 4, .has_table = true,
                      .largest = 15, .scales = SCALES_ODD_PARTS},
    [TENSOR_IQ4_XS] = {"iq4_xs", FAMILY_SUPERBLOCKS, 8, 32, .bits = 4, .has_table = true,
                       .largest = 127, .scales = SCALES_6_BIT_PARTS},
    [TENSOR_Q2_0] = {"q2_0", FAMILY_SUPERBLOCKS, 16, 32, .bits = 2, .zero = 1,
                     .scales = SCALES_HALVES, .shared = 2},
    [TENSOR_TQ2_0] = {"tq2_0", FAMILY_SUPERBLOCKS, 16, 32, .bits = 2, .zero = 1,
                      .scales = SCALES_HALVES, .shared = 8},
    [TENSOR_Q1_0] = {"q1_0", FAMILY_SUPERBLOCKS, 32, 32, .bits = 1, .has_table = true, .largest = 1,
                     .scales = SCALES_HALVES, .shared = 4},
    [TENSOR_NVFP4_T] = {"nvfp4_t", FAMILY_SUPERBLOCKS, 8, 16, .bits = 4, .has_table = true,
                        .largest = 12, .scales = SCALES_FLOAT_PARTS},
    [TENSOR_IQ2_K] = {"iq2_k", FAMILY_SUPERBLOCKS, 16, 16, .bits = 2, .has_table = true,
                      .largest = 31, .raise = 5, .scales = SCALES_6_BIT_PARTS},
    [TENSOR_IQ2_KS] = {"iq2_ks", FAMILY_SUPERBLOCKS, 16, 32, .bits = 2, .has_table = true,
                       .largest = 31, .raise = 5, .scales = SCALES_6_BIT_PARTS},
    [TENSOR_IQ3_K] = {"iq3_k", FAMILY_SUPERBLOCKS, 16, 16, .bits = 3, .has_table = true,
                      .largest = 63, .raise = 4, .scales = SCALES_6_BIT_PARTS},
    [TENSOR_IQ3_KS] = {"iq3_ks", FAMILY_SUPERBLOCKS, 16, 32, .bits = 3, .has_table = true,
                       .largest = 63, .raise = 4, .scales = SCALES_6_BIT_PARTS},
    [TENSOR_IQ4_K] = {"iq4_k", FAMILY_SUPERBLOCKS, 8, 16, .bits = 4, .has_table = true,
                      .largest = 127, .raise = 4, .scales = SCALES_6_BIT_PARTS},
    [TENSOR_IQ4_KS] = {"iq4_ks", FAMILY_SUPERBLOCKS, 8, 32, .bits = 4, .has_table = true,
                       .largest = 127, .raise = 4, .scales = SCALES_WIDE_PARTS},
    [TENSOR_IQ5_K] = {"iq5_k", FAMILY_SUPERBLOCKS, 8, 16, .bits = 5, .has_table = true,
                      .largest = 126, .raise = 2, .scales = SCALES_6_BIT_PARTS},
    [TENSOR_IQ5_KS] = {"iq5_ks", FAMILY_SUPERBLOCKS, 8, 32, .bits = 5, .has_table = true,
                       .largest = 126, .raise = 2, .scales = SCALES_WIDE_PARTS},
    [TENSOR_IQ6_K] = {"iq6_k", FAMILY_SUPERBLOCKS, 8, 16, .bits = 6, .has_table = true,
                      .largest = 127, .raise = 1, .scales = SCALES_SIGNED_PARTS},
    /* Their rows are often no multiple of 256: in smaller superblocks no header has unused places.
     */
    [TENSOR_Q5_0] = {"q5_0", FAMILY_SUPERBLOCKS, 8, 32, .bits = 5, .zero = 16,
                     .scales = SCALES_HALVES, .superblock_inputs = 64},
    [TENSOR_Q5_1] = {"q5_1", FAMILY_SUPERBLOCKS, 8, 32, true, .bits = 5, .scales = SCALES_HALVES,
                     .superblock_inputs = 32},
    [TENSOR_BF16_ACT] = {"bf16_act", FAMILY_FLOATS, .line_inputs = 2, .bfloat_inputs = true},
    [TENSOR_IQ2_XXS] = {"iq2_xxs", FAMILY_SUPERBLOCKS, 8, 16, .bits = 3, .has_table = true,
                        .largest = 43, .halved = 3, .scales = SCALES_OF_CODEBOOKS,
                        .codebook = CODEBOOK_IQ2_XXS},
    [TENSOR_IQ2_XS] = {"iq2_xs", FAMILY_SUPERBLOCKS, 8, 16, .bits = 3, .has_table = true,
                       .largest = 43, .halved = 3, .scales = SCALES_OF_CODEBOOKS,
                       .codebook = CODEBOOK_IQ2_XS},
    [TENSOR_IQ2_S] = {"iq2_s", FAMILY_SUPERBLOCKS, 8, 16, .bits = 3, .has_table = true,
                      .largest = 43, .halved = 3, .scales = SCALES_OF_CODEBOOKS,
                      .codebook = CODEBOOK_IQ2_S},
    [TENSOR_IQ3_XXS_G] = {"iq3_xxs_g", FAMILY_SUPERBLOCKS, 8, 32, .bits = 4, .has_table = true,
                          .largest = 62, .halved = 2, .scales = SCALES_OF_CODEBOOKS,
                          .codebook = CODEBOOK_IQ3_XXS},
    [TENSOR_IQ3_S_G] = {"iq3_s_g", FAMILY_SUPERBLOCKS, 8, 32, .bits = 4, .has_table = true,
                        .largest = 15, .scales = SCALES_OF_CODEBOOKS, .codebook = CODEBOOK_IQ3_S},
    [TENSOR_IQ1_S] = {"iq1_s", FAMILY_SUPERBLOCKS, 8, 16, .bits = 3, .has_table = true,
                      .largest = 9, .halved = 3, .scales = SCALES_OF_CODEBOOKS,
                      .codebook = CODEBOOK_IQ1},
    [TENSOR_IQ1_M] = {"iq1_m", FAMILY_SUPERBLOCKS, 8, 16, .bits = 3, .has_table = true,
                      .largest = 9, .halved = 3, .scales = SCALES_OF_CODEBOOKS,
                      .codebook = CODEBOOK_IQ1},
};

#define TYPE_INLINE static inline __attribute__((always_inline))

TYPE_INLINE size_t type_group(TensorType type) {
    return weight_types[type].group;
}
/* Whether a line holds two bfloat16 inputs of each row, side by side. */
TYPE_INLINE bool type_is_bfloat(TensorType type) {
    return type == TENSOR_BF16 || type == TENSOR_BF16_ACT;
}

/* The form of activations that a type is multiplied by: float32, bfloat16, or 8-bit codes in groups
 * of so many inputs. Types of one form share a packed input (kernels.h). */
enum { FORM_FLOATS = 0, FORM_BFLOATS = 1 };
TYPE_INLINE size_t type_input_form(TensorType type) {
    return weight_types[type].bfloat_inputs ? FORM_BFLOATS : weight_types[type].group;
}
TYPE_INLINE bool form_is_codes(size_t form) {
    return form > FORM_BFLOATS;
}
/* Inputs whose products are summed apart before they are added to an output (docs/numerics.md). */
enum { BFLOAT_BLOCK = 32 };

TYPE_INLINE bool type_has_minima(TensorType type) {
    return weight_types[type].has_min;
}
TYPE_INLINE bool type_has_table(TensorType type) {
    return weight_types[type].has_table;
}
TYPE_INLINE bool type_is_4_bit(TensorType type) {
    return weight_types[type].bits == 4;
}

/* `cols` padded to whole groups and lines. */
static inline size_t tensor_padded_cols(TensorType type, size_t cols) {
    const TensorTypeInfo *info = &weight_types[type];
    return round_up(cols, info->group ? info->group : info->line_inputs);
}

/* Bytes of the lines of a panel of `cols` inputs (not of superblocks), and of the scales after
 * them, or of the minima after those (0 for families without them). */
TYPE_INLINE size_t type_lines_bytes(TensorType type, size_t cols) {
    return tensor_padded_cols(type, cols) / weight_types[type].line_inputs * LINE_BYTES;
}
TYPE_INLINE size_t type_scales_bytes(TensorType type, size_t cols) {
    if (weight_types[type].family != FAMILY_CODES) return 0;
    size_t groups = tensor_padded_cols(type, cols) / type_group(type);
    return round_up(groups * PANEL_ROWS * sizeof(uint16_t), LINE_BYTES);
}

/* A group of a row of a quantized type: weight i is scale * codes[i] - minimum. */
enum { WEIGHT_GROUP_MAX = 64 };
typedef struct WeightGroup {
    float scale, minimum; /* minimum: 0 for types without minima */
    int32_t codes[WEIGHT_GROUP_MAX];
} WeightGroup;

/* How the panels of a family are read; tensor.c has the table of all families. */
typedef struct PanelReader {
    /* Bytes of the lines (for superblocks: of all) of a panel of `cols` inputs. */
    size_t (*lines_bytes)(TensorType type, size_t cols);
    /* Reads group g of row r of a panel; quantized families only. */
    void (*group)(TensorType type, size_t cols, const uint8_t *panel, size_t g, size_t r,
                  WeightGroup *group);
} PanelReader;
extern const PanelReader superblock_reader; /* kernels/superblocks.c */

#endif
