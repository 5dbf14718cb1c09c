/* How much memory this process can still take. */
#ifndef FREE_MEMORY_H
#define FREE_MEMORY_H

/* The bytes that are available in the machine (page cache that can be given up included) and in the
 * process's control group. Reads files, so it is called before the sandbox is entered. */
double free_memory_bytes(void);

#endif
