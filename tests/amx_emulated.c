/* kernels/amx.c on emulated tiles, as kernels_amx_emulated. Needs AVX-512, not AMX. */
#if defined(__x86_64__)
#define AMX_EMULATED
#include "kernels/amx.c"
#else
typedef int nothing_to_emulate;
#endif
