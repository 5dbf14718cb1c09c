/* How many threads to use, and where they meet. */
#ifndef THREADS_H
#define THREADS_H

#include <stdatomic.h>

/* Physical cores that this process may use: affinity and control-group quota counted; at
 * least 1. */
int threads_default(void);

/* Where the threads of an OpenMP team wait for each other, many times a layer. OpenMP's own
 * barrier asks the kernel to wake sleepers each time, and spins for milliseconds when a thread's
 * processor is busy with somebody else's work, which then lasts longer still; this one spins for
 * some 20 microseconds and sleeps. All zero at first. */
typedef struct Barrier {
    atomic_uint arrived;
    char apart[60]; /* of another cache line than what the others wait for */
    atomic_uint generation, sleepers;
    char end[56];
} Barrier;

/* Returns once every thread of the team has called it; at once outside of a team. */
void barrier_wait(Barrier *barrier);

#endif
