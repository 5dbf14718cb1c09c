#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "options.h"

/* Parses the words of a command line, "run" first. */
static Status parse(Options *options, Error *error, char **argv) {
    int argc = 0;
    while (argv[argc]) argc++;
    return options_parse(options, argc, argv, error);
}
#define PARSE(...) parse(&o, &error, (char *[]){"run", __VA_ARGS__, NULL})

/* Refuses the command line with exactly this line. */
#define REFUSES(message, ...)                                                                      \
    do {                                                                                           \
        assert_int_equal(PARSE(__VA_ARGS__), STATUS_USAGE);                                        \
        assert_string_equal(error.text, message);                                                  \
    } while (0)

static void short_options_are_those_of_llama2c(void **state) {
    (void)state;
    Options o;
    Error error;
    assert_int_equal(PARSE("m.bin", "-t", "0.5", "-p", "0.8", "-s", "7", "-n", "20", "-i", "Hi",
                           "-z", "tok.bin", "-m", "chat", "-y", "Be kind"),
                     STATUS_OK);
    assert_string_equal(o.model, "m.bin");
    assert_true(o.temperature == 0.5 && o.top_p == 0.8 && o.seed == 7 && o.n_tokens == 20);
    assert_string_equal(o.prompt, "Hi");
    assert_string_equal(o.tokenizer, "tok.bin");
    assert_string_equal(o.system, "Be kind");
    assert_int_equal(o.mode, 1);
}

static void long_options_take_their_value_either_way(void **state) {
    (void)state;
    Options o;
    Error error;
    assert_int_equal(PARSE("--temperature=0.25", "--top-k", "40", "m.bin", "-j4", "--stop", "a",
                           "--stop=b", "--kv-type", "f16"),
                     STATUS_OK);
    assert_true(o.temperature == 0.25 && o.top_k == 40 && o.n_threads == 4);
    assert_int_equal(o.stop.n, 2);
    assert_string_equal(o.stop.items[1], "b");
    assert_int_equal(o.kv_type, 2);
    assert_true(options_given(&o, &o.temperature));
    assert_false(options_given(&o, &o.top_p));
    assert_true(o.top_p == 0.9);
}

static void a_prompt_may_begin_with_a_dash(void **state) {
    (void)state;
    Options o;
    Error error;
    assert_int_equal(PARSE("m.bin", "-i", "-"), STATUS_OK);
    assert_string_equal(o.prompt, "-");
    assert_int_equal(PARSE("m.bin", "-i", "- milk"), STATUS_OK);
    assert_string_equal(o.prompt, "- milk");
    assert_int_equal(PARSE("m.bin", "--prompt=--stats"), STATUS_OK);
    assert_string_equal(o.prompt, "--stats");
    assert_int_equal(PARSE("--", "-m.bin"), STATUS_OK);
    assert_string_equal(o.model, "-m.bin");
}

static void a_mistyped_option_suggests_the_right_one(void **state) {
    (void)state;
    Options o;
    Error error;
    REFUSES("no option --temprature; did you mean --temperature X?", "m", "--temprature", "1");
    REFUSES("no option --temp; did you mean --temperature X?", "m", "--temp", "1");
    REFUSES("no option --top_k; did you mean --top-k N?", "m", "--top_k", "1");
    REFUSES("no option -temperature; did you mean --temperature X?", "m", "-temperature", "1");
    REFUSES("no option --n-predict; did you mean --tokens N?", "m", "--n-predict", "1");
    REFUSES("no option --state; did you mean --stats?", "m", "--state");
    REFUSES("no option --xyzzy; run --help lists them all", "m", "--xyzzy");
    REFUSES("no option --model: the model comes first, run MODEL [options]", "--model", "m");
}

static void a_missing_value_is_asked_for(void **state) {
    (void)state;
    Options o;
    Error error;
    REFUSES("-i needs a value: -i TEXT (continue this text; - reads it from stdin)", "m", "-i");
    REFUSES("--top-k needs a value: --top-k N (only the N likeliest; 0: all [0])", "m", "--top-k",
            "--stats");
    REFUSES("--stats takes no value", "m", "--stats=1");
}

static void numbers_out_of_range_are_refused(void **state) {
    (void)state;
    Options o;
    Error error;
    REFUSES("-t: -1 is out of range, it must be from 0 to 1000", "m", "-t", "-1");
    REFUSES("-j: 0 is out of range, it must be from 1 to 1024", "m", "-j", "0");
    REFUSES("-j: -3 is out of range, it must be from 1 to 1024", "m", "-j", "-3");
    REFUSES("-p: 1.5 is out of range, it must be from 0 to 1", "m", "-p", "1.5");
    REFUSES("-t: 'nan' is not a number", "m", "-t", "nan");
    REFUSES("-t: 'warm' is not a number", "m", "-t", "warm");
    REFUSES("-n: '1e3' is not a whole number", "m", "-n", "1e3");
    REFUSES("-n: '' is not a whole number", "m", "-n", "");
    REFUSES("--kv-type: 'q8' is none of auto|f32|f16", "m", "--kv-type", "q8");
    assert_int_equal(PARSE("m", "-s", "18446744073709551615"), STATUS_OK);
    assert_true(o.seed == UINT64_MAX);
    assert_int_equal(PARSE("m", "-s", "18446744073709551616"), STATUS_USAGE);
}

static void what_does_not_fit_together_is_refused(void **state) {
    (void)state;
    Options o;
    Error error;
    REFUSES("no model: run MODEL [options]; run --help explains", "-n", "5");
    REFUSES("one model at a time, but 'Once upon' stands beside 'm.bin'; a prompt goes after -i: "
            "run m.bin -i 'Once upon'",
            "m.bin", "Once upon");
    REFUSES("-i and -f both give the prompt: use one of them", "m", "-i", "a", "-f", "b");
    REFUSES("only one of --info, --verify, --tokenize, --detokenize and --eval at a time", "m",
            "--info", "--verify");
    REFUSES("--against MODEL compares on a text: --eval FILE", "m", "--against", "n");
    REFUSES("--stop: an empty text is everywhere", "m", "--stop", "");
}

/* A person reads it on one screen: 80 columns, and few enough lines. */
static void help_fits_a_screen(void **state) {
    (void)state;
    char *text = NULL, *line;
    size_t size = 0, lines = 0;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    options_print_help(out);
    fclose(out);
    for (line = strtok(text, "\n"); line; line = strtok(NULL, "\n"), lines++) {
        if (strlen(line) > 80) print_message("too long: %s\n", line);
        assert_true(strlen(line) <= 80);
    }
    print_message("%zu lines\n", lines);
    assert_true(lines <= 60);
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(short_options_are_those_of_llama2c),
        cmocka_unit_test(long_options_take_their_value_either_way),
        cmocka_unit_test(a_prompt_may_begin_with_a_dash),
        cmocka_unit_test(a_mistyped_option_suggests_the_right_one),
        cmocka_unit_test(a_missing_value_is_asked_for),
        cmocka_unit_test(numbers_out_of_range_are_refused),
        cmocka_unit_test(what_does_not_fit_together_is_refused),
        cmocka_unit_test(help_fits_a_screen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
