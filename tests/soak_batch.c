/* Batches at full size: a thousand requests compared with a thousand single runs, fifty kills, a
 * full disk, a hundred thousand requests in constant memory. Takes minutes (`make soak`).
 * "soak_batch states": only with the model that keeps states. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tests/batch_cases.h"
#include "tests/fixture.h"
#include "tests/small_model.h"

enum { REQUESTS = 1000, KILLS = 50 };

typedef struct Place {
    char *directory, *model, *input, *output, *whole;
} Place;

#define MORE(...) ((const char *const[]){__VA_ARGS__, NULL})

static void expect(const Place *p, int status, const char *const *more) {
    Process result = batch_run_program(p->model, p->input, p->output, more);
    if (result.status != status)
        fail_msg("status %d, not %d: %s", result.status, status, result.err);
    process_free(&result);
}

static int open_with(void **state, bool has_states) {
    Place *p = calloc(1, sizeof *p);
    p->directory = fixture_directory();
    p->model = has_states ? small_model(p->directory, "tiny,context=512,n_layers=4,attend=4,"
                                                      "state_heads=4,state_key_heads=2,"
                                                      "state_key_dim=16,state_value_dim=16,"
                                                      "state_kernel=4")
                          : small_model_stories(p->directory);
    if (!p->model) p->model = small_model(p->directory, "tiny,context=512");
    p->input = fixture_path(p->directory, "requests.jsonl");
    p->output = fixture_path(p->directory, "results.jsonl");
    p->whole = fixture_path(p->directory, "whole.jsonl");
    batch_write_cases(p->input, REQUESTS);
    expect(p, 0, MORE("--ordered", "--max-concurrent", "64"));
    rename(p->output, p->whole);
    *state = p;
    return 0;
}

static int open_place(void **state) {
    return open_with(state, false);
}

/* A model most of whose layers keep a state. */
static int open_states(void **state) {
    return open_with(state, true);
}

static int close_place(void **state) {
    Place *p = *state;
    free(p->model);
    free(p->input);
    free(p->output);
    free(p->whole);
    fixture_remove_directory(p->directory);
    free(p);
    return 0;
}

static void same_as_whole(const Place *p, const char *path) {
    size_t n, m;
    char *got = file_read(path, &n), *wanted = file_read(p->whole, &m);
    assert_int_equal(n, m);
    assert_memory_equal(got, wanted, n);
    free(got);
    free(wanted);
}

static void a_thousand_requests_give_what_a_thousand_runs_give(void **state) {
    const Place *p = *state;
    batch_check_results(p->model, p->whole, REQUESTS);
    static const char *const variants[][8] = {
        {"--ordered", "--max-concurrent", "1"},
        {"--ordered", "--max-concurrent", "7"},
        {"--ordered", "--max-concurrent", "64", "--kv-memory", "1M"},
        {"--ordered", "--max-concurrent", "64", "--chunk", "64", "-j", "3"},
    };
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) {
        expect(p, 0, variants[i]);
        same_as_whole(p, p->output);
        unlink(p->output);
    }
}

static void fifty_kills_lose_nothing(void **state) {
    const Place *p = *state;
    struct timespec start, end;
    clock_gettime(CLOCK_MONOTONIC, &start);
    expect(p, 0, NULL);
    clock_gettime(CLOCK_MONOTONIC, &end);
    unsigned usual =
        (unsigned)((end.tv_sec - start.tv_sec) * 1000000 + (end.tv_nsec - start.tv_nsec) / 1000);
    char *wanted = batch_sorted_lines(p->output);
    unsigned killed = 0, seed = 1;
    for (int i = 0; i < KILLS; i++) {
        bool ordered = i % 2;
        unlink(p->output);
        seed = seed * 1103515245 + 12345;
        killed +=
            batch_run_and_kill(p->model, p->input, p->output, ordered ? MORE("--ordered") : NULL,
                               (unsigned)((uint64_t)usual * (seed >> 8) >> 24));
        expect(p, 0, ordered ? MORE("--ordered", "--resume") : MORE("--resume"));
        if (ordered) same_as_whole(p, p->output);
        char *got = batch_sorted_lines(p->output);
        assert_string_equal(got, wanted);
        free(got);
    }
    print_message("%u of %d runs were killed before their end (a run takes %u ms)\n", killed,
                  (int)KILLS, usual / 1000);
    unlink(p->output);
    free(wanted);
}

