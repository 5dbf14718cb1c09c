/* Reads rows of a source's tensor as blocks of its stored type, for panels that take the blocks
 * over and for source_floats.h, which widens them. What a file stores apart is joined here: scales
 * beside the codes (SeparateScales), a scale for each row, rows of ternary weights that share
 * bytes. */
#ifndef FORMATS_CONTAINERS_SOURCE_BLOCKS_H
#define FORMATS_CONTAINERS_SOURCE_BLOCKS_H

#include "formats/containers/source.h"

/* Whether source_read_blocks can read the tensor: its rows, and heads that its columns are read in
 * another order of, consist of whole blocks. */
bool source_has_blocks(const SourceTensor *tensor);

/* Reads rows as they are stored: out[n] of stored_bytes(cols) each. Only for tensors whose blocks
 * are taken over unchanged: source_has_blocks. */
Status source_read_blocks(const Source *source, const SourceTensor *tensor, size_t first, size_t n,
                          void *out, Error *error);

/* As source_read_blocks, with the columns in the order in which they are stored. */
Status source_blocks_as_stored(const Source *source, const SourceTensor *tensor, size_t first,
                               size_t n, void *out, Error *error);

/* Brings the columns of n rows, which have been read as they are stored, into the tensor's order.
 * A block of `block` columns is block_bytes long. */
Status source_blocks_order_columns(const SourceTensor *tensor, size_t block, size_t block_bytes,
                                   size_t n, void *rows, Error *error);

#endif
