#include "forward_pass.h"

#include <omp.h>

#include "base/clock.h"
#include "base/numbers.h"

void forward_wait(const ForwardPass *pass) {
    barrier_wait(&pass->model->barrier);
}

void forward_add_time(ForwardPass *pass, ModelPart part) {
    if (!pass->model->seconds || omp_get_thread_num() != 0) return;
    double now = clock_seconds();
    pass->model->seconds[part] += now - pass->last_time;
    pass->last_time = now;
}

void forward_multiply_sets(Model *m, const ProductSet *sets, size_t n_sets) {
    const InputObserver *observer = m->input_observer;
    for (size_t s = 0; observer && s < n_sets; s++)
        for (size_t i = 0; i < sets[s].n_products; i++)
            observer->inputs(observer->context, sets[s].products[i].w, sets[s].x, sets[s].n_rows);
    matmul(m->isa->kernels, m->matmul, sets->products->w->cols, sets, n_sets);
}

void forward_multiply(Model *m, const float *in, size_t n, const Product *products,
                      size_t n_products) {
    forward_multiply_sets(m, &(ProductSet){in, n, products, n_products}, 1);
}

void forward_normalize(const Model *m, const Norm *norm, float *out, const float *x, size_t n) {
    const Numeric *numeric = m->isa->numeric;
    float eps = norm->eps > 0.0f ? norm->eps : m->config->norm_eps;
    if (m->config->norm == NORM_RMS) {
        numeric->rms_norm(out, x, norm->weight, n, eps);
        if (norm->bias) numeric->add_scaled(out, norm->bias, 1.0f, n);
    } else {
        numeric->layer_norm(out, x, norm->weight, norm->bias, n, eps);
    }
    if (norm->rounds) numeric->round_row(out, n);
}

void forward_add_bias(const Model *m, const Linear *linear, float *out) {
    if (linear->bias) m->isa->numeric->add_scaled(out, linear->bias, 1.0f, linear->w.rows);
}

void forward_rotate(const Model *m, size_t layer, size_t row, float *x) {
    const Config *c = m->config;
    size_t table = c->rope_table[layer];
    if (c->position != POSITION_ROPE || table > 1) return;
    size_t n_pairs = config_heads(c, layer).rotary_dim / 2, at = row * n_pairs;
    m->isa->numeric->rotate(x, m->cosine[table] + at, m->sine[table] + at, n_pairs,
                            c->rope_pairing == ROPE_INTERLEAVED);
}

void forward_clip(float *x, size_t n, float limit) {
    for (size_t i = 0; i < n; i++) x[i] = x[i] > limit ? limit : x[i] < -limit ? -limit : x[i];
}

float forward_query_scale(const Config *c, size_t layer, int32_t position) {
    uint32_t from_one = c->query_scaling_unrotated;
    if (c->query_scaling == 0.0f || (from_one && c->rope_table[layer] != 2)) return 1.0f;
    uint32_t steps = ((uint32_t)position + from_one) / c->query_scaling_floor;
    return 1.0f + c->query_scaling * (float)logarithm(1.0 + steps);
}
