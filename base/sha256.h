/* SHA-256 (FIPS 180-4) and HMAC-SHA-256 (RFC 2104).
 *
 * The one cryptographic hash of the project: for receipts, and to know files that are published
 * with it. A library would be one more package for everyone who builds; this file is tested with
 * NIST's and RFC 4231's vectors (test_receipt.c), in plain C and by the processor's instructions
 * where it has them.
 *
 *     Sha256 hash;
 *     sha256_init(&hash);
 *     sha256_add(&hash, bytes, n);                    as often as needed
 *     sha256_end(&hash, digest);
 */
#ifndef BASE_SHA256_H
#define BASE_SHA256_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SHA256_BYTES = 32, SHA256_HEX = 65, SHA256_BLOCK = 64 };

typedef struct Sha256 {
    uint32_t state[8];
    uint64_t bytes;       /* added so far */
    bool by_instructions; /* the processor's own; else in plain C */
    uint8_t block[SHA256_BLOCK];
} Sha256;

void sha256_init(Sha256 *hash);
void sha256_add(Sha256 *hash, const void *bytes, size_t n);
void sha256_end(Sha256 *hash, uint8_t digest[SHA256_BYTES]);

/* The digest as 64 lower-case digits and a NUL. */
void sha256_hex(const uint8_t digest[SHA256_BYTES], char text[SHA256_HEX]);

/* The SHA-256 of bytes[n] in memory, as sha256_hex writes it. */
void sha256_text(const void *bytes, size_t n, char text[SHA256_HEX]);

/* The HMAC of bytes[n] with key[key_bytes], as 64 digits. */
void sha256_hmac_text(const void *key, size_t key_bytes, const void *bytes, size_t n,
                      char text[SHA256_HEX]);

#endif
