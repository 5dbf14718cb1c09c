/* What batches with the real program leave in their files: a run that ended early is completed, and
 * nothing else is overwritten. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/batch_place.h"
#include "tests/fixture.h"
#include "tests/small_model.h"
#include "tests/tier.h"

static void failed_lines_stay_unless_they_are_retried(void **state) {
    const BatchPlace *p = *state;
    batch_place_input(
        p, "{\"id\": \"a\", \"prompt\": \"Tom\", \"max_tokens\": 400, \"ignore_eos\": true}\n"
           "{\"id\": \"b\", \"prompt\": \"Tom\", \"max_tokens\": 5}\n");
    batch_place_expect(p, 3, MORE("--kv-memory", "170K"), "1 of 2 lines failed");
    batch_place_expect(p, 3, MORE("--resume"), "1 of 2 lines failed");
    batch_place_expect(p, 0, MORE("--resume", "--retry-failed"), NULL);
    rename(p->output, p->other);
    batch_place_expect(p, 0, NULL, NULL);
    char *retried = batch_sorted_lines(p->other), *fresh = batch_sorted_lines(p->output);
    assert_string_equal(retried, fresh);
    free(retried);
    free(fresh);
    const char *const no_sizes[] = {"5 ", "4X", "4G4", "nan", "9999999T", ""};
    for (size_t i = 0; i < sizeof no_sizes / sizeof *no_sizes; i++)
        batch_place_expect(p, 2, MORE("--kv-memory", no_sizes[i]), "is not a size like");
}

/* What no line can be answered with is refused once, before the first request: 2,000 lines would
 * fail alike, and their results would have to be thrown away. */
static void an_option_that_no_line_can_be_answered_with_is_refused_once(void **state) {
    const BatchPlace *p = *state;
    static const char *const options[][3] = {
        {"--json-schema", "{\"type\": \"strng\"}", "must name types of JSON"},
        {"--regex", "(?<=a)b", "lookbehinds are not supported"},
        {"--grammar", "root", "'::=' is expected"},
        {"--logit-bias", "999999=1", "outside the vocabulary"},
    };
    batch_place_input(p, "{\"prompt\": \"One\"}\n{\"prompt\": \"Two\", \"regex\": \"a\"}\n");
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        size_t length;
        batch_place_expect(p, 1, MORE(options[i][0], options[i][1]), options[i][2]);
        char *results = file_read(p->output, &length);
        assert_int_equal(length, 0);
        free(results);
        batch_place_expect(p, 1, MORE(options[i][0], options[i][1], "--resume"), options[i][2]);
    }
}

/* Lines that failed for the sake of an option are answered with another one; results that are there
 * are of the options that made them, and nothing drops them. */
static void lines_that_failed_by_an_option_are_retried_with_another(void **state) {
    const BatchPlace *p = *state;
    static const char lines[] = "{\"prompt\": \"Once upon a time there was a little dog in a big "
                                "town\", \"max_tokens\": 3}\n";
    static const char answered[] = "{\"prompt\": \"One\", \"max_tokens\": 3}\n";
    char both[sizeof lines + sizeof answered];
    for (int i = 0; i < 2; i++) {
        const char *order = i ? "--ordered" : "--stats";
        batch_place_input(p, lines);
        batch_place_expect(p, 3, MORE(order, "-c", "6"), "1 of 1 lines failed");
        batch_place_expect(p, 1, MORE(order, "--resume"), "--retry-failed answers it anew");
        batch_place_expect(p, 0, MORE(order, "--resume", "--retry-failed"), NULL);
        rename(p->output, p->other);
        batch_place_expect(p, 0, NULL, NULL);
        batch_place_same_files(p->output, p->other);
        unlink(p->output);
        snprintf(both, sizeof both, "%s%s", lines, answered);
        batch_place_input(p, both);
        batch_place_expect(p, 3, MORE(order, "-c", "6"), "1 of 2 lines failed");
        size_t length;
        char *before = file_read(p->output, &length);
        file_write(p->other, before, length);
        free(before);
        batch_place_expect(p, 1, MORE(order, "--resume", "--retry-failed"),
                           "made by another model");
        batch_place_same_files(p->output, p->other);
        unlink(p->output);
    }
}

