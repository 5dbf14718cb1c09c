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

#include "tests/adapter_fixture.h"
#include "tests/fixture.h"
#include "tests/process.h"
#include "tests/small_model.h"

static const char stories[] = "models/stories.bin";

enum { MOST_WORDS = 24 };

/* Runs run-mpi on so many ranks of one thread each. `words` end with NULL; input: NULL, or a text
 * for stdin. */
static Process mpi_run(int ranks, const char *const *words, const char *input) {
    const char *argv[PROCESS_MAX_ARGUMENTS] = {"/usr/bin/env", "mpirun", "-n"};
    char number[16], *program = build_path("run-mpi");
    size_t n = 3;
    snprintf(number, sizeof number, "%d", ranks);
    argv[n++] = number;
    argv[n++] = program;
    for (size_t i = 0; words[i]; i++) argv[n++] = words[i];
    argv[n++] = "-j";
    argv[n++] = "1";
    Process p = process_run(argv, input, input ? strlen(input) : 0);
    free(program);
    return p;
}

/* Fails unless so many ranks print what `run` prints. */
static void assert_same(int ranks, const char *const *words, const char *input) {
    const char *argv[MOST_WORDS + 2] = {"run"};
    for (size_t i = 0; words[i]; i++) argv[i + 1] = words[i];
    Process one = process_run(argv, input, input ? strlen(input) : 0);
    Process all = mpi_run(ranks, words, input);
    if (one.status != 0 || all.status != 0)
        fail_msg("%d and %d of %d ranks: %s%s", one.status, all.status, ranks, one.err, all.err);
    assert_string_equal(all.out, one.out);
    process_free(&one);
    process_free(&all);
}

/* The same for what -o writes: mpirun gives rank 0 a terminal, where control characters are shown.
 */
static void assert_same_file(const char *directory, const char *const *words) {
    const char *argv[MOST_WORDS + 4] = {"run"};
    char *paths[2], *texts[2];
    size_t n = 1, length;
    for (size_t i = 0; words[i]; i++) argv[n++] = words[i];
    for (int i = 0; i < 2; i++) {
        paths[i] = fixture_path(directory, i == 0 ? "one.txt" : "all.txt");
        argv[n] = "-o";
        argv[n + 1] = paths[i];
        Process p = i == 0 ? process_run(argv, NULL, 0) : mpi_run(3, argv + 1, NULL);
        if (p.status != 0) fail_msg("%s", p.err);
        process_free(&p);
        texts[i] = file_read(paths[i], &length);
    }
    assert_true(length > 0);
    assert_string_equal(texts[1], texts[0]);
    for (int i = 0; i < 2; i++) {
        free(paths[i]);
        free(texts[i]);
    }
}

#define SAME_FILE(...) assert_same_file(directory, (const char *const[]){__VA_ARGS__, NULL})
#define SAME(ranks, ...) assert_same(ranks, (const char *const[]){__VA_ARGS__, NULL}, NULL)
#define SAME_WITH(input, ...) assert_same(3, (const char *const[]){__VA_ARGS__, NULL}, input)
#define MPI(ranks, ...) mpi_run(ranks, (const char *const[]){__VA_ARGS__, NULL}, NULL)

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

static void modes_and_drafts_do_as_in_one_process(void **state) {
    char *directory = fixture_directory(), *session = fixture_path(directory, "talk.jsonl");
    char *mtp = small_model(directory, "tiny,logit_scale=5,mtp_layers=1,n_layers=3,window=20,"
                                       "window_pattern=3,context=256");
    const char requests[] = "{\"prompt\": \"Once upon a time\", \"max_tokens\": 20}\n"
                            "{\"prompt\": \"Once upon a time there\", \"max_tokens\": 9}\n"
                            "{\"prompt\": \"A dragon\", \"max_tokens\": 20, \"seed\": 7}\n";
    (void)state;
    SAME_WITH("Tell me a story.\nAnother one!\n", stories, "-m", "chat", "-s", "3", "-n", "20");
    SAME_WITH(requests, stories, "--batch", "-", "--ordered", "--max-concurrent", "2");
    SAME_WITH("the cat and the hat", stories, "--eval", "-");
    SAME(3, stories, "-t", "0", "-n", "60", "-i", "The cat sat. The cat sat. The cat", "--draft",
         "lookup");
    SAME_FILE(mtp, "-t", "0", "-n", "80", "-i", "the the other", "--draft", "mtp");
    SAME_FILE(mtp, "-s", "2", "-n", "80", "-i", "the the other", "--draft", "none");
    Process p = mpi_run(
        2, (const char *const[]){stories, "-m", "chat", "--session", session, "-n", "9", NULL},
        "Hello\n");
    if (p.status != 0) fail_msg("%s", p.err);
    assert_non_null(strstr(p.err, "keys and values are divided among ranks"));
    process_free(&p);

    free(mtp);
    free(session);
    fixture_remove_directory(directory);
}

