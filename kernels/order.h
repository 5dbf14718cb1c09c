/* How a kernel decides the order of its instructions and what its registers hold.
 *
 * Left to themselves, compilers move all products of a group before all sums, or load all weights
 * before the first product, and then spill most of what they hold. A kernel that writes IN_ORDER
 * after each sum keeps the order of its source; one that writes IN_MEMORY after a sum leaves the
 * registers to the sums that need them more. `scripts/kernel-cycles --stack` finds what spills. */
#ifndef KERNELS_ORDER_H
#define KERNELS_ORDER_H

/* An empty asm that takes a vector register and gives it back: one follows another. */
#ifdef __aarch64__
#define IN_ORDER(sum) __asm__ volatile("" : "+w"(sum))
#else
#define IN_ORDER(sum) __asm__ volatile("" : "+v"(sum))
#endif
#define IN_MEMORY(x) __asm__ volatile("" : "+m"(x))

/* Before a loop of at most 16 turns: clang unrolls it whole only if no number is given. */
#ifdef __clang__
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

#endif
