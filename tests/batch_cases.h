/* Requests of mixed lengths and options, for the batch tests: as JSON lines, and as the command
 * lines of `run` that ask for the same. */
#ifndef BATCH_CASES_H
#define BATCH_CASES_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "tests/process.h"

/* The i-th request, {"id": "r<i>", ...}, to json_decref. The same every time. */
json_t *batch_case(size_t i);

/* The text that `run MODEL` gives for it alone; malloc'ed. */
char *batch_case_alone(const char *model, size_t i, size_t *length);

/* Writes the first n requests to a file, a line each. */
void batch_write_cases(const char *path, size_t n);

/* `run MODEL --batch INPUT -o OUTPUT` and what else is given (NULL-terminated). */
Process batch_run_program(const char *model, const char *input, const char *output,
                          const char *const *more);

/* The same, sent a signal after that many microseconds. True when it was still running.
 * *status is what a shell says: 128 + signal when one ended it. */
bool batch_run_and_signal(const char *model, const char *input, const char *output,
                          const char *const *more, unsigned microseconds, int signal_number,
                          int *status);
/* With SIGKILL. */
bool batch_run_and_kill(const char *model, const char *input, const char *output,
                        const char *const *more, unsigned microseconds);

/* The lines of a file, sorted, joined again; malloc'ed. */
char *batch_sorted_lines(const char *path);

/* Fails unless each of the n results in `output` is what the request gets alone. */
void batch_check_results(const char *model, const char *output, size_t n);

#endif
