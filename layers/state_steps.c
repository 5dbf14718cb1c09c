#include "layers/state_steps.h"

#include <omp.h>

#include "base/numbers.h"

const Recurrence *recurrence_of(const Model *m) {
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

size_t state_run_end(const ForwardPass *pass, size_t first) {
    size_t end = first + 1;
    while (end < pass->n && pass->rows[end].sequence == pass->rows[first].sequence) end++;
    return end;
}

void state_convolve(ForwardPass *pass, size_t layer, const Convolution *c, float *x,
                    size_t stride) {
    const Recurrence *recurrence = recurrence_of(pass->model);
    size_t width = (c->channels - 1) / (size_t)omp_get_num_threads() + 1;
    width = round_up(width, RECURRENT_LANES);
    for (size_t first = 0, end; first < pass->n; first = end) {
        end = state_run_end(pass, first);
        float *state = kvcache_state(pass->cache, pass->rows[first].sequence, layer);
#pragma omp for schedule(static) nowait
        for (size_t at = 0; at < c->channels; at += width)
            recurrence->convolve(c, state, x + first * stride, stride, end - first, at,
                                 at + width < c->channels ? at + width : c->channels);
    }
    forward_wait(pass);
}

void state_project(ForwardPass *pass, const Linear *out, const float *x, float *y) {
    Model *m = pass->model;
    const Product product = {&out->w, y, out->w.rows};
    forward_multiply(m, x, pass->n, &product, 1);
    if (out->bias) {
#pragma omp for schedule(static) nowait
        for (size_t i = 0; i < pass->n; i++) forward_add_bias(m, out, y + i * out->w.rows);
        forward_wait(pass);
    }
    forward_add_time(pass, PART_PROJECTIONS);
}
