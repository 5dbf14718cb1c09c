/* Requests of mixed lengths and options for the batch tests, each as a JSON line and as the
 * equivalent command line of `run`. */
#ifndef BATCH_CASES_H
#define BATCH_CASES_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "tests/process.h"

/* Makes the i-th request, {"id": "r<i>", ...}; the same i always gives the same request. The caller
 * calls json_decref. */
json_t *batch_case(size_t i);

/* Runs `run MODEL` for the i-th request alone and returns the text; malloc'ed. */
char *batch_case_alone(const char *model, size_t i, size_t *length);

/* Writes the first n requests to a file, one on each line. */
void batch_write_cases(const char *path, size_t n);

/* Writes n lines of every kind to a file: requests in all three forms with ids and without,
 * samples, logprobs, lines that fail, that repeat an id and that are blank. */
void batch_write_mixed(const char *path, size_t n);

/* Runs `run MODEL --batch INPUT -o OUTPUT` with further arguments (NULL-terminated). */
Process batch_run_program(const char *model, const char *input, const char *output,
                          const char *const *more);

/* Like batch_run_program, but sends a signal to the program after this many microseconds. Returns
 * true when the program was still running then. *status is the exit status, or 128 + the signal
 * that killed the program, as in a shell. */
bool batch_run_and_signal(const char *model, const char *input, const char *output,
                          const char *const *more, unsigned microseconds, int signal_number,
                          int *status);
/* Like batch_run_and_signal with SIGKILL. */
bool batch_run_and_kill(const char *model, const char *input, const char *output,
                        const char *const *more, unsigned microseconds);

/* Reads a file and returns its lines sorted, each with its newline; malloc'ed. */
char *batch_sorted_lines(const char *path);

/* Fails the test unless each of the n results in the file `output` equals what `run` gives for that
 * request alone. */
void batch_check_results(const char *model, const char *output, size_t n);

#endif
