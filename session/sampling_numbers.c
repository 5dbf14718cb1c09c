#include "session/sampling_numbers.h"

#include <string.h>

#define REAL(often, letter, name, field, low, high, help)                                          \
    { name, false, offsetof(SamplerOptions, field), low, high }
#define WHOLE(often, letter, name, field, low, high, help)                                         \
    { name, true, offsetof(SamplerOptions, field), low, high }
const SamplingNumber sampling_numbers[N_SAMPLING_NUMBERS] = {SAMPLING_NUMBERS(REAL, WHOLE)};

const SamplingNumber *sampling_numbers_find(const char *name) {
    for (size_t i = 0; i < N_SAMPLING_NUMBERS; i++)
        if (strcmp(sampling_numbers[i].name, name) == 0) return &sampling_numbers[i];
    return NULL;
}

double sampling_numbers_get(const SamplingNumber *n, const SamplerOptions *sampling) {
    const char *field = (const char *)sampling + n->field;
    return n->whole ? *(const uint32_t *)field : (double)*(const float *)field;
}

void sampling_numbers_set(const SamplingNumber *n, SamplerOptions *sampling, double value) {
    char *field = (char *)sampling + n->field;
    if (n->whole)
        *(uint32_t *)field = (uint32_t)value;
    else
        *(float *)field = (float)value;
}
