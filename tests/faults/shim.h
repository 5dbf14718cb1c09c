/* Memory shared by a test and by the shim inside the program under test: an anonymous file that
 * both map. The environment variable VERBATIM_FAULTS holds its descriptor. */
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
    FAULT_LOCK,   /* flock: ENOSYS */
    FAULT_SHORT,  /* read, write: only half the bytes are transferred */
    FAULT_KINDS
} FaultKind;

typedef struct Faults {
    atomic_long calls[FAULT_KINDS]; /* calls made so far */
    long fails[FAULT_KINDS];        /* which call fails, counted from 1; 0: none */
    long goes_on;                   /* nonzero: all later calls of the kind fail as well */
    long thread;                    /* only its calls (gettid) are counted and fail; 0: all */
    atomic_long failed;             /* calls that failed */
} Faults;

#endif
