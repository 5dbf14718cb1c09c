/* Letting go of the program that started the ranks.
 *
 * MPI talks to that program (mpirun) by PMIx, over a connection on which a rank may ask for
 * anything, also to start programs: no sandbox holds code that can write to it. Once all ranks are
 * connected, MPI does not need it any more. */
#ifndef CLUSTER_STARTER_H
#define CLUSTER_STARTER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum { STARTER_MOST_LINKS = 64 };

/* The connections to the starter. */
typedef struct Starter {
    struct {
        int fd;
        ino_t socket;
    } links[STARTER_MOST_LINKS];
    size_t n;
    bool overflows; /* there were more */
} Starter;

/* Called when MPI has started and no rank is connected to another one yet: then each connected
 * socket leads to the starter. */
void starter_find(Starter *starter);

/* Says goodbye to the starter, which then waits for the end of this process alone. MPI can no
 * longer be ended (MPI_Finalize, MPI_Abort). Returns false where this MPI has no PMIx; then nothing
 * has changed. */
bool starter_leave(void);

/* Whether a connection that starter_find found is open still. */
bool starter_is_reachable(const Starter *starter);

#endif
