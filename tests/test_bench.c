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

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "convert/convert_target.h"
#include "core/modelfile.h"
#include "measure/bench_attention.h"
#include "measure/report_shape.h"
#include "measure/report_sums.h"

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
    REFUSES(2, "--report always measures the same: it takes -j, --beside and --quick", "--report",
            "--isa", "avx2");
    REFUSES(2, "an empty name names no file", "--report", "");
    REFUSES(2, "--beside and --quick belong to --report", model, "--quick");
    REFUSES(2, "one file at a time, not 'a' and 'b'", "--report", "a", "b");
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

/* ---- reports ---- */

/* Memory is read from the model itself, not from a file of four caches, which costs a second. */
static int small_cache(void **state) {
    (void)state;
    return setenv("VERBATIM_MACHINE", "cache=64K", 1);
}

static int any_cache(void **state) {
    (void)state;
    return unsetenv("VERBATIM_MACHINE");
}

/* Runs a command of the shell, in which $bench is the program and $d the tests' directory. */
static Process report_shell(const char *script) {
    char *command, *bench = program_command("bench");
    assert_true(asprintf(&command, "bench='%s'; d='%s'; %s", bench, directory, script) > 0);
    Process p = RUN("/bin/bash", "-c", command);
    free(command);
    free(bench);
    return p;
}

static json_t *report_member(json_t *object, const char *key) {
    json_t *member = json_object_get(object, key);
    if (!member) fail_msg("the report has no %s", key);
    return member;
}

/* A report to stdout is JSON alone, its text goes to stderr. The sums are those of this numeric
 * revision (measure/report_sums.c), whatever the machine. */
