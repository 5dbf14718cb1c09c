/* MXFP4 as Hugging Face's checkpoints of GPT-OSS store it: NAME_blocks, [...][blocks][16] bytes of
 * two codes each, and NAME_scales, [...][blocks] powers of two, in the place of NAME,
 * [...][inputs]. In memory its blocks become GGUF's. (transformers, integrations/mxfp4.py.) */
#ifndef FORMATS_MXFP4_APART_H
#define FORMATS_MXFP4_APART_H

#include "formats/rules.h"
#include "formats/source.h"

/* Adds an entry NAME of type STORED_MXFP4 for each such pair, outputs x inputs. The table must be
 * sorted, and is so again. Fails where blocks have no scales or their shapes do not agree. */
Status mxfp4_join(RawTable *table, Error *error);

/* Blocks of 16 bytes, in which element i is a half of byte i / 2, with their scales: out[n] of 17
 * bytes, in which it is a half of byte i % 16. `codes` may be the last n * 16 bytes of `out`. */
void mxfp4_blocks(const uint8_t *codes, const uint8_t *scales, size_t n, uint8_t *out);

#endif
