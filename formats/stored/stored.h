/* Reads stored weights: as float32, or as the codes and scales that a panel takes over. */
#ifndef FORMATS_STORED_STORED_H
#define FORMATS_STORED_STORED_H

#include "formats/stored/stored_type.h"
#include "kernels/superblocks.h"

/* Converts n elements (whole blocks) to float32. Not for LLAMA2C_Q8 and RANDOM. */
void stored_to_floats(StoredType type, const void *stored, size_t n, float *out);

/* Takes n elements (whole blocks of a type with same_blocks) apart into the codes, scales and
 * minima that panel_pack_codes takes: codes[n], scales[n / 32], minima[n / 32] or NULL. */
void stored_to_codes(StoredType type, const void *stored, size_t n, uint8_t *codes,
                     uint16_t *scales, uint16_t *minima);

/* Like the function above, for panels of a type of superblocks.h, which is the `lossless` or the
 * `wide` type. `row` points at the row's elements; a scale (and minimum) belongs to a superblock or
 * to a group, as the panel's type has it. */
void stored_to_superblocks(StoredType type, TensorType panel, const void *stored, size_t n,
                           const SuperblockCodes *row);

#endif
