#include "measure/bench_limits.h"

#include <errno.h>
#include <fcntl.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/machine.h"

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_median(double *values, size_t n) {
    qsort(values, n, sizeof *values, ascending);
    return values[n / 2];
}

/* ---- reading ---- */

enum { LINE_WORDS = 8, AHEAD_LINES = 64, PASSES = 5 };

/* Adds a cache line's words to 8 sums, so that no chain of dependent additions limits the speed. */
static inline void limits_add_line(uint64_t *sums, const uint64_t *line) {
    for (int i = 0; i < LINE_WORDS; i++) sums[i] += line[i];
}

static uint64_t total(const uint64_t *sums) {
    uint64_t sum = 0;
    for (int i = 0; i < LINE_WORDS; i++) sum += sums[i];
    return sum;
}

/* Three ways to read n_lines cache lines. Each returns the sum of their words. */
static uint64_t read_in_order(const uint64_t *data, size_t n_lines) {
    uint64_t sums[LINE_WORDS] = {0};
    for (size_t i = 0; i < n_lines; i++) limits_add_line(sums, data + i * LINE_WORDS);
    return total(sums);
}

static uint64_t read_with_prefetch(const uint64_t *data, size_t n_lines) {
    uint64_t sums[LINE_WORDS] = {0};
    for (size_t i = 0; i < n_lines; i++) {
        __builtin_prefetch(data + (i + AHEAD_LINES) * LINE_WORDS, 0, 2);
        limits_add_line(sums, data + i * LINE_WORDS);
    }
    return total(sums);
}

static uint64_t read_four_streams(const uint64_t *data, size_t n_lines) {
    uint64_t sums[LINE_WORDS] = {0};
    size_t quarter = n_lines / 4;
    for (size_t i = 0; i < quarter; i++)
        for (size_t s = 0; s < 4; s++) limits_add_line(sums, data + (s * quarter + i) * LINE_WORDS);
    return total(sums) + read_in_order(data + 4 * quarter * LINE_WORDS, n_lines - 4 * quarter);
}

typedef uint64_t (*Reader)(const uint64_t *data, size_t n_lines);

struct Reading {
    const uint64_t *data;
    size_t n_lines;
    int n_threads;
    Reader reader;
    void *map; /* the mapped temporary file, which bench_reading_close unmaps; NULL: none */
};

double bench_reading_pass(const Reading *r) {
    uint64_t sum = 0;
    double start = clock_seconds();
#pragma omp parallel num_threads(r->n_threads) reduction(+ : sum)
    {
        size_t thread = (size_t)omp_get_thread_num(), team = (size_t)omp_get_num_threads();
        size_t begin = r->n_lines * thread / team, end = r->n_lines * (thread + 1) / team;
        sum += r->reader(r->data + begin * LINE_WORDS, end - begin);
    }
    double seconds = clock_seconds() - start;
    __asm__ volatile("" : : "r"(sum)); /* keeps the compiler from dropping the reads */
    return (double)(r->n_lines * LINE_BYTES) / seconds;
}

/* The readers take turns, so that a change of the memory's speed affects all of them. */
static void choose_reader(Reading *r) {
    static const Reader readers[] = {read_in_order, read_with_prefetch, read_four_streams};
    enum { READERS = sizeof readers / sizeof *readers };
    double speeds[READERS][PASSES], best = 0.0;
    Reader fastest = readers[0];
    for (int pass = 0; pass < PASSES; pass++)
        for (int k = 0; k < READERS; k++) {
            r->reader = readers[k];
            speeds[k][pass] = bench_reading_pass(r);
        }
    for (int k = 0; k < READERS; k++) {
        double speed = bench_median(speeds[k], PASSES);
        if (speed > best) best = speed, fastest = readers[k];
    }
    r->reader = fastest;
}

/* Writes `bytes` bytes of a pattern. `path` is for the Error only. */
static Status limits_fill(int fd, const char *path, size_t bytes, Error *error) {
    enum { BLOCK = 1 << 20 };
    uint8_t *block = malloc(BLOCK);
    if (!block) return error_set(error, "no memory for a block of %s", path);
    for (size_t i = 0; i < BLOCK; i++) block[i] = (uint8_t)(i * 131 + i / 251);
    Status status = STATUS_OK;
    for (size_t done = 0; done < bytes && status == STATUS_OK;) {
        ssize_t n = write(fd, block, bytes - done < BLOCK ? bytes - done : BLOCK);
        if (n > 0) {
            done += (size_t)n;
        } else if (n == 0 || errno != EINTR) {
            status = error_set(error, "%s: %s", path, strerror(errno));
        }
    }
    free(block);
    return status;
}

/* Maps a new temporary file of `bytes`. The file has no name and no descriptor left; it vanishes
 * when the map is removed. */
static Status map_file(size_t bytes, void **map, Error *error) {
    char path[4096];
    const char *directory = getenv("TMPDIR");
    snprintf(path, sizeof path, "%s/verbatim-bench-XXXXXX", directory ? directory : "/var/tmp");
    int fd = mkstemp(path);
    if (fd < 0) return error_set(error, "%s: %s", path, strerror(errno));
    unlink(path);
    Status status = limits_fill(fd, path, bytes, error);
    if (status == STATUS_OK) {
        *map = mmap(NULL, bytes, PROT_READ, MAP_SHARED | MAP_POPULATE, fd, 0);
        if (*map == MAP_FAILED) status = error_set(error, "%s: %s", path, strerror(errno));
    }
    close(fd);
    return status;
}

Status bench_reading_open(Reading **out, const void *data, size_t bytes, int n_threads,
                          Error *error) {
    void *map = NULL;
    if (!data) {
        bytes = 4 * machine_cache();
        if (bytes < (size_t)256 << 20) bytes = (size_t)256 << 20;
        if (map_file(bytes, &map, error) != STATUS_OK) return STATUS_FAILED;
        data = map;
    }
    Reading *r = malloc(sizeof *r);
    if (!r) {
        if (map) munmap(map, bytes);
        return error_set(error, "no memory to measure reading");
    }
    *r = (Reading){data, bytes / LINE_BYTES, n_threads, read_in_order, map};
    choose_reader(r);
    *out = r;
    return STATUS_OK;
}

void bench_reading_close(Reading *r) {
    if (r && r->map) munmap(r->map, r->n_lines * LINE_BYTES);
    free(r);
}

/* ---- computing ---- */

/* Runs the multiply-adds on all threads. Returns the operations; *seconds is the time. */
static double peak_once(const Kernels *kernels, TensorType type, int n_threads, size_t rounds,
                        double *seconds) {
    double operations = 0.0, start = clock_seconds();
#pragma omp parallel num_threads(n_threads) reduction(+ : operations)
    operations += kernels->spin(type, rounds);
    *seconds = clock_seconds() - start;
    return operations;
}

double bench_peak(const Kernels *kernels, TensorType type, int n_threads, double least) {
    size_t rounds = 1000;
    double seconds, best = 0.0;
    /* Doubles the rounds until a run takes so long, twice in a row: once may only mean that a
     * thread had to wait for its processor. */
    for (int enough = 0; enough < 2; enough++)
        while (peak_once(kernels, type, n_threads, rounds, &seconds), seconds < least) {
            rounds *= 2;
            enough = 0;
        }
    for (int pass = 0; pass < PASSES; pass++) {
        double operations = peak_once(kernels, type, n_threads, rounds, &seconds);
        best = operations / seconds > best ? operations / seconds : best;
    }
    return best;
}
