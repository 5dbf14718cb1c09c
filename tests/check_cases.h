/* Recorded results with one thing changed, and whether --check names it: test_check.c tries a few,
 * soak_check.c many. */
#ifndef CHECK_CASES_H
#define CHECK_CASES_H

#include <stddef.h>

typedef struct CheckCases {
    char *directory, *requests, *results, *changed;
    size_t n;
} CheckCases;

/* Makes `n` requests of many kinds (greedy, sampled, penalties, several texts, stop strings,
 * shapes) and records the results of `model` without drafts. */
CheckCases check_cases_open(const char *model, size_t n);
void check_cases_close(CheckCases *cases);

/* Makes the results once more with other options (`more`) that must not matter, --draft and the
 * like: the file must be the same. Returns how many tokens were drafted. */
size_t check_cases_repeat(const CheckCases *cases, const char *model, const char *const *more);

/* Checks the results as they are: all must be the same. `more` are further arguments, ending with
 * NULL. */
void check_cases_same(const CheckCases *cases, const char *model, const char *const *more);

/* Changes one byte in the text of each result, at a place that `seed` draws; each must be named,
 * with its first byte that differs. Returns how many were changed. */
size_t check_cases_bytes(const CheckCases *cases, const char *model, unsigned seed);

/* Checks with other options (`more`) than the results were made with: named must be those results,
 * and the bytes, that a fresh batch with these options gives otherwise. Returns how many. */
size_t check_cases_options(const CheckCases *cases, const char *model, const char *const *more);

#endif
