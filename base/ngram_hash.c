#include "base/ngram_hash.h"

#include <stdbool.h>

size_t ngram_hash_tables(const NgramHashing *h) {
    return h->size < 2 ? 0 : (size_t)(h->size - 1) * h->heads;
}

static bool is_prime(uint64_t n) {
    if (n < 2 || n % 2 == 0) return n == 2;
    for (uint64_t d = 3; d * d <= n; d += 2)
        if (n % d == 0) return false;
    return true;
}

static const uint64_t golden = 0x9E3779B97F4A7C15; /* SplitMix64's step */

/* SplitMix64's output after a state. */
static uint64_t mix(uint64_t x) {
    x += golden;
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9;
    x = (x ^ x >> 27) * 0x94D049BB133111EB;
    return x ^ x >> 31;
}

void ngram_hash_make(const NgramHashing *h, uint32_t number, uint32_t vocab_size, NgramHash *out) {
    size_t n = ngram_hash_tables(h), before = n * number;
    uint64_t half = (uint64_t)INT64_MAX / (vocab_size ? vocab_size : 1) / 2;
    uint64_t seed = h->seed + 10007 * (uint64_t)number, prime = (uint64_t)h->vocab_base - 1;
    if (half < 1) half = 1;
    /* Odd factors, so small that a factor times a token is below 2^63. */
    for (size_t i = 0; i < h->size; i++)
        out->factors[i] = 2 * (mix(seed + golden * (i + 1)) % half) + 1;
    /* The primes of earlier layers are passed over. */
    out->rows = 0;
    for (size_t i = 0; i < before + n; i++) {
        do prime++;
        while (!is_prime(prime));
        if (i < before) continue;
        out->sizes[i - before] = prime;
        out->offsets[i - before] = out->rows;
        out->rows += prime;
    }
}

size_t ngram_hash_part_rows(const NgramHashing *h, const NgramHash *hash, size_t part) {
    uint64_t rows = (hash->rows + h->row_factor - 1) / h->row_factor * h->row_factor;
    uint64_t each = (rows + h->parts - 1) / h->parts, before = each * part;
    if (before >= rows) return 0;
    return (size_t)(rows - before < each ? rows - before : each);
}
