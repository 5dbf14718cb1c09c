/* Reading the parts of stored blocks: numbers at unaligned addresses, and codes of a few bits. */
#ifndef FORMATS_STORED_STORED_PARTS_H
#define FORMATS_STORED_STORED_PARTS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint16_t stored_u16(const uint8_t *p) {
    uint16_t value;
    memcpy(&value, p, sizeof value);
    return value;
}

static inline uint32_t stored_u32(const uint8_t *p) {
    uint32_t value;
    memcpy(&value, p, sizeof value);
    return value;
}

/* Returns the i-th 4-bit code; the low nibble of each byte comes first. */
static inline int stored_nibble(const uint8_t *p, size_t i) {
    return p[i / 2] >> (i % 2 ? 4 : 0) & 15;
}

/* Code i of 2-bit codes; codes i, i + 32, i + 64 and i + 96 of each 128 share a byte. */
static inline int stored_pair(const uint8_t *p, size_t i) {
    return p[i / 128 * 32 + i % 32] >> i % 128 / 32 * 2 & 3;
}

/* The 32 codes of 4 bits; codes i and i + 16 share a byte. */
static inline void stored_nibbles_32(const uint8_t *p, uint8_t *codes) {
    for (size_t i = 0; i < 16; i++) {
        codes[i] = p[i] & 15;
        codes[i + 16] = p[i] >> 4;
    }
}

#endif
