/* Batches in parts: `--shard I/N` on many machines, and `--merge`. `make soak` runs more of them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "modes/batch/renumber.h"
#include "modes/batch/result.h"
#include "modes/batch/shard.h"
#include "tests/batch_cases.h"
#include "tests/fixture.h"
#include "tests/small_model.h"
#include "tests/tier.h"

enum { MOST_PARTS = 8, REQUESTS = 54 };

typedef struct Place {
    char *directory, *model, *input, *whole, *joined, *parts[MOST_PARTS];
} Place;

static int open_place(void **state) {
    Place *p = calloc(1, sizeof *p);
    p->directory = fixture_directory();
    p->model = small_model_stories(p->directory);
    if (!p->model) {
        print_message("stories260K is absent: generated weights stand in\n");
        p->model = small_model(p->directory, "tiny,context=512");
    }
    p->input = fixture_path(p->directory, "requests.jsonl");
    p->whole = fixture_path(p->directory, "whole.jsonl");
    p->joined = fixture_path(p->directory, "joined.jsonl");
    for (size_t i = 0; i < MOST_PARTS; i++) {
        char name[] = "part-0.jsonl";
        name[5] = (char)('1' + i);
        p->parts[i] = fixture_path(p->directory, name);
    }
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

static int clean(void **state) {
    Place *p = *state;
    for (size_t i = 0; i < MOST_PARTS; i++) unlink(p->parts[i]);
    unlink(p->whole);
    unlink(p->joined);
    return 0;
}

#define MORE(...) ((const char *const[]){__VA_ARGS__, NULL})

static void input_is(const Place *p, const char *text) {
    file_write(p->input, text, strlen(text));
}

static void check_run(Process result, int status, const char *message) {
    if (result.status != status || (message && !strstr(result.err, message)))
        fail_msg("status %d, not %d: %s", result.status, status, result.err);
    process_free(&result);
}

/* Writes what one run gives. */
static void run_whole(const Place *p, int status, const char *more) {
    const char *const arguments[] = {"--ordered", more, NULL};
    check_run(batch_run_program(p->model, p->input, p->whole, arguments), status, NULL);
}

/* Runs part i of n, counted from 0, and expects this exit status; -1: any that is not a failure. */
static void run_part(const Place *p, size_t i, size_t n, int status, const char *message,
                     const char *const *more) {
    char shard[32];
    const char *arguments[16] = {"--shard", shard};
    snprintf(shard, sizeof shard, "%zu/%zu", i + 1, n);
    for (size_t k = 0; more && more[k]; k++) arguments[2 + k] = more[k];
    Process result = batch_run_program(p->model, p->input, p->parts[i], arguments);
    if (status < 0 && (result.status == 0 || result.status == 3)) status = result.status;
    check_run(result, status, message);
}

/* Joins the first n parts, the last one first. */
static void join(const Place *p, size_t n, int status, const char *message) {
    const char *argv[8 + MOST_PARTS] = {"run", "--batch", p->input, "-o", p->joined, "--merge"};
    for (size_t i = 0; i < n; i++) argv[6 + i] = p->parts[n - 1 - i];
    check_run(process_run(argv, NULL, 0), status, message);
}

static void joined_is_whole(const Place *p) {
    size_t n, m;
    char *got = file_read(p->joined, &n), *wanted = file_read(p->whole, &m);
    if (n != m || memcmp(got, wanted, n) != 0) fail_msg("got:\n%s\nwanted:\n%s", got, wanted);
    free(got);
    free(wanted);
}

/* ---- Joined --------------------------------------------------------------------------------- */

/* Parts are ordered and not, and of two instruction sets where the machine has them. */
static void joined_parts_are_the_file_of_one_run(void **state) {
    const Place *p = *state;
    static const size_t numbers[] = {1, 2, 3, 8};
    batch_write_mixed(p->input, REQUESTS);
    run_whole(p, 3, NULL);
    for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++) {
        size_t n = numbers[k];
        if (!tier_takes(k, 2, 1)) continue;
        for (size_t i = 0; i < n; i++)
            run_part(p, i, n, -1, NULL,
                     i % 2 ? MORE("--isa", "reference", "--max-concurrent", "5")
                           : MORE("--ordered"));
        join(p, n, 3, "lines failed");
        joined_is_whole(p);
        clean((void **)state);
        run_whole(p, 3, NULL);
    }
}

