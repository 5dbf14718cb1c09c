#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

char *build_path(const char *name) {
    const char *build = getenv("VERBATIM_BUILD");
    char *path = NULL;
    assert_true(asprintf(&path, "%s/%s", build ? build : "build", name) > 0);
    return path;
}

const char *shared_data(const char *name) {
    static char path[256];
    static const char *const places[] = {"../shared/data", "../../shared/data"};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        snprintf(path, sizeof path, "%s/%s", places[i], name);
        if (access(path, R_OK) == 0) return path;
    }
    return NULL;
}

char *file_read(const char *path, size_t *length) {
    FILE *file = fopen(path, "rb");
    if (!file) fail_msg("%s: %s", path, strerror(errno));
    fseek(file, 0, SEEK_END);
    *length = (size_t)ftell(file);
    rewind(file);
    char *bytes = malloc(*length + 1);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, *length, file), *length);
    bytes[*length] = '\0';
    fclose(file);
    return bytes;
}

void file_write(const char *path, const void *bytes, size_t length) {
    FILE *file = fopen(path, "wb");
    if (!file) fail_msg("%s: %s", path, strerror(errno));
    assert_int_equal(fwrite(bytes, 1, length, file), length);
    assert_int_equal(fclose(file), 0);
}

/* Takes what fd has into *text; closes it at its end. */
static void take(struct pollfd *fd, char **text, size_t *length) {
    char part[65536];
    ssize_t n = read(fd->fd, part, sizeof part);
    if (n <= 0) {
        close(fd->fd);
        fd->fd = -1;
        return;
    }
    *text = realloc(*text, *length + (size_t)n + 1);
    assert_non_null(*text);
    memcpy(*text + *length, part, (size_t)n);
    *length += (size_t)n;
    (*text)[*length] = '\0';
}

/* Gives the input and takes both outputs until they end. */
static void talk(int in, int out, int err, const char *input, size_t input_length, Process *p) {
    struct pollfd fds[] = {{in, POLLOUT, 0}, {out, POLLIN, 0}, {err, POLLIN, 0}};
    while (fds[1].fd >= 0 || fds[2].fd >= 0) {
        if (fds[0].fd >= 0 && input_length == 0) {
            close(fds[0].fd);
            fds[0].fd = -1;
        }
        int ready = poll(fds, 3, 300 * 1000);
        if (ready < 0 && errno == EINTR) continue;
        if (ready <= 0) fail_msg("the program hangs");
        if (fds[0].fd >= 0 && fds[0].revents) {
            ssize_t n = write(fds[0].fd, input, input_length);
            if (n < 0) n = (ssize_t)input_length; /* it does not read: fine */
            input += n;
            input_length -= (size_t)n;
        }
        if (fds[1].fd >= 0 && fds[1].revents) take(&fds[1], &p->out, &p->out_length);
        if (fds[2].fd >= 0 && fds[2].revents) take(&fds[2], &p->err, &p->err_length);
    }
    if (fds[0].fd >= 0) close(fds[0].fd);
}

Process process_run(const char *const *argv, const char *input, size_t input_length) {
    Process p = {.out = calloc(1, 1), .err = calloc(1, 1)};
    int in[2], out[2], err[2], status;
    char *path = strchr(argv[0], '/') ? strdup(argv[0]) : build_path(argv[0]);
    posix_spawn_file_actions_t actions;
    pid_t child;
    assert_int_equal(pipe2(in, O_CLOEXEC) | pipe2(out, O_CLOEXEC) | pipe2(err, O_CLOEXEC), 0);
    signal(SIGPIPE, SIG_IGN);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in[0], 0);
    posix_spawn_file_actions_adddup2(&actions, out[1], 1);
    posix_spawn_file_actions_adddup2(&actions, err[1], 2);
    int failed = posix_spawn(&child, path, &actions, NULL, (char *const *)(uintptr_t)argv, environ);
    if (failed) fail_msg("%s: %s", path, strerror(failed));
    posix_spawn_file_actions_destroy(&actions);
    free(path);
    close(in[0]), close(out[1]), close(err[1]);
    talk(in[1], out[0], err[0], input, input_length, &p);
    assert_int_equal(waitpid(child, &status, 0), child);
    p.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return p;
}

void process_free(Process *p) {
    free(p->out);
    free(p->err);
    *p = (Process){0};
}
