/* How many threads a forward pass takes on a machine that others use as well.
 *
 * A pass waits for its slowest thread at each step. When another process runs on the processor of
 * one thread, all threads wait, and fewer threads are faster. The choice compares: while threads
 * lose time it tries fewer of them for some 50 ms, keeps what was faster, and later tries more
 * again, at longer and longer intervals as long as that does not help.
 *
 * The bits of a result do not depend on the number of threads, so nothing but speed depends on the
 * times that are measured here. */
#ifndef SESSION_THREAD_CHOICE_H
#define SESSION_THREAD_CHOICE_H

#include <signal.h>

#include "core/model_row.h"

/* Time that some number of threads took. */
typedef struct ThreadSample {
    size_t n;                     /* parts of passes */
    double work, seconds, useful; /* `useful`: processor seconds, of all threads */
} ThreadSample;

typedef struct AdaptiveThreads {
    PassObserver observer; /* for model_add_observer; the first field */
    const volatile sig_atomic_t *interrupted;
    /* Told before each part of a pass how much of its n_rows rows has been computed: `done`, from 0
     * to 1. NULL: nobody asks. */
    void (*on_part)(void *context, size_t n_rows, double done);
    void *part_context;
    int now;        /* threads that are used */
    int trial;      /* threads that are tried; 0: none */
    int rows_class; /* what is compared has as many rows, within a factor of two */
    ThreadSample used, tried;
    double next_trial, interval; /* seconds of the clock */
    bool compared;               /* short passes were compared with fewer threads once */
    bool alone;                  /* the part is for one thread: there is nothing to compare */
    double work, began, useful;  /* of the part that is running */
    size_t n_trials, n_changes;  /* since the beginning */
} AdaptiveThreads;

/* All threads at first. Passes end between two parts once *interrupted (may be NULL) is not 0. */
void adaptive_threads_init(AdaptiveThreads *threads, const volatile sig_atomic_t *interrupted);

#endif
