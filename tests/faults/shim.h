/* What a test and the shim in the program under test share: a file without a name, mapped by
 * both, whose descriptor stands in VERBATIM_FAULTS. */
#ifndef FAULTS_SHIM_H
#define FAULTS_SHIM_H

#include <stdatomic.h>

typedef enum FaultKind {
    FAULT_MEMORY, /* malloc, calloc, realloc, aligned_alloc: ENOMEM */
    FAULT_MAP,    /* mmap: ENOMEM */
    FAULT_READ,   /* read, pread: EIO */
    FAULT_WRITE,  /* write, pwrite, fallocate: ENOSPC */
    FAULT_SYNC,   /* fsync, fdatasync: EIO */
    FAULT_RENAME, /* rename, linkat: EIO */
    FAULT_SHORT,  /* read and write, of half the bytes */
    FAULT_KINDS
} FaultKind;

typedef struct Faults {
    atomic_long calls[FAULT_KINDS]; /* so far */
    long fails[FAULT_KINDS];        /* the number of the call that fails, from 1; 0: none */
    long goes_on;                   /* all later calls of the kind fail as well */
    atomic_long failed;             /* how many did */
} Faults;

#endif
