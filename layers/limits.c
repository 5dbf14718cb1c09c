#include "forward_pass.h"

static void clip_gate(float *gate, size_t n, float limit) {
    for (size_t i = 0; i < n; i++) gate[i] = gate[i] > limit ? limit : gate[i];
}

void limited_activate(const Model *m, const FeedForward *network, size_t row) {
    const Numeric *numeric = m->isa->numeric;
    Activation activation = m->config->activation;
    size_t n = network->width;
    float *gate = m->gate + row * n, *up = m->up + row * n;
    if (network->limit) {
        numeric->activate(activation, gate, NULL, n);
        clip_gate(gate, n, *network->limit);
        forward_clip(up, n, *network->limit);
        for (size_t i = 0; i < n; i++) gate[i] *= up[i];
    } else {
        clip_gate(gate, n, m->config->swiglu_limit);
        forward_clip(up, n, m->config->swiglu_limit);
        for (size_t i = 0; i < n; i++) up[i] += 1.0f;
        numeric->activate(activation, gate, up, n);
    }
}
