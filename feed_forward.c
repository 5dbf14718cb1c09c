#include "feed_forward.h"

/* GPT-OSS: gate at most `limit`, up within +- limit, and 1 added to it. */
static void limit_gate(float *gate, float *up, size_t n, float limit) {
    for (size_t i = 0; i < n; i++) gate[i] = gate[i] > limit ? limit : gate[i];
    forward_clip(up, n, limit);
    for (size_t i = 0; i < n; i++) up[i] += 1.0f;
}

void feed_forwards(ForwardPass *pass, const FeedForwardRows *parts, size_t n_parts, const float *in,
                   float *y) {
    Model *m = pass->model;
    const Config *c = m->config;
    size_t width = parts->network->width, dim = c->dim;
    float *hidden = c->gated ? m->gate : m->up;
    Product inner[FEED_FORWARD_PARTS][2], outer[FEED_FORWARD_PARTS];
    ProductSet sets[FEED_FORWARD_PARTS];
    for (size_t p = 0; p < n_parts; p++) {
        const FeedForward *f = parts[p].network;
        size_t at = parts[p].first * width;
        inner[p][0] = (Product){&f->up.w, m->up + at, width};
        inner[p][1] = (Product){&f->gate.w, m->gate + at, width};
        outer[p] = (Product){&f->down.w, y + parts[p].first * dim, dim};
        sets[p] = (ProductSet){in + parts[p].first * dim, parts[p].n, inner[p], c->gated ? 2 : 1};
    }
    forward_multiply_sets(m, sets, n_parts);
    size_t n = parts[n_parts - 1].first + parts[n_parts - 1].n, p = 0;
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < n; i++) {
        while (i >= parts[p].first + parts[p].n) p++; /* a thread's rows are in rising order */
        const FeedForward *f = parts[p].network;
        float *up = m->up + i * width, *gate = m->gate + i * width;
        forward_add_bias(m, &f->up, up);
        if (c->gated) forward_add_bias(m, &f->gate, gate);
        if (c->swiglu_limit > 0.0f) limit_gate(gate, up, width, c->swiglu_limit);
        if (c->activation == ACTIVATION_XIELU)
            m->isa->numeric->xielu(up, f->xielu, width);
        else
            m->isa->numeric->activate(c->activation, c->gated ? gate : up, c->gated ? up : NULL,
                                      width);
        float *row = hidden + i * width;
        if (f->inner_norm.present) forward_normalize(m, &f->inner_norm, row, row, width);
    }
    forward_wait(pass);
    for (size_t k = 0; k < n_parts; k++)
        sets[k] = (ProductSet){hidden + parts[k].first * width, parts[k].n, &outer[k], 1};
    forward_multiply_sets(m, sets, n_parts);
}

void feed_forward(ForwardPass *pass, const FeedForward *f, size_t n, const float *in, float *y) {
    feed_forwards(pass, &(FeedForwardRows){f, 0, n}, 1, in, y);
}
