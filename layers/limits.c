#include "layer_kind.h"
#include "weights.h"

static void clip(float *x, size_t n, float least, float most) {
    for (size_t i = 0; i < n; i++) x[i] = x[i] > most ? most : x[i] < least ? least : x[i];
}

void limited_activate(const Numeric *numeric, const Config *c, const FeedForward *f, float *gate,
                      float *up) {
    size_t n = f->width;
    float limit = f->limit ? *f->limit : c->swiglu_limit;
    if (f->limit && !c->limit_first) numeric->activate(c->activation, gate, NULL, n);
    clip(gate, n, -INFINITY, limit);
    clip(up, n, -limit, limit);
    if (c->limit_first) {
        numeric->activate(c->activation, gate, up, n);
    } else if (f->limit) {
        for (size_t i = 0; i < n; i++) gate[i] *= up[i];
    } else {
        for (size_t i = 0; i < n; i++) up[i] += 1.0f;
        numeric->activate(c->activation, gate, up, n);
    }
}
