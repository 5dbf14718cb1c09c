#include "session.h"

#include <stdio.h>

#include "base/terminal.h"

void session_progress(const Session *session, const char *what, uint64_t done, uint64_t total) {
    if (!session->shows_progress) return;
    if (total == 0) {
        fprintf(stderr, "\r\033[K");
    } else {
        fprintf(stderr, "\r\033[K%s ", what);
        terminal_bar(stderr, 30, done, total);
        fprintf(stderr, " %.0f%%", 100.0 * (double)done / (double)total);
    }
    fflush(stderr);
}
