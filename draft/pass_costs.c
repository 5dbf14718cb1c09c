#include "draft/pass_costs.h"

/* Weight of a new measurement, and by what factor one may exceed the average: the machine was busy
 * with something else. */
static const double WEIGHT = 0.15, MOST_FACTOR = 2.0;

void pass_costs_add(PassCosts *c, size_t n, double seconds) {
    if (n == 0 || n > PASS_COSTS_ROWS || !(seconds > 0.0)) return;
    double *known = &c->seconds[n];
    if (*known == 0.0) {
        *known = seconds;
        return;
    }
    if (seconds > MOST_FACTOR * *known) seconds = MOST_FACTOR * *known;
    *known += WEIGHT * (seconds - *known);
}

/* The measured number of rows next to n, downwards (step -1) or upwards (1), n itself included; 0:
 * there is none. */
static size_t next_measured(const PassCosts *c, size_t n, int step) {
    for (size_t k = n; k > 0 && k <= PASS_COSTS_ROWS; k = step > 0 ? k + 1 : k - 1)
        if (c->seconds[k] > 0.0) return k;
    return 0;
}

double pass_costs_seconds(const PassCosts *c, size_t n) {
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
