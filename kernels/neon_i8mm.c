/* For now the reference. */
#include "internal.h"

const Kernels kernels_neon_i8mm = {
    .name = "neon_i8mm",
    .stripe = 1,
    .scratch_bytes = 0,
    .input_bytes = reference_input_bytes,
    .pack_tasks = reference_pack_tasks,
    .pack = reference_pack,
    .multiply = reference_multiply,
};
