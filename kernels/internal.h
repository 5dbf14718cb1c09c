/* What the kernel files share among themselves. */
#ifndef KERNELS_INTERNAL_H
#define KERNELS_INTERNAL_H

#include "kernels.h"

/* reference.c: functions of a Kernels table, all types. */
size_t reference_input_bytes(size_t group, size_t n_rows, size_t n_inputs);
size_t reference_pack_tasks(size_t group, size_t n_rows);
void reference_pack(size_t group, const float *x, size_t n_rows, size_t n_inputs, size_t task,
                    void *input);
void reference_multiply(const Product *product, const void *input, size_t n_rows, size_t begin,
                        size_t end, void *scratch);

#endif