static void a_failure_is_one_line_of_rank_0(void **state) {
    (void)state;
    Process p = MPI(3, "nothing.bin");
    assert_int_not_equal(p.status, 0);
    assert_non_null(strstr(p.err, "run-mpi: nothing.bin: No such file"));
    assert_null(strstr(strstr(p.err, "run-mpi: ") + 1, "run-mpi: "));
    process_free(&p);
    p = MPI(2, "--no-such-option");
    PROCESS_SAYS(p, 2, "--no-such-option");
    p = MPI(2, "--version");
    assert_int_equal(p.status, 0);
    assert_null(strstr(strstr(p.out, "verbatim ") + 1, "verbatim ")); /* only once */
    process_free(&p);
}

static void views_show_the_heads_of_all_ranks(void **state) {
    (void)state;
    SAME(3, stories, "--attention", "-", "-i", "Hello there");
    SAME(2, stories, "--positions", "table");
    SAME_WITH("the cat and the hat", stories, "--eval", "-", "--against", stories);
    SAME_WITH("the cat and the hat", stories, "--eval", "-", "--stats", "--override",
              "attention_scale=0.2");
    Process p = MPI(2, stories, "--info");
    assert_non_null(strstr(p.out, "ranks               2; all layers are divided"));
    process_free(&p);
}

/* Two ranks with command lines of their own. */
static Process two_ranks(const char *const *first, const char *const *second) {
    const char *argv[PROCESS_MAX_ARGUMENTS] = {"/usr/bin/env", "mpirun", "-n", "1"};
    char *program = build_path("run-mpi");
    size_t n = 4;
    argv[n++] = program;
    for (; *first; first++) argv[n++] = *first;
    argv[n++] = ":";
    argv[n++] = "-n";
    argv[n++] = "1";
    argv[n++] = program;
    for (; *second; second++) argv[n++] = *second;
    Process p = process_run(argv, NULL, 0);
    free(program);
    return p;
}
#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void adapters_do_as_in_one_process(void **state) {
    const char requests[] = "{\"prompt\": \"the sea\", \"max_tokens\": 12, \"model\": \"one\"}\n"
                            "{\"prompt\": \"the sea\", \"max_tokens\": 12}\n"
                            "{\"prompt\": \"the sea\", \"max_tokens\": 12, \"model\": \"two\"}\n";
    char *directory = fixture_directory(), *model = small_model(directory, NULL);
    char *paths[2], specs[2][512];
    (void)state;
    for (int i = 0; i < 2; i++) {
        paths[i] = adapter_of_small_model(i ? "two" : "one", i ? 4 : 2);
        snprintf(specs[i], sizeof specs[i], "%s=%s", i ? "two" : "one", paths[i]);
    }
    SAME_WITH(requests, model, "--lora", specs[0], "--lora", specs[1], "--batch", "-", "--ordered",
              "-t", "0");
    Process p = two_ranks(WORDS(model, "--lora", specs[0]), WORDS(model, "--lora", specs[1]));
    assert_int_not_equal(p.status, 0);
    if (!strstr(p.err, "has other adapters (--lora) than rank 0")) fail_msg("%s", p.err);
    process_free(&p);
    for (int i = 0; i < 2; i++) fixture_remove_directory(paths[i]);
    free(model);
    fixture_remove_directory(directory);
}

static void stats_say_what_was_exchanged(void **state) {
    char expected[64];
    int layers = 0;
    (void)state;
    Process info = RUN("run", stories, "--info");
    const char *line = strstr(info.out, "n_layers");
    assert_non_null(line);
    sscanf(line, "n_layers %d", &layers);
    Process p = MPI(2, stories, "-n", "5", "--draft", "none", "--stats");
    /* Four a layer, one for the logits, and the broadcast of the rows. */
    snprintf(expected, sizeof expected, "each waited for %d.0 exchanges", 4 * layers + 2);
    if (!strstr(p.err, "ranks:   2; ") || !strstr(p.err, expected)) fail_msg("%s", p.err);
    process_free(&info);
    process_free(&p);
}