static void parts_that_were_killed_lose_nothing(void **state) {
    const Place *p = *state;
    batch_write_mixed(p->input, REQUESTS);
    run_whole(p, 3, NULL);
    for (size_t i = 0; i < 3; i++) {
        char shard[16];
        snprintf(shard, sizeof shard, "%zu/3", i + 1);
        for (unsigned k = 0; k < 3; k++)
            batch_run_and_kill(p->model, p->input, p->parts[i], MORE("--shard", shard, "--resume"),
                               8000 + 9000 * k);
        run_part(p, i, 3, -1, NULL, MORE("--resume"));
    }
    join(p, 3, 3, NULL);
    joined_is_whole(p);
}

/* A torn header and a torn result, as a kill leaves them at any byte. */
static void a_part_is_resumed_from_any_byte(void **state) {
    const Place *p = *state;
    input_is(p, "{\"prompt\": \"a\", \"max_tokens\": 3}\n{\"id\": 4, \"prompt\": \"b\", "
                "\"max_tokens\": 3}\n");
    run_part(p, 0, 1, 0, NULL, MORE("--ordered"));
    size_t length;
    char *bytes = file_read(p->parts[0], &length);
    for (size_t cut = 0; cut < length; cut += cut < 20 ? 3 : 61) {
        size_t n;
        file_write(p->parts[0], bytes, cut);
        run_part(p, 0, 1, 0, NULL, MORE("--ordered", "--resume"));
        char *again = file_read(p->parts[0], &n);
        assert_int_equal(n, length);
        assert_memory_equal(again, bytes, n);
        free(again);
    }
    free(bytes);
}

static void parts_may_be_empty(void **state) {
    const Place *p = *state;
    /* One long line has many parts' bytes; there are more parts than lines. */
    input_is(p, "{\"prompt\": \"a\", \"max_tokens\": 3, \"user\": \"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
                "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"}\n"
                "{\"prompt\": \"b\", \"max_tokens\": 3}");
    run_whole(p, 0, NULL);
    for (size_t i = 0; i < 8; i++) run_part(p, i, 8, 0, NULL, NULL);
    join(p, 8, 0, NULL);
    joined_is_whole(p);
    clean((void **)state);
    input_is(p, "");
    run_whole(p, 0, NULL);
    for (size_t i = 0; i < 2; i++) run_part(p, i, 2, 0, NULL, NULL);
    join(p, 2, 0, NULL);
    joined_is_whole(p);
}

static void lines_of_text_are_joined_as_well(void **state) {
    const Place *p = *state;
    input_is(p, "\xEF\xBB\xBFOnce\r\n\r\nOnce\n  \nOne day\n\xEF\xBB\xBFOnce\n{\"id\": 1}\n"
                "not \xff UTF-8\r\nThe end");
    run_whole(p, 3, "--batch-text");
    for (size_t i = 0; i < 3; i++) run_part(p, i, 3, -1, NULL, MORE("--batch-text"));
    join(p, 3, 3, NULL);
    joined_is_whole(p);
}

static void failed_lines_of_a_part_can_be_retried(void **state) {
    const Place *p = *state;
    batch_write_mixed(p->input, 20);
    run_whole(p, 3, NULL);
    for (size_t i = 0; i < 2; i++) {
        const char *order = i ? "--ordered" : "--stats";
        run_part(p, i, 2, -1, NULL, MORE(order));
        run_part(p, i, 2, -1, NULL, MORE(order, "--resume", "--retry-failed"));
    }
    join(p, 2, 3, NULL);
    joined_is_whole(p);
}

/* A part whose lines failed for the sake of an option gets the header of the other one. */
static void a_part_that_failed_by_an_option_is_retried_with_another(void **state) {
    const Place *p = *state;
    input_is(
        p, "{\"prompt\": \"Once upon a time there was a dog in a big town\", \"max_tokens\": 3}\n"
           "{\"prompt\": \"Once upon a time there was a cat in a big town\", \"max_tokens\": 3}\n");
    run_whole(p, 0, NULL);
    for (size_t i = 0; i < 2; i++) {
        const char *order = i ? "--ordered" : "--stats";
        run_part(p, i, 2, 3, "1 of 1 lines failed", MORE(order, "-c", "6"));
        run_part(p, i, 2, 1, "with other options", MORE(order, "--resume"));
        run_part(p, i, 2, 0, NULL, MORE(order, "--resume", "--retry-failed"));
    }
    join(p, 2, 0, NULL);
    joined_is_whole(p);
}

