/* Products of the types of FAMILY_CODES with AVX-VNNI (dpbusd in 256 bits), and the table of its
 * kernels. Everything else is AVX2's. */
#include "kernels/avx2_panels.h"
#include "kernels/avx2_peak.h"
#include "kernels/avxvnni_superblocks.h"

EACH_CODE_TYPE(PANEL_KERNELS)

static const BlockKernels block_kernels[TENSOR_TYPES] = {CODE_ENTRIES};

#define FLOAT_KERNELS float_avx2
#define SUPERBLOCK_KERNELS superblock_kernels_avxvnni
#include "kernels/block_table.h"

/* Kernels.spin: runs multiply-adds on registers alone, to measure the peak. */
static double spin(TensorType type, size_t rounds) {
    return type_group(type) ? peak_of_type(type, rounds) : float_avx2.spin(rounds);
}

const Kernels kernels_avxvnni = {
    .name = "avxvnni",
    .stripe = 4,
    .scratch_bytes = SCRATCH_BYTES,
    .input_bytes = input_bytes,
    .pack_tasks = pack_tasks,
    .pack = pack,
    .multiply = multiply,
    .spin = spin,
};
