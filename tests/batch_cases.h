/* Requests of mixed lengths and options, for the batch tests: as JSON lines, and as the equivalent
 * command lines of `run`. */
#ifndef BATCH_CASES_H
#define BATCH_CASES_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "tests/process.h"

/* The i-th request, {"id": "r<i>", ...}, the same every time; the caller calls json_decref. */
json_t *batch_case(size_t i);

/* The text that `run MODEL` gives for this request alone; malloc'ed. */
char *batch_case_alone(const char *model, size_t i, size_t *length);

/* Writes the first n requests to a file, one on each line. */
void batch_write_cases(const char *path, size_t n);

/* Runs `run MODEL --batch INPUT -o OUTPUT` with further arguments (NULL-terminated). */
Process batch_run_program(const char *model, const char *input, const char *output,
                          const char *const *more);

/* The same, and sends a signal after this many microseconds. Returns true when the program was
 * still running then. *status is the exit status, or 128 + the signal that killed it, as in a
 * shell. */
bool batch_run_and_signal(const char *model, const char *input, const char *output,
                          const char *const *more, unsigned microseconds, int signal_number,
                          int *status);
/* The same with SIGKILL. */
bool batch_run_and_kill(const char *model, const char *input, const char *output,
                        const char *const *more, unsigned microseconds);

/* The lines of a file, sorted, joined again; malloc'ed. */
char *batch_sorted_lines(const char *path);

/* Fails unless each of the n results in `output` equals what `run` gives for the request alone. */
void batch_check_results(const char *model, const char *output, size_t n);

#endif
