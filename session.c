#include "session.h"

#include <stdio.h>

void session_progress(const Session *session, const char *what, uint64_t done, uint64_t total) {
    if (!session->shows_progress) return;
    if (total == 0) {
        fprintf(stderr, "\r\033[K");
    } else {
        double share = (double)done / (double)total;
        int filled = (int)(30.0 * share);
        fprintf(stderr, "\r\033[K%s [%.*s%.*s] %.0f%%", what, filled,
                "##############################", 30 - filled, "..............................",
                100.0 * share);
    }
    fflush(stderr);
}
