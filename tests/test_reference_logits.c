/* The forward pass compared with the reference implementation. Each fixture of
 * tests/fixtures/logits becomes a Hugging Face directory, is converted, and must give the logits of
 * transformers. Only comparisons with the reference use a tolerance.
 *
 *     test_reference_logits [PART]      only fixtures whose names contain PART
 *
 * With the environment variable VERBATIM_FAMILIES, writes the table of docs/families.md to that
 * file:
 *     VERBATIM_FAMILIES=table build/tests/test_reference_logits, then scripts/families.sh */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <unistd.h>

#include "tests/fixture.h"
#include "tests/portable.h"
#include "tests/tier.h"
#include "tests/tiny_model.h"

/* Largest allowed difference of a logit, in standard deviations of the logits. */
static const double TOLERANCE = 1e-4;

static FILE *table;

/* The rows of the longest calls: the whole text, if one call takes it. */
static size_t one_call(const Fixture *f) {
    return f->n_ids < 512 ? f->n_ids : 512;
}

static void assert_same_bits(const char *what, const float *a, const float *b, size_t n) {
    if (memcmp(a, b, n * sizeof *a) == 0) return;
    size_t i = 0;
    while (memcmp(&a[i], &b[i], sizeof *a) == 0) i++;
    fail_msg("%s: logit %zu is %.9g, expected %.9g", what, i, (double)b[i], (double)a[i]);
}

/* Returns the largest difference from the reference's logits, in standard deviations. */
static double worst_ratio(const Fixture *f, const FixturePass *pass, const float *logits) {
    double worst = 0;
    size_t n = (f->n_ids - pass->first) * f->vocab_size;
    logits += pass->first * f->vocab_size;
    for (size_t i = 0; i < n; i++) {
        double difference = fabs((double)logits[i] - (double)pass->logits[i]);
        if (!(difference <= worst)) worst = difference;
    }
    return worst / pass->std;
}

/* Runs one pass in one call, token by token, and seven tokens at a time, which must give the same
 * bits. Returns the worst difference from the reference. */
static double check_pass(TinyModel *tiny, const Fixture *f, const FixturePass *pass) {
    size_t n = f->n_ids * f->vocab_size;
    float *steps = tiny_model_run(tiny, 1, pass->start, f->ids, f->n_ids, 1);
    float *sevens = tiny_model_run(tiny, 2, pass->start, f->ids, f->n_ids, 7);
    float *whole = tiny_model_run(tiny, 0, pass->start, f->ids, f->n_ids, one_call(f));
    assert_same_bits("token by token", whole, steps, n);
    assert_same_bits("seven tokens at a time", whole, sevens, n);
    double ratio = worst_ratio(f, pass, whole);
    free(steps);
    free(sevens);
    free(whole);
    return ratio;
}

static size_t count_equal_greedy(TinyModel *tiny, const Fixture *f) {
    float *logits = tiny_model_run(tiny, 3, 0, f->ids, f->n_ids, one_call(f));
    const float *last = logits + (f->n_ids - 1) * f->vocab_size;
    int32_t token = tiny_model_argmax(last, f->vocab_size);
    size_t equal = 0;
    while (equal < f->n_greedy && token == f->greedy[equal]) {
        tiny_model_continue(tiny, 3, &token, 1, 1, logits);
        token = tiny_model_argmax(logits, f->vocab_size);
        equal++;
    }
    free(logits);
    return equal;
}

static void check_fixture(const Fixture *f, const char *type) {
    char *source = fixture_source(f);
    ModelOptions options = {.n_threads = 2, .context = f->context};
    TinyModel tiny = tiny_model_open(source, type, &options, KV_F32);
    fixture_remove_directory(source);
    assert_int_equal(tiny.vocab_size, f->vocab_size);
    double worst = 0;
    printf("%-24s %-5s", f->name, type);
    for (size_t i = 0; i < f->n_passes; i++) {
        double ratio = check_pass(&tiny, f, &f->passes[i]);
        printf("  from %d: %.1e", f->passes[i].start, ratio);
        if (!(ratio <= worst)) worst = ratio;
    }
    size_t equal = count_equal_greedy(&tiny, f);
    printf("  greedy %zu of %zu\n", equal, f->n_greedy);
    if (table)
        fprintf(table, "| %s | %s | %s | %.1e | %s | %s |\n", f->family, f->features, type, worst,
                equal == f->n_greedy ? "equal" : "DIFFERENT", "equal");
    tiny_model_close(&tiny);
    assert_true(worst <= TOLERANCE);
    assert_int_equal(equal, f->n_greedy);
}

/* Checks that every instruction set from number `first` on gives the same bits. Number 0 is plain
 * C, which takes longer than all others together. */
static void check_instruction_sets(const Fixture *f, const char *type, size_t first) {
    char *source = fixture_source(f);
    int converted = tiny_model_convert(source, type);
    float *expected = NULL;
    fixture_remove_directory(source);
    for (size_t i = first; isa_available(i); i++) {
        ModelOptions options = {
            .isa = isa_available(i), .n_threads = 1 + (int)(i % 2), .context = f->context};
        TinyModel tiny = tiny_model_open_converted(converted, &options, KV_F16);
        float *logits = tiny_model_run(&tiny, 0, 0, f->ids, f->n_ids, one_call(f));
        if (expected)
            assert_same_bits(isa_available(i)->name, expected, logits, f->n_ids * f->vocab_size);
        tiny_model_close(&tiny);
        if (!expected) {
            expected = logits;
        } else {
            free(logits);
        }
    }
    free(expected);
    close(converted);
}

typedef struct LogitsCase {
    const char *name;
    size_t number; /* of the fixture */
} LogitsCase;

static void logits_are_those_of_transformers(void **state) {
    const LogitsCase *c = *state;
    Fixture f = fixture_load(c->name);
    bool plain_q8 = tier_takes(c->number, 2, 2), plain_f32 = tier_takes(c->number + 1, 2, 2);
    portable_list(tier_takes(c->number, 8, 8));
    check_fixture(&f, "f32");
    if (strstr(f.name, "narrow")) {
        check_fixture(&f, "f16");
        check_fixture(&f, "bf16");
    }
    check_instruction_sets(&f, "f32", plain_f32 ? 0 : 1);
    check_instruction_sets(&f, "q8", plain_q8 ? 0 : 1);
    fixture_free(&f);
}

int main(int argc, char **argv) {
    char **names = fixture_names();
    struct CMUnitTest tests[1024];
    LogitsCase cases[1024];
    size_t n = 0;
    const char *path = getenv("VERBATIM_FAMILIES");
    if (path && !(table = fopen(path, "w"))) return 1;
    for (size_t i = 0; names[i]; i++) {
        if (argc > 1 ? !strstr(names[i], argv[1]) : !tier_takes(i, 24, 1)) continue;
        cases[n] = (LogitsCase){names[i], i};
        tests[n] = (struct CMUnitTest){.name = names[i],
                                       .test_func = logits_are_those_of_transformers,
                                       .initial_state = &cases[n]};
        n++;
    }
    int failed = _cmocka_run_group_tests("reference_logits", tests, n, NULL, NULL);
    if (table) fclose(table);
    for (size_t i = 0; names[i]; i++) free(names[i]);
    free(names);
    return failed;
}
