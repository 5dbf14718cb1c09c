#include "ports/cluster/codes.h"

#include "kernels/activations.h"

/* The largest magnitude, then one byte for each code. Groups are 16, 32 or 64. */
static size_t group_floats(size_t group) {
    return 1 + group / sizeof(float);
}

size_t codes_floats(size_t n, size_t group) {
    return (n + group - 1) / group * group_floats(group);
}

void codes_pack(const float *x, size_t n, size_t group, float *packed) {
    for (size_t first = 0; first < n; first += group, packed += group_floats(group)) {
        float whole[WEIGHT_GROUP_MAX] = {0};
        const float *in = x + first;
        int8_t *codes = (int8_t *)(packed + 1);
        if (first + group > n) {
            memcpy(whole, in, (n - first) * sizeof *x);
            in = whole;
        }
        uint32_t largest = largest_magnitude(in, group);
        memcpy(packed, &largest, sizeof largest);
        if (code_scale(largest) > 0.0f)
            round_to_codes(in, group, 127.0f / float_from_bits(largest), codes);
        else
            memset(codes, 0, group);
    }
}

void codes_unpack(const float *packed, size_t n, size_t group, float *x) {
    for (size_t first = 0; first < n; first += group, packed += group_floats(group)) {
        size_t count = n - first < group ? n - first : group;
        const int8_t *codes = (const int8_t *)(packed + 1);
        uint32_t largest;
        memcpy(&largest, packed, sizeof largest);
        /* The scale is NaN if an input was not finite, and 0 if all were tiny. */
        float max = float_from_bits(largest), scale = code_scale(largest);
        for (size_t i = 0; i < count; i++) {
            /* +-127 is the largest magnitude itself, so that kernels find the same scale again. */
            float value = (float)codes[i] * scale;
            x[first + i] = codes[i] == 127 ? max : codes[i] == -127 ? -max : value;
        }
    }
}
