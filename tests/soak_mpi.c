/* Ranks killed at random moments of a batch (`make mpi soak`): the others end within 10 seconds,
 * and --resume loses nothing. tests/test_mpi.c kills each of three ranks once.
 *
 *     soak_mpi [TIMES [SEED]]      20 kills */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/fixture.h"
#include "tests/process.h"

/* More requests for each kill than are answered in its two seconds at most. */
enum { RANKS = 3, REQUESTS = 200 };

static int times = 20;
static unsigned seed = 1;

/* Starts a batch in the directory $1, kills its rank $2 after $3 seconds, when MPI may still be
 * connecting the ranks, and prints the status and how many seconds the others took to end. */
static const char kill_one[] =
    "mpirun -n 3 \"$0\" models/stories.bin --batch \"$1/requests\" -o \"$1/results\" --resume "
    "--ordered --max-concurrent 2 -j 1 > /dev/null 2>&1 & run=$!\n"
    "rank() { cut -s -d ' ' -f $1 /proc/$run/task/$run/children 2> /dev/null; }\n"
    "for i in $(seq 200); do [ -n \"$(rank $2)\" ] && break; sleep 0.05; done\n"
    "sleep $3\n"
    "pid=$(rank $2); [ -n \"$pid\" ] && kill -9 $pid\n"
    "killed=$(date +%s); wait $run; echo $? $(($(date +%s) - killed))\n"
    "wc -l < \"$1/results\" 2> /dev/null || echo 0\n";

static void kill_at_random(const char *directory, int i) {
    char rank[16], moment[16], *program = build_path("run-mpi");
    int status = -1, seconds = -1, done = 0;
    seed = seed * 1103515245u + 12345u;
    snprintf(rank, sizeof rank, "%u", 1 + (seed >> 16) % RANKS);
    seed = seed * 1103515245u + 12345u;
    snprintf(moment, sizeof moment, "%.2f", (double)((seed >> 16) % 200) * 0.01);
    Process p = RUN("/bin/sh", "-c", kill_one, program, directory, rank, moment);
    sscanf(p.out, "%d %d %d", &status, &seconds, &done);
    print_message("%d: rank %d killed after %s s: status %d, %d s later; %d results so far\n", i,
                  atoi(rank) - 1, moment, status, seconds, done);
    assert_int_not_equal(status, 0);
    assert_in_range(seconds, 0, 10);
    process_free(&p);
    free(program);
}

static void ranks_die_at_random_moments_and_nothing_is_lost(void **state) {
    char *directory = fixture_directory(), *requests = fixture_path(directory, "requests");
    char *results = fixture_path(directory, "results"), *expected = fixture_path(directory, "all");
    size_t a, b;
    (void)state;
    FILE *f = fopen(requests, "w");
    assert_non_null(f);
    for (int i = 0; i < REQUESTS * times; i++)
        fprintf(f, "{\"prompt\": \"Once upon a time %d\", \"max_tokens\": 100}\n", i);
    assert_int_equal(fclose(f), 0);
    for (int i = 1; i <= times; i++) kill_at_random(directory, i);
    /* One process goes on with the batch of three: the bits are the same. */
    Process last = RUN("run", "models/stories.bin", "--batch", requests, "-o", results, "--resume",
                       "--ordered", "--max-concurrent", "2");
    if (last.status != 0) fail_msg("%s", last.err);
    Process whole =
        RUN("run", "models/stories.bin", "--batch", requests, "-o", expected, "--ordered");
    assert_int_equal(whole.status, 0);
    char *resumed = file_read(results, &a), *at_once = file_read(expected, &b);
    assert_int_equal(a, b);
    assert_memory_equal(resumed, at_once, a);
    free(resumed);
    free(at_once);
    process_free(&last);
    process_free(&whole);
    free(requests);
    free(results);
    free(expected);
    fixture_remove_directory(directory);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_die_at_random_moments_and_nothing_is_lost),
    };
    char *program = build_path("run-mpi");
    bool built = access(program, X_OK) == 0;
    free(program);
    if (!built || system("command -v mpirun > /dev/null") != 0) {
        print_message("skipped: %s\n",
                      built ? "there is no mpirun" : "run-mpi is not built (make mpi)");
        return 0;
    }
    if (argc > 1) times = atoi(argv[1]);
    if (argc > 2) seed = (unsigned)strtoul(argv[2], NULL, 10);
    setenv("OMPI_MCA_rmaps_base_oversubscribe", "1", 0);
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 0);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 0);
    return cmocka_run_group_tests_name("mpi at length", tests, NULL, NULL);
}