/* Rows of several lines are not cut, and every row has the number that it has in the whole table.
 */
static void rows_of_a_table_are_divided_and_joined(void **state) {
    const Place *p = *state;
    TextBuffer rows = {0};
    static const char header[] = "key,\"te\nxt\"\n", *const kinds[] = {"\"a,\n\"\"b\"\"\n\nc\"",
                                                                       "short", "", "   "};
    text_put(&rows, header, strlen(header), 0);
    for (int i = 0; i < 24; i++) {
        char row[80];
        int n = snprintf(row, sizeof row, i % 7 == 6 ? "bad%d\n\n" : "k%d,%s\n", i, kinds[i % 4]);
        text_put(&rows, row, (size_t)n, 0);
    }
    file_write(p->input, rows.bytes, rows.length);
    text_free(&rows);
    for (int ids = 0; ids < 2; ids++) {
        const char *const prompt = "The {te\nxt} of {key}";
        const char *const whole[] = {"--ordered", "--csv",    "-i",  prompt, "-n",
                                     "2",         "--csv-id", "key", NULL};
        const char *const lines[] = {"--ordered", "--csv", "-i", prompt, "-n", "2", NULL};
        const char *const *options = ids ? whole : lines;
        check_run(batch_run_program(p->model, p->input, p->whole, options), 3, NULL);
        for (size_t n = 1; n <= 8; n += n < 3 ? 1 : 5) {
            for (size_t i = 0; i < n; i++) run_part(p, i, n, -1, NULL, options);
            join(p, n, 3, NULL);
            joined_is_whole(p);
            for (size_t i = 0; i < n; i++) unlink(p->parts[i]);
            unlink(p->joined);
        }
        run_part(p, 0, 2, -1, NULL, options);
        run_part(p, 0, 2, 1, "made with another prompt of the table's rows",
                 MORE("--csv", "-i", "{key}", "-n", "2", "--resume"));
        unlink(p->parts[0]);
        unlink(p->whole);
    }
}

/* A quote that is never closed takes all rows after it. They belong to the part in which it opens,
 * and the parts after have no row: they answered the table's header as one. */
static void a_quote_that_is_never_closed_belongs_to_one_part(void **state) {
    const Place *p = *state;
    const char *const options[] = {"--ordered", "--csv",    "-i", "{text}", "-n",
                                   "2",         "--csv-id", "id", NULL};
    input_is(p, "id,text\n1,a\n2,\"un\n3,c\n4,d\n5,e\n");
    check_run(batch_run_program(p->model, p->input, p->whole, options), 3, NULL);
    for (size_t i = 0; i < 3; i++) run_part(p, i, 3, -1, NULL, options);
    join(p, 3, 3, NULL);
    joined_is_whole(p);
    size_t length;
    char *last = file_read(p->parts[2], &length);
    assert_ptr_equal(strchr(last, '\n'), last + length - 1); /* the part's header alone */
    free(last);
}

static void the_joined_file_goes_to_stdout_without_o(void **state) {
    const Place *p = *state;
    batch_write_mixed(p->input, 9);
    run_whole(p, 3, NULL);
    run_part(p, 0, 2, -1, NULL, NULL);
    run_part(p, 1, 2, -1, NULL, NULL);
    Process result =
        RUN("run", "--merge", p->parts[0], "--stats", p->parts[1], "--batch", p->input);
    size_t n;
    char *wanted = file_read(p->whole, &n);
    assert_int_equal(result.status, 3);
    assert_string_equal(result.out, wanted);
    assert_non_null(strstr(result.err, "of 2 parts"));
    process_free(&result);
    free(wanted);
}

/* ---- Numbers --------------------------------------------------------------------------------- */

