#include "layers/state/delays.h"

#include <omp.h>
#include <string.h>

#include "base/numbers.h"
#include "layers/state/state_steps.h"

size_t delays_state_floats(const Delays *d) {
    return state_convolution_floats(d->steps + 1, d->width);
}

const float *delays_at(const ForwardPass *pass, size_t layer, const Delays *d, const float *x,
                       size_t row, size_t back) {
    int32_t sequence = pass->rows[row].sequence;
    size_t first = row; /* the sequence's first row in the pass, as far as `back` leads */
    while (first > 0 && row - first < back && pass->rows[first - 1].sequence == sequence) first--;
    if (row - first == back) return x + first * d->width;
    const float *state = kvcache_state(pass->cache, sequence, layer);
    return state + d->state + (d->steps - (back - (row - first))) * d->width;
}

/* to[steps] = the newest inputs of from[steps] and then x[n], for the elements from `begin` to
 * `end`. `to` may be `from`. */
static void take_newest(const Delays *d, float *to, const float *from, const float *x, size_t n,
                        size_t begin, size_t end) {
    for (size_t i = 0; i < d->steps; i++) {
        size_t at = i + n; /* counted from the oldest of `from` */
        const float *input = at < d->steps ? from + at * d->width : x + (at - d->steps) * d->width;
        memmove(to + i * d->width + begin, input + begin, (end - begin) * sizeof *to);
    }
}

void delays_store(ForwardPass *pass, size_t layer, const Delays *d, const float *x) {
    size_t step = (d->width - 1) / (size_t)omp_get_num_threads() + 1;
    step = round_up(step, 16);
    for (size_t first = 0; first < pass->n;) {
        const StateRun run = state_run(pass, layer, first);
        const float *inputs = x + first * d->width;
        float *state = run.state + d->state;
#pragma omp for schedule(static) nowait
        for (size_t at = 0; at < d->width; at += step) {
            size_t end = at + step < d->width ? at + step : d->width;
            if (run.held) take_newest(d, run.held + d->state, state, inputs, run.n_before, at, end);
            take_newest(d, state, state, inputs, run.n, at, end);
        }
        first += run.n;
    }
    forward_wait(pass);
}
