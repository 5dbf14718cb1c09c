#include "ports/cluster/wire.h"

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
#include "ports/cluster/starter.h"
#include "system/terminal.h"

enum { NAME_BYTES = 32 + MPI_MAX_PROCESSOR_NAME };

struct Wire {
    MPI_Comm all;
    int rank, ranks;
    WireTraffic traffic;
    Starter starter;
    bool alone;   /* the starter's connection is closed, and MPI can no longer be ended */
    bool *heard;  /* [ranks] which ranks have answered since this one asked */
    char *names;  /* [ranks][NAME_BYTES]; NULL: not known yet */
    double limit; /* seconds after which a silent rank ends all */
};

/* ---- Failing ---- */

static void say(const Wire *wire, const char *text) {
    char line[1400];
    int n = snprintf(line, sizeof line, "%s: %s: %s\n", program_invocation_short_name,
                     wire_name(wire), text);
    fflush(stdout);
    if (n > 0)
        terminal_print(stderr, "%s", line); /* in one piece, among the lines of other ranks */
}

_Noreturn static void give_up(const Wire *wire, const char *text) {
    say(wire, text);
    if (!wire->alone) MPI_Abort(wire->all, STATUS_FAILED);
    _Exit(STATUS_FAILED); /* upon which mpirun ends all */
}

void wire_fail(Wire *wire, const char *format, ...) {
    char text[1024];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    give_up(wire, text);
}

static void wire_check(const Wire *wire, int result) {
    if (result == MPI_SUCCESS) return;
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    MPI_Error_string(result, text, &length);
    text[strcspn(text, "\n")] = '\0';
    char line[MPI_MAX_ERROR_STRING + 64];
    snprintf(line, sizeof line, "another rank does not answer: %s", text);
    give_up(wire, line);
}

/* ---- Waiting ---- */

/* How long a call waits for other ranks. */
typedef enum Patience {
    PATIENCE_ENDLESS, /* rank 0 may wait for minutes until somebody types */
    PATIENCE_NAMES,   /* names a silent rank: it may be opening a large file */
    PATIENCE_ENDS     /* ... and ends all at the limit */
} Patience;

/* Messages without contents, in addition to the exchanges' messages. */
enum { TAG_ASKED = 1, TAG_ANSWERED };

/* Takes a message with this tag. Returns the rank that it came from, or -1: there is none. */
static int wire_take(const Wire *wire, int tag) {
    int there = 0;
    MPI_Status status;
    wire_check(wire, MPI_Iprobe(MPI_ANY_SOURCE, tag, wire->all, &there, &status));
    if (!there) return -1;
    wire_check(wire,
               MPI_Recv(NULL, 0, MPI_BYTE, status.MPI_SOURCE, tag, wire->all, MPI_STATUS_IGNORE));
    return status.MPI_SOURCE;
}

/* Answers ranks that ask whether this one waits, too, and hears answers. */
static void answer(const Wire *wire) {
    int from = wire_take(wire, TAG_ASKED);
    if (from >= 0) wire_check(wire, MPI_Send(NULL, 0, MPI_BYTE, from, TAG_ANSWERED, wire->all));
    from = wire_take(wire, TAG_ANSWERED);
    if (from >= 0 && wire->heard) wire->heard[from] = true;
}

static void ask_all(const Wire *wire) {
    for (int r = 0; r < wire->ranks && wire->heard; r++) {
        wire->heard[r] = r == wire->rank;
        if (r != wire->rank) wire_check(wire, MPI_Send(NULL, 0, MPI_BYTE, r, TAG_ASKED, wire->all));
    }
}

/* Reports the rank that has sent nothing for that long; with `ends`, ends all ranks. Only the first
 * of the waiting ranks reports at the time limit. Another one does after 1.5 limits, when that one
 * has not. */