/* Half a day's requests are answered, then the file goes on: no result is made twice, and what the
 * changed lines did is said. */
static void lines_added_to_a_half_done_file_are_answered(void **state) {
    const BatchPlace *p = *state;
    size_t length;
    batch_place_input(
        p, "{\"prompt\": \"One\", \"max_tokens\": 3}\n{\"prompt\": \"Two\", \"max_tokens\": 3}\n");
    batch_place_expect(p, 0, MORE("--ordered"), NULL);
    char *first = file_read(p->output, &length);
    batch_place_input(
        p, "{\"prompt\": \"One\", \"max_tokens\": 3}\n{\"prompt\": \"Two\", \"max_tokens\": 3}\n"
           "{\"prompt\": \"Three\", \"max_tokens\": 3}\n");
    Process added = batch_place_run(p, MORE("--resume"));
    assert_int_equal(added.status, 0);
    assert_null(strstr(added.err, "answer"));
    assert_non_null(strstr(added.err, ": complete, 3 results, 2 by an earlier run\n"));
    process_free(&added);
    size_t more;
    char *both = file_read(p->output, &more);
    assert_true(more > length && memcmp(both, first, length) == 0);
    free(first);
    free(both);
    batch_place_input(
        p, "{\"prompt\": \"Other\", \"max_tokens\": 3}\n{\"prompt\": \"Two\", \"max_tokens\": 3}\n"
           "{\"prompt\": \"Three\", \"max_tokens\": 3}\n");
    batch_place_expect(p, 0, MORE("--resume"), "1 result of an earlier run answers no line of ");
    both = file_read(p->output, &length);
    size_t lines = 0;
    for (size_t i = 0; i < length; i++) lines += both[i] == '\n';
    assert_int_equal(lines, 4);
    free(both);
}

static void existing_results_are_never_overwritten(void **state) {
    const BatchPlace *p = *state;
    batch_write_cases(p->input, 3);
    batch_place_expect(p, 0, NULL, NULL);
    batch_place_expect(p, 1, NULL, "--resume");
    batch_place_expect(p, 0, MORE("--resume"), NULL);
    batch_place_expect(p, 1, MORE("--resume", "-t", "0.5"),
                       "give what it was made with, or another -o");
    batch_place_expect(p, 1, MORE("--resume", "-s", "5"), "other options");
    file_write(p->other, "{{ messages[0].content }}", 25);
    batch_place_expect(p, 1, MORE("--resume", "--chat-template", p->other), "other options");
    unlink(p->other);
    static const char foreign[] = "{\"id\": 5, \"precious\": true}\n";
    file_write(p->output, foreign, strlen(foreign));
    batch_place_expect(p, 1, MORE("--resume"), "not a result");
    static const char unfinished[] = "{\"precious\": 1}";
    file_write(p->output, unfinished, strlen(unfinished));
    batch_place_expect(p, 1, MORE("--resume"), "not a result");
}

/* With --csv-id the id alone says which result is whose, so the fingerprint has what becomes of a
 * row: answers of another prompt were kept as this one's. */
static void results_of_another_prompt_of_a_table_are_not_kept(void **state) {
    const BatchPlace *p = *state;
    static const char *const others[] = {"Once {text}", "{text}", "{text}"};
    const char *const more[][3] = {{"id"}, {"id", "-m", "chat"}, {"text"}};
    batch_place_input(p, "id,text\nk1,Tom\nk2,Tim\n");
    batch_place_expect(p, 0, MORE("--csv", "-n", "2", "-i", "{text}", "--csv-id", "id"), NULL);
    for (size_t i = 0; i < 3; i++)
        batch_place_expect(p, 1,
                           MORE("--csv", "--resume", "-n", "2", "-i", others[i], "--csv-id",
                                more[i][0], more[i][1], more[i][2]),
                           "other options");
    batch_place_expect(p, 0, MORE("--csv", "--resume", "-n", "2", "-i", "{text}", "--csv-id", "id"),
                       "2 by an earlier run");
}

