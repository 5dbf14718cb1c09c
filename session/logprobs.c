#include "session/logprobs.h"

#include <string.h>

/* The natural logarithm of x >= 1, the same bits everywhere: x = m * 2^e with m about 1, and
 * log m = 2 artanh((m - 1) / (m + 1)) by its series. Good to a few units of the last place. */
static double logprobs_log(double x) {
    int exponent;
    double m = frexp(x, &exponent);
    if (m < 0.70710678118654752) {
        m *= 2.0;
        exponent--;
    }
    double z = (m - 1.0) / (m + 1.0), square = z * z, sum = 0.0;
    for (int k = 25; k >= 1; k -= 2) sum = sum * square + 1.0 / k;
    return 2.0 * z * sum + exponent * 0.69314718055994531;
}

double logprobs_log_sum(const Numeric *numeric, const float *logits, size_t n, float *exps,
                        double *sum) {
    float max = numeric->maximum(logits, n);
    memcpy(exps, logits, n * sizeof *logits);
    double total = (double)numeric->softmax_sum(exps, max, n);
    if (sum) *sum = total;
    return (double)max + logprobs_log(total);
}

size_t logprobs_argmax(const float *logits, size_t n) {
    size_t best = 0;
    for (size_t i = 1; i < n; i++)
        if (logits[i] > logits[best]) best = i;
    return best;
}

size_t logprobs_max_rows(const Model *model) {
    enum { LOGITS_BYTES = 64 << 20 };
    size_t rows = LOGITS_BYTES / (model_config(model)->vocab_size * sizeof(float));
    if (rows == 0) rows = 1;
    return rows < model_max_rows(model) ? rows : model_max_rows(model);
}
