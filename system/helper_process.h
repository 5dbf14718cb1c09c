/* A process that the program starts, and the two pipes between them. The process keeps rights that
 * the program gives up (errand.h, the chat's courier), or it parses a stranger's file while the
 * program still has its rights. */
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

/* Reads an answer of `size` bytes. Returns false if the process ended, or sent no byte for
 * `milliseconds` (-1: any time). */
bool helper_process_read(const HelperProcess *helper, void *answer, size_t size, int milliseconds);

/* Closes the pipes and waits for the end of the process, which it kills first if `kills`. */
void helper_process_end(const HelperProcess *helper, bool kills);

#endif
