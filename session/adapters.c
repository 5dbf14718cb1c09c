#include "session/adapters.h"

#include <string.h>
#include <xxhash.h>

bool adapters_named(const Adapters *adapters, const char *name, uint64_t *bits) {
    *bits = ((uint64_t)1 << adapters->n) - 1;
    if (!name) return true;
    *bits = 0;
    for (size_t i = 0; i < adapters->n; i++)
        if (strcmp(adapters->items[i].name, name) == 0) *bits = (uint64_t)1 << i;
    return *bits != 0 || strcmp(adapters->base, name) == 0;
}

uint64_t adapters_mix(const Adapters *adapters, uint64_t hash) {
    if (!adapters) return hash;
    return XXH3_64bits_withSeed(&adapters->checksum, sizeof adapters->checksum, hash);
}
