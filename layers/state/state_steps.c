#include "layers/state/state_steps.h"

#include <omp.h>
#include <string.h>

#include "base/numbers.h"
#include "kvcache/kvcache_snapshots.h"

const Recurrence *state_recurrence(const Model *m) {
    static const struct {
        const Numeric *numeric;
        const Recurrence *recurrence;
    } all[] = {
#define BUILD(name, lanes) {&numeric_##lanes, &recurrence_##lanes},
        EACH_ISA(BUILD)
#undef BUILD
    };
    for (size_t i = 1; i < sizeof all / sizeof *all; i++)
        if (all[i].numeric == m->isa->numeric) return all[i].recurrence;
    return all[0].recurrence;
}

size_t state_convolution_floats(size_t kernel, size_t channels) {
    return round_up((kernel - 1) * channels, RECURRENT_LANES);
}

size_t state_head_floats(size_t key_dim, size_t value_dim) {
    return key_dim * round_up(value_dim, RECURRENT_LANES);
}

StateRun state_run(const ForwardPass *pass, size_t layer, size_t first) {
    int32_t sequence = pass->rows[first].sequence, start = pass->rows[first].position, position;
    size_t end = first + 1;
    while (end < pass->n && pass->rows[end].sequence == sequence) end++;
    StateRun run = {.state = kvcache_state(pass->cache, sequence, layer),
                    .held = kvcache_held_state(pass->cache, sequence, layer, start, &position),
                    .first = first,
                    .n = end - first,
                    .n_before = end - first};
    if (run.held && (size_t)(position - start) <= run.n) {
        run.n_before = (size_t)(position - start);
    } else {
        run.held = NULL;
    }
    return run;
}

/* Copies n floats of the layer's state to their place in run->held. */
static void copy_to_held(const StateRun *run, const float *part, size_t n) {
    memcpy(run->held + (part - run->state), part, n * sizeof *part);
}

/* Advances the state by the rows before the held copy, makes that copy, and advances it by the
 * others; state_scan and convolve_run do the same. */
void state_linear(const Recurrence *recurrence, const StateRun *run, RecurrentHead head) {
    size_t n = run->n_before;
    head.n_rows = n;
    recurrence->linear(&head);
    if (!run->held) return;
    copy_to_held(run, head.state, state_head_floats(head.key_dim, head.n_columns));
    head.n_rows = run->n - n;
    head.q += n * head.qk_stride;
    head.k += n * head.qk_stride;
    head.v += n * head.v_stride;
    head.decay += n * head.decay_stride;
    head.beta += n * head.beta_stride;
    head.out += n * head.out_stride;
    if (head.n_rows > 0) recurrence->linear(&head);
}

void state_scan(const Recurrence *recurrence, const StateRun *run, SelectiveScan scan, size_t begin,
                size_t end) {
    size_t n = run->n_before;
    scan.n_rows = n;
    recurrence->scan(&scan, begin, end);
    if (!run->held) return;
    copy_to_held(run, scan.state + begin * scan.n, state_head_floats(scan.n, end - begin));
    scan.n_rows = run->n - n;
    scan.step += n * scan.step_stride;
    scan.x += n * scan.x_stride;
    scan.b += n * scan.b_stride;
    scan.c += n * scan.c_stride;
    if (scan.n_rows > 0) recurrence->scan(&scan, begin, end);
}

void state_lru(const Recurrence *recurrence, const StateRun *run, float *state, const float *decay,
               float *x, size_t stride, size_t begin, size_t end) {
    size_t n = run->n_before;
    recurrence->lru(state, decay, x, stride, n, begin, end);
    if (!run->held) return;
    copy_to_held(run, state + begin, end - begin);
    if (n < run->n)
        recurrence->lru(state, decay + n * stride, x + n * stride, stride, run->n - n, begin, end);
}

/* Convolves the run's rows for the channels from `begin` to `end`. */
static void convolve_run(const Recurrence *recurrence, const StateRun *run, const Convolution *c,
                         float *x, size_t stride, size_t begin, size_t end) {
    size_t n = run->n_before;
    float *inputs = run->state + c->state;
    recurrence->convolve(c, inputs, x, stride, n, begin, end);
    if (!run->held) return;
    for (size_t tap = 0; tap + 1 < c->kernel; tap++)
        copy_to_held(run, inputs + tap * c->channels + begin, end - begin);
    if (n < run->n) recurrence->convolve(c, inputs, x + n * stride, stride, run->n - n, begin, end);
}

void state_convolve(ForwardPass *pass, size_t layer, const Convolution *c, float *x,
                    size_t stride) {
    const Recurrence *recurrence = state_recurrence(pass->model);
    size_t width = (c->channels - 1) / (size_t)omp_get_num_threads() + 1;
    width = round_up(width, RECURRENT_LANES);
    for (size_t first = 0; first < pass->n;) {
        const StateRun run = state_run(pass, layer, first);
#pragma omp for schedule(static) nowait
        for (size_t at = 0; at < c->channels; at += width)
            convolve_run(recurrence, &run, c, x + first * stride, stride, at,
                         at + width < c->channels ? at + width : c->channels);
        first += run.n;
    }
    forward_wait(pass);
}
