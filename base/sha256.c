#include "base/sha256.h"

#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

#include "base/machine.h"

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

/* One step, the i-th of eight, with its constant and word. The standard's a to h change places in
 * each step; here the names move and the words stay: word j of the eight is s[(j - i) mod 8]. */
static inline void add_word(uint32_t s[8], unsigned i, uint32_t constant_and_word) {
    uint32_t a = s[-i & 7], b = s[(1 - i) & 7], c = s[(2 - i) & 7], *d = &s[(3 - i) & 7];
    uint32_t e = s[(4 - i) & 7], f = s[(5 - i) & 7], g = s[(6 - i) & 7], *h = &s[(7 - i) & 7];
    uint32_t t1 = *h + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) + ((e & f) ^ (~e & g)) +
                  constant_and_word;
    uint32_t t2 = (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    *d += t1;
    *h = t1 + t2;
}

/* Adds blocks to the state (6.2.2). */
static void compress(uint32_t state[8], const uint8_t *block, size_t n_blocks) {
    for (; n_blocks > 0; n_blocks--, block += SHA256_BLOCK) {
        uint32_t w[64], s[8];
        for (int t = 0; t < 16; t++) w[t] = load_big_endian(block + 4 * t);
        for (int t = 16; t < 64; t++) {
            uint32_t a = w[t - 15], b = w[t - 2];
            w[t] = w[t - 16] + (rotate(a, 7) ^ rotate(a, 18) ^ a >> 3) + w[t - 7] +
                   (rotate(b, 17) ^ rotate(b, 19) ^ b >> 10);
        }
        memcpy(s, state, sizeof s);
        for (unsigned t = 0; t < 64; t += 8)
            for (unsigned i = 0; i < 8; i++) add_word(s, i, constants[t + i] + w[t + i]);
        for (int i = 0; i < 8; i++) state[i] += s[i];
    }
}

#if defined(__x86_64__)
/* compress by the processor's SHA instructions, which keep the eight words as a, b, e, f and c, d,
 * g, h, the first in the highest bits, and take two steps each. */
__attribute__((target("sha,sse4.1"))) static void compress_by_instructions(uint32_t state[8],
                                                                           const uint8_t *block,
                                                                           size_t n_blocks) {
    const __m128i swap = _mm_set_epi8(12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3);
    __m128i dcba = _mm_loadu_si128((const __m128i *)state);
    __m128i hgfe = _mm_loadu_si128((const __m128i *)(state + 4));
    __m128i badc = _mm_shuffle_epi32(dcba, 0xB1), efgh = _mm_shuffle_epi32(hgfe, 0x1B);
    __m128i abef = _mm_alignr_epi8(badc, efgh, 8), cdgh = _mm_blend_epi16(efgh, badc, 0xF0);
    for (; n_blocks > 0; n_blocks--, block += SHA256_BLOCK) {
        __m128i w[16], abef_before = abef, cdgh_before = cdgh;
        for (int i = 0; i < 16; i++) { /* w[i]: the words of steps 4 i to 4 i + 3 */
            if (i < 4) {
                __m128i bytes = _mm_loadu_si128((const __m128i *)(block + 16 * i));
                w[i] = _mm_shuffle_epi8(bytes, swap);
            } else {
                __m128i seventh = _mm_alignr_epi8(w[i - 1], w[i - 2], 4);
                __m128i sum = _mm_add_epi32(_mm_sha256msg1_epu32(w[i - 4], w[i - 3]), seventh);
                w[i] = _mm_sha256msg2_epu32(sum, w[i - 1]);
            }
            __m128i constant = _mm_loadu_si128((const __m128i *)(constants + 4 * i));
            __m128i words = _mm_add_epi32(w[i], constant);
            cdgh = _mm_sha256rnds2_epu32(cdgh, abef, words);
            abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(words, 0x0E));
        }
        abef = _mm_add_epi32(abef, abef_before);
        cdgh = _mm_add_epi32(cdgh, cdgh_before);
    }
    __m128i feba = _mm_shuffle_epi32(abef, 0x1B), dchg = _mm_shuffle_epi32(cdgh, 0xB1);
    _mm_storeu_si128((__m128i *)state, _mm_blend_epi16(feba, dchg, 0xF0));
    _mm_storeu_si128((__m128i *)(state + 4), _mm_alignr_epi8(dchg, feba, 8));
}
#endif

static void add_blocks(Sha256 *hash, const uint8_t *block, size_t n_blocks) {
#if defined(__x86_64__)
    if (hash->by_instructions) {
        compress_by_instructions(hash->state, block, n_blocks);
        return;
    }
#endif
    compress(hash->state, block, n_blocks);
}

static bool has_instructions(void) {
#if defined(__x86_64__)
    unsigned a, b, c, d;
    return !machine_ends_at_isa("reference") && __builtin_cpu_supports("sse4.1") &&
           __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & bit_SHA) != 0;
#else
    return false;
#endif
}

void sha256_init(Sha256 *hash) {
    static const uint32_t initial[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                        0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    memcpy(hash->state, initial, sizeof initial);
    hash->bytes = 0;
    hash->by_instructions = has_instructions();
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
        add_blocks(hash, hash->block, 1);
        at += some;
        n -= some;
    }
    add_blocks(hash, at, n / SHA256_BLOCK);
    if (n % SHA256_BLOCK > 0)
        memcpy(hash->block, at + n / SHA256_BLOCK * SHA256_BLOCK, n % SHA256_BLOCK);
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
