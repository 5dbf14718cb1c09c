#include "layers/attention/head_transform.h"

#include <string.h>

void head_transform_find(Finder *f, HeadTransform *transform) {
    size_t dim = f->config->dim;
    f->prefix[0] = '\0';
    transform->dense = weights_linear(f, "head.dense", dim, dim, false);
    transform->norm = weights_norm(f, "head.norm", dim, false);
}

void head_transform_run(ForwardPass *pass, const HeadTransform *transform) {
    Model *m = pass->model;
    size_t dim = m->config->dim;
    const Product dense = {&transform->dense.w, m->y, dim};
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++)
        forward_normalize(m, &transform->norm, m->normed + i * dim, m->x + i * dim, dim);
    forward_wait(pass);
    forward_multiply(m, m->normed, pass->n, &dense, 1);
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++) {
        float *y = m->y + i * dim;
        forward_add_bias(m, &transform->dense, y);
        m->isa->numeric->activate(ACTIVATION_GELU, y, NULL, dim);
        memcpy(m->x + i * dim, y, dim * sizeof *y);
    }
    forward_wait(pass);
}
