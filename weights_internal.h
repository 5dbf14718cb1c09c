/* Looking up tensors by name: for weights.c and for the kinds of layers in layers/. */
#ifndef WEIGHTS_INTERNAL_H
#define WEIGHTS_INTERNAL_H

#include "weights.h"

/* A run of look-ups. After the first failure the rest do nothing. */
typedef struct Finder {
    const ModelFile *file;
    const Config *config;
    Error *error;
    Status status;
    char prefix[48]; /* of the tensors' names: "", "layers.3.", "layers.3.experts.5." */
} Finder;

/* Each finds the tensor PREFIX + name and checks its shape and whether it is a vector or a matrix.
 * A missing tensor is a failure if it is required; otherwise the result is NULL, or has no data. */
const float *weights_vector(Finder *f, const char *name, size_t rows, size_t cols, bool required);
Matrix weights_matrix(Finder *f, const char *name, size_t rows, size_t cols, bool required);
/* A matrix with its optional bias, the vector "NAME.bias". */
Linear weights_linear(Finder *f, const char *name, size_t rows, size_t cols, bool required);
/* The vectors NAME and "NAME.bias", both optional. `applied`: the norm is applied even when the
 * file holds no weights for it. */
Norm weights_norm(Finder *f, const char *name, size_t n, bool applied);

#endif
