/* The signals that ask a program to stop: Ctrl-C (SIGINT), SIGTERM and SIGHUP. */
#ifndef STOP_SIGNALS_H
#define STOP_SIGNALS_H

#include <signal.h>
#include <stdbool.h>

#include "base/status.h"

/* Called once by a program's main. Returns the flag that holds the signal that asked to stop, 0
 * before that; SIGTERM and SIGHUP replace SIGINT. The program looks at the flag between two steps
 * and may set it to 0 again.
 *
 * A process that still runs 0.7 s after the first signal, because a long step does not look at the
 * flag, ends at once as interrupted; Ctrl-C with `ctrl_c_repeats` excepted. The terminal
 * then gets back the settings that it had here.
 *
 * A second Ctrl-C kills the process, unless `ctrl_c_repeats` (in a chat each one stops an answer).
 * SIGTERM and SIGHUP always stop cleanly, even repeated, because timeout(1) signals twice. A SIGHUP
 * that the parent chose to ignore (nohup) stays ignored. SIGPIPE and SIGXFSZ (a limit on file
 * sizes) are ignored: write(2) fails instead. */
volatile sig_atomic_t *stop_signals_catch(bool ctrl_c_repeats);

/* What the program exits with: the status, and for STATUS_INTERRUPTED what a shell reports of a
 * program that the signal ended: 128 and its number (Ctrl-C 130, SIGTERM 143, SIGHUP 129). A
 * service manager or a job's script tells by it who stopped the program. */
int stop_signals_exit_status(Status status);

#endif