static void ranks_that_differ_are_named(void **state) {
    char *directory = fixture_directory(), *other = small_model(directory, "tiny");
    const struct {
        const char *const *first, *const *second;
        const char *said;
    } cases[] = {
        {WORDS(stories, "-c", "64"), WORDS(stories, "-c", "128"), "another context (-c) than"},
        {WORDS(stories), WORDS(other, "-c", "1024"), "has another model than rank 0"},
        {WORDS(stories), WORDS("nothing.bin"), "nothing.bin: No such file"},
        {WORDS(stories), WORDS(stories, "--no-such-option"), "--no-such-option"},
        {WORDS("nothing.bin"), WORDS(stories), "nothing.bin: No such file"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Process p = two_ranks(cases[i].first, cases[i].second);
        assert_int_not_equal(p.status, 0);
        if (!strstr(p.err, cases[i].said)) fail_msg("case %zu: %s", i, p.err);
        assert_string_equal(p.out, "");
        process_free(&p);
    }
    free(other);
    fixture_remove_directory(directory);
}

/* ---- Attacks ---- */

/* Runs attack_rank on two ranks that send to each other in the given way. It must find nothing. */
static void attack(const char *way, const char *word) {
    char *program = build_path("tests/attack_rank");
    Process p = RUN("/usr/bin/env", "mpirun", "--mca", "btl", way, "-n", "2", program, word);
    if (p.status == 91)
        print_message("skipped: %s", p.err);
    else if (p.status != 0 || strstr(p.out, "rank "))
        fail_msg("%s: %d %s%s", way, p.status, p.out, p.err);
    process_free(&p);
    free(program);
}

static void code_in_a_rank_reaches_nothing_outside(void **state) {
    char *directory = fixture_directory(), *file = fixture_path(directory, "escaped");
    char *program = build_path("tests/attack_rank");
    bool built = access(program, X_OK) == 0;
    (void)state;
    free(program);
    if (!built) {
        print_message("skipped: there is no tests/attack_rank (make build/tests/attack_rank)\n");
        skip();
    }
    attack("vader,self", file);
    attack("tcp,self", file);
    attack("vader,self", "--calls");
    assert_int_not_equal(access(file, F_OK), 0);
    free(file);
    fixture_remove_directory(directory);
}

/* ---- Memory, and ranks that die ---- */

static Process shell(const char *script, const char *file, int number) {
    char *program = build_path("run-mpi"), digits[16];
    snprintf(digits, sizeof digits, "%d", number);
    Process p = RUN("/bin/sh", "-c", script, program, file, digits);
    free(program);
    return p;
}

/* Prints the KiB that each of 4 ranks has mapped of the model, when the first token is written.
   Nothing ends it: a text of a random model may be over before its ranks are looked at. */
static const char print_mapped[] =
    "mpirun -n 4 \"$0\" \"$1/big.bin\" -i the -n 0 --ignore-eos -j 1 > \"$1/text\" 2> /dev/null & "
    "run=$!\n"
    "while [ -d /proc/$run ] && [ ! -s \"$1/text\" ]; do sleep 0.2; done\n"
    "for rank in $(cat /proc/$run/task/$run/children); do\n"
    "    awk '/big.bin/ { ours = 1; next } /^[0-9a-f]+-/ { ours = 0 }\n"
    "         ours && /^Rss:/ { sum += $2 } END { print sum }' /proc/$rank/smaps\n"
    "done\n"
    "kill $run; wait $run; true\n";

/* Fails unless each of 4 ranks maps a quarter of the model, with 5% of it beside that. */
static void check_mapped(const char *fields) {
    char *directory = fixture_directory(), *model = fixture_path(directory, "big.bin");
    char *tokenizer = fixture_path(directory, "tokenizer.bin");
    size_t bytes;
    free(small_model(directory, "tiny")); /* for its tokenizer */
    Process made = RUN("export", "--random", fields, model, "-t", "q8", "-z", tokenizer, "-q");
    if (made.status != 0) fail_msg("%s", made.err);
    free(file_read(model, &bytes));
    Process p = shell(print_mapped, directory, 0);
    const char *at = p.out;
    for (int rank = 0; rank < 4; rank++) {
        char *end;
        double part = (double)strtol(at, &end, 10) * 1024.0 / (double)bytes;
        if (end == at || part < 0.2 || part > 0.3) fail_msg("rank %d: %g of it", rank, part);
        at = end;
    }
    process_free(&p);
    process_free(&made);
    free(model);
    free(tokenizer);
    fixture_remove_directory(directory);
}

static void each_rank_touches_its_own_rows_alone(void **state) {
    (void)state;
    check_mapped("dim=4096,n_layers=1,n_heads=32,n_kv_heads=8,head_dim=128,ffn_dim=11264,"
                 "vocab_size=300,context=4096");
    check_mapped("dim=4096,n_layers=1,n_heads=32,head_dim=192,rotary_dim=64,value_dim=128,"
                 "latent_dim=512,ffn_dim=11264,vocab_size=300,context=4096");
}

/* Kills a rank of three in the middle of a batch, and prints how long the others took to end. */
static const char kill_one[] =
    "mpirun -n 3 \"$0\" models/stories.bin --batch \"$1/requests\" -o \"$1/results\" --resume "
    "--ordered --max-concurrent 2 -j 1"
    " > /dev/null 2>&1 & run=$!\n"
    "lines() { wc -l < \"$1/results\" 2> /dev/null || echo 0; }\n"
    "before=$(lines \"$1\")\n"
    "while [ -d /proc/$run ] && [ $(lines \"$1\") -le $((before + 1)) ]; do sleep 0.05; done\n"
    "kill -9 $(cut -d ' ' -f $2 /proc/$run/task/$run/children)\n"
    "killed=$(date +%s); wait $run; echo $? $(($(date +%s) - killed))\n";

/* Writes n requests into the file "requests" of the directory; returns its path. */
static char *write_requests(const char *directory, int n) {
    char *path = fixture_path(directory, "requests");
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    for (int i = 0; i < n; i++)
        fprintf(f, "{\"prompt\": \"Once upon a time %d\", \"max_tokens\": 40}\n", i);
    assert_int_equal(fclose(f), 0);
    return path;
}

static void a_dead_rank_ends_all_and_nothing_is_lost(void **state) {
    char *directory = fixture_directory(), *requests = write_requests(directory, 60);
    char *results = fixture_path(directory, "results"), *expected = fixture_path(directory, "all");
    (void)state;
    for (int rank = 1; rank <= 3; rank++) {
        Process p = shell(kill_one, directory, rank);
        int status = -1, seconds = -1;
        sscanf(p.out, "%d %d", &status, &seconds);
        assert_int_not_equal(status, 0);
        assert_in_range(seconds, 0, 10);
        process_free(&p);
    }
    Process last = MPI(2, stories, "--batch", requests, "-o", results, "--resume", "--ordered");
    if (last.status != 0) fail_msg("%s", last.err);
    Process whole = RUN("run", stories, "--batch", requests, "-o", expected, "--ordered");
    assert_int_equal(whole.status, 0);
    size_t a, b;
    char *resumed = file_read(results, &a), *at_once = file_read(expected, &b);
    assert_string_equal(resumed, at_once);
    free(resumed);
    free(at_once);
    process_free(&last);
    process_free(&whole);
    free(requests);
    free(results);
    free(expected);
    fixture_remove_directory(directory);
}

/* Stops a rank of three in the middle of a batch. mpirun ends it with the others.
 *
 * Between two passes the others wait for rank 0 without a limit, as they do while somebody types. A
 * rank that was stopped there, so that nothing is said for two seconds, goes on and is stopped
 * again. */
static const char stop_one[] =
    "VERBATIM_RANK_TIMEOUT=2 mpirun -n 3 \"$0\" models/stories.bin --batch \"$1/requests\" -j 1 "
    "-o \"$1/results\" > /dev/null 2> \"$1/errors\" & run=$!\n"
    "while [ -d /proc/$run ] && [ ! -s \"$1/results\" ]; do sleep 0.05; done\n"
    "rank=$(cut -d ' ' -f $2 /proc/$run/task/$run/children)\n"
    "while kill -STOP $rank && sleep 2 && ! grep -q silent \"$1/errors\"; do\n"
    "    kill -CONT $rank; sleep 0.03\n"
    "done\n"
    "wait $run; echo $?; cat \"$1/errors\"\n";

static void a_silent_rank_is_named(void **state) {
    (void)state;
    for (int rank = 0; rank <= 1; rank++) {
        char *directory = fixture_directory(), named[32];
        char *requests = write_requests(directory, 400);
        Process p = shell(stop_one, directory, rank + 1);
        snprintf(named, sizeof named, ": rank %d (", rank);
        const char *first = strstr(p.out, "has been silent for 0 seconds; waiting");
        if (atoi(p.out) == 0 || !strstr(p.out, named) || !first ||
            !strstr(first, "has been silent for 2 seconds\n"))
            fail_msg("rank %d: %s", rank, p.out);
        process_free(&p);
        free(requests);
        fixture_remove_directory(directory);
    }
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

int main(int argc, char **argv) {
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_number_of_ranks_writes_the_same_text),
        cmocka_unit_test(probabilities_are_the_same),
        cmocka_unit_test(modes_and_drafts_do_as_in_one_process),
        cmocka_unit_test(a_failure_is_one_line_of_rank_0),
        cmocka_unit_test(views_show_the_heads_of_all_ranks),
        cmocka_unit_test(adapters_do_as_in_one_process),
        cmocka_unit_test(stats_say_what_was_exchanged),
        cmocka_unit_test(ranks_that_differ_are_named),
        cmocka_unit_test(code_in_a_rank_reaches_nothing_outside),
        cmocka_unit_test(each_rank_touches_its_own_rows_alone),
        cmocka_unit_test(a_dead_rank_ends_all_and_nothing_is_lost),
        cmocka_unit_test(a_silent_rank_is_named),
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