static void a_second_process_on_the_same_results_is_refused(void **state) {
    const BatchPlace *p = *state;
    batch_write_cases(p->input, 3);
    int fd = open(p->output, O_RDWR | O_CREAT, 0666);
    assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), 0);
    batch_place_expect(p, 1, NULL, "another process");
    close(fd);
    batch_place_expect(p, 0, NULL, NULL);
}

/* Truncates the results at some byte and resumes: the same file results. */
static void results_torn_anywhere_are_completed(void **state) {
    const BatchPlace *p = *state;
    batch_write_cases(p->input, 12);
    batch_place_expect(p, 0, MORE("--ordered"), NULL);
    rename(p->output, p->other);
    size_t length;
    char *whole = file_read(p->other, &length);
    for (size_t i = 0; i < 12; i++) {
        file_write(p->output, whole, length * i / 12 + i);
        batch_place_expect(p, 0, MORE("--ordered", "--resume"), NULL);
        batch_place_same_files(p->output, p->other);
    }
    /* Zeros, as a power cut leaves them. */
    memset(whole + length / 2, 0, length - length / 2);
    file_write(p->output, whole, length);
    Process zeros = batch_place_run(p, MORE("--ordered", "--resume"));
    if (zeros.status == 0) batch_place_same_files(p->output, p->other);
    process_free(&zeros);
    free(whole);
}

/* What after whole results is not a beginning of a result is the user's. Zeros, which a power cut
 * leaves, do not hide what stands before them. */
static void only_the_beginning_of_a_result_is_dropped_and_that_is_said(void **state) {
    const BatchPlace *p = *state;
    batch_write_cases(p->input, 3);
    batch_place_expect(p, 0, MORE("--ordered"), NULL);
    rename(p->output, p->other);
    size_t length, left_length;
    char *results = file_read(p->other, &length);
#define TAIL(text, ours)                                                                           \
    { text, sizeof text - 1, ours }
    static const struct {
        const char *text;
        size_t length;
        bool ours;
    } tails[] = {
        TAIL("{\"id\": my note", false),
        TAIL("{\"id\": \"a\", note", false),
        TAIL("{\"id\": 01", false),
        TAIL("{\"id\": 1} and more", false),
        TAIL("{\"line\": 4 and 5", false),
        TAIL("{\"line\": 4.x", false),
        TAIL("{\"id\": \"a\\x", false),
        TAIL("{\"id\": \"\xE9t\xE9", false), /* not UTF-8 */
        TAIL("{\"shard\": of my garden", false),
        TAIL("{\"shard\": 5}", false),
        TAIL("my note\0\0\0", false),
        TAIL("{\"id\": \"a\", \"te", true),
        TAIL("{\"id\": \"a\", \"te\0\0\0", true),
        TAIL("{\"id\": \"caf\xC3", true), /* half of a character */
        TAIL("{\"id\": -", true),
        TAIL("{\"id\": 1, \"a\": [1.5e+, 2", false),
        TAIL("{\"id\": 1, \"a\": [1.5e+3, {\"b\": nul", true),
        TAIL("{\"id\": 1, \"a\": [], \"b\": {}, \"c\": \"\\u00", true),
        TAIL("{", true),
        TAIL("\0\0", true),
    };
#undef TAIL
    for (size_t i = 0; i < sizeof tails / sizeof *tails; i++) {
        char *bytes = malloc(length + tails[i].length);
        memcpy(bytes, results, length);
        memcpy(bytes + length, tails[i].text, tails[i].length);
        file_write(p->output, bytes, length + tails[i].length);
        Process again = batch_place_run(p, MORE("--ordered", "--resume"));
        const char *wanted = tails[i].ours ? ": line 4 is not whole (" : ": line 4: ";
        if (again.status != !tails[i].ours || !strstr(again.err, wanted))
            fail_msg("'%s': status %d, '%s'", tails[i].text, again.status, again.err);
        process_free(&again);
        char *left = file_read(p->output, &left_length);
        assert_int_equal(left_length, tails[i].ours ? length : length + tails[i].length);
        assert_memory_equal(left, bytes, left_length);
        free(left);
        free(bytes);
    }
    free(results);
}

