/* The types of weights in the sources: number formats, and blocks of codes with their scales. */
#ifndef FORMATS_STORED_STORED_TYPE_H
#define FORMATS_STORED_STORED_TYPE_H

#include "kernels/tensor.h"

typedef enum StoredType {
    STORED_F32,
    STORED_F16,
    STORED_BF16,
    STORED_Q8_0, /* GGUF, blocks of 32 (to Q5_1): f16 scale, 32 int8 */
    STORED_Q4_0, /* f16 scale, 32 codes of 4 bits around 8 */
    STORED_Q4_1, /* f16 scale, f16 minimum, 32 codes of 4 bits */
    STORED_Q5_0, /* f16 scale, 32 fifth bits, 32 low nibbles, around 16 */
    STORED_Q5_1, /* Q5_0 with an f16 minimum and codes from 0 */
    STORED_Q4_K, /* blocks of 256 with sub-scales: stored_k.c has the layouts */
    STORED_Q5_K,
    STORED_Q6_K,
    STORED_IQ4_NL, /* f16 scale, 32 codes of 4 bits that select uneven levels */
    STORED_MXFP4,  /* power of two, 32 floats of 4 bits */
    STORED_NVFP4,  /* 64 floats of 4 bits, a scale of 8 bits for each 16 */
    STORED_Q3_K,
    STORED_IQ4_XS, /* IQ4_NL's levels, a scale and 6-bit sub-scales */
    STORED_Q2_K,
    STORED_IQ3_S, /* stored_iq.c has the layouts of this and the following types */
    STORED_IQ3_XXS,
    STORED_IQ2_S,
    STORED_IQ2_XS,
    STORED_IQ2_XXS,
    STORED_IQ1_M,
    STORED_IQ1_S,
    STORED_TQ2_0, /* three levels, one scale a block */
    STORED_TQ1_0, /* the same, as digits of base 3 */
    STORED_Q2_0,  /* four levels, -1 to 2, blocks of 64 */
    STORED_Q1_0,  /* plus or minus the scale, blocks of 128 */
    STORED_IQ2_K, /* ik_llama.cpp's: stored_ik.c has the layouts */
    STORED_IQ3_K,
    STORED_IQ4_K,
    STORED_IQ5_K,
    STORED_IQ6_K,
    STORED_IQ2_KS,
    STORED_IQ3_KS,
    STORED_IQ4_KS,
    STORED_IQ4_KSS,
    STORED_IQ5_KS,
    STORED_IQ2_KL,
    STORED_F8_E4M3,    /* floats of 8 bits: 4 of the exponent, 3 of the mantissa, no infinity */
    STORED_F8_E8M0,    /* powers of two: scales */
    STORED_I8,         /* int8, whose scales are elsewhere */
    STORED_LLAMA2C_Q8, /* int8 codes of the whole tensor, then a float32 scale for each group */
    STORED_RANDOM,     /* generated: see random.h */
    STORED_PANELS,     /* of a model.bin, in the type SourceTensor.panels */
    STORED_TYPES
} StoredType;

typedef struct StoredTypeInfo {
    const char *name;
    uint32_t block;       /* elements of one block */
    uint32_t block_bytes; /* bytes of one block, with the scale of its row if that has one */
    TensorType lossless;  /* the runner's type that holds every value unchanged */
    bool same_blocks;     /* `lossless` takes the codes and scales over as they are */
    bool approximate;     /* no type holds every value: `lossless` is only the nearest one */
    uint32_t row_scale;   /* bytes of a scale that a file has once, before the blocks of a row, and
                             that begins each block once it is read; 0: none */
    TensorType wide;      /* holds every value unchanged as well, in more bytes, and is multiplied
                             faster; TENSOR_VECTOR: none */
} StoredTypeInfo;

const StoredTypeInfo *stored_type_info(StoredType type);

/* The bytes of n elements as they are read; false when n is not a whole number of blocks or the
 * size overflows. */
bool stored_bytes(StoredType type, size_t n, size_t *bytes);

/* The bytes of n elements in a file, in rows of `cols`; false also where rows with a scale are not
 * whole. */
bool stored_file_bytes(StoredType type, size_t n, size_t cols, size_t *bytes);

#endif
