/* Four functions of a Kernels table for a set of block kernels: input_bytes, pack_tasks, pack and
 * multiply. A kernel file includes this header once, after it has defined
 *
 *     BLOCK_ROWS        rows of a packed block at most
 *     block_kernels     [TENSOR_TYPES], its block kernels for FAMILY_CODES
 *     SUPERBLOCK_KERNELS    the name of the same table for FAMILY_SUPERBLOCKS
 *     FLOAT_KERNELS     the name of its FloatKernels */
#ifndef KERNELS_BLOCK_TABLE_H
#define KERNELS_BLOCK_TABLE_H

#include "kernels/block_kernels.h"

static size_t input_bytes(size_t form, size_t n_rows, size_t n_inputs) {
    return form_is_codes(form) ? blocks_bytes(form, n_rows, n_inputs)
                               : FLOAT_KERNELS.input_bytes(form, n_rows, n_inputs);
}

static size_t pack_tasks(size_t form, size_t n_rows) {
    return form_is_codes(form) ? n_rows : FLOAT_KERNELS.pack_tasks(form, n_rows);
}

static void pack(size_t form, const float *x, size_t n_rows, size_t n_inputs, size_t task,
                 void *input) {
    if (form_is_codes(form)) {
        pack_activation_row(form, x, n_rows, n_inputs, task, BLOCK_ROWS, input);
    } else {
        FLOAT_KERNELS.pack(form, x, n_rows, n_inputs, task, input);
    }
}

static void multiply(const Product *product, const void *input, size_t n_rows, size_t begin,
                     size_t end, void *scratch) {
    TensorType type = product->w->type;
    bool superblocks = weight_types[type].family == FAMILY_SUPERBLOCKS;
    const BlockKernels *kernels = superblocks ? &SUPERBLOCK_KERNELS[type] : &block_kernels[type];
    if (kernels->many_rows && n_rows >= kernels->many_rows) {
        kernels->many(product, input, n_rows, begin, end, scratch);
    } else if (kernels->block) {
        multiply_blocks(kernels, product, input, n_rows, begin, end);
    } else {
        FLOAT_KERNELS.multiply(product, input, n_rows, begin, end, scratch);
    }
}

#endif
