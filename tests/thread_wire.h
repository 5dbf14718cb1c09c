/* ports/cluster/wire.h between threads of one process: ranks without MPI. */
#ifndef TESTS_THREAD_WIRE_H
#define TESTS_THREAD_WIRE_H

#include <setjmp.h>

#include "ports/cluster/wire.h"

/* `ranks` wires that reach each other, one for each thread; freed together. A failure of one
 * (wire_fail) ends the program. */
Wire **thread_wires_new(size_t ranks);
void thread_wires_free(Wire **wires);

/* Floats that the ranks have gathered so far, counted once for each gather. */
size_t thread_wires_gathered(Wire *const *wires);

/* ---- For tests of what a rank does with wrong messages ---- */

/* Is called with a copy of what rank `rank` is about to send in an exchange, counted from 0, and
 * may change it. All ranks' threads call it. */
typedef void ThreadWireDisturb(void *context, size_t exchange, size_t rank, void *data,
                               size_t bytes);
void thread_wires_disturb(Wire *const *wires, ThreadWireDisturb *disturb, void *context);

/* After thread_wires_disturb: a rank that fails jumps to `out`, which its thread has set, after
 * thread_wire_leave. */
void thread_wire_on_failure(Wire *wire, jmp_buf *out);

/* The rank has left: from now on the others receive zeros, without waiting. So does everybody when
 * the ranks disagree about what they exchange, which MPI takes for an error. */
void thread_wire_leave(Wire *wire);

#endif
