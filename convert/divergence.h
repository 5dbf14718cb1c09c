/* How far a model is from the source it was made of: the mean over a text's positions of the
 * Kullback-Leibler divergence from the source's distribution of the next token,
 * sum of p_source (log p_source - log p). The same bits on any number of threads. */
#ifndef DIVERGENCE_H
#define DIVERGENCE_H

#include "convert/text_windows.h"

/* The source's distributions for the text. */
typedef struct DivergenceReference {
    const TextWindows *windows; /* borrowed */
    size_t n_rows, vocab_size;
    float *logits;   /* [n_rows][vocab_size] */
    double *results; /* [n_rows], of the latest measurement */
} DivergenceReference;

/* Runs the source over the text's first positions: at most 16,384, and as many as have 2^28 logits.
 * Free with divergence_free, also after a failure. Takes `n_threads` and `cancel` of the options.
 */
Status divergence_reference(DivergenceReference *reference, const ModelFile *source,
                            const TextWindows *windows, const ConvertOptions *options,
                            Error *error);
void divergence_free(DivergenceReference *reference);

/* Measures a model of the same vocabulary. */
Status divergence_measure(DivergenceReference *reference, const ModelFile *file,
                          const ConvertOptions *options, double *mean, Error *error);

#endif
