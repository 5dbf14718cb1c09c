/* What this process has read from disk. */
#ifndef DISK_READS_H
#define DISK_READS_H

#include <stddef.h>

/* MiB that the threads of this process made the kernel read from block devices since it began:
 * reads, faults of mapped files, and what the kernel read ahead of them. What the page cache held
 * already is not in it, nor what came over a network file system. 0 where the kernel does not
 * count. */
double disk_reads_mib(void);

/* Prints what --stats says of it. `before`: disk_reads_mib() before the first of the n passes whose
 * share is told; `what` names a pass. */
void disk_reads_print(double before, size_t n, const char *what);

#endif
