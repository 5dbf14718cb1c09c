/* Several processes that compute one model (`make mpi`) write what one process writes. Skipped
 * where run-mpi is not built or there is no mpirun. tests/test_cluster.c has the families. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/process.h"

static const char stories[] = "models/stories.bin";

enum { MOST_WORDS = 24 };

/* Runs run-mpi on so many ranks of one thread each. `words` end with NULL. */
static Process mpi_run(int ranks, const char *const *words) {
    const char *argv[PROCESS_MAX_ARGUMENTS] = {"/usr/bin/env", "mpirun", "-n"};
    char number[16], *program = build_path("run-mpi");
    size_t n = 3;
    snprintf(number, sizeof number, "%d", ranks);
    argv[n++] = number;
    argv[n++] = program;
    for (size_t i = 0; words[i]; i++) argv[n++] = words[i];
    argv[n++] = "-j";
    argv[n++] = "1";
    Process p = process_run(argv, NULL, 0);
    free(program);
    return p;
}

/* Fails unless so many ranks print what `run` prints. */
static void assert_same(int ranks, const char *const *words) {
    const char *argv[MOST_WORDS + 2] = {"run"};
    for (size_t i = 0; words[i]; i++) argv[i + 1] = words[i];
    Process one = process_run(argv, NULL, 0);
    Process all = mpi_run(ranks, words);
    if (one.status != 0 || all.status != 0)
        fail_msg("%d and %d of %d ranks: %s%s", one.status, all.status, ranks, one.err, all.err);
    assert_string_equal(all.out, one.out);
    process_free(&one);
    process_free(&all);
}

#define SAME(ranks, ...) assert_same(ranks, (const char *const[]){__VA_ARGS__, NULL})
#define MPI(ranks, ...) mpi_run(ranks, (const char *const[]){__VA_ARGS__, NULL})

static void any_number_of_ranks_writes_the_same_text(void **state) {
    (void)state;
    SAME(1, stories, "-s", "3", "-n", "12");
    SAME(2, stories, "-s", "3", "-n", "60", "-i", "A dragon");
    SAME(3, stories, "-t", "0", "-n", "60", "-i", "A dragon");
    SAME(4, stories, "-s", "4", "-n", "20", "-c", "64");
    SAME(8, stories, "-s", "5", "-n", "6", "--no-sandbox");
}

static void probabilities_are_the_same(void **state) {
    const char text[] = "Once upon a time, in a small town, there lived a girl who had a red ball.";
    (void)state;
    SAME(3, stories, "-i", text, "--score", "json");
    SAME(2, stories, "-i", text, "--score", "json", "--chunk", "5", "--kv-type", "q8");
}

static void a_failure_is_one_line_of_rank_0(void **state) {
    (void)state;
    Process p = MPI(3, "nothing.bin");
    assert_int_not_equal(p.status, 0);
    assert_non_null(strstr(p.err, "run-mpi: nothing.bin: No such file"));
    assert_null(strstr(strstr(p.err, "run-mpi: ") + 1, "run-mpi: "));
    process_free(&p);
    p = MPI(2, "--no-such-option");
    assert_int_equal(p.status, 2);
    assert_non_null(strstr(p.err, "--no-such-option"));
    process_free(&p);
    p = MPI(2, "--version");
    assert_int_equal(p.status, 0);
    assert_null(strstr(strstr(p.out, "verbatim ") + 1, "verbatim ")); /* only once */
    process_free(&p);
}

/* Why MPI cannot be tested here; NULL: it can. */
static const char *obstacle(void) {
    const char *runner = getenv("VERBATIM_RUNNER");
    char *program = build_path("run-mpi");
    bool built = access(program, X_OK) == 0;
    free(program);
    if (runner && *runner) return "the programs run in an emulator";
    if (!built) return "run-mpi is not built (make mpi)";
    return system("command -v mpirun > /dev/null") == 0 ? NULL : "there is no mpirun";
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_number_of_ranks_writes_the_same_text),
        cmocka_unit_test(probabilities_are_the_same),
        cmocka_unit_test(a_failure_is_one_line_of_rank_0),
    };
    if (obstacle()) {
        print_message("skipped: %s\n", obstacle());
        return 0;
    }
    /* More ranks than processors, and, in a container, by root. */
    setenv("OMPI_MCA_rmaps_base_oversubscribe", "1", 0);
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 0);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 0);
    return cmocka_run_group_tests_name("mpi", tests, NULL, NULL);
}
