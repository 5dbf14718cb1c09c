/* Tests that scripts drive: a line of JSON in, a line of JSON out. */
#ifndef TESTS_JSON_LINES_H
#define TESTS_JSON_LINES_H

#include <jansson.h>

/* Answers each line of stdin with one line on stdout until stdin ends: `answer` returns a new
 * reference for a request that it borrows. Returns 0, the exit status. */
int json_lines_serve(json_t *(*answer)(const json_t *request));

#endif
