/* The clock for measuring durations. */
#ifndef CLOCK_H
#define CLOCK_H

/* Seconds since an arbitrary moment, from a clock that never goes back (CLOCK_MONOTONIC). */
double clock_seconds(void);

#endif
