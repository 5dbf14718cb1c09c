/* Quantizes float32 weights into records: groups whose scales are quantized in turn. How scales are
 * chosen is explained in quantize.h. */
#ifndef QUANTIZE_RECORDS_H
#define QUANTIZE_RECORDS_H

#include "kernels/records.h"

/* Like quantize_row for the types of records.h; `row` points at the row's elements. */
void quantize_records(TensorType type, size_t padded_cols, const float *x, const float *importance,
                      const RecordCodes *row);

#endif
