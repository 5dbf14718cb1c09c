#include "system/helper_process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

Status helper_process_start(HelperProcess *helper, const char *task, Error *error) {
    int there[2], back[2];
    if (pipe2(there, O_CLOEXEC) != 0) return error_set(error, "no pipe: %s", strerror(errno));
    if (pipe2(back, O_CLOEXEC) != 0) {
        int reason = errno;
        close(there[0]);
        close(there[1]);
        return error_set(error, "no pipe: %s", strerror(reason));
    }
    pid_t process = fork();
    int reason = errno;
    bool inside = process == 0;
    close(there[inside ? 1 : 0]);
    close(back[inside ? 0 : 1]);
    *helper = inside ? (HelperProcess){0, back[1], there[0]}
                     : (HelperProcess){process, there[1], back[0]};
    if (process >= 0) return STATUS_OK;
    close(helper->to);
    close(helper->from);
    return error_set(error, "cannot start the process that %s: %s", task, strerror(reason));
}

bool helper_process_read(const HelperProcess *helper, void *answer, size_t size, int milliseconds) {
    struct pollfd ready = {.fd = helper->from, .events = POLLIN};
    for (size_t done = 0; done < size;) {
        int n_ready = poll(&ready, 1, milliseconds);
        ssize_t n = n_ready > 0 ? read(helper->from, (char *)answer + done, size - done) : n_ready;
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        done += (size_t)n;
    }
    return true;
}

void helper_process_end(const HelperProcess *helper, bool kills) {
    close(helper->to);
    close(helper->from);
    if (kills) kill(helper->process, SIGKILL);
    while (waitpid(helper->process, NULL, 0) < 0 && errno == EINTR) {
    }
}