/* Files named by mistake, and results that were edited, are not changed. */
static void a_file_of_anything_else_is_left_alone(void **state) {
    const BatchPlace *p = *state;
    batch_write_cases(p->input, 3);
    batch_place_expect(p, 0, MORE("--ordered"), NULL);
    size_t length;
    char *results = file_read(p->output, &length), *edited = NULL;
    const char *newline = memchr(results, '\n', length);
    int first = (int)(newline - results) + 1;
    assert_true(asprintf(&edited, "%.*s\n%s", first, results, results + first) > 0);
    const char *const contents[] = {
        edited,
        "\nnotes behind an empty line\n",
        "{\"id\": \"a\", \"prompt\": \"a request, without a newline\"}",
        "{\"id\": \"a\"}\n",
        "no JSON",
    };
    for (size_t i = 0; i < sizeof contents / sizeof *contents; i++) {
        file_write(p->output, contents[i], strlen(contents[i]));
        batch_place_expect(p, 1, MORE("--resume"), "not a result");
        char *left = file_read(p->output, &length);
        assert_int_equal(length, strlen(contents[i]));
        assert_memory_equal(left, contents[i], length);
        free(left);
    }
    /* A result as another program writes it, without the end of its line: the next would be glued
     * to it. */
    char *id = memmem(results, (size_t)first, "\": ", 3);
    assert_non_null(id);
    memmove(id + 2, id + 3, (size_t)(results + first - (id + 3)));
    file_write(p->output, results, (size_t)first - 2);
    batch_place_expect(p, 1, MORE("--resume"), "line 1: a result without the end of its line");
    free(edited);
    free(results);
}

static void results_of_another_order_are_not_taken_for_ordered_ones(void **state) {
    const BatchPlace *p = *state;
    batch_place_input(p, "{\"id\": \"a\", \"prompt\": \"Tom\", \"max_tokens\": 5}\n"
                         "{\"id\": \"b\", \"prompt\": \"Tim\", \"max_tokens\": 5}\n");
    batch_place_expect(p, 0, MORE("--ordered"), NULL);
    batch_place_input(p, "{\"id\": \"b\", \"prompt\": \"Tim\", \"max_tokens\": 5}\n"
                         "{\"id\": \"a\", \"prompt\": \"Tom\", \"max_tokens\": 5}\n");
    batch_place_expect(p, 1, MORE("--ordered", "--resume"), "without --ordered");
    batch_place_expect(p, 0, MORE("--resume"), NULL);
}

static void a_killed_run_is_completed(void **state) {
    const BatchPlace *p = *state;
    batch_write_cases(p->input, 80);
    batch_place_expect(p, 0, NULL, NULL);
    char *wanted = batch_sorted_lines(p->output);
    for (unsigned i = 0; i < tier_count(2, 4, 4); i++) {
        unlink(p->output);
        batch_run_and_kill(p->model, p->input, p->output, NULL, 15000 + 20000 * i);
        batch_run_and_kill(p->model, p->input, p->output, MORE("--resume"), 30000);
        batch_place_expect(p, 0, MORE("--resume"), NULL);
        char *got = batch_sorted_lines(p->output);
        assert_string_equal(got, wanted);
        free(got);
    }
    free(wanted);
}