static void a_report_has_the_machine_the_sums_and_the_speeds(void **state) {
    (void)state;
    static const char *const speeds[] = {"decode", "prefill", "batch"};
    static const char *const limits[] = {"read_bandwidth", "peak_fma", "peak_dot"};
    Process p = RUN("bench", "--report", "-", "--quick", "-j", "2");
    if (p.status != 0) print_message("%s", p.err);
    assert_int_equal(p.status, 0);
    json_t *report = json_loads(p.out, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(report);
    assert_int_equal(json_integer_value(report_member(report, "format")), 1);
    json_t *machine = report_member(report, "machine"), *sums = report_member(report, "sums");
    assert_true(json_array_size(report_member(machine, "instruction_sets")) > 0);
    assert_true(json_is_true(report_member(sums, "equal")));
    assert_int_equal(json_array_size(report_member(sums, "stories")), 3);
    assert_int_equal(json_array_size(report_member(sums, "logits")), 11);
    for (size_t i = 0; i < 3; i++) {
        json_t *limit = report_member(report_member(report, "limits"), limits[i]);
        json_t *speed = json_array_get(report_member(report, "speed"), i);
        assert_true(json_number_value(limit) > 0);
        assert_string_equal(json_string_value(report_member(speed, "what")), speeds[i]);
        assert_true(json_number_value(report_member(speed, "tokens_per_second")) > 0);
    }
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    if (strlen(host) > 3) assert_null(strstr(p.out, host));
    assert_null(strstr(p.out, "/")); /* no folder */
    assert_non_null(strstr(p.err, "\nsums       all as they must be: "));
    json_decref(report);
    process_free(&p);
}

/* A new type of weights needs a sum in measure/report_sums.c, else each report says that it
 * differs. */
static void every_type_of_weights_has_its_sum(void **state) {
    (void)state;
    Error error = {0};
    ReportSums sums = {.stories = json_array(), .logits = json_array()};
    for (TensorType type = TENSOR_F32; type < TENSOR_TYPES; type++) {
        if (!tensor_type_is_built(type)) continue;
        if (!report_has_sum(type)) fail_msg("%s has no sum", tensor_type_info(type)->name);
        if (!tier_takes(type, 11, 5)) continue;
        assert_int_equal(report_logits_of(&sums, type, &error), STATUS_OK);
    }
    assert_string_equal(sums.other, "");
    json_decref(sums.stories);
    json_decref(sums.logits);
}

/* The story model is another one here: the report is written, names the sums and fails. */
static void a_report_with_other_sums_names_them_and_fails(void **state) {
    (void)state;
    Process p = report_shell(
        "mkdir -p $d/bin $d/share/verbatim && rm -f $d/other.json && "
        "cp ${bench##* } $d/bin/bench && cp models/stories-draft.bin "
        "$d/share/verbatim/stories.bin && "
        "${bench%${bench##* }} $d/bin/bench --report $d/other.json --quick -j 1; s=$?; "
        "grep -c '\"n_other\": 3,' $d/other.json; rm -f $d/bin/bench $d/other.json; exit $s");
    assert_non_null(strstr(p.out, "sums       3 of "));
    assert_non_null(strstr(p.out, "\n1\n"));
    PROCESS_SAYS(p, 1, "bench: other sums than verbatim's: the story of seed 37 with 1 thread, ");
}

static void a_report_replaces_no_file_and_says_what_cannot_be_written(void **state) {
    (void)state;
    Process p = report_shell("echo mine >$d/mine; $bench --report $d/mine; s=$?; cat $d/mine; "
                             "exit $s");
    assert_string_equal(p.out, "mine\n");
    PROCESS_SAYS(p, 1, "mine: is there already, and a report replaces no file\n");
    p = report_shell("$bench --report $d/nowhere/r.json");
    PROCESS_SAYS(p, 1, "nowhere/r.json");
    p = report_shell("mkdir -p $d/far/away; a=$d/far/away/alone; cp ${bench##* } $a && "
                     "${bench%${bench##* }} $a --report; s=$?; rm $a; exit $s");
    PROCESS_SAYS(p, 1, "alone: stories.bin, which comes with the program and which a report needs");
    p = report_shell("$bench --report --beside $d");
    PROCESS_SAYS(p, 1, "llama-bench: No such file or directory\n");
}

static void an_interrupted_report_leaves_nothing(void **state) {
    (void)state;
    char *bench = program_command("bench"), *file;
    double seconds;
    assert_true(asprintf(&file, "%s/interrupted.json", directory) > 0);
    unlink(file);
    Process p = process_signalled((const char *const[]){"bench", "--report", file, NULL}, 300,
                                  SIGTERM, &seconds);
    assert_int_equal(p.status, 128 + SIGTERM);
    process_free(&p);
    p = report_shell("ls $d | grep -c interrupted");
    assert_string_equal(p.out, "0\n");
    process_free(&p);
    free(file);
    free(bench);
}

/* What is in JSON of llama-bench's is taken, and what is no such JSON is refused. The file that it
 * gets is one that our own reader knows. */
static void a_peer_is_run_beside_on_the_same_shape(void **state) {
    (void)state;
    Process p = report_shell(
        "mkdir -p $d/peer && cat >$d/peer/llama-bench <<'END'\n"
        "#!/bin/sh\n"
        "head -c 4 $2 >${0%/*}/magic\n"
        "echo '[{\"build_commit\": \"abc\", \"build_number\": 7, \"n_prompt\": 512, "
        "\"n_gen\": 0, \"avg_ts\": 50.0}, {\"n_prompt\": 0, \"n_gen\": 64, "
        "\"avg_ts\": 0.5}]'\n"
        "END\n"
        "chmod 755 $d/peer/llama-bench; $bench --report --quick -j 1 --beside $d/peer; s=$?; "
        "cat $d/peer/magic; exit $s");
    assert_int_equal(p.status, 0);
    assert_non_null(strstr(p.out, "\nbeside     llama.cpp abc (7): decode 0.50 tokens/s, ours "));
    assert_non_null(strstr(p.out, "}\nGGUF")); /* after the JSON */
    process_free(&p);
    if (tier() == TIER_CHECK) return;
    p = report_shell("printf '#!/bin/sh\\necho no JSON' >$d/peer/llama-bench; "
                     "$bench --report --quick -j 1 --beside $d/peer");
    PROCESS_SAYS(p, 1, "peer/llama-bench: what it prints is not the JSON of llama-bench\n");
}

/* The program reads the file that it writes for others, and finds as many weights as in its own. */
static void the_shape_is_the_same_in_both_formats(void **state) {
    (void)state;
    char shape[160], *path;
    Error error;
    size_t bytes[2];
    assert_true(asprintf(&path, "%s/shape.gguf", directory) > 0);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0666);
    assert_true(fd >= 0);
    assert_int_equal(report_shape_gguf(report_shape(true), fd, &error), STATUS_OK);
    close(fd);
    report_shape_name(report_shape(true), shape, sizeof shape);
    const char *const sources[] = {shape, path};
    for (int i = 0; i < 2; i++) {
        const ConvertOptions options = {.type = "q8"};
        ModelFile *file = NULL;
        bytes[i] = 0;
        if (convert_temporary(sources[i], &options, &fd, &error) != STATUS_OK ||
            modelfile_open(&file, sources[i], fd, &error) != STATUS_OK)
            fail_msg("%s", error.text);
        for (size_t k = 0; k < modelfile_n_tensors(file); k++) {
            const FileTensor *t = modelfile_tensor(file, k);
            if (t->type == TENSOR_Q8) bytes[i] += t->bytes;
        }
        modelfile_close(file);
    }
    assert_true(bytes[0] > 1 << 20);
    assert_int_equal(bytes[0], bytes[1]);
    unlink(path);
    free(path);
}

