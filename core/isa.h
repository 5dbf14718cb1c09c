/* Instruction sets: which ones this machine has, and the functions built for each. All of them give
 * the same bits; the choice only changes the speed. kernels/isa_list.h is the list. */
#ifndef ISA_H
#define ISA_H

#include "core/attention.h"
#include "kernels/kernels.h"
#include "core/numeric.h"

typedef struct Isa {
    const char *name; /* as --isa takes it: "reference", "avx2", "avx512", "neon", ... */
    const Numeric *numeric;
    const Kernels *kernels;
    const AttentionKernel *attention;
} Isa;

/* The instruction set called `name`, or the best one of this machine when name is NULL. When `name`
 * is unknown or this machine lacks it: NULL and an Error that lists what it has. */
const Isa *isa_choose(const char *name, Error *error);

/* The i-th instruction set that this machine has, slowest (reference) first; NULL past the
 * end. */
const Isa *isa_available(size_t i);

#endif
