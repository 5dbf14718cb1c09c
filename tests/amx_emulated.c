/* kernels/amx.c on emulated tiles, as kernels_amx_emulated. Needs AVX-512, not AMX. */
#if defined(__x86_64__)
#define AMX_EMULATED
#define AMX_KERNELS kernels_amx_emulated
#include "kernels/kernels.h"
extern const Kernels kernels_amx_emulated;
#include "kernels/amx.c"
#else
typedef int nothing_to_emulate;
#endif
