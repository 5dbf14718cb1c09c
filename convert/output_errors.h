/* What another type does to the outputs of each matrix, over a text: both versions are multiplied
 * with the inputs that the matrix has in the source's own passes. The errors include the rounding
 * of activations by types that do so. The bits are the same on any number of threads. */
#ifndef OUTPUT_ERRORS_H
#define OUTPUT_ERRORS_H

#include "convert/text_windows.h"

typedef struct OutputError {
    double error;  /* sum of the squared differences of outputs */
    double square; /* sum of the outputs' squares; 0: no token reached the matrix */
} OutputError;

/* Fills in errors[modelfile_n_tensors(source)]. `variant` has the tensors of `source`, number by
 * number, in other types. Tensors that share their data count as the first of them. Takes
 * `n_threads` and `cancel` of the options; most_rows as in WindowRun. */
Status output_errors_measure(OutputError *errors, const ModelFile *source, const ModelFile *variant,
                             const TextWindows *windows, size_t most_rows,
                             const ConvertOptions *options, Error *error);

/* The error of a tensor's weights, for matrices that are looked up instead of multiplied:
 * embeddings. */
Status output_errors_of_weights(OutputError *result, const ModelFile *source,
                                const ModelFile *variant, size_t tensor, Error *error);

#endif
