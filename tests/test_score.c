/* --eval's perplexity and divergence, compared with their formulas written out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>
#include <jansson.h>

#include "fixture.h"
#include "model.h"
#include "process.h"
#include "tokenizer.h"

static char *exact, *rounded, *text_path;
static const char text[] =
    "Well, Prince, so Genoa and Lucca are now just family estates of the Bonapartes. But I warn "
    "you, if you don't tell me that this means war, if you still try to defend the infamies.";

static int make_models(void **state) {
    (void)state;
    exact = build_path("tests/score-f32.bin");
    rounded = build_path("tests/score-q8.bin");
    text_path = build_path("tests/score.txt");
    Process p = RUN("export", "--random", "tiny", exact, "-q", "-f");
    Process q = RUN("export", "--random", "tiny", "-t", "q8", rounded, "-q", "-f");
    assert_int_equal(p.status + q.status, 0);
    process_free(&p);
    process_free(&q);
    file_write(text_path, text, strlen(text));
    return 0;
}

static int remove_models(void **state) {
    (void)state;
    unlink(exact);
    unlink(rounded);
    unlink(text_path);
    free(exact);
    free(rounded);
    free(text_path);
    return 0;
}

/* Returns the number that the program printed after `label`. */
static double number(const Process *p, const char *label) {
    const char *at = strstr(p->out, label);
    if (!at) print_message("stdout: %s stderr: %s", p->out, p->err);
    assert_non_null(at);
    return strtod(at + strlen(label), NULL);
}

/* Returns log-probabilities [n][vocab]: row i for the token after ids[0 ... i], all in one
 * window. */
static double *log_probabilities(const char *path, const int32_t *ids, size_t n, size_t *vocab) {
    ModelFile *file;
    Model *model;
    KvCache *cache;
    Error error;
    const ModelOptions options = {.n_threads = 1};
    assert_int_equal(modelfile_open(&file, path, -1, &error), STATUS_OK);
    assert_int_equal(model_open(&model, file, &options, &error), STATUS_OK);
    const KvShape shape = model_kv_shape(model, model_kv_type(model));
    assert_int_equal(kvcache_new(&cache, &shape, 1, 0, &error), STATUS_OK);
    *vocab = model_config(model)->vocab_size;
    double *out = malloc(n * *vocab * sizeof *out);
    float *logits = malloc(*vocab * sizeof *logits);
    for (size_t i = 0; i < n; i++) {
        const Row row = {.position = (int32_t)i, .token = ids[i], .wants_logits = true};
        assert_int_equal(model_forward(model, cache, &row, 1, logits, &error), STATUS_OK);
        double sum = 0.0;
        for (size_t k = 0; k < *vocab; k++) sum += exp((double)logits[k]);
        for (size_t k = 0; k < *vocab; k++) out[i * *vocab + k] = (double)logits[k] - log(sum);
    }
    free(logits);
    kvcache_free(cache);
    model_close(model);
    modelfile_close(file);
    return out;
}

enum { LENGTH = sizeof text - 1, CONTEXT = 48, BOS = 256 };

typedef struct Sums {
    double loss, other_loss, divergence;
    size_t n;
} Sums;

/* Computes the expected sums one row at a time over the windows that score.h defines. A token of
 * the text is a byte. */
static Sums expected_sums(void) {
    Sums sums = {0};
    size_t window = CONTEXT - 1, scored = 0, vocab;
    for (size_t first = 0; scored < LENGTH; first += window / 2) {
        int32_t ids[CONTEXT] = {BOS};
        size_t n = LENGTH - first < window ? LENGTH - first : window;
        for (size_t i = 0; i < n; i++) ids[i + 1] = (unsigned char)text[first + i];
        double *q = log_probabilities(rounded, ids, n, &vocab);
        double *p = log_probabilities(exact, ids, n, &vocab);
        for (size_t i = scored - first; i < n; i++, sums.n++) {
            sums.loss -= q[i * vocab + (size_t)ids[i + 1]];
            sums.other_loss -= p[i * vocab + (size_t)ids[i + 1]];
            for (size_t k = 0; k < vocab; k++)
                sums.divergence += exp(p[i * vocab + k]) * (p[i * vocab + k] - q[i * vocab + k]);
        }
        free(p);
        free(q);
        scored = first + n;
    }
    return sums;
}

