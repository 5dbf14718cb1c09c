/* What this process may use of the machine: processors, memory, instruction sets.
 *
 * For tests the environment describes a poorer machine, or one with more processors, so that what
 * depends on the machine shows on any:
 * VERBATIM_MACHINE="isa=avx2,processors=64,memory=1G,cache=256K", each part optional
 * (tests/README.md). Nothing is asked of the system for a part that is described. */
#ifndef MACHINE_H
#define MACHINE_H

#include <stdbool.h>
#include <stddef.h>

/* The number of physical cores that this process may use, within its affinity mask and the quotas
 * of its control groups; at least 1. */
int machine_cores(void);

/* Bytes of memory that the machine has; 0: unknown. */
double machine_memory(void);

/* The bytes that this process can still take of the machine (page cache that can be given up
 * included) and of its control groups. Reads files, so it is called before the sandbox is entered.
 */
double machine_free_memory(void);

/* Bytes of the processor's largest cache; 0: unknown. */
size_t machine_cache(void);

/* One of the caches that the first processor uses. */
typedef struct MachineCache {
    int level;
    char type[16]; /* "Data", "Instruction", "Unified" */
    size_t bytes;
} MachineCache;

/* The i-th of them, as Linux counts them; false: there are no more. */
bool machine_cache_at(int i, MachineCache *cache);

/* Writes the processor's name as Linux has it into name[size]: "AMD EPYC 7B13", or on Arm the
 * numbers of its designer and part; "" where /proc/cpuinfo does not tell. */
void machine_processor(char *name, size_t size);

/* Whether the described machine ends its instruction sets with `isa`: it lacks those that
 * kernels/isa_list.h has after it. */
bool machine_ends_at_isa(const char *isa);

/* The description, NULL: none. */
const char *machine_described(void);

#endif
