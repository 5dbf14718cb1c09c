#include "tests/hashed_weights.h"

uint64_t hashed_name(const char *name) {
    uint64_t h = 0xCBF29CE484222325u;
    for (; *name; name++) h = (h ^ (unsigned char)*name) * 0x100000001B3u;
    return h;
}

uint64_t hashed_element(uint64_t name_hash, uint64_t index) {
    uint64_t z = name_hash + (index + 1) * 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

float hashed_weight(uint64_t name_hash, uint64_t index, unsigned bits, double scale,
                    double offset) {
    int64_t top = (int64_t)(hashed_element(name_hash, index) >> (64 - bits));
    int64_t n = 2 * top + 1 - ((int64_t)1 << bits);
    return (float)(offset + scale * ((double)n / (double)((int64_t)1 << bits)));
}

void hashed_tensor(const char *name, unsigned bits, double scale, double offset, float *out,
                   size_t n) {
    uint64_t h = hashed_name(name);
    for (size_t i = 0; i < n; i++) out[i] = hashed_weight(h, i, bits, scale, offset);
}
