#include "layers/arrangements/unit_sums.h"

#include <math.h>
#include <string.h>

#include "layers/arrangements/sums.h"

static const float UNIT_EPS = 1e-6f; /* of the norms without weights, whatever Config.norm_eps */

/* a . b in the order of docs/numerics.md. */
static float product_of(const float *a, const float *b, size_t n) {
    float sums[SUMS] = {0.0f};
    size_t whole = n - n % SUMS;
    for (size_t i = 0; i < whole; i += SUMS)
        for (size_t k = 0; k < SUMS; k++) sums[k] += a[i + k] * b[i + k];
    for (size_t i = whole; i < n; i++) sums[i - whole] += a[i] * b[i];
    return sums_join(sums);
}

void unit_sums_attend(const Model *m, const float *query, const float *units, size_t n,
                      float *scores, float *out) {
    const Numeric *numeric = m->isa->numeric;
    size_t dim = m->config->dim;
    float scale = 1.0f / sqrtf((float)dim);
    for (size_t j = 0; j < n; j++) scores[j] = product_of(query, units + j * dim, dim) * scale;
    float total = numeric->softmax_sum(scores, numeric->maximum(scores, n), n);
    memset(out, 0, dim * sizeof *out);
    for (size_t j = 0; j < n; j++)
        numeric->add_scaled(out, units + j * dim, scores[j] / total, dim);
}

void unit_sums_normalize(const Model *m, const float *x, float *out) {
    m->isa->numeric->rms_norm(out, x, NULL, m->config->dim, UNIT_EPS);
}
