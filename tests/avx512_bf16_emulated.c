/* kernels/avx512_bf16.c with an emulated VDPBF16PS and beside AVX2, as
 * kernels_avx512_bf16_emulated. */
#if defined(__x86_64__)
#define BFLOAT_PAIRS_EMULATED
#define AVX512_BF16_KERNELS kernels_avx512_bf16_emulated
#define REST kernels_avx2
#include "kernels/kernels.h"
extern const Kernels kernels_avx512_bf16_emulated;
#include "kernels/avx512_bf16.c"
#else
typedef int nothing_to_emulate;
#endif
