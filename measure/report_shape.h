/* The standard model of reports: a plain decoder of 308 million parameters in q8, with generated
 * weights, which run as fast as trained ones. Large enough for memory to set the speed of decoding
 * on most machines, small enough for a minute. */
#ifndef MEASURE_REPORT_SHAPE_H
#define MEASURE_REPORT_SHAPE_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct ReportShape {
    uint32_t dim, n_layers, n_heads, n_kv_heads, ffn_dim, vocab_size, context;
} ReportShape;

/* The standard shape, or a small one for `quick`. */
const ReportShape *report_shape(bool quick);

/* Writes "random:dim=1024,..." into name[size]. */
void report_shape_name(const ReportShape *shape, char *name, size_t size);

/* Writes a GGUF file of this shape into fd, which is empty: matrices in Q8_0, the type that q8
 * holds, and no vocabulary. Its weights are other numbers, which no speed depends on. */
Status report_shape_gguf(const ReportShape *shape, int fd, Error *error);

#endif
