#include "session.h"

#include <stdio.h>

#include "base/terminal.h"

Status session_drafter(const Session *session, Drafter **drafter, Error *error) {
    *drafter = NULL;
    return session->new_drafter ? session->new_drafter(session, drafter, error) : STATUS_OK;
}

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
