/* Random texts of a shape, byte by byte: what tests of dead ends go through. */
#ifndef SHAPE_WALK_H
#define SHAPE_WALK_H

#include <stdint.h>

#include "constraint/acceptor_shortest.h"

/* A small generator of random numbers (xorshift); the seed is not 0. */
static uint64_t walk_random(uint64_t *seed) {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

/* Appends random bytes that the shape allows until the text is complete or, at `most` bytes, then
 * the shortest way to its end. Punctuation is as likely as all letters together, so that texts get
 * somewhere. Returns NULL, or what went wrong. */
static const char *random_walk(Acceptor *acceptor, uint64_t *seed, size_t most, TextBuffer *out) {
    AcceptorState state = acceptor_start(acceptor);
    while (out->length < most && !acceptor_complete(acceptor, state)) {
        acceptor_begin_work(acceptor); /* as for each mask */
        ByteSet bytes = acceptor_bytes(acceptor, state);
        unsigned marks[256], letters[256], n_marks = 0, n_letters = 0;
        if (acceptor_failed(acceptor)) return acceptor_failed(acceptor);
        for (unsigned b = 0; b < 256; b++) {
            if (!byteset_has(&bytes, b)) continue;
            bool mark = b < 128 && strchr("{}[]\",:0", (int)b) && b != 0;
            *(mark ? &marks[n_marks++] : &letters[n_letters++]) = b;
        }
        bool ends = acceptor_accepts(acceptor, state);
        if (n_marks + n_letters == 0) return ends ? NULL : "a dead end";
        if (ends && walk_random(seed) % 8 == 0) return NULL;
        bool mark = n_letters == 0 || (n_marks > 0 && walk_random(seed) % 2 == 0);
        uint64_t r = walk_random(seed) >> 8;
        char byte = (char)(mark ? marks[r % n_marks] : letters[r % n_letters]);
        text_put(out, &byte, 1, 0);
        state = acceptor_step(acceptor, state, (unsigned char)byte);
    }
    acceptor_begin_work(acceptor);
    if (acceptor_shortest(acceptor, state, out) && !out->failed) return NULL;
    return acceptor_failed(acceptor) ? acceptor_failed(acceptor) : "no way to its end";
}

#endif
