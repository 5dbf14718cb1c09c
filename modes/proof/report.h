/* What --check and --replay say: a line of JSON on stdout for each part that was compared, and a
 * sum on stderr.
 *
 *     {"part": "item", "number": 3, "same": true}
 *     run: 12 parts: 10 same, 1 different, 1 not checked
 */
#ifndef REPORT_H
#define REPORT_H

#include <stdint.h>

#include "base/status.h"
#include "modes/proof/compare.h"

typedef struct Report {
    bool quiet;                         /* lines of what is the same are not printed */
    size_t n_of[VERDICT_DIFFERENT + 1]; /* parts, by what came of them */
} Report;

/* A new line of a part; `number` is that of an item or a message, 0: none. */
json_t *report_line(const char *part, uint64_t number);

/* Sets "same", prints the line, which it takes over, and counts it. */
void report_say(Report *report, json_t *line, Verdict verdict);

/* Compares a part (compare.h), with a line for each field that differs. */
void report_compare(Report *report, const char *part, uint64_t number, const json_t *expected,
                    const json_t *got, const char *const *run_fields);

/* Says that nothing here can be compared with a part of the record, and why. */
void report_not_checked(Report *report, const char *part, uint64_t number, const char *why);

/* Prints the sum of `what` ("part"). STATUS_LINES_FAILED unless all are the same; `name` is the
 * record's, for the error; NULL: none. */
Status report_end(const Report *report, const char *name, const char *what, Error *error);

#endif