/* scripts/reports takes what bench writes, and refuses by its name each file of a stranger's that
 * is anything else; the page then stays as it was. */
static void hostile_reports_are_refused_by_name(void **state) {
    (void)state;
    static const struct {
        const char *name, *edit; /* of the report that is committed, by sed */
        const char *says;
    } files[] = {
        {"markup", "s/AMD EPYC/<img src=x>/", "machine.processor: is not a short text"},
        {"table", "s/AMD EPYC/AMD | EPYC/", "machine.processor: is not a short text"},
        {"address", "s|AMD EPYC|https://example.org|", "machine.processor: is not a short text"},
        {"blank", "s/AMD EPYC/  /", "machine.processor: is not a short text"},
        {"repeated", "s/\"type\": \"f16\"/\"type\": \"f32\"/", "sums.logits[1].type: stands twice"},
        {"type", "s/\"threads\": 2/\"threads\": \"2\"/", "limits.threads: is not a number"},
        {"flag", "s/\"threads\": 2/\"threads\": true/", "limits.threads: is not a number"},
        {"nan", "s/\"threads\": 2/\"threads\": NaN/", "NaN is no number"},
        {"infinite", "s/\"threads\": 2/\"threads\": 1e999/", "limits.threads: is not a number"},
        {"shape", "s/dim=1024/dim=1025/", "model.shape: is not the standard model"},
        {"twice", "s/\"threads\": 2/\"threads\": 2, \"threads\": 3/", "a member stands twice"},
        {"newer", "s/\"format\": 1/\"format\": 2/", "format: is not 1"},
        {"quick", "s/\"quick\": false/\"quick\": true/", "quick: the speeds"},
        {"other", "s/\"avx2\": \"./\"avx2\": \"_/", "is not a short text"},
        {"lie",
         "s/\"n_other\": 0/&/;0,/\"avx2\": \"[0-9a-f]/s/\"avx2\": \"[0-9a-f]\\{4\\}/\"avx2\": "
         "\"0000/",
         "sums.equal: is not what the sums say"},
        {"equal", "s/\"equal\": true/\"equal\": 1/", "is neither true nor false"},
        {"cut", "20q", "is not JSON"},
        {"deep", "1s/.*/[[[[[[/;2,$d", "is not JSON"},
        {"sums", "s/\"known\": \"a/\"known\": \"b/", "is not a sum of this numeric revision"},
    };
    if (system("python3 -c 1 2>/dev/null") != 0) {
        print_message("skipped: no python3\n");
        skip();
    }
    Process p = report_shell(
        "rm -rf $d/reports; mkdir $d/reports && cp reports/zen-3-avx2.json $d/reports/ && "
        "scripts/reports $(realpath $d/reports) $(realpath $d)/page.md");
    if (p.status != 0) print_message("%s", p.err);
    assert_int_equal(p.status, 0);
    process_free(&p);
    char *script = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&script, &size);
    assert_non_null(out);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        fprintf(out, "sed '%s' reports/zen-3-avx2.json >$d/reports/%s.json; ", files[i].edit,
                files[i].name);
    fprintf(out, "sed \"s/\\\"threads\\\": 2/\\\"threads\\\": $(printf '9%%.0s' $(seq 400))/\" "
                 "reports/zen-3-avx2.json >$d/reports/digits.json; ");
    fprintf(out, "head -c 300000 /dev/zero | tr '\\0' ' ' >$d/reports/huge.json; "
                 "ln -s /dev/zero $d/reports/link.json; cp reports/zen-3-avx2.json "
                 "\"$d/reports/<b>.json\"; cp $d/page.md $d/before.md; "
                 "scripts/reports $(realpath $d/reports) $(realpath $d)/page.md; s=$?; "
                 "cmp $d/page.md $d/before.md && exit $s");
    fclose(out);
    p = report_shell(script);
    assert_int_equal(p.status, 1);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char *name;
        assert_true(asprintf(&name, "/%s.json': ", files[i].name) > 0);
        const char *at = strstr(p.err, name);
        if (!at || !strstr(at, files[i].says) || strstr(at, files[i].says) > strchr(at, '\n'))
            fail_msg("%s: '%s' is not said in\n%s", files[i].name, files[i].says, p.err);
        free(name);
    }
    assert_non_null(strstr(p.err, "/digits.json': limits.threads: is not a number"));
    assert_non_null(strstr(p.err, "/huge.json': the file: has 300000 bytes, more than 262144\n"));
    assert_non_null(strstr(p.err, "/link.json': the file: is not a regular file\n"));
    assert_non_null(strstr(p.err, "/<b>.json': its name: has other characters"));
    assert_null(strstr(p.err, "/zen-3-avx2.json"));
    free(script);
    process_free(&p);
}