static void perplexity_and_divergence_follow_their_formulas(void **state) {
    (void)state;
    Sums sums = expected_sums();
    Process p = RUN("run", rounded, "--eval", text_path, "--against", exact, "-c", "48");
    double n = (double)sums.n;
    assert_int_equal(sums.n, LENGTH); /* includes the first token, which follows the bos */
    assert_true(number(&p, "tokens") == n);
    double perplexity = exp(sums.loss / n), other = exp(sums.other_loss / n);
    assert_true(fabs(number(&p, "perplexity") / perplexity - 1.0) < 1e-4);
    assert_true(fabs(number(&p, "other perplexity") / other - 1.0) < 1e-4);
    assert_true(fabs(number(&p, "divergence, mean") / (sums.divergence / n) - 1.0) < 1e-2);
    assert_true(number(&p, "divergence, 99%") >= number(&p, "divergence, mean"));
    assert_true(fabs(number(&p, "bits a byte") / (sums.loss / log(2.0) / LENGTH) - 1.0) < 1e-4);
    process_free(&p);
}

/* The scores of the first tokens are those of a text that ends there. */
static void a_limit_scores_the_beginning_of_a_text(void **state) {
    (void)state;
    Process p = RUN("run", "models/stories.bin", "--eval", "README.md", "--limit", "40");
    assert_int_equal(p.status, 0);
    assert_true(number(&p, "tokens") == 40);
    double bits = number(&p, "bits a byte");
    char *perplexity = strstr(p.out, "perplexity");
    Process ids = RUN("run", "models/stories.bin", "--tokenize", "--bos", "no", "-f", "README.md");
    char *at = ids.out;
    for (int i = 0; i < 40; i++) at += strcspn(at, "\n ") + 1;
    Process cut =
        process_run((const char *const[]){"run", "models/stories.bin", "--detokenize", NULL},
                    ids.out, (size_t)(at - ids.out));
    Process short_text =
        process_run((const char *const[]){"run", "models/stories.bin", "--eval", "-", NULL},
                    cut.out, cut.out_length);
    assert_non_null(perplexity);
    assert_true(number(&short_text, "bits a byte") == bits);
    Process wrong = RUN("run", "models/stories.bin", "-i", "a", "--limit", "4");
    assert_int_equal(wrong.status, 2);
    assert_non_null(strstr(wrong.err, "it needs --eval FILE"));
    process_free(&p), process_free(&ids), process_free(&cut), process_free(&short_text);
    process_free(&wrong);
}

/* Reads the terminal until it shows `wanted` or the program ends, and returns all that it showed.
 */
static char *shown_until(int terminal, const char *wanted) {
    char *shown = calloc(1, 1 << 16);
    size_t length = 0;
    ssize_t n;
    assert_non_null(shown);
    while (!strstr(shown, wanted) &&
           (n = read(terminal, shown + length, (1 << 16) - 1 - length)) > 0)
        length += (size_t)n;
    return shown;
}

/* The slowest kernels on one thread take minutes for a text of 250,000 tokens on any machine. */
static void a_person_is_told_how_long_a_long_text_takes(void **state) {
    (void)state;
    char *program = build_path("run"), *path = build_path("tests/score-long.txt");
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    for (int i = 0; i < 1500; i++) fprintf(f, "%s\n", text);
    assert_int_equal(fclose(f), 0);
    int terminal, status;
    pid_t child = terminal_fork(&terminal, NULL);
    if (child == 0) {
        execl(program, program, exact, "--eval", path, "-j", "1", "--isa", "reference", NULL);
        _exit(127);
    }
    char *shown = shown_until(terminal, "--limit N scores the first N");
    kill(child, SIGINT);
    free(shown_until(terminal, "interrupted"));
    assert_int_equal(waitpid(child, &status, 0), child);
    close(terminal);
    char *at = strstr(shown, " tokens take about ");
    if (!at) fail_msg("%s", shown);
    assert_true(strtod(at + strlen(" tokens take about "), NULL) >= 1.0);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 130);
    unlink(path);
    free(shown);
    free(path);
    free(program);
}

