/* Products of the types of records.h with AVX-VNNI. */
#include "kernels/avx2_records.h"

RECORD_KERNELS_TABLE(record_kernels_avxvnni);
