#include "cluster/wire.h"

#include <errno.h>
#include <limits.h>
#include <mpi.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"

struct Wire {
    MPI_Comm all;
    int rank, ranks;
    WireTraffic traffic;
    char name[32 + MPI_MAX_PROCESSOR_NAME];
};

/* ---- Waiting ---- */

_Noreturn static void give_up(const Wire *wire, const char *text) {
    char line[1400];
    int n = snprintf(line, sizeof line, "%s: %s: %s\n", program_invocation_short_name, wire->name,
                     text);
    fflush(stdout);
    if (n > 0) fputs(line, stderr); /* in one piece, among the lines of other ranks */
    MPI_Abort(wire->all, STATUS_FAILED);
    _Exit(STATUS_FAILED);
}

void wire_fail(Wire *wire, const char *format, ...) {
    char text[1024];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    give_up(wire, text);
}

static void check(const Wire *wire, int result) {
    if (result == MPI_SUCCESS) return;
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    MPI_Error_string(result, text, &length);
    text[strcspn(text, "\n")] = '\0';
    char line[MPI_MAX_ERROR_STRING + 64];
    snprintf(line, sizeof line, "another rank does not answer: %s", text);
    give_up(wire, line);
}

/* Polls as long as answers take on a fast network; then lets other processes run; then sleeps
 * between looks, because a rank may wait for minutes until somebody types. */
static void finish(const Wire *wire, MPI_Request *request) {
    enum { SPINS = 1000 };
    static const double SOON = 0.02;
    const struct timespec nap = {.tv_nsec = 100 * 1000};
    double start = 0.0;
    for (size_t i = 0;; i++) {
        int done = 0;
        check(wire, MPI_Test(request, &done, MPI_STATUS_IGNORE));
        if (done) return;
        if (i < SPINS) continue;
        if (i == SPINS) start = clock_seconds();
        if (clock_seconds() - start < SOON)
            sched_yield();
        else
            nanosleep(&nap, NULL);
    }
}

/* ---- Messages ---- */

/* Finishes an exchange that began at `start`, in which the others sent so many bytes. */
static void count(Wire *wire, MPI_Request *request, double start, size_t bytes) {
    finish(wire, request);
    wire->traffic.exchanges++;
    wire->traffic.bytes += (double)bytes;
    wire->traffic.seconds += clock_seconds() - start;
}

WireTraffic wire_traffic(const Wire *wire) {
    return wire->traffic;
}

void wire_gather(Wire *wire, const float *own, float *whole, const int *counts, const int *firsts) {
    MPI_Request request;
    double start = clock_seconds();
    size_t others = 0;
    for (int r = 0; r < wire->ranks; r++)
        if (r != wire->rank) others += (size_t)counts[r];
    check(wire, MPI_Iallgatherv(own ? own : MPI_IN_PLACE, own ? counts[wire->rank] : 0, MPI_FLOAT,
                                whole, counts, firsts, MPI_FLOAT, wire->all, &request));
    count(wire, &request, start, others * sizeof *whole);
}

void wire_gather_bytes(Wire *wire, const void *own, size_t bytes, void *all) {
    MPI_Request request;
    check(wire, MPI_Iallgather(own, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, wire->all,
                               &request));
    finish(wire, &request);
}

void wire_broadcast(Wire *wire, void *data, size_t bytes) {
    for (size_t done = 0; done < bytes;) {
        size_t n = bytes - done < INT_MAX ? bytes - done : INT_MAX;
        MPI_Request request;
        double start = clock_seconds();
        check(wire, MPI_Ibcast((char *)data + done, (int)n, MPI_BYTE, 0, wire->all, &request));
        count(wire, &request, start, wire->rank == 0 ? 0 : n);
        done += n;
    }
}

/* ---- Opening and closing ---- */

/* Open MPI's ranks on one machine would read each other's memory, and remove files when they end;
 * the sandbox allows neither. What the user has set stays. */
