/* Batches in parts at full size: ten thousand requests of every kind in 1, 2, 3 and 8 parts, killed
 * at random moments, on two instruction sets. Takes minutes (`make soak`). */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/isa.h"
#include "tests/batch_cases.h"
#include "tests/fixture.h"
#include "tests/small_model.h"

enum { REQUESTS = 10000, MOST_PARTS = 8, KILLS = 3 };

typedef struct Place {
    char *directory, *model, *input, *whole, *joined, *parts[MOST_PARTS];
    unsigned microseconds; /* of one run of the whole */
} Place;

static void expect(Process result, const char *what) {
    if (result.status != 3) fail_msg("%s: status %d: %s", what, result.status, result.err);
    process_free(&result);
}

static int open_place(void **state) {
    Place *p = calloc(1, sizeof *p);
    p->directory = fixture_directory();
    p->model = small_model_stories(p->directory);
    if (!p->model) p->model = small_model(p->directory, "tiny,context=512");
    p->input = fixture_path(p->directory, "requests.jsonl");
    p->whole = fixture_path(p->directory, "whole.jsonl");
    p->joined = fixture_path(p->directory, "joined.jsonl");
    for (size_t i = 0; i < MOST_PARTS; i++) {
        char name[] = "part-0.jsonl";
        name[5] = (char)('1' + i);
        p->parts[i] = fixture_path(p->directory, name);
    }
    batch_write_mixed(p->input, REQUESTS);
    struct timespec start, end;
    clock_gettime(CLOCK_MONOTONIC, &start);
    expect(
        batch_run_program(p->model, p->input, p->whole, (const char *const[]){"--ordered", NULL}),
        "whole");
    clock_gettime(CLOCK_MONOTONIC, &end);
    p->microseconds =
        (unsigned)((end.tv_sec - start.tv_sec) * 1000000 + (end.tv_nsec - start.tv_nsec) / 1000);
    *state = p;
    return 0;
}

static int close_place(void **state) {
    Place *p = *state;
    for (size_t i = 0; i < MOST_PARTS; i++) free(p->parts[i]);
    free(p->model);
    free(p->input);
    free(p->whole);
    free(p->joined);
    fixture_remove_directory(p->directory);
    free(p);
    return 0;
}

/* Answers part i of n, counted from 0, with kills before it is done. Returns how many hit. */
static unsigned answer_part(const Place *p, size_t i, size_t n, unsigned *seed) {
    char shard[32];
    snprintf(shard, sizeof shard, "%zu/%zu", i + 1, n);
    size_t other = isa_available(1) ? 1 : 0; /* the first is plain C, which is slow */
    const char *isa = i % 2 ? isa_available(other)->name : isa_choose(NULL, NULL)->name;
    const char *arguments[] = {
        "--shard", shard, "--resume", "--isa", isa, i % 3 == 2 ? "--ordered" : NULL, NULL};
    unsigned killed = 0;
    for (int k = 0; k < KILLS; k++) {
        *seed = *seed * 1103515245 + 12345;
        uint64_t most = p->microseconds / n / KILLS; /* so that most of them hit */
        killed += batch_run_and_kill(p->model, p->input, p->parts[i], arguments,
                                     (unsigned)(most * (*seed >> 8) >> 24));
    }
    expect(batch_run_program(p->model, p->input, p->parts[i], arguments), shard);
    return killed;
}

static void joined_parts_are_the_file_of_one_run(void **state) {
    const Place *p = *state;
    static const size_t numbers[] = {1, 2, 3, 8};
    unsigned seed = 1;
    size_t n_whole, n_joined;
    char *whole = file_read(p->whole, &n_whole);
    for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++) {
        const char *argv[8 + MOST_PARTS] = {"run", "--batch", p->input, "-o", p->joined, "--merge"};
        unsigned killed = 0;
        for (size_t i = 0; i < numbers[k]; i++) {
            killed += answer_part(p, i, numbers[k], &seed);
            argv[6 + i] = p->parts[i];
        }
        expect(process_run(argv, NULL, 0), "join");
        char *joined = file_read(p->joined, &n_joined);
        assert_int_equal(n_joined, n_whole);
        assert_memory_equal(joined, whole, n_whole);
        free(joined);
        for (size_t i = 0; i < numbers[k]; i++) unlink(p->parts[i]);
        print_message("%zu parts, killed %u times: %zu bytes are the same\n", numbers[k], killed,
                      n_whole);
    }
    free(whole);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(joined_parts_are_the_file_of_one_run)};
    return cmocka_run_group_tests(tests, open_place, close_place);
}
