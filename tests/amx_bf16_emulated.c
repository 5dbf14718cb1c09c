/* kernels/amx_bf16.c on emulated tiles and beside AVX2, as kernels_amx_bf16_emulated. */
#if defined(__x86_64__)
#define AMX_EMULATED
#define AMX_BF16_KERNELS kernels_amx_bf16_emulated
#define REST kernels_avx2
#include "kernels/kernels.h"
extern const Kernels kernels_amx_bf16_emulated;
#include "kernels/amx_bf16.c"
#else
typedef int nothing_to_emulate;
#endif