static void choose_means(void) {
    setenv("OMPI_MCA_btl_vader_single_copy_mechanism", "none", 0);
    setenv("OMPI_MCA_shmem", "sysv", 0);
}

/* The number of processes that a starter says it has started, where MPI does not know of them: then
 * it was built for another starter, and every process would write the same text. */
static int ranks_elsewhere(void) {
    static const char *const names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"};
    int most = 1;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *value = getenv(names[i]);
        if (value && atoi(value) > most) most = atoi(value);
    }
    return most;
}

/* Exchanges data[n] with each other rank. */
static void meet_all(const Wire *wire, float *data, int n) {
    for (int step = 1; step < wire->ranks; step++) {
        int to = (wire->rank + step) % wire->ranks;
        int from = (wire->rank - step + wire->ranks) % wire->ranks;
        MPI_Request requests[2];
        check(wire, MPI_Irecv(data, n, MPI_FLOAT, from, 0, wire->all, &requests[0]));
        check(wire, MPI_Isend(data + n, n, MPI_FLOAT, to, 0, wire->all, &requests[1]));
        finish(wire, &requests[0]);
        finish(wire, &requests[1]);
    }
}

/* Sends messages of each kind, short and long, so that whatever MPI opens for its first message of
 * a kind is open before the process gives up its rights. */
static Status connect_all(Wire *wire, Error *error) {
    enum { LONG = 1 << 20 };
    size_t ranks = (size_t)wire->ranks;
    float *data = calloc(LONG, sizeof *data);
    int *counts = calloc(2 * ranks, sizeof *counts), *firsts = counts + ranks;
    bool fits = data && counts;
    for (size_t n = ranks; fits && n <= LONG; n = n < LONG && n * 32 > LONG ? LONG : n * 32) {
        for (size_t r = 0; r < ranks; r++) {
            firsts[r] = (int)(n * r / ranks);
            counts[r] = (int)(n * (r + 1) / ranks) - firsts[r];
        }
        meet_all(wire, data, (int)n / 2);
        wire_broadcast(wire, data, n * sizeof *data);
        wire_gather(wire, NULL, data, counts, firsts);
    }
    free(data);
    free(counts);
    return fits ? STATUS_OK : error_set(error, "no memory to connect %zu ranks", ranks);
}

Status wire_open(Wire **out, int *argc, char ***argv, Error *error) {
    int threads, length = 0;
    char machine[MPI_MAX_PROCESSOR_NAME] = "";
    Wire *wire = calloc(1, sizeof *wire);
    if (!wire) return error_set(error, "no memory for MPI");
    choose_means();
    if (MPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, &threads) != MPI_SUCCESS) {
        free(wire);
        return error_set(error, "MPI does not start");
    }
    wire->all = MPI_COMM_WORLD;
    MPI_Comm_set_errhandler(wire->all, MPI_ERRORS_RETURN);
    MPI_Comm_rank(wire->all, &wire->rank);
    MPI_Comm_size(wire->all, &wire->ranks);
    MPI_Get_processor_name(machine, &length);
    snprintf(wire->name, sizeof wire->name, "rank %d (%s)", wire->rank, machine);
    *out = wire;
    if (threads < MPI_THREAD_FUNNELED)
        return error_set(error, "this MPI cannot be used in a program with threads");
    if (wire->ranks == 1 && ranks_elsewhere() > 1)
        return error_set(error,
                         "started as one of %d processes, but their MPI is not the one of this "
                         "program: use the mpirun of its MPI",
                         ranks_elsewhere());
    return connect_all(wire, error);
}

void wire_close(Wire *wire) {
    if (!wire) return;
    MPI_Finalize();
    free(wire);
}

size_t wire_rank(const Wire *wire) {
    return (size_t)wire->rank;
}
size_t wire_ranks(const Wire *wire) {
    return (size_t)wire->ranks;
}
const char *wire_name(const Wire *wire) {
    return wire->name;
}
