/* Reads rows of a source's tensor as float32, whatever its format.
 *
 * A SourceReading says once for a tensor who reads its rows as they are stored, and what is then
 * done with them, step by step: scales of blocks, the order of columns, changed values, sums of
 * adapters. */
#ifndef FORMATS_CONTAINERS_SOURCE_FLOATS_H
#define FORMATS_CONTAINERS_SOURCE_FLOATS_H

#include "formats/containers/source.h"

/* Reads or changes rows [first, first + n): out[n][cols]. */
typedef Status SourceStep(const Source *source, const SourceTensor *tensor, size_t first, size_t n,
                          float *out, Error *error);

enum { SOURCE_MOST_STEPS = 6 };

typedef struct SourceReading {
    SourceStep *origin;                       /* reads the rows as they are stored */
    SourceStep *steps[SOURCE_MOST_STEPS + 1]; /* changes them, in this order; a NULL ends them */
} SourceReading;

SourceReading source_reading(const SourceTensor *tensor);

/* Reads rows [first, first + n) by the tensor's reading: out[n][cols]. */
Status source_reading_floats(const SourceReading *reading, const Source *source,
                             const SourceTensor *tensor, size_t first, size_t n, float *out,
                             Error *error);

/* The same, for callers that read a tensor once. */
Status source_read_floats(const Source *source, const SourceTensor *tensor, size_t first, size_t n,
                          float *out, Error *error);

/* Reads the one scale of a tensor whose BlockScales give all its weights the same. */
Status source_read_scale(const Source *source, const SourceTensor *tensor, float *scale,
                         Error *error);

#endif
