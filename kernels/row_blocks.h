/* Rows of activations are cut into blocks of nearly equal size, at most max_rows each. */
#ifndef KERNELS_ROW_BLOCKS_H
#define KERNELS_ROW_BLOCKS_H

#include <stddef.h>

static inline size_t block_count(size_t n_rows, size_t max_rows) {
    return (n_rows + max_rows - 1) / max_rows;
}

/* First row of block b; b == blocks gives n_rows. */
static inline size_t block_start(size_t n_rows, size_t blocks, size_t b) {
    return b * n_rows / blocks;
}

#endif
