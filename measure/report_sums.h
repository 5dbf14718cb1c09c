/* The sums of a report: what every machine must compute to the bit. */
#ifndef MEASURE_REPORT_SUMS_H
#define MEASURE_REPORT_SUMS_H

#include <jansson.h>
#include <signal.h>

#include "base/status.h"
#include "kernels/weight_types.h"

typedef struct ReportSums {
    json_t *stories, *logits;   /* arrays, owned by the caller */
    size_t n_stories, n_logits; /* computed: stories by ways, types by instruction sets */
    size_t n_other;             /* of these, those that are not the known ones */
    char other[512];            /* which, for people, as long as there is room */
} ReportSums;

/* The SHA-256 of the stories that the README shows, told by the model that comes with the program:
 * with one thread, with n_threads, and in plain C, one token a pass (which `quick` leaves out).
 * Appends {"seed", "known", "sums": {WAY: SUM}, "equal"} to `stories`. */
Status report_stories(ReportSums *sums, int n_threads, bool quick,
                      const volatile sig_atomic_t *interrupted, Error *error);

/* The XXH3 of a generated model's logits, for each type of weights (with `quick` only the first
 * ones) and each instruction set of this machine, with two threads. Appends {"type", "known",
 * "sums": {SET: SUM}, "equal"} to `logits`. */
Status report_logits(ReportSums *sums, bool quick, const volatile sig_atomic_t *interrupted,
                     Error *error);

/* The same for one type. */
Status report_logits_of(ReportSums *sums, TensorType type, Error *error);

/* Whether the sum of a type's logits is known. */
bool report_has_sum(TensorType type);

#endif
