#include "layers/attention/pooling.h"

#include <string.h>

#include "base/numbers.h"
#include "layers/state/state_steps.h"

/* Elements that one thread takes through all rows. */
enum { BLOCK = 16 };

/* A pool that is being filled, of some elements: the softmax's maximum, its sum, and the sum of the
 * weighted values. Each is an array of dim elements in the state. */
typedef struct Filling {
    float *max, *sum, *total;
} Filling;

size_t pooling_state_floats(size_t dim, bool overlaps) {
    return round_up((overlaps ? 6 : 3) * dim, 16);
}

/* The pool that the rows' last (or only) elements belong to, and the one after it. */
static Filling filling_at(const Pooling *p, float *state, size_t which, size_t at) {
    float *own = state + p->state + which * 3 * p->dim + at;
    return (Filling){own, own + p->dim, own + 2 * p->dim};
}

/* The row's position, counted from the start of its sequence. */
static size_t index_of(const ForwardPass *pass, size_t row) {
    const Row *r = &pass->rows[row];
    return (size_t)(r->position - kvcache_start(pass->cache, r->sequence));
}

int64_t pooling_completes(const ForwardPass *pass, size_t row, size_t size) {
    size_t index = index_of(pass, row);
    return index % size == size - 1 ? (int64_t)(index / size) : -1;
}

/* Adds n elements of a position to a pool, which is empty or not. Changes the gates. */
static void pooling_add(const Recurrence *recurrence, const Filling *f, bool empty,
                        const float *value, float *gate, const float *bias, size_t n) {
    float old[BLOCK] = {0};
    for (size_t i = 0; i < n; i++) gate[i] += bias[i];
    if (empty) {
        memcpy(f->max, gate, n * sizeof *gate);
        memcpy(f->total, value, n * sizeof *value);
        for (size_t i = 0; i < n; i++) f->sum[i] = 1.0f;
        return;
    }
    for (size_t i = 0; i < n; i++) {
        float top = gate[i] > f->max[i] ? gate[i] : f->max[i];
        old[i] = f->max[i] - top;
        gate[i] -= top;
        f->max[i] = top;
    }
    recurrence->decay(old, NULL, old, n);
    recurrence->decay(gate, NULL, gate, n);
    for (size_t i = 0; i < n; i++) {
        f->sum[i] = f->sum[i] * old[i] + gate[i];
        f->total[i] = f->total[i] * old[i] + gate[i] * value[i];
    }
}

/* Adds one row to its pool in the state: n elements from `at` on. The last row of a pool puts the
 * pool's result in its values. */
static void pool_row(const ForwardPass *pass, const Pooling *p, float *state, size_t row,
                     float *values, float *gates, size_t at, size_t n) {
    const Recurrence *recurrence = state_recurrence(pass->model);
    size_t width = p->overlaps ? 2 * p->dim : p->dim, own = width - p->dim + at;
    size_t index = index_of(pass, row), place = index % p->size;
    const float *bias = p->bias + place * width;
    const Filling now = filling_at(p, state, 0, at), next = filling_at(p, state, 1, at);
    values += row * width;
    gates += row * width;
    if (p->overlaps && place == 0 && index > 0)
        for (size_t part = 0; part < 3; part++)
            memcpy(now.max + part * p->dim, next.max + part * p->dim, n * sizeof *now.max);
    bool empty = place == 0 && (index == 0 || !p->overlaps);
    pooling_add(recurrence, &now, empty, values + own, gates + own, bias + own, n);
    if (p->overlaps)
        pooling_add(recurrence, &next, place == 0, values + at, gates + at, bias + at, n);
    if (place + 1 < p->size) return;
    for (size_t i = 0; i < n; i++) values[at + i] = now.total[i] / now.sum[i];
}

/* Adds a sequence's rows to the pools in its state, n elements from `at` on, and copies the state
 * after the first n_before rows where the cache wants it. */
static void pool_run(const ForwardPass *pass, const Pooling *p, const StateRun *run, float *values,
                     float *gates, size_t at, size_t n) {
    size_t row = run->first, parts = p->overlaps ? 6 : 3;
    for (; row < run->first + run->n_before; row++)
        pool_row(pass, p, run->state, row, values, gates, at, n);
    if (!run->held) return;
    for (size_t part = 0; part < parts; part++) {
        size_t from = p->state + part * p->dim + at;
        memcpy(run->held + from, run->state + from, n * sizeof *run->held);
    }
    for (; row < run->first + run->n; row++)
        pool_row(pass, p, run->state, row, values, gates, at, n);
}

void pooling_run(ForwardPass *pass, size_t layer, const Pooling *p, float *values, float *gates) {
    for (size_t first = 0; first < pass->n;) {
        const StateRun run = state_run(pass, layer, first);
#pragma omp for schedule(static) nowait
        for (size_t at = 0; at < p->dim; at += BLOCK)
            pool_run(pass, p, &run, values, gates, at, p->dim - at < BLOCK ? p->dim - at : BLOCK);
        first += run.n;
    }
    forward_wait(pass);
}