/* The result of a line at this number, or of its failure. */
static char *result_at_line(const char *line, size_t number, bool fails) {
    static const char answer[] = "Hm.</think><tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n"
                                 "</tool_call>";
    static const char marks[] = "<tool_call> \"arguments\"";
    const AnswerFormat answers = {.tools = tool_format_find(marks, strlen(marks)),
                                  .think_open = "<think>",
                                  .think_close = "</think>"};
    const ResultMaker maker = {
        .model = "m", .fingerprint = "fp_0123456789abcdef", .answers = &answers};
    GenerationOptions defaults = {.sampling = sampler_options_default(), .max_tokens = 16};
    Request r;
    Error error;
    Choice choices[2] = {{.finish = FINISH_STOP}, {.finish = FINISH_STOP}};
    assert_int_equal(request_parse(&r, line, strlen(line), number, &defaults, &error), STATUS_OK);
    r.prompts = calloc(1, sizeof *r.prompts);
    r.n_prompts = 1;
    r.opened = true;
    assert_true(token_list_push(&r.prompts[0], 1));
    for (size_t i = 0; i < 2; i++) text_put(&choices[i].text, answer, strlen(answer), 0);
    r.id_taken = fails;
    char *result = fails ? result_error_line(&maker, &r, "why") : result_line(&maker, &r, choices);
    assert_non_null(result);
    for (size_t i = 0; i < 2; i++) choice_free(&choices[i]);
    request_free(&r);
    return result;
}

#define TOOLS                                                                                      \
    "\"messages\": [{\"role\": \"user\", \"content\": \"x\"}], \"tools\": [{\"type\": "            \
    "\"function\", \"function\": {\"name\": \"f\"}}]"

static void another_number_changes_all_that_depends_on_it(void **state) {
    (void)state;
    static const struct {
        const char *line;
        bool fails;
    } cases[] = {
        {"{" TOOLS "}", false},
        {"{\"n\": 2, " TOOLS "}", false},
        {"{\"method\": \"POST\", \"url\": \"/v1/chat/completions\", \"body\": {\"n\": 2, " TOOLS
         "}}",
         false},
        {"{\"method\": \"POST\", \"url\": \"/v1/completions\", \"body\": {\"prompt\": \"a\"}}",
         false},
        {"{\"id\": \"a\", \"prompt\": \"b\"}", true},
        {"{\"custom_id\": \"a\", \"method\": \"POST\", \"url\": \"/v1/completions\", \"body\": "
         "{\"prompt\": \"a\"}}",
         true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *from = result_at_line(cases[i].line, 3, cases[i].fails);
        char *wanted = result_at_line(cases[i].line, 1234567, cases[i].fails);
        char *got = renumber_result(from, strlen(from), 1234567);
        assert_string_not_equal(from, wanted);
        assert_string_equal(got, wanted);
        if (i < 3) assert_non_null(strstr(got, "tool_calls"));
        free(from);
        free(wanted);
        free(got);
    }
    assert_null(renumber_result("{\"id\": 1}", 9, 2));
    assert_null(renumber_result("{", 1, 2));
}

/* ---- Parts ----------------------------------------------------------------------------------- */

static void parts_are_whole_lines_and_cover_the_file(void **state) {
    const Place *p = *state;
    static const size_t numbers[] = {1, 2, 3, 7, 100, 5000};
    Error error;
    batch_write_mixed(p->input, REQUESTS);
    size_t length;
    char *bytes = file_read(p->input, &length);
    int fd = open(p->input, O_RDONLY);
    assert_true(fd >= 0);
    for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++) {
        uint64_t at = 0;
        for (uint64_t i = 1; i <= numbers[k]; i++) {
            Shard s = {.part = i, .of = numbers[k]};
            assert_int_equal(shard_locate(&s, fd, "requests", NULL, &error), STATUS_OK);
            assert_int_equal(s.begin, at);
            assert_true(at == 0 || bytes[at - 1] == '\n');
            at = s.end;
        }
        assert_int_equal(at, length);
    }
    close(fd);
    free(bytes);
}

static void set_environment(const char *const *names, const char *const *values) {
    for (size_t i = 0; names[i]; i++) {
        unsetenv(names[i]);
        if (values[i]) setenv(names[i], values[i], 1);
    }
}

