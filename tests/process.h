/* Runs the built programs as a user's shell would. */
#ifndef TESTS_PROCESS_H
#define TESTS_PROCESS_H

#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/types.h>

typedef struct Process {
    int status; /* exit status, or 128 + the signal that ended the program */
    char *out, *err;
    size_t out_length, err_length;
} Process;

enum { PROCESS_MAX_ARGUMENTS = 40 };

/* Runs argv[0] with `input` on stdin (NULL: empty) and waits for its end. `argv` ends with NULL. A
 * program name without a slash is looked up in the directory VERBATIM_BUILD (default: build) and
 * run by the emulator VERBATIM_RUNNER (default: none). Fails the test when the program cannot be
 * run or takes more than five minutes. */
Process process_run(const char *const *argv, const char *input, size_t input_length);
void process_free(Process *process);

/* The same without input; sends the program a signal `milliseconds` after its start, and SIGKILL
 * half a minute later. *seconds: what it used of each processor from the signal on, which counts
 * the same on a machine that is busy. */
Process process_signalled(const char *const *argv, int milliseconds, int number, double *seconds);

/* Calls process_run with the arguments listed one by one: RUN("run", "model.bin", "-n", "5"). */
#define RUN(...) process_run((const char *const[]){__VA_ARGS__, NULL}, NULL, 0)

/* The process has ended with this status and said these words on stderr. Frees it. */
#define PROCESS_SAYS(process, status_, words)                                                      \
    do {                                                                                           \
        assert_int_equal((process).status, status_);                                               \
        assert_non_null(strstr((process).err, words));                                             \
        process_free(&(process));                                                                  \
    } while (0)

/* Like forkpty: forks, with the child in a new terminal of this size (NULL: any). Skips the test,
 * with a line that says why, where no terminal can be opened, as in a container without /dev/pts.
 */
pid_t terminal_fork(int *terminal, const struct winsize *size);

/* Returns the shell command for a built program, preceded by the emulator if there is one;
 * malloc'ed. */
char *program_command(const char *name);

/* Returns the path of a built program, or of a scratch file in the build directory; malloc'ed. */
char *build_path(const char *name);

/* Returns ../shared/data/NAME if it exists, else NULL. */
const char *shared_data(const char *name);

/* Reads a whole file into a malloc'ed, NUL-terminated buffer; fails the test when it cannot be
 * read. */
char *file_read(const char *path, size_t *length);
void file_write(const char *path, const void *bytes, size_t length);

#endif
