/* The instruction sets that this build has kernels for, slowest first. The Makefile has the
 * same list (ISAS), and nothing else has one. (./quickstart's first program has one set alone, and
 * gives the list itself; the tests' suite has one more set, MORE_ISAS.)
 *
 * X(name, lanes) stands for
 *
 *     kernels_NAME, kernels_NAME_supported   matrix products and the test of the processor
 *                                            (kernels/NAME.c, kernels/cpu.c)
 *     numeric_LANES, attention_LANES, ...    vector code that is compiled once for each kind of
 *                                            lanes (lanes.h), which several sets may share */
#ifndef ISA_LIST_H
#define ISA_LIST_H

#ifndef MORE_ISAS
#define MORE_ISAS(X)
#endif

#if defined(EACH_ISA)
#elif defined(VERBATIM_CORE)
#define EACH_ISA(X) X(reference, reference)
#elif defined(__x86_64__)
#define EACH_ISA(X)                                                                                \
    X(reference, reference)                                                                        \
    MORE_ISAS(X)                                                                                   \
    X(avx2, avx2)                                                                                  \
    X(avxvnni, avx2)                                                                               \
    X(avx512, avx512) X(avx512_bf16, avx512) X(amx, avx512) X(amx_bf16, avx512)
#elif defined(__aarch64__) && defined(__linux__)
#define EACH_ISA(X) X(reference, reference) MORE_ISAS(X) X(neon, neon) X(neon_i8mm, neon)
#else
#define EACH_ISA(X) X(reference, reference) MORE_ISAS(X)
#endif

#endif
