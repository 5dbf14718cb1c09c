/* A process that the program starts before it gives up its rights, to do what it then no longer
 * may, and the two pipes between them. */
#ifndef HELPER_PROCESS_H
#define HELPER_PROCESS_H

#include <sys/types.h>

#include "base/status.h"

typedef struct HelperProcess {
    pid_t process; /* 0 in the helper process itself */
    int to;        /* the pipe to the other side; closed in programs that it starts */
    int from;      /* the pipe from the other side; closed likewise */
} HelperProcess;

/* Starts a process like this one, in which it returns as well. `task` is for the Error only: what
 * the process does. */
Status helper_process_start(HelperProcess *helper, const char *task, Error *error);

#endif
