#include "kernels/reference_spin.h"

#include <math.h>

double reference_spin(TensorType type, size_t rounds) {
    const bool integers = type_group(type) > 0;
    volatile int32_t factor = 1;
    volatile float float_factor = 0.0f;
    int32_t sum = 0, a = factor;
    float float_sum = 0.0f, b = float_factor;
    for (size_t r = 0; r < rounds; r++) {
        if (integers) {
            sum = (int32_t)((uint32_t)sum * (uint32_t)a + 1u);
        } else {
            float_sum = fmaf(b, b, float_sum);
        }
    }
    factor = sum;
    float_factor = float_sum;
    return 2.0 * (double)rounds;
}
