/* Products of the types of records.h with AVX2. */
#include "kernels/avx2_panels.h"

EACH_RECORD_TYPE(PANEL_KERNELS)

const BlockKernels record_kernels_avx2[TENSOR_TYPES] = {EACH_RECORD_TYPE(PANEL_ENTRY)};
