/* The clock that durations are measured with. */
#ifndef CLOCK_H
#define CLOCK_H

/* Seconds of a clock that only goes forward. */
double clock_seconds(void);

#endif
