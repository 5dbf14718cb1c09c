#include "session.h"

#include <stdio.h>
#include <time.h>

double session_clock(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void session_progress(const Session *session, const char *what, uint64_t done, uint64_t total) {
    if (!session->shows_progress) return;
    if (total == 0) {
        fprintf(stderr, "\r\033[K");
    } else {
        fprintf(stderr, "\r\033[K%s: %.0f%%", what, 100.0 * (double)done / (double)total);
    }
    fflush(stderr);
}
