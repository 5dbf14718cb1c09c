/* What an exchange between ranks costs without a model. Run by scripts/measure-ranks, by mpirun.
 * Rank 0 prints "MICROSECONDS MICROSECONDS GBIT":
 *
 * - of a gather of one number from each rank, one gather after another;
 * - of the same gather where each rank reads 4 MiB of memory before it, as in a pass of a model:
 *   what a gather adds to that;
 * - the rate at which numbers of the others arrive in a gather of 4 MiB from each. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "ports/cluster/wire.h"

enum {
    LARGE = 1 << 20, /* numbers */
    LARGE_TIMES = 10,
    TIMES = 2000,
    MEMORY = 1 << 24, /* numbers that a rank reads, larger than caches */
    PIECE = 1 << 20,  /* of them before a gather */
    PIECES = 16,      /* in a round: each number once */
    ROUNDS = 51       /* each with gathers and without */
};

typedef struct Measurement {
    Wire *wire;
    float *all; /* [ranks][LARGE] what ranks gather */
    int *counts, *firsts;
    const unsigned *memory; /* [MEMORY] */
    volatile unsigned sum;  /* of what was read, so that it is read */
} Measurement;

static void gather(Measurement *m, int n) {
    for (size_t r = 0; r < wire_ranks(m->wire); r++) {
        m->counts[r] = n;
        m->firsts[r] = n * (int)r;
    }
    wire_gather(m->wire, NULL, m->all, m->counts, m->firsts);
}

/* Seconds of a gather of n numbers from each rank. */
static double gather_seconds(Measurement *m, int n, int times) {
    for (int i = 0; i < times / 10; i++) gather(m, n);
    double start = clock_seconds();
    for (int i = 0; i < times; i++) gather(m, n);
    return (clock_seconds() - start) / times;
}

/* Seconds of a round: reading the memory in pieces, with a gather after each or without. */
static double round_seconds(Measurement *m, bool with_gathers) {
    gather(m, 1);
    double start = clock_seconds();
    for (size_t p = 0; p < PIECES; p++) {
        unsigned sum = 0;
        for (size_t i = 0; i < PIECE; i++) sum += m->memory[p * PIECE + i];
        m->sum = sum;
        if (with_gathers) gather(m, 1);
    }
    return clock_seconds() - start;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* What a gather adds to reading. Without gathers, the time is that of the slowest rank, for which
 * the others wait. */
static double added_seconds(Measurement *m) {
    size_t ranks = wire_ranks(m->wire);
    double added[ROUNDS], *seconds = calloc(ranks, sizeof *seconds);
    if (!seconds) wire_fail(m->wire, "no memory for %zu ranks", ranks);
    for (int i = 0; i < ROUNDS; i++) {
        double reading = round_seconds(m, false), slowest = 0.0;
        wire_gather_bytes(m->wire, &reading, sizeof reading, seconds);
        for (size_t r = 0; r < ranks; r++) slowest = seconds[r] > slowest ? seconds[r] : slowest;
        added[i] = round_seconds(m, true) - slowest;
    }
    free(seconds);
    qsort(added, ROUNDS, sizeof *added, by_value);
    return added[ROUNDS / 2] / PIECES;
}

int main(int argc, char **argv) {
    Measurement m = {.wire = NULL};
    Error error;
    if (wire_open(&m.wire, &argc, &argv, &error) != STATUS_OK) {
        fprintf(stderr, "measure_exchanges: %s\n", error.text);
        return 1;
    }
    size_t ranks = wire_ranks(m.wire);
    unsigned *memory = malloc(MEMORY * sizeof *memory);
    m.all = calloc(LARGE * ranks, sizeof *m.all);
    m.counts = calloc(2 * ranks, sizeof *m.counts);
    if (!memory || !m.all || !m.counts) wire_fail(m.wire, "no memory to measure");
    m.firsts = m.counts + ranks;
    for (size_t i = 0; i < MEMORY; i++) memory[i] = (unsigned)i;
    m.memory = memory;
    double small = gather_seconds(&m, 1, TIMES), added = added_seconds(&m);
    double large = gather_seconds(&m, LARGE, LARGE_TIMES);
    double bits = 8.0 * sizeof *m.all * LARGE * (double)(ranks - 1);
    if (wire_rank(m.wire) == 0)
        printf("%.1f %.1f %.2f\n", small * 1e6, added * 1e6, bits / large * 1e-9);
    free(memory);
    free(m.all);
    free(m.counts);
    wire_close(m.wire);
    return 0;
}
