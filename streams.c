#include "streams.h"

#include <fcntl.h>
#include <unistd.h>

void streams_fill(void) {
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) != -1) continue;
        /* The lowest free number is fd: those below it are open. */
        if (open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) != fd) return;
    }
}