static void a_part_may_come_from_the_scheduler(void **state) {
    (void)state;
    static const char *const slurm[] = {"SLURM_ARRAY_TASK_ID",   "SLURM_ARRAY_TASK_COUNT",
                                        "SLURM_ARRAY_TASK_MIN",  "SLURM_ARRAY_TASK_MAX",
                                        "SLURM_ARRAY_TASK_STEP", NULL};
    static const struct {
        const char *values[5];
        uint64_t part, of; /* 0: refused */
    } arrays[] = {
        {{"3", "4", "1", "4", "1"}, 3, 4},
        {{"0", "4", "0", "3", "1"}, 1, 4},
        {{"3", "4", "0", "3", "1"}, 4, 4},
        {{"5", "3", "1", "5", "2"}, 3, 3},
        {{"7", "1", "7", "7", "1"}, 1, 1},
        {{"3", "4"}, 3, 4},
        {{"2", "2", "2", "5", "1"}, 0, 0},
        {{"5", "4"}, 0, 0},
        {{"0", "4"}, 0, 0},
        {{"4", "3", "1", "5", "2"}, 0, 0},
        {{"x", "4", "1", "4", "1"}, 0, 0},
        {{"1", "0", "1", "0", "1"}, 0, 0},
        {{NULL, "4", "1", "4", "1"}, 0, 0},
        {{"3", NULL, "1", "4", "1"}, 0, 0},
    };
    uint64_t part, of;
    Error error;
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
        set_environment(slurm, arrays[i].values);
        Status status = shard_number("slurm", &part, &of, &error);
        if (status != (arrays[i].of ? STATUS_OK : STATUS_USAGE)) fail_msg("array %zu", i);
        if (status == STATUS_OK) assert_true(part == arrays[i].part && of == arrays[i].of);
    }
    static const char *const mpi[] = {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMI_RANK",
                                      "PMI_SIZE", NULL};
    set_environment(mpi, (const char *const[]){"2", "3", NULL, NULL});
    assert_int_equal(shard_number("mpi", &part, &of, &error), STATUS_OK);
    assert_true(part == 3 && of == 3);
    set_environment(mpi, (const char *const[]){NULL, NULL, "0", "5"});
    assert_int_equal(shard_number("mpi", &part, &of, &error), STATUS_OK);
    assert_true(part == 1 && of == 5);
    set_environment(mpi, (const char *const[]){"3", "3", NULL, NULL});
    assert_int_equal(shard_number("mpi", &part, &of, &error), STATUS_USAGE);
    set_environment(mpi, (const char *const[]){NULL, NULL, NULL, NULL});
    assert_int_equal(shard_number("mpi", &part, &of, &error), STATUS_USAGE);
    static const char *const wrong[] = {"",    "1",    "/",     "1/",
                                        "/2",  "0/2",  "3/2",   "-1/2",
                                        "1/x", "1 /2", "1/2/3", "1/99999999999999999999"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(shard_number(wrong[i], &part, &of, &error), STATUS_USAGE);
    assert_int_equal(shard_number("2/2", &part, &of, &error), STATUS_OK);
}

/* ---- Refused --------------------------------------------------------------------------------- */

/* Two parts of four requests, in the file that each refusal spoils. */
static void two_parts(const Place *p) {
    input_is(p, "{\"id\": 1, \"prompt\": \"a\", \"max_tokens\": 2}\n"
                "{\"id\": 2, \"prompt\": \"b\", \"max_tokens\": 2}\n"
                "{\"id\": 3, \"prompt\": \"c\", \"max_tokens\": 2}\n"
                "{\"id\": 4, \"prompt\": \"d\", \"max_tokens\": 2}\n");
    unlink(p->parts[0]);
    unlink(p->parts[1]);
    run_part(p, 0, 2, 0, NULL, MORE("--ordered"));
    run_part(p, 1, 2, 0, NULL, MORE("--ordered"));
}

/* Replaces the first `old` in a file. */
static void edit(const char *path, const char *old, const char *new) {
    size_t length;
    char *bytes = file_read(path, &length), *at = strstr(bytes, old), *text;
    assert_non_null(at);
    int n = asprintf(&text, "%.*s%s%s", (int)(at - bytes), bytes, new, at + strlen(old));
    assert_true(n >= 0);
    file_write(path, text, (size_t)n);
    free(text);
    free(bytes);
}

static void refused(const Place *p, size_t n, const char *message) {
    join(p, n, 1, message);
    assert_int_equal(access(p->joined, F_OK), -1);
}

