#include "formats/sha256.h"

#include <string.h>

/* The first 32 bits of the fractional parts of the cube roots of the first 64 primes (4.2.2). */
static const uint32_t constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t rotate(uint32_t x, unsigned n) {
    return x >> n | x << (32 - n);
}

static uint32_t load_big_endian(const uint8_t *p) {
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void store_big_endian(uint8_t *p, uint32_t x) {
    for (int i = 0; i < 4; i++) p[i] = (uint8_t)(x >> (24 - 8 * i));
}

/* Adds one block to the state (6.2.2). */
static void compress(uint32_t state[8], const uint8_t block[SHA256_BLOCK]) {
    uint32_t w[64], s[8];
    for (int t = 0; t < 16; t++) w[t] = load_big_endian(block + 4 * t);
    for (int t = 16; t < 64; t++) {
        uint32_t a = w[t - 15], b = w[t - 2];
        w[t] = w[t - 16] + (rotate(a, 7) ^ rotate(a, 18) ^ a >> 3) + w[t - 7] +
               (rotate(b, 17) ^ rotate(b, 19) ^ b >> 10);
    }
    memcpy(s, state, sizeof s);
    for (int t = 0; t < 64; t++) {
        uint32_t a = s[0], e = s[4];
        uint32_t t1 = s[7] + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) +
                      ((e & s[5]) ^ (~e & s[6])) + constants[t] + w[t];
        uint32_t t2 = (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) +
                      ((a & s[1]) ^ (a & s[2]) ^ (s[1] & s[2]));
        memmove(s + 1, s, 7 * sizeof *s);
        s[4] += t1;
        s[0] = t1 + t2;
    }
    for (int i = 0; i < 8; i++) state[i] += s[i];
}

void sha256_init(Sha256 *hash) {
    static const uint32_t initial[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                        0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    memcpy(hash->state, initial, sizeof initial);
    hash->bytes = 0;
}

void sha256_add(Sha256 *hash, const void *bytes, size_t n) {
    const uint8_t *at = bytes;
    size_t filled = (size_t)(hash->bytes % SHA256_BLOCK);
    if (n == 0) return;
    hash->bytes += n;
    if (filled > 0) {
        size_t some = SHA256_BLOCK - filled < n ? SHA256_BLOCK - filled : n;
        memcpy(hash->block + filled, at, some);
        if (filled + some < SHA256_BLOCK) return;
        compress(hash->state, hash->block);
        at += some;
        n -= some;
    }
    for (; n >= SHA256_BLOCK; at += SHA256_BLOCK, n -= SHA256_BLOCK) compress(hash->state, at);
    if (n > 0) memcpy(hash->block, at, n);
}

void sha256_end(Sha256 *hash, uint8_t digest[SHA256_BYTES]) {
    static const uint8_t padding[SHA256_BLOCK] = {0x80};
    uint64_t bits = hash->bytes * 8;
    uint8_t length[8];
    size_t filled = (size_t)(hash->bytes % SHA256_BLOCK);
    store_big_endian(length, (uint32_t)(bits >> 32));
    store_big_endian(length + 4, (uint32_t)bits);
    sha256_add(hash, padding, filled < 56 ? 56 - filled : SHA256_BLOCK + 56 - filled);
    sha256_add(hash, length, sizeof length);
    for (int i = 0; i < 8; i++) store_big_endian(digest + 4 * i, hash->state[i]);
}

void sha256_hex(const uint8_t digest[SHA256_BYTES], char text[SHA256_HEX]) {
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < SHA256_BYTES; i++) {
        text[2 * i] = digits[digest[i] >> 4];
        text[2 * i + 1] = digits[digest[i] & 15];
    }
    text[SHA256_HEX - 1] = '\0';
}

void sha256_text(const void *bytes, size_t n, char text[SHA256_HEX]) {
    Sha256 hash;
    uint8_t digest[SHA256_BYTES];
    sha256_init(&hash);
    sha256_add(&hash, bytes, n);
    sha256_end(&hash, digest);
    sha256_hex(digest, text);
}

void sha256_hmac_text(const void *key, size_t key_bytes, const void *bytes, size_t n,
                      char text[SHA256_HEX]) {
    uint8_t inner[SHA256_BLOCK] = {0}, outer[SHA256_BLOCK], digest[SHA256_BYTES];
    Sha256 hash;
    if (key_bytes > SHA256_BLOCK) {
        sha256_init(&hash);
        sha256_add(&hash, key, key_bytes);
        sha256_end(&hash, inner);
    } else if (key_bytes > 0) {
        memcpy(inner, key, key_bytes);
    }
    for (size_t i = 0; i < SHA256_BLOCK; i++) {
        outer[i] = inner[i] ^ 0x5c;
        inner[i] ^= 0x36;
    }
    sha256_init(&hash);
    sha256_add(&hash, inner, sizeof inner);
    sha256_add(&hash, bytes, n);
    sha256_end(&hash, digest);
    sha256_init(&hash);
    sha256_add(&hash, outer, sizeof outer);
    sha256_add(&hash, digest, sizeof digest);
    sha256_end(&hash, digest);
    sha256_hex(digest, text);
}
