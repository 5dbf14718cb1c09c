#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "process.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

char *build_path(const char *name) {
    const char *build = getenv("VERBATIM_BUILD");
    char *path = NULL;
    assert_true(asprintf(&path, "%s/%s", build ? build : "build", name) > 0);
    return path;
}

char *program_command(const char *name) {
    const char *runner = getenv("VERBATIM_RUNNER");
    char *path = build_path(name), *command = NULL;
    assert_true(asprintf(&command, "%s %s", runner ? runner : "", path) > 0);
    free(path);
    return command;
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

pid_t terminal_fork(int *terminal, const struct winsize *size) {
    struct winsize copy = size ? *size : (struct winsize){24, 80, 0, 0};
    pid_t child = forkpty(terminal, NULL, NULL, &copy);
    if (child < 0) {
        print_message("no terminal can be opened here: %s\n", strerror(errno));
        skip();
    }
    return child;
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

/* Appends what can be read from fd to *text; closes fd at end of file. */
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

/* Writes the input to the process and reads both of its outputs until they end. */
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
            /* POLLOUT guarantees room for this much. A larger write could block while the program
             * waits for us to read its output. */
            ssize_t n = write(fds[0].fd, input, input_length < 4096 ? input_length : 4096);
            if (n < 0) n = (ssize_t)input_length; /* the program closed its stdin: allowed */
            input += n;
            input_length -= (size_t)n;
        }
        if (fds[1].fd >= 0 && fds[1].revents) take(&fds[1], &p->out, &p->out_length);
        if (fds[2].fd >= 0 && fds[2].revents) take(&fds[2], &p->err, &p->err_length);
    }
    if (fds[0].fd >= 0) close(fds[0].fd);
}

/* Builds the real command line: the path of a built program, preceded by the emulator's command
 * when VERBATIM_RUNNER is set. The first *n_owned strings are malloc'ed. */
static void expand(const char *const *argv, char **out, size_t *n_owned) {
    const char *runner = getenv("VERBATIM_RUNNER");
    size_t n = 0;
    if (strchr(argv[0], '/')) {
        out[n++] = strdup(argv[0]);
    } else {
        char *words = strdup(runner ? runner : ""), *rest = words, *word;
        while ((word = strsep(&rest, " ")) && n < PROCESS_MAX_ARGUMENTS / 2)
            if (*word) out[n++] = strdup(word);
        free(words);
        out[n++] = build_path(argv[0]);
    }
    *n_owned = n;
    for (size_t i = 1; argv[i]; i++) {
        assert_true(n < PROCESS_MAX_ARGUMENTS);
        out[n++] = (char *)(uintptr_t)argv[i];
    }
    out[n] = NULL;
}

/* Starts the program; ours[3] are the ends of its stdin, stdout and stderr. */
static pid_t start(const char *const *argv, const char *input, size_t input_length, int ours[3]) {
    int in[2], out[2], err[2];
    char *command[PROCESS_MAX_ARGUMENTS + 1];
    size_t n_owned;
    expand(argv, command, &n_owned);
    posix_spawn_file_actions_t actions;
    pid_t child;
    assert_int_equal(pipe2(in, O_CLOEXEC) | pipe2(out, O_CLOEXEC) | pipe2(err, O_CLOEXEC), 0);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGHUP, SIG_DFL); /* nohup's programs would pass on that they ignore it */
    if (input_length > 0)
        assert_int_equal(write(in[1], input, input_length), (ssize_t)input_length);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in[0], 0);
    posix_spawn_file_actions_adddup2(&actions, out[1], 1);
    posix_spawn_file_actions_adddup2(&actions, err[1], 2);
    int failed = posix_spawnp(&child, command[0], &actions, NULL, command, environ);
    if (failed) fail_msg("%s: %s", command[0], strerror(failed));
    posix_spawn_file_actions_destroy(&actions);
    for (size_t i = 0; i < n_owned; i++) free(command[i]);
    close(in[0]), close(out[1]), close(err[1]);
    ours[0] = in[1], ours[1] = out[0], ours[2] = err[0];
    return child;
}

/* What the program prints until its end, and how it ends. */
static Process finish(pid_t child, const int ours[3], const char *input, size_t input_length,
                      struct rusage *used) {
    Process p = {.out = calloc(1, 1), .err = calloc(1, 1)};
    int status;
    talk(ours[0], ours[1], ours[2], input, input_length, &p);
    assert_int_equal(wait4(child, &status, 0, used), child);
    p.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return p;
}

Process process_run(const char *const *argv, const char *input, size_t input_length) {
    /* A short input is there when the program looks, which does not wait for it. */
    size_t at_once = input_length <= PIPE_BUF ? input_length : 0;
    struct rusage used;
    int ours[3];
    pid_t child = start(argv, input, at_once, ours);
    return finish(child, ours, input, input_length - at_once, &used);
}

/* The seconds of processors that a running process has used. */
static double seconds_used(pid_t process) {
    char path[64], text[1024] = "", *rest;
    unsigned long user = 0, kernel = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)process);
    FILE *file = fopen(path, "r");
    if (!file) return 0;
    if (fread(text, 1, sizeof text - 1, file) > 0 && (rest = strrchr(text, ')')))
        sscanf(rest, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &kernel);
    fclose(file);
    return (double)(user + kernel) / (double)sysconf(_SC_CLK_TCK);
}

Process process_signalled(const char *const *argv, int milliseconds, int number, double *seconds) {
    struct rusage used;
    int ours[3], said[2];
    double before = 0;
    assert_int_equal(pipe2(said, O_CLOEXEC), 0);
    pid_t child = start(argv, NULL, 0, ours), sender = fork();
    assert_true(sender >= 0);
    if (sender == 0) {
        usleep((useconds_t)milliseconds * 1000);
        kill(child, SIGSTOP); /* it does not go on while this process waits for a processor */
        usleep(20 * 1000);
        before = seconds_used(child);
        kill(child, number);
        kill(child, SIGCONT);
        bool wrote = write(said[1], &before, sizeof before) == sizeof before;
        sleep(30);
        kill(child, SIGKILL);
        _exit(!wrote);
    }
    close(said[1]);
    Process p = finish(child, ours, NULL, 0, &used);
    kill(sender, SIGKILL);
    waitpid(sender, NULL, 0);
    if (read(said[0], &before, sizeof before) != sizeof before) before = 0; /* it ended before */
    close(said[0]);
    double all = (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
                 1e-6 * (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
    *seconds = (all - before) / (double)sysconf(_SC_NPROCESSORS_ONLN);
    return p;
}

void process_free(Process *p) {
    free(p->out);
    free(p->err);
    *p = (Process){0};
}
