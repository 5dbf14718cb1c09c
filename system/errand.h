/* One job for later, with the rights that the program gives up now.
 *
 * A process that is started before the sandbox (sandbox.h) waits to be told whether to finish the
 * job, such as giving a complete file its name, or to drop it. It can do nothing else, so code that
 * was taken over in the sandbox gains no more than this choice. When the program ends without a
 * word, even killed, the job is dropped. */
#ifndef ERRAND_H
#define ERRAND_H

#include <sys/types.h>

#include "base/status.h"

typedef struct Errand {
    pid_t process; /* 0: none */
    int to, from;  /* pipes */
} Errand;

typedef struct ErrandJob {
    Status (*finish)(void *context, Error *error);
    void (*drop)(void *context); /* also called after `finish` failed */
    void *context;
    int descriptors[2]; /* descriptors that the job needs, or -1; all others are closed in the
                           process */
} ErrandJob;

/* The process has a copy of what `context` points at. */
Status errand_start(Errand *errand, const ErrandJob *job, Error *error);

/* errand_finish lets the process do the job's `finish`, errand_drop its `drop`; both wait for its
 * end, and leave an Errand of zeros, for which they do nothing. */
Status errand_finish(Errand *errand, Error *error);
void errand_drop(Errand *errand);

/* The usual job: a temporary file gets its name (replace_file_rename), or is removed. Both texts
 * are borrowed for the call. */
Status errand_start_rename(Errand *errand, const char *temporary, const char *path, Error *error);

#endif
