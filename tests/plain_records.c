/* kernels/plain_records.c as plain_records_first, for the first instruction set of this processor's
 * list in the Makefile: AVX2 or NEON. */
#if defined(__x86_64__) || defined(__aarch64__)
#define RECORD_KERNELS plain_records_first
#include "kernels/plain_records.c"
#else
typedef int no_records_to_multiply;
#endif