/* docs/machines.md is what scripts/reports makes of reports/. */
static void the_page_of_machines_is_what_the_reports_give(void **state) {
    (void)state;
    if (system("python3 -c 1 2>/dev/null") != 0) {
        print_message("skipped: no python3\n");
        skip();
    }
    Process p = RUN("scripts/reports", "--check");
    assert_string_equal(p.err, "");
    assert_int_equal(p.status, 0);
    process_free(&p);
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
        cmocka_unit_test_setup_teardown(a_report_has_the_machine_the_sums_and_the_speeds,
                                        small_cache, any_cache),
        cmocka_unit_test(every_type_of_weights_has_its_sum),
        cmocka_unit_test_setup_teardown(a_report_with_other_sums_names_them_and_fails, small_cache,
                                        any_cache),
        cmocka_unit_test_setup_teardown(a_report_replaces_no_file_and_says_what_cannot_be_written,
                                        small_cache, any_cache),
        cmocka_unit_test_setup_teardown(an_interrupted_report_leaves_nothing, small_cache,
                                        any_cache),
        cmocka_unit_test_setup_teardown(a_peer_is_run_beside_on_the_same_shape, small_cache,
                                        any_cache),
        cmocka_unit_test(hostile_reports_are_refused_by_name),
        cmocka_unit_test(the_page_of_machines_is_what_the_reports_give),
        cmocka_unit_test_setup_teardown(the_shape_is_the_same_in_both_formats, small_cache,
                                        any_cache),
    };
    return cmocka_run_group_tests(tests, make_model, free_model);
}
