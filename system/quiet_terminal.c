#include "system/quiet_terminal.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <termios.h>
#include <unistd.h>

/* What a signal handler and atexit can reach must be global. */
static struct termios loud, quiet;
static struct sigaction stop_before;
static volatile sig_atomic_t is_quiet;

static void on_background(int number) {
    (void)number;
}

/* Sets the terminal's modes, unless the terminal belongs to another process group now: with a
 * handler for SIGTTOU the call then fails, where it would stop the program. */
static void set_modes(const struct termios *modes) {
    const struct sigaction caught = {.sa_handler = on_background};
    struct sigaction before;
    sigaction(SIGTTOU, &caught, &before);
    tcsetattr(STDIN_FILENO, TCSANOW, modes);
    sigaction(SIGTTOU, &before, NULL);
}

/* Ctrl-Z: stops as usual, with the terminal as it was. */
static void on_stop(int number) {
    const struct sigaction as_usual = {.sa_handler = SIG_DFL};
    struct sigaction own;
    sigset_t stop, before;
    int reason = errno;
    set_modes(&loud);
    sigaction(number, &as_usual, &own);
    sigemptyset(&stop);
    sigaddset(&stop, number);
    raise(number);
    sigprocmask(SIG_UNBLOCK, &stop, &before); /* the program stops here */
    sigprocmask(SIG_SETMASK, &before, NULL);
    sigaction(number, &own, NULL);
    if (is_quiet) set_modes(&quiet);
    errno = reason;
}

void quiet_terminal_begin(void) {
    static bool ends_at_exit;
    struct sigaction stop = {.sa_handler = on_stop, .sa_flags = SA_RESTART};
    if (is_quiet || tcgetattr(STDIN_FILENO, &loud) != 0 || !(loud.c_lflag & ECHO)) return;
    if (!ends_at_exit) ends_at_exit = atexit(quiet_terminal_end) == 0;
    quiet = loud;
    quiet.c_lflag &= ~(tcflag_t)ECHO;
    quiet.c_lflag |= NOFLSH; /* Ctrl-C stops an answer, and keeps what was typed meanwhile */
    sigaction(SIGTSTP, NULL, &stop_before);
    if (stop_before.sa_handler != SIG_IGN) sigaction(SIGTSTP, &stop, NULL);
    is_quiet = 1;
    set_modes(&quiet);
}

void quiet_terminal_end(void) {
    if (!is_quiet) return;
    is_quiet = 0;
    set_modes(&loud);
    sigaction(SIGTSTP, &stop_before, NULL);
}
