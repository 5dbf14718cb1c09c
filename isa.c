#include "isa.h"

#include <stdio.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

static bool always(void) {
    return true;
}

#if defined(__x86_64__)
/* Older clangs do not know the name "f16c". */
static bool has_f16c(void) {
    unsigned eax, ebx, ecx, edx;
    return __get_cpuid(1, &eax, &ebx, &ecx, &edx) && (ecx & bit_F16C);
}

static bool has_avx2(void) {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
}

static bool has_avx512(void) {
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512vnni");
}

static bool has_amx(void) {
    return has_avx512() && kernels_amx_enable();
}
#elif defined(__aarch64__) && defined(__linux__)
static bool has_dot_product(void) {
    return getauxval(AT_HWCAP) & (1u << 20);
}
static bool has_i8mm(void) {
    return has_dot_product() && (getauxval(AT_HWCAP2) & (1u << 13));
}
#endif

typedef struct Candidate {
    Isa isa;
    bool (*supported)(void);
} Candidate;

static const Candidate candidates[] = {
    {{"reference", &numeric_reference, &kernels_reference, &attention_reference}, always},
#if defined(__x86_64__)
    {{"avx2", &numeric_avx2, &kernels_avx2, &attention_avx2}, has_avx2},
    {{"avx512", &numeric_avx512, &kernels_avx512, &attention_avx512}, has_avx512},
    {{"amx", &numeric_avx512, &kernels_amx, &attention_avx512}, has_amx},
#elif defined(__aarch64__) && defined(__linux__)
    {{"neon", &numeric_neon, &kernels_neon, &attention_neon}, has_dot_product},
    {{"neon_i8mm", &numeric_neon, &kernels_neon_i8mm, &attention_neon}, has_i8mm},
#endif
};

const Isa *isa_available(size_t i) {
    for (size_t k = 0; k < sizeof candidates / sizeof *candidates; k++) {
        if (!candidates[k].supported()) continue;
        if (i-- == 0) return &candidates[k].isa;
    }
    return NULL;
}

const Isa *isa_choose(const char *name, Error *error) {
    char known[128] = "";
    const Isa *best = NULL;
    for (size_t i = 0; isa_available(i); i++) {
        best = isa_available(i);
        if (name && strcmp(name, best->name) == 0) return best;
        size_t length = strlen(known);
        snprintf(known + length, sizeof known - length, "%s%s", i ? ", " : "", best->name);
    }
    if (!name) return best;
    error_set(error, "no instruction set '%s' on this machine; it has %s", name, known);
    return NULL;
}
