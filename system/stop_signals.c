#include "system/stop_signals.h"

#include <errno.h>
#include <string.h>
#include <sys/time.h>
#include <termios.h>
#include <unistd.h>

#include "base/status.h"

/* What a signal handler can reach must be global. */
static volatile sig_atomic_t stop_signal;

/* Ctrl-C stops only an answer. */
static volatile sig_atomic_t ctrl_c_is_mild;
/* Not that of a process that it started (modes/chat/courier.h) and that has these handlers, too. */
static pid_t program;
/* What a chat's terminal was set to before its line editor changed it. */
static struct termios terminal;
static volatile sig_atomic_t has_terminal;
/* stderr may hold half a line: a progress bar, or a text beside it. */
static volatile sig_atomic_t begins_line;

int stop_signals_exit_status(Status status) {
    const int signal = (int)stop_signal;
    return status == STATUS_INTERRUPTED && signal ? 128 + signal : (int)status;
}

/* Where no step looks at the flag in time, the process ends here. Nothing is lost: results and
 * messages are in their files already, and the errands (errand.h) remove what is not complete. */
static void on_late(int number) {
    (void)number;
    if (getpid() != program) return;
    const char *const words[] = {begins_line ? "\n" : "", program_invocation_short_name,
                                 ": interrupted\n"};
    ssize_t n = 0;
    for (size_t i = 0; i < 3 && n >= 0; i++) n = write(STDERR_FILENO, words[i], strlen(words[i]));
    if (has_terminal) {
        signal(SIGTTOU, SIG_IGN); /* in the background */
        tcsetattr(STDIN_FILENO, TCSANOW, &terminal);
    }
    _exit(stop_signals_exit_status(STATUS_INTERRUPTED));
}

static void on_stop(int number) {
    const struct itimerval soon = {.it_value = {.tv_usec = 700 * 1000}};
    int reason = errno;
    bool first = stop_signal == 0 || stop_signal == SIGINT;
    if (first) stop_signal = number;
    if (first && !(number == SIGINT && ctrl_c_is_mild)) setitimer(ITIMER_REAL, &soon, NULL);
    errno = reason;
}

volatile sig_atomic_t *stop_signals_catch(bool ctrl_c_repeats) {
    struct sigaction before, stop = {.sa_handler = on_stop}, stop_once = stop;
    const struct sigaction late = {.sa_handler = on_late};
    sigset_t alarm;
    ctrl_c_is_mild = ctrl_c_repeats;
    has_terminal = ctrl_c_repeats && tcgetattr(STDIN_FILENO, &terminal) == 0;
    program = getpid();
    begins_line = isatty(STDERR_FILENO);
    sigaction(SIGALRM, &late, NULL);
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    sigprocmask(SIG_UNBLOCK, &alarm, NULL); /* a parent may have blocked it */
    stop_once.sa_flags = (int)SA_RESETHAND;
    sigaction(SIGINT, ctrl_c_repeats ? &stop : &stop_once, NULL);
    sigaction(SIGTERM, &stop, NULL);
    if (sigaction(SIGHUP, NULL, &before) == 0 && before.sa_handler != SIG_IGN)
        sigaction(SIGHUP, &stop, NULL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    return &stop_signal;
}
