/* GGUF's types of 1 to 3 bits: codebooks of points (IQ), and the ternary ones (TQ). Called by
 * stored.c. */
#ifndef FORMATS_STORED_IQ_H
#define FORMATS_STORED_IQ_H

#include "formats/stored_type.h"
#include "kernels/records.h"

/* Takes a block of TQ1_0 or TQ2_0 apart for panel_pack_codes: codes[256], scales[8]. */
void stored_ternary_to_codes(StoredType type, const uint8_t *block, uint8_t *codes,
                             uint16_t *scales);

/* Takes a block of IQ3_S or IQ3_XXS apart for panel_pack_records; `to` points at its elements. */
void stored_iq3_block_to_records(StoredType type, const uint8_t *block, const RecordCodes *to);

/* Converts n elements (whole blocks) to float32. */
void stored_iq_to_floats(StoredType type, const uint8_t *stored, size_t n, float *out);

#endif
