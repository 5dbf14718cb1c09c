#include "formats/containers/random_values.h"

static uint64_t fnv1a64(const char *text) {
    uint64_t h = 0xCBF29CE484222325u;
    for (; *text; text++) h = (h ^ (uint8_t)*text) * 0x100000001B3u;
    return h;
}

static uint64_t splitmix64(uint64_t z) {
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

void random_values(const char *name, float center, float spread, uint64_t first, size_t n,
                   float *out) {
    uint64_t hash = fnv1a64(name);
    for (size_t i = 0; i < n; i++) {
        uint64_t h = splitmix64(hash + (first + i + 1) * 0x9E3779B97F4A7C15u);
        int64_t top = (int64_t)(2 * (h >> 44) + 1) - (1 << 20);
        out[i] = (float)((double)center + (double)spread * ((double)top / (1 << 20)));
    }
}
