/* Products of the types of records.h with AVX2. */
#include "kernels/avx2_records.h"

RECORD_KERNELS_TABLE(record_kernels_avx2);
