#include "ports/cluster/starter.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- Connections ---- */

/* The number of the socket's inode; 0: it is not connected, or no socket. */
static ino_t connected_socket(int fd) {
    struct sockaddr_storage peer;
    struct stat info;
    socklen_t size = sizeof peer;
    if (getpeername(fd, (struct sockaddr *)&peer, &size) != 0 || fstat(fd, &info) != 0) return 0;
    return info.st_ino;
}

void starter_find(Starter *starter) {
    struct rlimit limit = {.rlim_cur = 1024};
    *starter = (Starter){.n = 0};
    getrlimit(RLIMIT_NOFILE, &limit);
    for (int fd = STDERR_FILENO + 1; (rlim_t)fd < limit.rlim_cur && fd < 1 << 16; fd++) {
        ino_t socket = connected_socket(fd);
        if (socket == 0) continue;
        if (starter->n == STARTER_MOST_LINKS) {
            starter->overflows = true;
            return;
        }
        starter->links[starter->n].fd = fd;
        starter->links[starter->n++].socket = socket;
    }
}

bool starter_is_reachable(const Starter *starter) {
    for (size_t i = 0; i < starter->n; i++)
        if (connected_socket(starter->links[i].fd) == starter->links[i].socket) return true;
    return starter->overflows;
}

/* ---- PMIx ---- */

/* PMIx of the library that MPI has loaded. Open MPI's own copy has a prefix. */
typedef struct Pmix {
    int (*initialized)(void);
    int (*finalize)(const void *info, size_t n);
} Pmix;

static bool look_up(Pmix *pmix, void *library, const char *initialized, const char *finalize) {
    void *a = dlsym(library, initialized), *b = dlsym(library, finalize);
    memcpy(&pmix->initialized, &a, sizeof a);
    memcpy(&pmix->finalize, &b, sizeof b);
    return a && b && pmix->initialized() != 0;
}

/* Called for each loaded library. Returns 1 at the one that is connected by PMIx. */
static int find_pmix(struct dl_phdr_info *info, size_t size, void *out) {
    (void)size;
    if (!strstr(info->dlpi_name, "pmix")) return 0;
    void *library = dlopen(info->dlpi_name, RTLD_NOW | RTLD_NOLOAD);
    if (!library) return 0;
    bool found =
        look_up(out, library, "PMIx_Initialized", "PMIx_Finalize") ||
        look_up(out, library, "OPAL_MCA_PMIX3X_PMIx_Initialized", "OPAL_MCA_PMIX3X_PMIx_Finalize");
    dlclose(library); /* MPI holds it */
    return found;
}

bool starter_leave(void) {
    enum { MOST_USERS = 16 }; /* PMIx counts how often it was begun */
    Pmix pmix;
    if (dl_iterate_phdr(find_pmix, &pmix) != 1) return false;
    for (int i = 0; i < MOST_USERS && pmix.initialized(); i++) pmix.finalize(NULL, 0);
    return !pmix.initialized();
}
