/* A directory with a small model in which batches are run, the state of the tests of batches. */
#ifndef BATCH_PLACE_H
#define BATCH_PLACE_H

#include "tests/batch_cases.h"

typedef struct BatchPlace {
    char *directory, *model;
    char *input, *output; /* requests and results */
    char *other;          /* a name for anything else */
} BatchPlace;

/* cmocka's setup and teardown of a group, and the teardown of a case, which removes its output. */
int batch_place_open(void **state);
int batch_place_close(void **state);
int batch_place_clean(void **state);

/* Further arguments of the functions below. */
#define MORE(...) ((const char *const[]){__VA_ARGS__, NULL})

/* Answers the requests of p->input in p->output. */
Process batch_place_run(const BatchPlace *p, const char *const *more);

/* Runs the program and fails the test unless it ends with this exit status and stderr has `message`
 * (NULL: anything). */
void batch_place_expect(const BatchPlace *p, int status, const char *const *more,
                        const char *message);

/* Writes the requests. */
void batch_place_input(const BatchPlace *p, const char *text);

/* The result on line `index` of a file; the caller calls json_decref. */
json_t *batch_place_result(const char *path, size_t index);

/* The text of member a, or of member b of member a; "" where there is none. */
const char *batch_place_text(const json_t *json, const char *a, const char *b);

void batch_place_same_files(const char *a, const char *b);

#endif