static void parts_of_other_models_and_options_are_refused(void **state) {
    const Place *p = *state;
    two_parts(p);
    unlink(p->parts[1]);
    run_part(p, 1, 2, 0, NULL, MORE("-t", "0.5"));
    refused(p, 2, "were made by different models or with other options (fp_");
    unlink(p->parts[1]);
    Place story = *p;
    story.model = (char *)"models/stories.bin";
    run_part(&story, 1, 2, 0, NULL, NULL);
    refused(p, 2, "were made by different models or with other options (fp_");
    /* A result that does not belong to its file's first line. */
    two_parts(p);
    edit(p->parts[0], "\"completion_tokens\": 2, \"system_fingerprint\": \"fp_",
         "\"completion_tokens\": 2, \"system_fingerprint\": \"fp_x");
    refused(p, 2, "line 2 was made by another model or with other options");
}

static void parts_of_other_requests_are_refused(void **state) {
    const Place *p = *state;
    two_parts(p);
    edit(p->input, "\"d\"", "\"e\"");
    refused(p, 2, "part-2.jsonl: made for other requests: bytes 84 to 168 of ");
    two_parts(p);
    edit(p->input, "{\"id\": 4, \"prompt\": \"d\", \"max_tokens\": 2}\n", "");
    refused(p, 2, "part-2.jsonl: made for other requests: it answers bytes 84 to 168, but ");
    two_parts(p);
    size_t length;
    char *bytes = file_read(p->parts[0], &length), *digit = strstr(bytes, "\"xxh3\": \"") + 9;
    *digit = *digit == '0' ? '1' : '0';
    file_write(p->parts[0], bytes, length);
    free(bytes);
    refused(p, 2, "part-1.jsonl: made for other requests: bytes 0 to 84 of ");
    /* Results of no request, and two of one. */
    two_parts(p);
    edit(p->parts[0], "{\"id\": 1", "{\"id\": 7");
    refused(p, 2, "part-1.jsonl: line 2 is the result of no request of its part");
    two_parts(p);
    edit(p->parts[0], "{\"id\": 1", "{\"id\": 2");
    refused(p, 2, "part-1.jsonl: lines 2 and 3 are results of the same request");
}

static void parts_that_overlap_are_refused(void **state) {
    const Place *p = *state;
    two_parts(p);
    run_part(p, 2, 3, 0, NULL, NULL);
    refused(p, 3, "overlap: parts 2/2 and 3/3 both answer byte 126 of the requests");
    unlink(p->parts[2]);
    size_t length;
    char *bytes = file_read(p->parts[0], &length);
    file_write(p->parts[2], bytes, length);
    free(bytes);
    refused(p, 3, "overlap: parts 1/2 and 1/2 both answer byte 0 of the requests");
}

static void ids_in_two_parts_are_refused(void **state) {
    const Place *p = *state;
    two_parts(p);
    edit(p->input, "{\"id\": 4", "{\"id\": 1");
    unlink(p->parts[1]);
    run_part(p, 1, 2, 0, NULL, NULL);
    refused(p, 2, "lines 1 and 4 have the same id, 1, but are in different parts, ");
}

static void missing_lines_are_named(void **state) {
    const Place *p = *state;
    two_parts(p);
    refused(p, 1, "lines 3 to 4 of ");
    refused(p, 1, "in none of the parts");
    refused(p, 1, "2 of 4 lines have no result, so nothing is written");
    rename(p->parts[1], p->parts[0]);
    refused(p, 1, "lines 1 to 2 of ");
    two_parts(p);
    size_t length;
    char *bytes = file_read(p->parts[1], &length);
    file_write(p->parts[1], bytes, length - 5); /* a last line that a kill left */
    refused(p, 2, "line 4 of ");
    refused(p, 2, "part-2.jsonl, part 2/2");
    run_part(p, 1, 2, 0, NULL, MORE("--resume"));
    join(p, 2, 0, NULL);
    free(bytes);
}

