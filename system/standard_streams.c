#include "system/standard_streams.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

/* Closes the descriptors from `first` to `last`. */
static void close_all(unsigned first, unsigned last) {
    long most = sysconf(_SC_OPEN_MAX);
    if (first > last || close_range(first, last, 0) == 0) return;
    /* A kernel before 5.9. */
    for (long fd = first; fd <= (long)last && fd < most; fd++) close((int)fd);
}

/* The smallest descriptor from `first` that a word names by its path; UINT_MAX: none. */
static unsigned next_named(char **words, unsigned first) {
    static const char *const folders[] = {"/dev/fd/", "/proc/self/fd/"};
    unsigned next = UINT_MAX;
    for (; *words; words++) {
        for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
            const char *at = strstr(*words, folders[i]);
            unsigned long fd = at ? strtoul(at + strlen(folders[i]), NULL, 10) : UINT_MAX;
            if (fd >= first && fd < next) next = (unsigned)fd;
        }
    }
    return next;
}

void standard_streams_only(char **words) {
    for (unsigned first = STDERR_FILENO + 1, named;; first = named + 1) {
        named = next_named(words, first);
        close_all(first, named == UINT_MAX ? UINT_MAX : named - 1);
        if (named == UINT_MAX) return;
    }
}

Status standard_streams_finish(Error *error) {
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout)) return STATUS_OK;
    if (errno == EPIPE) return STATUS_OK;
    return error_set(error, "stdout: cannot be written%s%s", errno ? ": " : "",
                     errno ? strerror(errno) : "");
}
