/* What the tensors of a model file add up to, by type. */
#ifndef TENSOR_TOTALS_H
#define TENSOR_TOTALS_H

#include "core/modelfile.h"

typedef struct TensorTotals {
    size_t tensors[TENSOR_TYPES];
    double parameters[TENSOR_TYPES], bytes[TENSOR_TYPES];
    double all;                   /* parameters of all types */
    TensorType met[TENSOR_TYPES]; /* [n_met] the types that occur, by the offset of their first */
    size_t n_met;
} TensorTotals;

/* Tensors that share their bytes, as tied embeddings do, count once; frequencies of positions are
 * no parameters. False: no memory. */
bool tensor_totals(const ModelFile *file, TensorTotals *totals);

#endif
