/* The comparison of a record with what the model gives: of results, receipts and conversations.
 *
 * Both are JSON. Each field of either is exactly one of these:
 *
 *     same          both have it, with the same value
 *     different     both have it, with different values; or only the record has it
 *     not checked   only the model's side has it: the record says nothing
 *     run           it names the run (a date, a version) and is on the caller's list: reported
 *                   where the values differ, and decides nothing
 *
 * No other field is left out. */
#ifndef COMPARE_H
#define COMPARE_H

#include <jansson.h>
#include <stdbool.h>

typedef enum Verdict { VERDICT_SAME, VERDICT_NOT_CHECKED, VERDICT_DIFFERENT } Verdict;

/* How many names the lists below keep. */
enum { COMPARISON_NAMES = 16 };

typedef struct Comparison {
    /* Paths of fields that name the run, as "response.body.created"; ends with NULL. NULL: none. */
    const char *const *run_fields;
    json_t *differences; /* [{"field", "expected", "got"}], the first COMPARISON_NAMES */
    json_t *not_checked; /* [path], likewise */
    json_t *run;         /* [path], likewise */
    size_t n_different, n_not_checked;
    bool failed; /* memory was short: the verdict is VERDICT_DIFFERENT */
} Comparison;

/* Compares `expected`, the record, with `got`, what the model gives; NULL: there is none. `path` is
 * the name of both, "" for a whole record. comparison_free frees the lists. */
Comparison comparison_of(const char *path, const json_t *expected, const json_t *got,
                         const char *const *run_fields);
void comparison_free(Comparison *comparison);

Verdict comparison_verdict(const Comparison *comparison);

/* true, null (not checked) or false, as reports have it under "same": a new reference. */
json_t *verdict_json(Verdict verdict);

/* Sets "not_checked" and "run" of a report, where there are any. */
void comparison_put_names(const Comparison *comparison, json_t *report);

#endif
