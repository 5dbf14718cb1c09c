/* BitNet's packed matrices in safetensors: bytes of 4 codes of 2 bits beside one scale. */
#ifndef FORMATS_STORED_TERNARY_JOIN_H
#define FORMATS_STORED_TERNARY_JOIN_H

#include "formats/family/rules.h"

/* Turns each matrix NAME of bytes that has a NAME_scale of one number into one of 4 times the rows.
 * The byte in row r holds rows r, r + n, r + 2n, r + 3n of n rows of bytes, lowest bits first; a
 * code less 1 times the scale is the weight. `divides`: the weight is the code less 1 divided by
 * the scale. The table must be sorted. */
Status ternary_join(const Source *source, RawTable *table, bool divides, Error *error);

#endif