static void name_silent(const Wire *wire, double seconds, bool ends) {
    int silent = 0;
    bool earlier = false;
    char text[NAME_BYTES + 160];
    for (int r = 0; r < wire->rank; r++) earlier = earlier || (wire->heard && wire->heard[r]);
    if (earlier && (!ends || seconds < wire->limit * 1.5)) return;
    while (wire->heard && silent < wire->ranks && wire->heard[silent]) silent++;
    if (silent < wire->ranks && wire->names)
        snprintf(text, sizeof text, "%s has been silent for %.0f seconds%s",
                 wire->names + (size_t)silent * NAME_BYTES, seconds, ends ? "" : "; waiting");
    else
        snprintf(text, sizeof text, "ranks have waited for each other for %.0f seconds", seconds);
    if (ends) give_up(wire, text);
    say(wire, text);
}

/* A wait that has taken longer than answers take on a fast network: lets other processes run, then
 * sleeps between looks, and asks in time whether the others wait, too. */
static void wait_longer(const Wire *wire, MPI_Request *request, Patience patience) {
    static const double SOON = 0.02, ASKED_BEFORE = 1.0; /* seconds */
    const struct timespec nap = {.tv_nsec = 100 * 1000};
    double start = clock_seconds(), next = wire->limit / 10.0;
    bool asked = false;
    for (int done = 0;;) {
        wire_check(wire, MPI_Test(request, &done, MPI_STATUS_IGNORE));
        if (done) return;
        double waited = clock_seconds() - start;
        if (waited < SOON) {
            sched_yield();
            continue;
        }
        nanosleep(&nap, NULL);
        answer(wire);
        if (patience == PATIENCE_ENDLESS) continue;
        if (!asked && waited > next - ASKED_BEFORE) ask_all(wire);
        asked = asked || waited > next - ASKED_BEFORE;
        if (waited <= next) continue;
        name_silent(wire, waited, patience == PATIENCE_ENDS && waited > wire->limit);
        next = next < wire->limit ? wire->limit : next * 1.6;
        asked = false;
    }
}

static void wire_finish(const Wire *wire, MPI_Request *request, Patience patience) {
    enum { SPINS = 1000 };
    for (size_t i = 0; i < SPINS; i++) {
        int done = 0;
        wire_check(wire, MPI_Test(request, &done, MPI_STATUS_IGNORE));
        if (done) return;
    }
    wait_longer(wire, request, patience);
}

/* ---- Messages ---- */

/* Finishes an exchange that began at `start`, in which the others sent so many bytes. */
static void wire_count(Wire *wire, MPI_Request *request, double start, size_t bytes,
                       Patience patience) {
    wire_finish(wire, request, patience);
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
    wire_check(wire,
               MPI_Iallgatherv(own ? own : MPI_IN_PLACE, own ? counts[wire->rank] : 0, MPI_FLOAT,
                               whole, counts, firsts, MPI_FLOAT, wire->all, &request));
    wire_count(wire, &request, start, others * sizeof *whole, PATIENCE_ENDS);
}

void wire_gather_bytes(Wire *wire, const void *own, size_t bytes, void *all) {
    MPI_Request request;
    wire_check(wire, MPI_Iallgather(own, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, wire->all,
                                    &request));
    wire_finish(wire, &request, PATIENCE_NAMES);
}

