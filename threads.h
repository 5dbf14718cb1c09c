/* How many threads to use. */
#ifndef THREADS_H
#define THREADS_H

/* Physical cores that this process may use: affinity and control-group quota counted; at
 * least 1. */
int threads_default(void);

#endif