/* Rows that --eval computed for the text at `path`. */
static size_t rows_of(const char *model, const char *path, const char *context) {
    Process p = RUN("run", model, "--eval", path, "--against", model, "--stats",
                    context ? "-c" : NULL, context);
    if (p.status != 0) fail_msg("%s", p.err);
    size_t rows = (size_t)number(&p, "rows computed");
    process_free(&p);
    return rows;
}

/* A token is a row once: nothing follows the last one, and a bos stands before the first. */
static void a_text_that_fits_the_context_is_computed_once(void **state) {
    (void)state;
    assert_int_equal(rows_of(exact, text_path, "256"), LENGTH);
    size_t rows = 0, window = CONTEXT - 1, scored = 0;
    for (size_t first = 0; scored < LENGTH; first += window / 2) {
        size_t n = LENGTH - first < window ? LENGTH - first : window;
        rows += n;
        scored = first + n;
    }
    assert_true(rows < 2 * LENGTH);
    assert_int_equal(rows_of(exact, text_path, "48"), rows);
}

/* Falcon Mamba with a vocabulary as large as the tokenizer's. */
static char *model_of_states(void) {
    enum { VOCAB = 290 };
    char *path = build_path("tests/score-states.bin");
    Fixture f = fixture_load("falcon_mamba");
    json_t *tensors = json_object_get(f.json, "tensors"), *tensor;
    const char *name;
    json_object_set_new(json_object_get(f.json, "config"), "vocab_size", json_integer(VOCAB));
    json_object_foreach(tensors, name, tensor) {
        json_t *shape = json_array_get(tensor, 3);
        if (json_integer_value(json_array_get(shape, 0)) == (json_int_t)f.vocab_size)
            json_array_set_new(shape, 0, json_integer(VOCAB));
    }
    char *source = fixture_source(&f);
    Process p =
        RUN("export", source, path, "-z", "tests/fixtures/marks_tokenizer.json", "-f", "-q");
    if (p.status != 0) fail_msg("%s", p.err);
    process_free(&p);
    fixture_remove_directory(source);
    fixture_free(&f);
    return path;
}

/* States alone take the same memory at any position: the model's context is no reason to begin
 * again, however long the text is. */
static void states_go_on_to_the_end_of_a_text(void **state) {
    (void)state;
    enum { TIMES = 30 };
    char *model = model_of_states(), *path = build_path("tests/score-states.txt");
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    for (int i = 0; i < TIMES; i++) fputs(text, f);
    assert_int_equal(fclose(f), 0);
    size_t rows = rows_of(model, path, NULL);
    assert_true(rows == TIMES * LENGTH || rows == TIMES * LENGTH - 1); /* with a bos, without */
    unlink(path);
    unlink(model);
    free(path);
    free(model);
}

static void the_score_is_the_same_in_every_way_of_computing_it(void **state) {
    (void)state;
    Process p = RUN("run", rounded, "--eval", text_path, "--against", exact);
    assert_int_equal(p.status, 0);
    static const char *const ways[][4] = {{"-j", "1", "--chunk", "7"},
                                          {"-j", "3", "--chunk", "1"},
                                          {"-j", "2", "--isa", "reference"}};
    for (size_t i = 0; i < 3; i++) {
        Process q = RUN("run", rounded, "--eval", text_path, "--against", exact, ways[i][0],
                        ways[i][1], ways[i][2], ways[i][3]);
        assert_string_equal(p.out, q.out);
        process_free(&q);
    }
    process_free(&p);
}

