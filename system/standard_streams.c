#include "system/standard_streams.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "system/descriptor.h"

/* The files that a program opens at least: a model, its source, an output, and one of the OpenMP
 * runtime, which calls abort() when it cannot open it. */
enum { FILES_NEEDED = 4 };

Status standard_streams_fill(Error *error) {
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) != -1) continue;
        /* open() takes the lowest free number, which is fd. */
        if (open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) != fd)
            return error_set(error, "cannot open /dev/null: %s", strerror(errno));
    }
    int spare[FILES_NEEDED], n = 0, failure = 0;
    while (n < FILES_NEEDED && failure == 0) {
        spare[n] = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);
        if (spare[n] == -1)
            failure = errno;
        else
            n++;
    }
    while (n > 0) close(spare[--n]);
    if (failure != 0)
        return error_set(error, "cannot open files: %s (ulimit -n)", strerror(failure));
    return STATUS_OK;
}

enum { MOST_NAMED = 64 };

/* Adds the descriptors that a word names by their paths to named[*n]. */
static void find_named(const char *word, int named[MOST_NAMED], size_t *n) {
    static const char *const folders[] = {"/dev/fd/", "/proc/self/fd/"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        const char *at = strstr(word, folders[i]);
        if (at && *n < MOST_NAMED) named[(*n)++] = atoi(at + strlen(folders[i]));
    }
}

void standard_streams_only(char **words) {
    int named[MOST_NAMED];
    size_t n = 0;
    for (; *words; words++) find_named(*words, named, &n);
    descriptors_close_except(STDERR_FILENO + 1, named, n);
}

Status standard_streams_finish(Error *error) {
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout)) return STATUS_OK;
    if (errno == EPIPE) return STATUS_OK;
    return error_set(error, "stdout: cannot be written%s%s", errno ? ": " : "",
                     errno ? strerror(errno) : "");
}
