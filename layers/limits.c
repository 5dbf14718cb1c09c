#include "layers/limits.h"

#include <math.h>
#include <string.h>

#include "layers/arrangements/sums.h"
#include "core/weights.h"

enum { CAP_ELEMENTS = 256 }; /* of a gate that are capped at once */

static void clip(float *x, size_t n, float least, float most) {
    for (size_t i = 0; i < n; i++) x[i] = x[i] > most ? most : x[i] < least ? least : x[i];
}

/* gate[n] = max(0, gate - mean - cutoff * standard deviation). NaN stays NaN. */
static void cut_gate(float *gate, size_t n, float cutoff) {
    float mean = sums_mean(gate, n);
    float edge = fmaf(sqrtf(sums_mean_square(gate, mean, n)), cutoff, mean);
    for (size_t i = 0; i < n; i++) gate[i] = gate[i] < edge ? 0.0f : gate[i] - edge;
}

/* gate[n] = capped gate * sigmoid(gate) * capped up. */
static void cap_gate(const Numeric *numeric, const Config *c, float *gate, float *up, size_t n) {
    float capped[CAP_ELEMENTS];
    numeric->softcap(up, c->experts.up_softcap, n);
    for (size_t at = 0; at < n; at += CAP_ELEMENTS) {
        size_t some = n - at < CAP_ELEMENTS ? n - at : CAP_ELEMENTS;
        memcpy(capped, gate + at, some * sizeof *capped);
        numeric->softcap(capped, c->experts.gate_softcap, some);
        numeric->activate(ACTIVATION_SIGMOID, gate + at, capped, some);
        for (size_t i = at; i < at + some; i++) gate[i] *= up[i];
    }
}

void limits_activate(const Numeric *numeric, const Config *c, const FeedForward *f, float *gate,
                     float *up) {
    size_t n = f->width;
    if (c->experts.gate_softcap > 0.0f) {
        cap_gate(numeric, c, gate, up, n);
        return;
    }
    if (f->cutoff) {
        cut_gate(gate, n, *f->cutoff);
        numeric->activate(c->activation, gate, up, n);
        return;
    }
    float limit = f->limit ? *f->limit : c->experts.swiglu_limit;
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