static void what_is_no_part_is_refused(void **state) {
    const Place *p = *state;
    two_parts(p);
    run_whole(p, 0, NULL);
    rename(p->whole, p->parts[2]);
    refused(p, 3, "part-3.jsonl: not a part: its first line does not say");
    file_write(p->parts[2], "", 0);
    refused(p, 3, "part-3.jsonl: not a part: its first line does not say");
    file_write(p->parts[2], "{\"shard\": 1}\n", 13);
    refused(p, 3, "part-3.jsonl: not a part: its first line does not say");
    edit(p->parts[0], "\n{\"id\"", "\nsomething\n{\"id\"");
    refused(p, 2, "part-1.jsonl: line 2: not a result: ");
    unlink(p->parts[2]);
    refused(p, 3, "part-3.jsonl: No such file");
    check_run(RUN("run", "--merge", "/dev/zero", "--batch", p->input), 1, "/dev/zero: not a file");
    check_run(RUN("run", "--merge", p->parts[0], "--batch", p->input, "-o", p->parts[0]), 2,
              "--merge reads this file, which would be replaced");
    two_parts(p);
    int fd = open(p->parts[0], O_RDWR);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    refused(p, 2, "part-1.jsonl: another process is writing to it");
    close(fd);
}

/* As a tool leaves them that reads the results and writes them again. */
static void numbered_results_must_be_as_they_were_written(void **state) {
    const Place *p = *state;
    input_is(p, "{\"prompt\": \"a\", \"max_tokens\": 2}\n{\"prompt\": \"b\", \"max_tokens\": 2}\n");
    run_part(p, 0, 2, 0, NULL, NULL);
    run_part(p, 1, 2, 0, NULL, NULL);
    edit(p->parts[1], "\"line\": 1", "\"line\":1");
    refused(p, 2, "part-2.jsonl: line 2 is not as it was written, and cannot get its number in ");
}

static void only_its_own_part_is_resumed(void **state) {
    const Place *p = *state;
    two_parts(p);
    rename(p->parts[0], p->parts[1]);
    run_part(p, 1, 2, 1, "part-2.jsonl: part 1/2 of a batch, not 2/2", MORE("--resume"));
    two_parts(p);
    run_part(p, 1, 2, 1, "made by another model or with other options",
             MORE("--resume", "-t", "0.25"));
    edit(p->input, "\"d\"", "\"dd\"");
    run_part(p, 1, 2, 1, "part-2.jsonl: made for other requests", MORE("--resume"));
    check_run(batch_run_program(p->model, p->input, p->parts[1], MORE("--resume")), 1,
              "part-2.jsonl: part 2/2 of a batch: --shard 2/2 goes on with it");
    run_whole(p, 0, NULL);
    rename(p->whole, p->parts[0]);
    run_part(p, 0, 2, 1, "its first line does not say which part of a batch it is",
             MORE("--resume"));
    check_run(RUN("run", p->model, "--batch", "/dev/null", "--shard", "1/2"), 1, "not a file");
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(joined_parts_are_the_file_of_one_run, clean),
        cmocka_unit_test_teardown(parts_that_were_killed_lose_nothing, clean),
        cmocka_unit_test_teardown(a_part_is_resumed_from_any_byte, clean),
        cmocka_unit_test_teardown(parts_may_be_empty, clean),
        cmocka_unit_test_teardown(lines_of_text_are_joined_as_well, clean),
        cmocka_unit_test_teardown(failed_lines_of_a_part_can_be_retried, clean),
        cmocka_unit_test_teardown(rows_of_a_table_are_divided_and_joined, clean),
        cmocka_unit_test_teardown(a_quote_that_is_never_closed_belongs_to_one_part, clean),
        cmocka_unit_test_teardown(a_part_that_failed_by_an_option_is_retried_with_another, clean),
        cmocka_unit_test_teardown(the_joined_file_goes_to_stdout_without_o, clean),
        cmocka_unit_test(another_number_changes_all_that_depends_on_it),
        cmocka_unit_test_teardown(parts_are_whole_lines_and_cover_the_file, clean),
        cmocka_unit_test(a_part_may_come_from_the_scheduler),
        cmocka_unit_test_teardown(parts_of_other_models_and_options_are_refused, clean),
        cmocka_unit_test_teardown(parts_of_other_requests_are_refused, clean),
        cmocka_unit_test_teardown(parts_that_overlap_are_refused, clean),
        cmocka_unit_test_teardown(ids_in_two_parts_are_refused, clean),
        cmocka_unit_test_teardown(missing_lines_are_named, clean),
        cmocka_unit_test_teardown(what_is_no_part_is_refused, clean),
        cmocka_unit_test_teardown(numbered_results_must_be_as_they_were_written, clean),
        cmocka_unit_test_teardown(only_its_own_part_is_resumed, clean),
    };
    return cmocka_run_group_tests(tests, open_place, close_place);
}
