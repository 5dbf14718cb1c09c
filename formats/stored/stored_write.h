/* Writes rows of a model.bin's matrices as GGUF stores them: the way back of stored.h. */
#ifndef FORMATS_STORED_STORED_WRITE_H
#define FORMATS_STORED_STORED_WRITE_H

#include "formats/stored/stored_type.h"

/* The GGUF type that a matrix of `type` is written in; STORED_TYPES where there is none: types with
 * codebooks, because a panel keeps only their levels, and q8_min. */
StoredType stored_write_type(TensorType type);

/* Writes row `row` of the matrix as blocks of `type`, the stored_write_type of its type:
 * out[stored_bytes(cols)]; cols must be whole blocks. Reads the blocks back with stored_to_floats
 * and returns false where a value is not that of the matrix: the panel holds what a block cannot.
 * scratch[2 * cols] is working memory. */
bool stored_write_row(StoredType type, const Matrix *matrix, size_t row, float *scratch,
                      uint8_t *out);

#endif
