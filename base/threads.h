/* The threads of a team: whether they can start, and a barrier for them. */
#ifndef THREADS_H
#define THREADS_H

#include <stdatomic.h>

/* How many of n_threads can start, at least 1: fewer where the limit of the address space (ulimit
 * -v) has no room for their stacks, in which case OpenMP's library would end the process with a
 * line of its own. They are then started at once, as what is allocated later could take their room;
 * one stack's room is left for that. Without such a limit nothing is tried. */
int threads_startable(int n_threads);

/* A barrier for the threads of an OpenMP team, which wait for each other many times a layer.
 * OpenMP's own barrier calls the kernel each time to wake sleeping threads, and spins for
 * milliseconds while another process uses the processor of a thread, which delays that process
 * further. This barrier spins for about 20 microseconds, then sleeps; it sleeps at once where a
 * team has more threads than there are processors, or where OMP_WAIT_POLICY is "passive".
 * Initialize it with zeros. */
typedef struct Barrier {
    atomic_uint arrived;
    char padding[60]; /* the waiting threads poll another cache line */
    atomic_uint generation, sleepers;
    atomic_uint spinning; /* the largest team whose threads spin; 0: not known yet */
    char end_padding[52];
} Barrier;

/* Returns once every thread of the team has called it; outside a parallel region at once. */
void barrier_wait(Barrier *barrier);

#endif
