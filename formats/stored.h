/* How weights stand in the sources: number formats, and blocks of codes with their scales. */
#ifndef FORMATS_STORED_H
#define FORMATS_STORED_H

#include "kernels/records.h"

typedef enum StoredType {
    STORED_F32,
    STORED_F16,
    STORED_BF16,
    STORED_Q8_0, /* GGUF: f16 scale, 32 int8 */
    STORED_Q4_0, /* f16 scale, 32 codes of 4 bits around 8 */
    STORED_Q4_1, /* f16 scale, f16 minimum, 32 codes of 4 bits */
    STORED_Q5_0, /* f16 scale, 32 fifth bits, 32 low nibbles, around 16 */
    STORED_Q5_1, /* the same with an f16 minimum, from 0 */
    STORED_Q4_K, /* blocks of 256 with sub-scales: stored_k.c has the layouts */
    STORED_Q5_K,
    STORED_Q6_K,
    STORED_IQ4_NL,  /* f16 scale, 32 codes of 4 bits that are uneven levels */
    STORED_MXFP4,   /* power of two, 32 floats of 4 bits */
    STORED_Q3_K,    /* fits into q6_k */
    STORED_IQ4_XS,  /* into q4_nl but for the rounding of its scales */
    STORED_Q2_K,    /* into no type of ours */
    STORED_IQ3_S,   /* into q4_k but for the rounding of its minima; stored_iq.c has the layouts */
    STORED_IQ3_XXS, /* this and the next: into no type of ours */
    STORED_IQ2_S,
    STORED_IQ2_XS,
    STORED_IQ2_XXS,
    STORED_IQ1_M,
    STORED_IQ1_S,
    STORED_TQ2_0, /* three levels, which q4 has */
    STORED_TQ1_0,
    STORED_LLAMA2C_Q8, /* int8 codes of the whole tensor, then a float32 scale for each group */
    STORED_RANDOM,     /* generated: see random.h */
    STORED_TYPES
} StoredType;

typedef struct StoredTypeInfo {
    const char *name;
    uint32_t block;       /* elements of one block */
    uint32_t block_bytes; /* bytes of one block */
    TensorType lossless;  /* the type that holds every value unchanged */
    bool same_blocks;     /* `lossless` takes its codes and scales over as they are */
    bool approximate;     /* no type does: `lossless` is only the nearest */
} StoredTypeInfo;

const StoredTypeInfo *stored_type_info(StoredType type);

/* Bytes of n elements; false when n is no whole number of blocks or the size overflows. */
bool stored_bytes(StoredType type, size_t n, size_t *bytes);

/* n elements (whole blocks) as float32. Not for LLAMA2C_Q8 and RANDOM. */
void stored_to_floats(StoredType type, const void *stored, size_t n, float *out);

/* n elements (whole blocks of a type with same_blocks) as the codes, scales and minima that
 * panel_pack_codes takes: codes[n], scales[n / 32], minima likewise or NULL. */
void stored_to_codes(StoredType type, const void *stored, size_t n, uint8_t *codes,
                     uint16_t *scales, uint16_t *minima);

/* The same where `lossless` is a type of records.h; `row` points at the row's elements, which are
 * scales[n / 32] (n / 16) and so on. */
void stored_to_records(StoredType type, const void *stored, size_t n, const RecordCodes *row);

/* The parts of stored_to_floats for the types of stored_k.c and stored_iq.c. */
void stored_k_to_floats(StoredType type, const uint8_t *stored, size_t n, float *out);
void stored_iq_to_floats(StoredType type, const uint8_t *stored, size_t n, float *out);

/* The part of stored_to_codes for a block of TQ1_0 or TQ2_0: codes[256], scales[8]. */
void stored_ternary_to_codes(StoredType type, const uint8_t *block, uint8_t *codes,
                             uint16_t *scales);
/* The part of stored_to_records for a block of IQ3_S or IQ3_XXS. */
void stored_iq3_to_records(StoredType type, const uint8_t *block, const RecordCodes *to);

#endif
