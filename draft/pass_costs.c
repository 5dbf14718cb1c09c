#include "draft/pass_costs.h"

/* Weights of a new measurement that is less than what is known, and of one that is more: other
 * processes make a pass longer, nothing makes it shorter. */
static const double WEIGHT_OF_LESS = 0.4, WEIGHT_OF_MORE = 0.04;

void pass_costs_add(PassCosts *c, size_t n, double seconds) {
    if (n == 0 || n > PASS_COSTS_ROWS || !(seconds > 0.0)) return;
    double *known = &c->seconds[n];
    if (*known == 0.0) *known = seconds;
    *known += (seconds < *known ? WEIGHT_OF_LESS : WEIGHT_OF_MORE) * (seconds - *known);
}

/* The measured number of rows next to n, downwards (step -1) or upwards (1), n itself included; 0:
 * there is none. */
static size_t next_measured(const PassCosts *c, size_t n, int step) {
    for (size_t k = n; k > 0 && k <= PASS_COSTS_ROWS; k = step > 0 ? k + 1 : k - 1)
        if (c->seconds[k] > 0.0) return k;
    return 0;
}

/* The measured time of a pass of n rows, interpolated from the nearest measured numbers of rows. */
static double seconds_of(const PassCosts *c, size_t n) {
    size_t low = next_measured(c, n < PASS_COSTS_ROWS ? n : PASS_COSTS_ROWS, -1);
    size_t high = n <= PASS_COSTS_ROWS ? next_measured(c, n, 1) : 0;
    if (!low && !high) return 0.0;
    double row = c->row_share;
    if (!low) return c->seconds[high] * (1.0 + row * (double)n) / (1.0 + row * (double)high);
    double at_low = c->seconds[low];
    if (low == n) return at_low;
    if (!high) return at_low * (1.0 + row * (double)n) / (1.0 + row * (double)low);
    double slope = (c->seconds[high] - at_low) / (double)(high - low);
    return slope > 0.0 ? at_low + slope * (double)(n - low) : at_low;
}

double pass_costs_seconds(const PassCosts *c, size_t n) {
    double seconds = seconds_of(c, n);
    /* A pass of more rows that took less time shows that the rest was not the model's. */
    for (size_t k = n; k <= PASS_COSTS_ROWS; k++)
        if (c->seconds[k] > 0.0 && c->seconds[k] < seconds) seconds = c->seconds[k];
    return seconds;
}
