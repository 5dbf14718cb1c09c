/* Runs the programs briefly with one failing system call or allocation each (tests/faults). */
#ifndef FAULT_RUNS_H
#define FAULT_RUNS_H

#include <stdbool.h>

#include "tests/faults/shim.h"

typedef enum FaultMode {
    FAULT_EXPORT,
    FAULT_GENERATE,
    FAULT_CHAT,
    FAULT_BATCH,
    FAULT_SHAPES, /* a batch whose answers are held to shapes */
    FAULT_ATTENTION,
    FAULT_MERGE,
    FAULT_MODES
} FaultMode;

typedef struct FaultRuns {
    char *directory, *model, *source, *tokenizer, *shim;
    char *requests, *shaped;
    char *parts[2];                       /* the parts' results, which are merged */
    long calls[FAULT_MODES][FAULT_KINDS]; /* calls made by a run without a fault */
    char *wanted[FAULT_MODES];            /* result file of a run without a fault */
    size_t wanted_length[FAULT_MODES];
    int fd;
    Faults *faults;
    unsigned long injected, refused; /* runs with a fault; of them, runs that failed */
} FaultRuns;

/* Sets up the files and counts the calls of runs without faults; fails the test (cmocka) on any
 * error. Returns NULL where the shim cannot intercept the allocator: under clang's sanitizers and
 * under emulators. */
FaultRuns *fault_runs_new(void);
void fault_runs_free(FaultRuns *runs);

/* Runs the program in `mode` with the n-th call of `kind` failing, for n = 1, 1 + step, ... until a
 * run makes fewer calls than n. With `goes_on`, every later call of that kind fails as well. Each
 * run must either succeed with the result of a run without a fault, or end with an error and a
 * message on stderr; each line of FAULT_SHAPES must be the one of a run without a fault, or name
 * the fault. A run must never end by a signal, take more than 20 seconds or leave a damaged file,
 * and the same command without a fault must work afterwards. */
void fault_runs_try(FaultRuns *runs, FaultMode mode, FaultKind kind, long step, bool goes_on);

#endif
