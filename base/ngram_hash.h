/* Hashes of n-grams into tables of embeddings, as Qwen4-Exp has them: each n-gram of 2 to `size`
 * tokens has `heads` tables, whose numbers of rows are primes, one after another from vocab_base
 * on, through all layers. */
#ifndef BASE_NGRAM_HASH_H
#define BASE_NGRAM_HASH_H

#include <stddef.h>
#include <stdint.h>

enum { NGRAM_HASH_MAX_SIZE = 8, NGRAM_HASH_MAX_TABLES = 256 };

typedef struct NgramHashing {
    uint32_t size;       /* the longest n-gram; 0: none */
    uint32_t heads;      /* tables of the n-grams of one length */
    uint32_t vocab_base; /* not above the first prime */
    uint32_t row_factor; /* the rows of a layer are filled up to a multiple of this, */
    uint32_t parts;      /* and stored in so many parts */
    uint32_t seed;       /* of the factors */
} NgramHashing;

/* The tables of one layer, one after another: an n-gram has row
 *     offsets[table] + (token * factors[0] ^ token before it * factors[1] ^ ...) mod sizes[table]
 */
typedef struct NgramHash {
    uint64_t factors[NGRAM_HASH_MAX_SIZE];
    uint64_t sizes[NGRAM_HASH_MAX_TABLES];
    uint64_t offsets[NGRAM_HASH_MAX_TABLES];
    uint64_t rows;
} NgramHash;

/* Tables of a layer; at most NGRAM_HASH_MAX_TABLES for the functions below. */
size_t ngram_hash_tables(const NgramHashing *hashing);
/* Makes the hash tables of a layer, the number-th of the layers with n-grams, from 0. */
void ngram_hash_make(const NgramHashing *hashing, uint32_t number, uint32_t vocab_size,
                     NgramHash *hash);
/* Rows of part `part` of the layer's tables. The parts are equal, the last ones shorter. */
size_t ngram_hash_part_rows(const NgramHashing *hashing, const NgramHash *hash, size_t part);

#endif
