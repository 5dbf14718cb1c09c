#include "layers/attention/head_scale.h"

#include <stdio.h>

#include "base/numbers.h"

HeadScale head_scale_find(Finder *f, const char *name, size_t n_heads) {
    char full[32];
    HeadScale found;
    snprintf(full, sizeof full, "%sq_scale", name);
    found.scale = weights_vector(f, full, 1, n_heads, false);
    snprintf(full, sizeof full, "%sq_offset", name);
    found.offset = weights_vector(f, full, 1, n_heads, found.scale != NULL);
    return found;
}

void head_scale_apply(const Model *m, const HeadScale *by, int32_t position, float *q,
                      size_t n_heads, size_t width) {
    if (!by->scale) return;
    float log_position = (float)numbers_logarithm(1.0 + (double)position);
    for (size_t head = 0; head < n_heads; head++) {
        float factor = by->scale[head] * log_position + by->offset[head];
        m->isa->numeric->scale(q + head * width, factor, width);
    }
}
