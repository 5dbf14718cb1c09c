/* Instruction sets: which one this machine has, and the functions built for it. All give the
 * same bits; the choice is a matter of speed only. */
#ifndef ISA_H
#define ISA_H

#include "attention.h"
#include "kernels/kernels.h"
#include "numeric.h"

typedef struct Isa {
    const char *name; /* as --isa takes it: "reference", "avx2", "avx512", "amx", "neon", ... */
    const Numeric *numeric;
    const Kernels *kernels;
    const AttentionKernel *attention;
} Isa;

/* The best instruction set of this machine, or the one called `name`. NULL and an Error that
 * lists those that it has when `name` is unknown or absent here. */
const Isa *isa_choose(const char *name, Error *error);

/* The i-th instruction set that this machine has, slowest (reference) first; NULL past the
 * end. */
const Isa *isa_available(size_t i);

#endif
