#include "layers/attention/selection.h"

#include <math.h>
#include <string.h>

/* Candidates beyond k that are gathered before the worst are dropped. */
static size_t room(size_t k) {
    return k > 1024 ? k : 1024;
}

size_t selection_words(size_t k) {
    return 2 * (k + room(k));
}

Selection selection_begin(uint32_t *memory, size_t k) {
    size_t capacity = k + room(k);
    return (Selection){memory, memory + capacity, k, 0, capacity, 0};
}

/* Numbers in the order of the scores; 0 is below all of them. */
static uint32_t rank_of(float score) {
    uint32_t bits;
    if (isnan(score)) return 1;
    score += 0.0f; /* -0 becomes 0 */
    memcpy(&bits, &score, sizeof bits);
    return bits >> 31 ? ~bits : bits | 1u << 31;
}

/* The nth largest of ranks[n], nth from 1. *n_equal: how many that are equal to it belong to the
 * nth largest. Found digit by digit, the highest first. */
static uint32_t nth_largest(const uint32_t *ranks, size_t n, size_t nth, size_t *n_equal) {
    uint32_t prefix = 0, mask = 0;
    for (int shift = 24; shift >= 0; shift -= 8) {
        size_t counts[256] = {0}, digit = 255;
        for (size_t i = 0; i < n; i++)
            if ((ranks[i] & mask) == prefix) counts[ranks[i] >> shift & 255]++;
        while (digit > 0 && counts[digit] < nth) nth -= counts[digit--];
        prefix |= (uint32_t)digit << shift;
        mask |= 255u << shift;
    }
    *n_equal = nth;
    return prefix;
}

void selection_finish(Selection *s) {
    size_t n_equal, kept = 0;
    if (s->n <= s->k) return;
    uint32_t least = nth_largest(s->ranks, s->n, s->k, &n_equal);
    for (size_t i = 0; i < s->n; i++) {
        if (s->ranks[i] < least || (s->ranks[i] == least && n_equal == 0)) continue;
        if (s->ranks[i] == least) n_equal--;
        s->ranks[kept] = s->ranks[i];
        s->positions[kept++] = s->positions[i];
    }
    s->n = kept;
    s->floor = least;
}

static void add(Selection *s, uint32_t rank, uint32_t position) {
    if (rank <= s->floor) return;
    if (s->n == s->capacity) selection_finish(s);
    if (rank <= s->floor) return;
    s->ranks[s->n] = rank;
    s->positions[s->n++] = position;
}

void selection_add(Selection *s, const float *scores, size_t first, size_t n) {
    for (size_t i = 0; i < n; i++) add(s, rank_of(scores[i]), (uint32_t)(first + i));
}

void selection_join(Selection *s, const Selection *later) {
    for (size_t i = 0; i < later->n; i++) add(s, later->ranks[i], later->positions[i]);
}
