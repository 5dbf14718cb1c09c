/* The most memory that this process has held. */
#ifndef PEAK_MEMORY_H
#define PEAK_MEMORY_H

/* Opens what the kernel says of this process, which the sandbox would forbid later. Returns 0 where
 * it cannot be opened; else a descriptor, which the caller closes. */
int peak_memory_open(void);

/* The most MiB that were resident at once since this program began. With 0 for the descriptor:
 * getrusage's figure, which also counts what the program that started this one held. */
double peak_memory_mib(int descriptor);

#endif
