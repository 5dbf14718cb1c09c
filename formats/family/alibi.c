#include "formats/family/alibi.h"

#include <math.h>
#include <stdlib.h>

/* With `power` the largest power of two up to n_heads, the first `power` slopes are the powers of
 * 2^(-max_bias / power); the other heads get slopes between them. */
float *alibi_slopes(const Config *config) {
    uint32_t n = config->n_heads, power = 1;
    float *slopes = malloc(n * sizeof *slopes);
    while (2 * power <= n) power *= 2;
    for (uint32_t i = 0; slopes && i < n; i++) {
        double exponent =
            i < power ? (double)(i + 1) / power : (2.0 * (i - power) + 1) / (2 * power);
        slopes[i] = (float)exp2(-exponent * (double)config->alibi_max_bias);
    }
    return slopes;
}
