/* From logits to log-probabilities: what --batch reports, --eval and --score measure. */
#ifndef LOGPROBS_H
#define LOGPROBS_H

#include "model.h"
#include "core/numeric.h"

/* Returns log(sum(exp(logits[0 ... n - 1]))): the log-probability of token i is logits[i] minus
 * this. Fills exps[n] with exp(logits[i] - max) and *sum, unless `sum` is NULL, with their sum. The
 * logarithm is the project's own: the same bits on every machine. */
double logprobs_log_sum(const Numeric *numeric, const float *logits, size_t n, float *exps,
                        double *sum);

/* The index of the largest of logits[n], n > 0; the lowest such index when several are equal. */
size_t logprobs_argmax(const float *logits, size_t n);

/* How many rows a call may take when all of them want logits: at most model_max_rows(), and no more
 * than 64 MiB of logits. At least 1. */
size_t logprobs_max_rows(const Model *model);

#endif
