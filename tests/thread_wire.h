/* cluster/wire.h between threads of one process: ranks without MPI. */
#ifndef TESTS_THREAD_WIRE_H
#define TESTS_THREAD_WIRE_H

#include "cluster/wire.h"

/* `ranks` wires that reach each other, one for each thread; freed together. A failure of one
 * (wire_fail) ends the program. */
Wire **thread_wires_new(size_t ranks);
void thread_wires_free(Wire **wires);

/* Floats that the ranks have gathered so far, counted once for each gather. */
size_t thread_wires_gathered(Wire *const *wires);

#endif
