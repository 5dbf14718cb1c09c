#include "measure/report_beside.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "json/json_object.h"
#include "json/json_reader.h"
#include "system/text_file.h"

extern char **environ;

enum { ANSWER_MOST = 1 << 20 }; /* bytes that llama-bench may print; it prints some thousand */

static Status program_path(const char *directory, char path[PATH_MAX], Error *error) {
    if (snprintf(path, PATH_MAX, "%s/llama-bench", directory) < PATH_MAX) return STATUS_OK;
    return error_set(error, "--beside: the name of the folder is too long");
}

Status report_beside_check(const char *directory, Error *error) {
    char path[PATH_MAX];
    if (program_path(directory, path, error) != STATUS_OK) return STATUS_FAILED;
    if (access(path, X_OK) == 0) return STATUS_OK;
    return error_set(error, "--beside %s: %s: %s", directory, path, strerror(errno));
}

/* The environment with LD_LIBRARY_PATH=DIR instead of its own; NULL: no memory. `library` is the
 * assignment. */
static char **environment_with(char *library) {
    size_t n = 0;
    while (environ[n]) n++;
    char **all = calloc(n + 2, sizeof *all);
    if (!all) return NULL;
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (strncmp(environ[i], "LD_LIBRARY_PATH=", 16) != 0) all[kept++] = environ[i];
    all[kept] = library;
    return all;
}

/* In the new process: stdout is the pipe, the GGUF file stays open, and the process ends with its
 * parent. Never returns. */
static void become(const char *path, char *const *words, char *const *environment, int pipe_end,
                   int gguf, pid_t parent) {
    static const int defaults[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGXFSZ};
    for (size_t i = 0; i < sizeof defaults / sizeof *defaults; i++) signal(defaults[i], SIG_DFL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int nothing = open("/dev/null", O_RDWR);
    if (nothing < 0 || getppid() != parent) _exit(127);
    dup2(nothing, STDIN_FILENO);
    dup2(nothing, STDERR_FILENO);
    dup2(pipe_end, STDOUT_FILENO);
    fcntl(gguf, F_SETFD, 0);
    execve(path, words, environment);
    _exit(127);
}

/* Starts the program with words[]; *from becomes the pipe of what it prints. Returns its process,
 * or -1 with an Error. */
static pid_t start(const char *directory, const char *path, char *const *words, int gguf, int *from,
                   Error *error) {
    int ends[2];
    char *library = NULL;
    if (pipe2(ends, O_CLOEXEC) != 0) {
        error_set(error, "no pipe: %s", strerror(errno));
        return -1;
    }
    if (asprintf(&library, "LD_LIBRARY_PATH=%s", directory) < 0) library = NULL;
    char **environment = library ? environment_with(library) : NULL;
    pid_t parent = getpid(), process = environment ? fork() : -1;
    if (process == 0) become(path, words, environment, ends[1], gguf, parent);
    if (process < 0) error_set(error, "%s: cannot be started: %s", path, strerror(errno));
    free(environment);
    free(library);
    close(ends[1]);
    *from = ends[0];
    if (process < 0) close(ends[0]);
    return process;
}

/* Takes what llama-bench measured from its JSON: a list with an object for each test. */
static Status read_answer(const char *path, const char *text, size_t length, PeerSpeed *speed,
                          Error *error) {
    json_error_t where;
    json_t *tests = json_reader_load(text, length, JSON_READER_PYTHON, &where);
    const json_t *first = json_array_get(tests, 0);
    const char *commit = json_text(first, "build_commit");
    *speed = (PeerSpeed){.build = ""};
    for (size_t i = 0; i < json_array_size(tests); i++) {
        const json_t *test = json_array_get(tests, i);
        double tokens = json_number(test, "avg_ts", 0.0);
        if (json_number(test, "n_gen", 0.0) > 0.0)
            speed->decode = tokens;
        else
            speed->prefill = tokens;
    }
    /* Only ik_llama.cpp has fused experts. */
    snprintf(speed->build, sizeof speed->build, "%s %.40s (%.0f)",
             json_value(first, "fused_moe") || json_value(first, "fmoe") ? "ik_llama.cpp"
                                                                         : "llama.cpp",
             commit ? commit : "of an unknown commit", json_number(first, "build_number", 0.0));
    json_decref(tests);
    if (speed->decode > 0.0 && speed->prefill > 0.0) return STATUS_OK;
    return error_set(error, "%s: what it prints is not the JSON of llama-bench", path);
}

/* Waits for the end of the process, whose status *ended becomes. */
static void wait_for(pid_t process, int *ended) {
    while (waitpid(process, ended, 0) < 0 && errno == EINTR) continue;
}

Status report_beside_run(const char *directory, int gguf, int n_threads, size_t n_prompt,
                         size_t n_decode, const volatile sig_atomic_t *interrupted,
                         PeerSpeed *speed, Error *error) {
    char path[PATH_MAX], file[40], threads[16], prompt[24], decode[24], *text = NULL;
    size_t length = 0;
    int from = -1, ended = 0;
    if (program_path(directory, path, error) != STATUS_OK) return STATUS_FAILED;
    snprintf(file, sizeof file, "/proc/self/fd/%d", gguf);
    snprintf(threads, sizeof threads, "%d", n_threads);
    snprintf(prompt, sizeof prompt, "%zu", n_prompt);
    snprintf(decode, sizeof decode, "%zu", n_decode);
    char *words[] = {path, "-m",   file, "-t", threads, "-p",   prompt,
                     "-n", decode, "-r", "1",  "-o",    "json", NULL};
    pid_t process = start(directory, path, words, gguf, &from, error);
    if (process < 0) return STATUS_FAILED;
    Status status = text_file_read(from, path, ANSWER_MOST, interrupted, &text, &length, error);
    close(from);
    if (status != STATUS_OK) kill(process, SIGKILL);
    wait_for(process, &ended);
    if (status == STATUS_OK && *interrupted) status = STATUS_INTERRUPTED;
    if (status == STATUS_OK && WIFSIGNALED(ended))
        status = error_set(error, "%s: ended by signal %d", path, WTERMSIG(ended));
    else if (status == STATUS_OK && WEXITSTATUS(ended) != 0)
        status = error_set(error, "%s: failed with status %d; run %s/llama-bench --help by hand",
                           path, WEXITSTATUS(ended), directory);
    if (status == STATUS_OK) status = read_answer(path, text, length, speed, error);
    free(text);
    return status;
}
