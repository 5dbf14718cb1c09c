/* Weights of 4 bits in safetensors as compressed-tensors packs them ("pack-quantized"): instead of
 * a matrix NAME, outputs x inputs, there are NAME_packed, [outputs][inputs / 8] words of 32 bits
 * whose lowest nibble comes first, and NAME_scale, [outputs][groups]. A weight is the scale times
 * its code less 8. source.c reads such a pair as GGUF's Q4_0. */
#ifndef FORMATS_STORED_INT4_JOIN_H
#define FORMATS_STORED_INT4_JOIN_H

#include "formats/family/rules.h"

/* Adds an entry NAME of type STORED_Q4_0 for each pair of NAME_packed and NAME_scale. The table
 * must be sorted and stays so. Fails where codes have no scales, or scales that 16 bits do not
 * hold, groups of other than whole 32 inputs, zero points or an order of their own. */
Status int4_join(RawTable *table, Error *error);

#endif
