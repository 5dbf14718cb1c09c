/* What quantization_config in config.json says about the weights of a checkpoint. */
#ifndef FORMATS_STORED_QUANTIZATION_H
#define FORMATS_STORED_QUANTIZATION_H

#include <stdint.h>

#include "base/status.h"
#include "json/json_object.h"

typedef enum QuantizationKind {
    QUANTIZATION_NONE,
    QUANTIZATION_TERNARY, /* BitNet: ternary_join.h */
    QUANTIZATION_MXFP4,   /* GPT-OSS: mxfp4_join.h */
    QUANTIZATION_SCALED,  /* FP8 or 8-bit integers with scales beside them: scale_join.h */
    QUANTIZATION_PACKED   /* compressed-tensors' integers of 4 bits: int4_join.h */
} QuantizationKind;

typedef struct Quantization {
    QuantizationKind kind;
    bool divides; /* TERNARY: the weights are divided by their scales, not multiplied */
    /* SCALED: the block of weights that shares a scale. 0: the config names none, and the shape of
     * the scales says into how many equal blocks a matrix is divided. */
    uint32_t block_rows, block_cols;
} Quantization;

/* Reads `quantization_config` of the whole config.json. A method, a key or a value that this
 * program does not know is refused by name. */
Status quantization_read(const json_t *config, Quantization *out, Error *error);

#endif