void wire_broadcast(Wire *wire, void *data, size_t bytes) {
    for (size_t done = 0; done < bytes;) {
        size_t n = bytes - done < INT_MAX ? bytes - done : INT_MAX;
        MPI_Request request;
        double start = clock_seconds();
        wire_check(wire, MPI_Ibcast((char *)data + done, (int)n, MPI_BYTE, 0, wire->all, &request));
        wire_count(wire, &request, start, wire->rank == 0 ? 0 : n,
                   wire->rank == 0 ? PATIENCE_ENDS : PATIENCE_ENDLESS);
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

/* Exchanges n meaningless floats with each other rank, so that MPI opens what messages of this
 * length between two ranks need. data[2 n]. */
static void meet_all(const Wire *wire, float *data, int n) {
    for (int step = 1; step < wire->ranks; step++) {
        int to = (wire->rank + step) % wire->ranks;
        int from = (wire->rank - step + wire->ranks) % wire->ranks;
        MPI_Request requests[2];
        wire_check(wire, MPI_Irecv(data, n, MPI_FLOAT, from, 0, wire->all, &requests[0]));
        wire_check(wire, MPI_Isend(data + n, n, MPI_FLOAT, to, 0, wire->all, &requests[1]));
        wire_finish(wire, &requests[0], PATIENCE_ENDS);
        wire_finish(wire, &requests[1], PATIENCE_ENDS);
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

/* Tells all ranks the name of each. */
static Status gather_names(Wire *wire, Error *error) {
    char own[NAME_BYTES], machine[MPI_MAX_PROCESSOR_NAME] = "";
    int length = 0;
    char *names = calloc((size_t)wire->ranks, sizeof own);
    wire->heard = calloc((size_t)wire->ranks, sizeof *wire->heard);
    if (!names || !wire->heard) {
        free(names);
        return error_set(error, "no memory for the names of %d ranks", wire->ranks);
    }
    MPI_Get_processor_name(machine, &length);
    memset(own, 0, sizeof own);
    snprintf(own, sizeof own, "rank %d (%s)", wire->rank, machine);
    wire_gather_bytes(wire, own, sizeof own, names);
    for (int r = 0; r < wire->ranks; r++) names[(size_t)(r + 1) * NAME_BYTES - 1] = '\0';
    wire->names = names;
    return STATUS_OK;
}

/* Lets go of mpirun, on all ranks before any of them goes on to read what others have written: a
 * rank can ask mpirun for programs on behalf of no other one. */
static void leave_starter(Wire *wire) {
    char own = 0, *all = calloc((size_t)wire->ranks, 1);
    if (!all) give_up(wire, "no memory to leave mpirun");
    wire_gather_bytes(wire, &own, 1, all); /* connected, all of them */
    wire->alone = starter_leave();
    wire_gather_bytes(wire, &own, 1, all);
    free(all);
}

/* Seconds after which a silent rank ends all. */
static double limit_of_silence(void) {
    const char *given = getenv("VERBATIM_RANK_TIMEOUT");
    double limit = given ? strtod(given, NULL) : 0.0;
    return limit >= 1.0 && limit < 1e9 ? limit : 600.0;
}

Status wire_open(Wire **out, int *argc, char ***argv, Error *error) {
    int threads;
    Wire *wire = calloc(1, sizeof *wire);
    if (!wire) return error_set(error, "no memory for MPI");
    choose_means();
    if (MPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, &threads) != MPI_SUCCESS) {
        free(wire);
        return error_set(error, "MPI does not start");
    }
    starter_find(&wire->starter);
    wire->limit = limit_of_silence();
    wire->all = MPI_COMM_WORLD;
    MPI_Comm_set_errhandler(wire->all, MPI_ERRORS_RETURN);
    MPI_Comm_rank(wire->all, &wire->rank);
    MPI_Comm_size(wire->all, &wire->ranks);
    *out = wire;
    if (threads < MPI_THREAD_FUNNELED)
        return error_set(error, "this MPI cannot be used in a program with threads");
    if (wire->ranks == 1 && ranks_elsewhere() > 1)
        return error_set(error,
                         "started as one of %d processes, but their MPI is not the one of this "
                         "program: use the mpirun of its MPI",
                         ranks_elsewhere());
    if (wire->ranks == 1) return STATUS_OK;
    if (gather_names(wire, error) != STATUS_OK || connect_all(wire, error) != STATUS_OK)
        return STATUS_FAILED;
    leave_starter(wire);
    return STATUS_OK;
}

bool wire_is_tied(const Wire *wire) {
    return starter_is_reachable(&wire->starter);
}

void wire_close(Wire *wire) {
    if (!wire) return;
    if (wire->alone) {
        /* In MPI_Finalize ranks would wait for the starter. Nobody leaves before all have what was
         * sent to them. */
        char own = 0, *all = calloc((size_t)wire->ranks, 1);
        if (all) wire_gather_bytes(wire, &own, 1, all);
        free(all);
    } else {
        MPI_Finalize();
    }
    free(wire->heard);
    free(wire->names);
    free(wire);
}

size_t wire_rank(const Wire *wire) {
    return (size_t)wire->rank;
}
size_t wire_ranks(const Wire *wire) {
    return (size_t)wire->ranks;
}
const char *wire_name(const Wire *wire) {
    return wire->names ? wire->names + (size_t)wire->rank * NAME_BYTES : "a rank";
}
