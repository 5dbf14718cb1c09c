/* MXFP4 in Hugging Face's checkpoints of GPT-OSS: instead of a tensor NAME, [...][inputs], there
 * are NAME_blocks, [...][blocks][16] bytes of two codes each, and NAME_scales, [...][blocks] powers
 * of two. (transformers, integrations/mxfp4.py.) source.c reads such a pair as GGUF's blocks. */
#ifndef FORMATS_STORED_MXFP4_JOIN_H
#define FORMATS_STORED_MXFP4_JOIN_H

#include "formats/family/rules.h"

/* Adds an entry NAME of type STORED_MXFP4, outputs x inputs, for each pair of NAME_blocks and
 * NAME_scales. The table must be sorted and stays so. Fails where blocks have no scales or their
 * shapes do not agree. */
Status mxfp4_join(RawTable *table, Error *error);

#endif
