/* Tests of the processor: which kernels of kernels.h this machine can run. */
#include "kernels/kernels.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

/* CPUID instead of __builtin_cpu_supports: older clangs do not know the name "f16c". */
static bool has_f16c(void) {
    unsigned eax, ebx, ecx, edx;
    return __get_cpuid(1, &eax, &ebx, &ecx, &edx) && (ecx & bit_F16C);
}

bool kernels_avx2_supported(void) {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
}

/* CPUID leaf 7, subleaf 1: EAX bit 4. */
bool kernels_avxvnni_supported(void) {
    unsigned eax, ebx, ecx, edx;
    return kernels_avx2_supported() && __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) &&
           (eax >> 4 & 1);
}

bool kernels_avx512_supported(void) {
    return kernels_avx2_supported() && __builtin_cpu_supports("avx512f") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vnni");
}

/* CPUID leaf 7, subleaf 1: EAX bit 5. */
bool kernels_avx512_bf16_supported(void) {
    unsigned eax, ebx, ecx, edx;
    return kernels_avx512_supported() && __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) &&
           (eax >> 5 & 1);
}

#ifdef AMX_EMULATED
/* In the tests' machine with AMX (Makefile: EMULATED) tiles are plain C, and the rest of amx.c
 * needs AVX-512. */
bool kernels_amx_supported(void) {
    return kernels_avx512_supported();
}

bool kernels_amx_bf16_supported(void) {
    return kernels_amx_supported();
}
#else
/* CPUID leaf 7: EDX bit 24 is AMX-TILE, bit 25 AMX-INT8. Linux allows a process to use the tile
 * registers on request: ARCH_REQ_XCOMP_PERM for state component 18
 * (Documentation/arch/x86/xstate.rst). */
bool kernels_amx_supported(void) {
    enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 };
    unsigned eax, ebx, ecx, edx;
    if (!kernels_avx512_supported() || !__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) ||
        (edx >> 24 & 3) != 3)
        return false;
    return syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
}

/* EDX bit 22 is AMX-BF16. */
bool kernels_amx_bf16_supported(void) {
    unsigned eax, ebx, ecx, edx;
    return kernels_amx_supported() && __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) &&
           (edx >> 22 & 1);
}
#endif

#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>

/* HWCAP_ASIMDDP */
bool kernels_neon_supported(void) {
    return getauxval(AT_HWCAP) & (1u << 20);
}

/* HWCAP2_I8MM */
bool kernels_neon_i8mm_supported(void) {
    return kernels_neon_supported() && (getauxval(AT_HWCAP2) & (1u << 13));
}
#endif
