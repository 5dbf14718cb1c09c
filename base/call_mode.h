/* The state of a thread that changes what our arithmetic and our numbers as text mean: rounding
 * mode, flushed denormals and trapped exceptions of the floating-point unit, and the locale; and
 * where the thread counts allocations that fail.
 *
 * A program of ours has the usual state from its start. A library finds that of its host, and a
 * thread of an OpenMP team that of whoever used the team before: each takes the usual state on
 * entry and gives the old one back:
 *
 *     CallMode before;
 *     call_mode_enter(&before, setting);
 *     ...
 *     call_mode_leave(&before);
 *
 * Threads of a team take the setting of the thread that began it:
 *
 *     CallSetting setting = call_mode_setting();
 *     #pragma omp parallel
 *     {
 *         call_mode_enter(&before, setting); ...
 */
#ifndef CALL_MODE_H
#define CALL_MODE_H

#include <fenv.h>
#include <locale.h>
#include <stdatomic.h>
#include <stdint.h>

/* What all threads of a call share. */
typedef struct CallSetting {
    locale_t locale;       /* (locale_t)0: each thread keeps its own */
    atomic_ulong *refused; /* counts the call's failed allocations (ports/library/refused.h); NULL:
                              not counted */
} CallSetting;

typedef struct CallMode {
    fenv_t floats;
    uint64_t control; /* MXCSR or FPCR, which fesetenv restores in part only */
    CallSetting setting;
} CallMode;

/* Notes the state of the calling thread; then rounds to nearest, keeps denormals, traps nothing,
 * and takes the setting. */
void call_mode_enter(CallMode *before, CallSetting setting);

/* Gives the calling thread the state back that call_mode_enter noted, sticky flags included. */
void call_mode_leave(const CallMode *before);

/* The setting of the calling thread, which the threads that work for it take. */
CallSetting call_mode_setting(void);

#endif
