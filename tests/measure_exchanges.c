/* What an exchange between ranks costs without a model. Run by scripts/measure-ranks, by mpirun.
 * Rank 0 prints "MICROSECONDS GBIT": of a gather of one number from each rank, and the rate at
 * which numbers of the others arrive in a gather of 4 MiB from each. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "cluster/wire.h"

enum { LARGE = 1 << 20, TIMES = 2000, LARGE_TIMES = 10 };

/* Seconds of a gather of n numbers from each rank. */
static double gather(Wire *wire, float *all, int n, int times) {
    size_t ranks = wire_ranks(wire);
    int *counts = calloc(ranks, sizeof *counts), *firsts = calloc(ranks, sizeof *firsts);
    if (!counts || !firsts) wire_fail(wire, "no memory for %zu ranks", ranks);
    for (size_t r = 0; r < ranks; r++) {
        counts[r] = n;
        firsts[r] = n * (int)r;
    }
    for (int i = 0; i < times / 10; i++) wire_gather(wire, NULL, all, counts, firsts);
    double start = clock_seconds();
    for (int i = 0; i < times; i++) wire_gather(wire, NULL, all, counts, firsts);
    double seconds = (clock_seconds() - start) / times;
    free(counts);
    free(firsts);
    return seconds;
}

int main(int argc, char **argv) {
    Wire *wire = NULL;
    Error error;
    if (wire_open(&wire, &argc, &argv, &error) != STATUS_OK) {
        fprintf(stderr, "measure_exchanges: %s\n", error.text);
        return 1;
    }
    float *all = calloc(LARGE * wire_ranks(wire), sizeof *all);
    if (!all) wire_fail(wire, "no memory for the numbers");
    double small = gather(wire, all, 1, TIMES), large = gather(wire, all, LARGE, LARGE_TIMES);
    double bits = 8.0 * sizeof *all * LARGE * (double)(wire_ranks(wire) - 1);
    if (wire_rank(wire) == 0) printf("%.1f %.2f\n", small * 1e6, bits / large * 1e-9);
    free(all);
    wire_close(wire);
    return 0;
}
