#include "system/stop_signals.h"

/* What a signal handler can reach must be global. */
static volatile sig_atomic_t stop_signal;

static void on_stop(int number) {
    if (stop_signal == 0 || stop_signal == SIGINT) stop_signal = number;
}

volatile sig_atomic_t *stop_signals_catch(bool ctrl_c_repeats) {
    struct sigaction before, stop = {.sa_handler = on_stop}, stop_once = stop;
    stop_once.sa_flags = (int)SA_RESETHAND;
    sigaction(SIGINT, ctrl_c_repeats ? &stop : &stop_once, NULL);
    sigaction(SIGTERM, &stop, NULL);
    if (sigaction(SIGHUP, NULL, &before) == 0 && before.sa_handler != SIG_IGN)
        sigaction(SIGHUP, &stop, NULL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    return &stop_signal;
}