static void a_disk_that_fills_up_loses_nothing(void **state) {
    const Place *p = *state;
    char *disk = fixture_path(p->directory, "disk"), *output, *ballast;
    assert_int_equal(mkdir(disk, 0700), 0);
    if (mount("tmpfs", disk, "tmpfs", 0, "size=64k") != 0) {
        print_message("no right to mount a small disk here (%s): skipped\n", strerror(errno));
        rmdir(disk);
        free(disk);
        skip();
    }
    output = fixture_path(disk, "results.jsonl");
    ballast = fixture_path(disk, "ballast");
    struct stat info;
    for (int round = 0; round < 3; round++) {
        Process full = batch_run_program(p->model, p->input, output,
                                         round ? MORE("--ordered", "--resume") : MORE("--ordered"));
        assert_int_equal(full.status, 1);
        assert_non_null(strstr(full.err, "No space left"));
        process_free(&full);
        assert_int_equal(stat(output, &info), 0);
        print_message("full at %lld bytes\n", (long long)info.st_size);
        char size[32];
        snprintf(size, sizeof size, "size=%dk", 96 + 32 * round);
        assert_int_equal(mount("tmpfs", disk, "tmpfs", MS_REMOUNT, size), 0);
    }
    assert_int_equal(mount("tmpfs", disk, "tmpfs", MS_REMOUNT, "size=64m"), 0);
    Process rest = batch_run_program(p->model, p->input, output, MORE("--ordered", "--resume"));
    assert_int_equal(rest.status, 0);
    process_free(&rest);
    same_as_whole(p, output);
    umount(disk);
    rmdir(disk);
    free(output);
    free(ballast);
    free(disk);
}

/* Returns the peak memory in MiB of a batch, as --stats reports it. The kernel's figure begins with
 * the peak of the process that starts the program: here a shell, because this one has held whole
 * results. */
static double memory_of(const Place *p, const char *input, size_t length, const char *const *more) {
    char *run = build_path("run");
    const char *argv[20] = {
        "/bin/sh",     "-c", "\"$0\" \"$@\"; exit $?", run, p->model, "--batch", "-", "--stats",
        "--kv-memory", "4M"};
    for (size_t i = 0; more[i]; i++) argv[10 + i] = more[i];
    Process piped = process_run(argv, input, length);
    free(run);
    assert_int_equal(piped.status, 0);
    const char *line = strstr(piped.err, "memory:");
    assert_non_null(line);
    double memory = strtod(line + 7, NULL);
    process_free(&piped);
    return memory;
}

static void memory_does_not_grow_with_the_number_of_requests(void **state) {
    const Place *p = *state;
    enum { MOST = 100000 };
    char *input = malloc((size_t)MOST * 64), *at = input;
    size_t small = 0;
    assert_non_null(input);
    for (int i = 0; i < MOST; i++) {
        at += sprintf(at, "{\"prompt\": \"Once %d\", \"max_tokens\": 2}\n", i);
        if (i == 999) small = (size_t)(at - input);
    }
    double few = memory_of(p, input, small, MORE("--max-concurrent", "64"));
    double many = memory_of(p, input, (size_t)(at - input), MORE("--max-concurrent", "64"));
    double ordered =
        memory_of(p, input, (size_t)(at - input), MORE("--max-concurrent", "64", "--ordered"));
    print_message("peak memory: %.1f MiB for 1,000 requests, %.1f for 100,000, %.1f ordered\n", few,
                  many, ordered);
    assert_true(many < few + 2.0);
    assert_true(ordered < few + 16.0); /* results that wait for their turn */
    free(input);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thousand_requests_give_what_a_thousand_runs_give),
        cmocka_unit_test(fifty_kills_lose_nothing),
        cmocka_unit_test(a_disk_that_fills_up_loses_nothing),
        cmocka_unit_test(memory_does_not_grow_with_the_number_of_requests),
    };
    const struct CMUnitTest with_states[] = {
        cmocka_unit_test(a_thousand_requests_give_what_a_thousand_runs_give),
        cmocka_unit_test(fifty_kills_lose_nothing),
    };
    bool only_states = argc > 1 && strcmp(argv[1], "states") == 0;
    int failed = only_states ? 0 : cmocka_run_group_tests(tests, open_place, close_place);
    return failed + cmocka_run_group_tests(with_states, open_states, close_place);
}
