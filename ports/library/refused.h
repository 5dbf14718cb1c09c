/* Allocations that were refused. Much code that builds JSON checks no call for a lack of memory: a
 * program of ours ends then (json/json_memory.h). A library cannot, and looks here: what was
 * made while memory was refused is thrown away.
 *
 * In the shared library the linker leads every allocation of our code, and every function of
 * jansson that allocates, through this module (LIBRARY_WRAPS in the Makefile). Elsewhere it counts
 * nothing. */
#ifndef LIBRARY_REFUSED_H
#define LIBRARY_REFUSED_H

/* How many allocations were refused so far to calls with the model that the calling thread is in a
 * call with (CallSetting.refused), the threads that work for these calls included; 0 outside of
 * calls. Other models of the process do not count. */
unsigned long library_refused(void);

#endif
