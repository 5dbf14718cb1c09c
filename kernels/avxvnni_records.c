/* Products of the types of records.h with AVX-VNNI. */
#include "kernels/avx2_panels.h"

EACH_RECORD_TYPE(PANEL_KERNELS)

const BlockKernels record_kernels_avxvnni[TENSOR_TYPES] = {EACH_RECORD_TYPE(PANEL_ENTRY)};