/* States are updated in place: what a kill leaves must not show in the completed results. */
static void a_killed_run_with_states_is_completed(void **state) {
    BatchPlace p = *(const BatchPlace *)*state;
    p.model = small_model(p.directory, "tiny,n_layers=4,context=512,state_heads=4,"
                                       "state_key_heads=2,state_key_dim=16,state_value_dim=16,"
                                       "state_kernel=4,qk_norm=head");
    batch_write_cases(p.input, 40);
    batch_place_expect(&p, 0, MORE("--max-concurrent", "1"), NULL);
    char *wanted = batch_sorted_lines(p.output);
    for (unsigned i = 0; i < 2; i++) {
        unlink(p.output);
        batch_run_and_kill(p.model, p.input, p.output, MORE("--max-concurrent", "7"),
                           20000 + 20000 * i);
        batch_place_expect(&p, 0, MORE("--resume", "--max-concurrent", "7"), NULL);
        char *got = batch_sorted_lines(p.output);
        assert_string_equal(got, wanted);
        free(got);
    }
    free(wanted);
    free(p.model);
}

static void ctrl_c_keeps_what_is_done(void **state) {
    const BatchPlace *p = *state;
    int status = 0;
    batch_write_cases(p->input, 80);
    batch_place_expect(p, 0, NULL, NULL);
    char *wanted = batch_sorted_lines(p->output);
    for (unsigned i = 0; i < tier_count(1, 3, 3); i++) {
        unlink(p->output);
        bool alive = batch_run_and_signal(p->model, p->input, p->output, NULL, 20000 + 20000 * i,
                                          SIGINT, &status);
        if (!alive) continue;
        /* Before the program installs its handler, the signal kills it. */
        assert_true(status == 130 || status == 0);
        batch_place_expect(p, 0, MORE("--resume"), NULL);
        char *got = batch_sorted_lines(p->output);
        assert_string_equal(got, wanted);
        free(got);
    }
    free(wanted);
}

static void a_full_disk_is_told_and_the_run_is_completed_later(void **state) {
    const BatchPlace *p = *state;
    batch_write_cases(p->input, 40);
    batch_place_expect(p, 0, MORE("--ordered"), NULL);
    rename(p->output, p->other);
    struct stat info;
    assert_int_equal(stat(p->other, &info), 0);
    struct rlimit old, small;
    getrlimit(RLIMIT_FSIZE, &old);
    small = old;
    small.rlim_cur = (rlim_t)info.st_size / 2;
    setrlimit(RLIMIT_FSIZE, &small);
    Process full = batch_place_run(p, MORE("--ordered"));
    setrlimit(RLIMIT_FSIZE, &old);
    assert_int_equal(full.status, 1);
    assert_non_null(strstr(full.err, "cannot be written"));
    assert_non_null(strstr(full.err, "holds stays; the same command with --resume goes on"));
    assert_null(strstr(full.err, "lines are answered")); /* not all of them are in the file */
    process_free(&full);
    batch_place_expect(p, 0, MORE("--ordered", "--resume"), NULL);
    batch_place_same_files(p->output, p->other);
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
#define TEST(name) cmocka_unit_test_setup_teardown(name, NULL, batch_place_clean)
    const struct CMUnitTest tests[] = {
        TEST(failed_lines_stay_unless_they_are_retried),
        TEST(an_option_that_no_line_can_be_answered_with_is_refused_once),
        TEST(lines_that_failed_by_an_option_are_retried_with_another),
        TEST(lines_added_to_a_half_done_file_are_answered),
        TEST(existing_results_are_never_overwritten),
        TEST(results_of_another_prompt_of_a_table_are_not_kept),
        TEST(a_second_process_on_the_same_results_is_refused),
        TEST(results_torn_anywhere_are_completed),
        TEST(only_the_beginning_of_a_result_is_dropped_and_that_is_said),
        TEST(a_file_of_anything_else_is_left_alone),
        TEST(results_of_another_order_are_not_taken_for_ordered_ones),
        TEST(a_killed_run_is_completed),
        TEST(a_killed_run_with_states_is_completed),
        TEST(ctrl_c_keeps_what_is_done),
        TEST(a_full_disk_is_told_and_the_run_is_completed_later),
    };
    return cmocka_run_group_tests(tests, batch_place_open, batch_place_close);
}
