/* Where the rows of a source's tensor lie: whether they are inside the file at all, and which
 * stored row is row r where a tensor is a part of a fused matrix or its heads lie in another
 * order (RowMap, HeadTiles). */
#ifndef FORMATS_CONTAINERS_SOURCE_PLACE_H
#define FORMATS_CONTAINERS_SOURCE_PLACE_H

#include "formats/containers/source.h"

/* Weights of one block of MXFP4 or Q4_0 whose scales are stored separately. */
enum { SOURCE_BLOCK = 32 };

/* Refuses a tensor that does not lie inside its file, or whose rows do not exist in the stored
 * tensor. source_parse calls it for every tensor. */
Status source_check_tensor(const Source *source, const SourceTensor *tensor, Error *error);

/* The row of the stored tensor that holds row `row`; not for tensors stored transposed. */
size_t source_stored_row(const SourceTensor *tensor, size_t row);

/* How many of the n rows from row r on lie one after another in the file; *stored_row is the
 * stored row of the first. */
size_t source_place_rows(const SourceTensor *tensor, size_t r, size_t n, size_t *stored_row);

/* The stored place of element i; *run becomes the number of elements from there on that are read
 * one after another, if it is larger. */
size_t source_place_tiled(const HeadTiles *tiles, size_t i, size_t *run);

/* The bytes that `rows` rows of the stored tensor take in its file: *data of blocks (or of codes
 * alone) at tensor->offset, and *scales that stand elsewhere. False: too many to count. */
bool source_place_bytes(const SourceTensor *tensor, size_t rows, size_t cols, size_t *data,
                        size_t *scales);

/* Whether the scales of all blocks (BlockScales) lie inside their file. */
bool source_place_has_scales(const Source *source, const SourceTensor *tensor);

#endif