static void a_model_does_not_differ_from_itself(void **state) {
    (void)state;
    Process p = RUN("run", exact, "--eval", text_path, "--against", exact);
    assert_int_equal(p.status, 0);
    assert_true(number(&p, "divergence, mean") == 0.0);
    assert_true(number(&p, "divergence, 99%") == 0.0);
    assert_true(number(&p, "same top token") == 100.0);
    assert_true(number(&p, "other perplexity") == number(&p, "perplexity"));
    process_free(&p);
}

/* Two models beside each other: each answer is what `run` gives alone, and the log-probabilities
 * where they part say why each took its token. */
static void two_models_answer_one_prompt_side_by_side(void **state) {
    (void)state;
    static const char small[] = "models/stories-draft.bin", large[] = "models/stories.bin";
    Process p =
        RUN("run", large, "-i", "Once upon a time", "-t", "0", "-n", "20", "--against", small);
    if (p.status != 0) fail_msg("%s", p.err);
    static const char *const models[] = {large, small};
    for (size_t i = 0; i < 2; i++) {
        Process alone = RUN("run", models[i], "-i", "Once upon a time", "-t", "0", "-n", "20");
        assert_int_equal(alone.status, 0);
        assert_non_null(strstr(p.out, alone.out));
        process_free(&alone);
    }
    const char *at = strstr(p.out, "--- they part at token ");
    assert_non_null(at);
    char *copy = strdup(at), *lines[5];
    size_t n = 0;
    for (char *line = strtok(copy, "\n"); line && n < 5; line = strtok(NULL, "\n"))
        lines[n++] = line;
    assert_int_equal(n, 5);
    double logprobs[4];
    for (size_t i = 0; i < 4; i++) logprobs[i] = strtod(strstr(lines[1 + i], "= ") + 2, NULL);
    assert_true(logprobs[0] > logprobs[1]); /* greedy: each took its likelier */
    assert_true(logprobs[3] > logprobs[2]);
    assert_non_null(strstr(lines[1], "which it took"));
    assert_non_null(strstr(lines[4], "which it took"));
    free(copy);
    process_free(&p);
    p = RUN("run", large, "-i", "Once upon a time", "-s", "3", "-n", "9", "--against", large);
    assert_non_null(strstr(p.out, "--- both give the same 9 tokens"));
    process_free(&p);
    p = RUN("run", large, "-i", "a", "--against", exact);
    PROCESS_SAYS(p, 1, "they cannot be compared");
    p = RUN("run", large, "-i", "a", "-m", "chat", "--against", small);
    assert_int_equal(p.status, 2);
    process_free(&p);
}

static void what_cannot_be_scored_is_refused(void **state) {
    (void)state;
    char *other = build_path("tests/score-other.bin");
    Process p = RUN("export", "--random", "tiny,vocab_size=400", other, "-q", "-f");
    assert_int_equal(p.status, 0);
    process_free(&p);
    p = RUN("run", exact, "--eval", text_path, "--against", other);
    PROCESS_SAYS(p, 1, "they cannot be compared");
    p = RUN("run", exact, "--eval", "/no/such/text");
    assert_int_equal(p.status, 1);
    assert_string_equal(p.err, "run: /no/such/text: No such file or directory\n");
    process_free(&p);
    p = RUN("run", exact, "--eval", "/dev/null");
    PROCESS_SAYS(p, 1, "too short to score: give a text of at least two tokens");
    unlink(other);
    free(other);
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(perplexity_and_divergence_follow_their_formulas),
        cmocka_unit_test(a_limit_scores_the_beginning_of_a_text),
        cmocka_unit_test(a_person_is_told_how_long_a_long_text_takes),
        cmocka_unit_test(a_text_that_fits_the_context_is_computed_once),
        cmocka_unit_test(states_go_on_to_the_end_of_a_text),
        cmocka_unit_test(the_score_is_the_same_in_every_way_of_computing_it),
        cmocka_unit_test(a_model_does_not_differ_from_itself),
        cmocka_unit_test(two_models_answer_one_prompt_side_by_side),
        cmocka_unit_test(what_cannot_be_scored_is_refused),
    };
    return cmocka_run_group_tests(tests, make_models, remove_models);
}
