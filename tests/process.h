/* Runs the real programs, as a user's shell would. */
#ifndef TESTS_PROCESS_H
#define TESTS_PROCESS_H

#include <stddef.h>

typedef struct Process {
    int status; /* exit status; 128 + signal when one ended it */
    char *out, *err;
    size_t out_length, err_length;
} Process;

enum { PROCESS_MAX_ARGUMENTS = 40 };

/* Runs argv[0] with `input` on stdin (NULL: nothing), and waits. `argv` ends in NULL. A program
 * without a slash is taken from the directory VERBATIM_BUILD (default: build), and run
 * by VERBATIM_RUNNER (an emulator, default: none). Fails the test
 * when the program cannot be run or takes more than five minutes. */
Process process_run(const char *const *argv, const char *input, size_t input_length);
void process_free(Process *process);

/* process_run with its arguments as they come: RUN("run", "model.bin", "-n", "5"). */
#define RUN(...) process_run((const char *const[]){__VA_ARGS__, NULL}, NULL, 0)

/* A built program as a shell calls it, under an emulator where there is one; malloc'ed. */
char *program_command(const char *name);

/* The path of a built program, or of a scratch file in the build directory; malloc'ed. */
char *build_path(const char *name);

/* ../shared/data/NAME when it is there, else NULL. */
const char *shared_data(const char *name);

/* The whole file, NUL-terminated, malloc'ed; fails the test when it cannot be read. */
char *file_read(const char *path, size_t *length);
void file_write(const char *path, const void *bytes, size_t length);

#endif
