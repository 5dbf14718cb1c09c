/* bench's command line and its JSON. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <jansson.h>

#include "measure/bench_attention.h"
#include <sys/stat.h>

#include "process.h"
#include "small_model.h"
#include "tier.h"

static char *directory, *model;

static int make_model(void **state) {
    (void)state;
    directory = build_path("test-bench");
    mkdir(directory, 0755);
    model = small_model(directory, NULL);
    return 0;
}

static int free_model(void **state) {
    (void)state;
    free(model);
    free(directory);
    return 0;
}

/* The program must fail with exactly this line on stderr and print nothing. */
#define REFUSES(code, message, ...)                                                                \
    do {                                                                                           \
        Process p = RUN("bench", __VA_ARGS__);                                                     \
        assert_int_equal(p.status, code);                                                          \
        assert_string_equal(p.err, "bench: " message "\n");                                        \
        assert_string_equal(p.out, "");                                                            \
        process_free(&p);                                                                          \
    } while (0)

static void a_wrong_command_line_is_told_what_is_wrong(void **state) {
    (void)state;
    REFUSES(2, "-j: 0 is out of range, it must be from 1 to 4096", model, "-j", "0");
    REFUSES(2, "--batch: 65 is out of range, it must be from 1 to 64", model, "--batch", "65");
    REFUSES(2, "--decode: '' is not a whole number from 1 to 16777216", model, "--decode", "");
    REFUSES(2, "--prefill: '9x' is not a whole number from 1 to 16777216", model, "--prefill=9x");
    REFUSES(2, "--kv-type: 'q4' is none of auto|f32|f16|bf16|q8", model, "--kv-type", "q4");
    REFUSES(2, "--sweep: 'heads' is none of no|threads|context|batch", model, "--sweep", "heads");
    REFUSES(2, "--sweep has sizes of its own: leave out --decode, --prefill, --batch", model,
            "--sweep", "batch", "--decode", "4");
    REFUSES(2, "--attention has sizes of its own: leave out --sweep, --decode and the like", model,
            "--attention", "--prefill", "4");
    REFUSES(2, "no option --prefil; did you mean --prefill N?", model, "--prefil", "9");
    REFUSES(2, "one model at a time, not 'a' and 'b'", "a", "b");
    REFUSES(2, "no option -m: the model stands alone: bench MODEL [options]", "-m", "a");
    REFUSES(2, "no option -p: --prefill N measures a prompt of N tokens", "a", "-p", "512");
    REFUSES(2, "no option -n: --decode N measures one token after N positions", "a", "-n", "9");
    REFUSES(2, "which model? bench MODEL; see bench --help", "--json");
}

static void nothing_is_measured_past_the_context(void **state) {
    (void)state;
    REFUSES(1, "--decode 60: 5 steps more do not fit the context of 64", model, "--context", "64",
            "--decode", "60");
    REFUSES(1, "--prefill 65: the model's context is 64 positions", model, "--context", "64",
            "--prefill", "65");
    REFUSES(1, "a context of 16 positions is too short to be measured", model, "--context", "16");
}

static void a_table_that_cannot_be_written_is_an_error(void **state) {
    (void)state;
    char *command, *bench = program_command("bench");
    assert_true(asprintf(&command, "%s --help > /dev/full", bench) > 0);
    Process p = RUN("/bin/sh", "-c", command);
    assert_int_equal(p.status, 1);
    assert_string_equal(p.err, "bench: stdout: cannot be written: No space left on device\n");
    process_free(&p);
    free(command);
    free(bench);
}

static void json_has_each_measurement(void **state) {
    (void)state;
    static const char *const parts[] = {"projections", "attention", "feed-forward", "output",
                                        "rest"};
    /* A short context ends a measurement after a few steps: memory is read again between them. */
    Process p = RUN("bench", model, "--json", "--context", "48", "--decode", "20", "--prefill",
                    "40", "--batch", "3");
    assert_int_equal(p.status, 0);
    json_t *root = json_loads(p.out, 0, NULL), *results = json_object_get(root, "results");
    assert_non_null(root);
    assert_true(json_number_value(json_object_get(root, "read_bandwidth")) > 0);
    assert_true(json_number_value(json_object_get(root, "peak")) > 0);
    assert_int_equal(json_array_size(results), 3);
    for (size_t i = 0; i < 3; i++) {
        static const char *const names[] = {"decode", "prefill", "batch"};
        static const json_int_t positions[] = {20, 40, 16};
        json_t *result = json_array_get(results, i), *time = json_object_get(result, "time");
        double sum = 0;
        assert_string_equal(json_string_value(json_object_get(result, "what")), names[i]);
        assert_int_equal(json_integer_value(json_object_get(result, "position")), positions[i]);
        assert_true(json_number_value(json_object_get(result, "tokens_per_second")) > 0);
        for (size_t k = 0; k < sizeof parts / sizeof *parts; k++)
            sum += json_number_value(json_object_get(time, parts[k]));
        assert_true(sum > 0.99 && sum < 1.01);
    }
    json_decref(root);
    process_free(&p);
}

static void blocks_and_the_whole_matrix_of_scores_give_the_same_attention(void **state) {
    (void)state;
    AttentionSpeed speed;
    Error error;
    const Isa *isa = isa_choose(NULL, &error);
    for (int threads = 1; threads <= 2; threads++) {
        assert_int_equal(bench_attention(isa, threads, 24, 200, &speed, &error), STATUS_OK);
        assert_true(speed.difference < 1e-5);
        assert_true(speed.blocks > 0 && speed.textbook > 0);
        assert_true(speed.matrix_bytes == 4.0 * 200 * 200);
    }
}

/* Sizes double from 512 to the context that is asked for; a smaller one is the only size. */
static void attention_is_measured_up_to_the_context(void **state) {
    (void)state;
    static const struct {
        const char *context;
        size_t n, last;
    } cases[] = {{"100", 1, 100}, {"1100", 2, 1024}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (!tier_takes(i, 2, 1)) continue;
        Process p =
            RUN("bench", model, "--attention", "-j", "1", "--json", "--context", cases[i].context);
        assert_int_equal(p.status, 0);
        json_t *root = json_loads(p.out, 0, NULL);
        json_t *results = json_object_get(root, "results");
        assert_int_equal(json_array_size(results), cases[i].n);
        json_t *last = json_array_get(results, cases[i].n - 1);
        assert_int_equal(json_integer_value(json_object_get(last, "positions")), cases[i].last);
        json_decref(root);
        process_free(&p);
    }
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wrong_command_line_is_told_what_is_wrong),
        cmocka_unit_test(nothing_is_measured_past_the_context),
        cmocka_unit_test(a_table_that_cannot_be_written_is_an_error),
        cmocka_unit_test(json_has_each_measurement),
        cmocka_unit_test(blocks_and_the_whole_matrix_of_scores_give_the_same_attention),
        cmocka_unit_test(attention_is_measured_up_to_the_context),
    };
    return cmocka_run_group_tests(tests, make_model, free_model);
}
