/* Short runs of the programs in which one call fails (tests/faults). */
#ifndef FAULT_RUNS_H
#define FAULT_RUNS_H

#include <stdbool.h>

#include "tests/faults/shim.h"

typedef enum FaultMode {
    FAULT_EXPORT,
    FAULT_GENERATE,
    FAULT_CHAT,
    FAULT_BATCH,
    FAULT_ATTENTION,
    FAULT_MODES
} FaultMode;

typedef struct FaultRuns {
    char *directory, *model, *source, *tokenizer, *shim;
    char *requests;
    long calls[FAULT_MODES][FAULT_KINDS]; /* that a run without a fault makes */
    char *wanted[FAULT_MODES];            /* what a run without a fault gives */
    size_t wanted_length[FAULT_MODES];
    int fd;
    Faults *faults;
    unsigned long injected, refused; /* runs with a fault; those that ended in an error */
} FaultRuns;

/* Fails on the spot (cmocka). NULL where a shim cannot stand before the allocator: under
 * clang's sanitizers and emulators. */
FaultRuns *fault_runs_new(void);
void fault_runs_free(FaultRuns *runs);

/* Runs `mode` with the n-th call of `kind` failing, for n = 1, 1 + step, ... until a run makes
 * fewer calls. Each run must end in success, with the very result that it has without a fault,
 * or in an error that says something; never in a signal, in more than 20 seconds, or with a
 * damaged file; and the same command without a fault must then work. `goes_on`: every
 * call from the n-th on fails. */
void fault_runs_try(FaultRuns *runs, FaultMode mode, FaultKind kind, long step, bool goes_on);

#endif
