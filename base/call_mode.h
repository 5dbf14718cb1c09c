/* The state of a thread that changes what our arithmetic and our numbers as text mean: rounding
 * mode, flushed denormals and trapped exceptions of the floating-point unit, and the locale.
 *
 * A program of ours has the usual state from its start. A library finds that of its host, and a
 * thread of an OpenMP team that of whoever used the team before: each takes the usual state on
 * entry and gives the old one back:
 *
 *     CallMode before;
 *     call_mode_enter(&before, locale);
 *     ...
 *     call_mode_leave(&before);
 */
#ifndef CALL_MODE_H
#define CALL_MODE_H

#include <fenv.h>
#include <locale.h>
#include <stdint.h>

typedef struct CallMode {
    fenv_t floats;
    uint64_t control; /* MXCSR or FPCR, which fesetenv restores in part only */
    locale_t locale;
} CallMode;

/* Notes the state of the calling thread; then rounds to nearest, keeps denormals, traps nothing,
 * and takes `locale` ((locale_t)0: keeps its own). */
void call_mode_enter(CallMode *before, locale_t locale);

/* Gives the calling thread the state back that call_mode_enter noted, sticky flags included. */
void call_mode_leave(const CallMode *before);

/* The locale of the calling thread, which the threads that work for it take. */
locale_t call_mode_locale(void);

#endif
