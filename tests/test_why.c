/* --why: which tensors win answers back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "fixture.h"
#include "inspect/ddmin.h"
#include "inspect/why.h"
#include "process.h"
#include "tests/tier.h"

static const char shipped[] = "models/stories.bin";

static uint32_t next_random(uint32_t *seed) {
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

/* ---- ddmin ---- */

/* A set passes when it holds one thing of each of some pairs. */
typedef struct Pairs {
    size_t pairs[3][2], n, tests;
} Pairs;

static bool pairs_pass(const Pairs *p, const size_t *things, size_t n, size_t without) {
    for (size_t k = 0; k < p->n; k++) {
        bool found = false;
        for (size_t i = 0; i < n; i++)
            if (i != without) found |= things[i] == p->pairs[k][0] || things[i] == p->pairs[k][1];
        if (!found) return false;
    }
    return true;
}

static Status test_pairs(void *context, const size_t *things, size_t n, bool *passes,
                         Error *error) {
    (void)error;
    Pairs *p = context;
    p->tests++;
    *passes = pairs_pass(p, things, n, SIZE_MAX);
    return STATUS_OK;
}

static void the_set_passes_and_nothing_can_be_left_out(void **state) {
    (void)state;
    uint32_t seed = 3;
    for (size_t round = 0; round < 300; round++) {
        size_t things[40], all = 1 + next_random(&seed) % 40, n = all;
        Pairs p = {.n = 1 + next_random(&seed) % 3};
        for (size_t i = 0; i < all; i++) things[i] = i;
        for (size_t k = 0; k < 2 * p.n; k++) p.pairs[k / 2][k % 2] = next_random(&seed) % all;
        Error error;
        assert_int_equal(ddmin(things, &n, test_pairs, &p, &error), STATUS_OK);
        assert_true(pairs_pass(&p, things, n, SIZE_MAX));
        for (size_t i = 0; n > 1 && i < n; i++) {
            assert_false(pairs_pass(&p, things, n, i));
            assert_true(i == 0 || things[i - 1] < things[i]);
        }
        assert_true(p.tests <= all * all + 3 * all);
    }
}

/* ---- Two tensors that only together win an answer back ---- */

typedef struct Planted {
    const ModelFile *own;
    const char *names[2];
} Planted;

/* 7 for A, and for B where both tensors are A's; else 8. */
static Status planted_answer(void *context, const ModelFile *file, const WhyAsked *asked,
                             size_t *answers, Error *error) {
    (void)asked, (void)error;
    const Planted *p = context;
    answers[0] = 7;
    for (size_t i = 0; i < 2; i++)
        if (modelfile_data(file, modelfile_find(file, p->names[i])) !=
            modelfile_data(p->own, modelfile_find(p->own, p->names[i])))
            answers[0] = 8;
    return STATUS_OK;
}

static Status planted_weigh(void *context, const ModelFile *file, const size_t *own,
                            const size_t *other, double (*logprobs)[2], Error *error) {
    (void)context, (void)file, (void)own, (void)other, (void)error;
    logprobs[0][0] = logprobs[0][1] = -1.0;
    return STATUS_OK;
}

static void planted_name(void *context, size_t i, size_t answer, char *place, char *text,
                         size_t size) {
    (void)context, (void)i, (void)answer;
    snprintf(place, size, "here");
    snprintf(text, size, "word");
}

static void export_to(const char *source, const char *target, const char *type, const char *keep) {
    Process p = RUN("export", source, target, "-q", "-f", "-t", type, keep ? "--keep" : NULL, keep);
    if (p.status) fail_msg("%s", p.err);
    process_free(&p);
}

static ModelFile *opened(const char *path) {
    ModelFile *file;
    Error error;
    if (modelfile_open(&file, path, -1, &error) != STATUS_OK) fail_msg("%s", error.text);
    return file;
}

static void two_tensors_that_win_together_are_both_named_and_no_other(void **state) {
    (void)state;
    char *directory = fixture_directory(), *report = fixture_path(directory, "report");
    char *a = fixture_path(directory, "a.bin"), *b = fixture_path(directory, "b.bin");
    Process made = RUN("export", "--random", "tiny", a, "-q", "-t", "f16");
    assert_int_equal(made.status, 0);
    process_free(&made);
    export_to(a, b, "q4m", NULL);
    ModelFile *own = opened(a), *other = opened(b);
    size_t n = modelfile_n_tensors(own), done = 0;
    uint32_t seed = 11;
    while (done < 100) {
        const FileTensor *x = modelfile_tensor(own, next_random(&seed) % n);
        const FileTensor *y = modelfile_tensor(own, next_random(&seed) % n);
        if (x == y || x->type == TENSOR_VECTOR || y->type == TENSOR_VECTOR) continue;
        if (modelfile_data(own, x) == modelfile_data(own, y)) continue;
        Planted planted = {own, {x->name, y->name}};
        const WhyItems items = {1, planted_answer, planted_weigh, planted_name, &planted};
        volatile sig_atomic_t interrupted = 0;
        Session session = {.file = own, .interrupted = &interrupted};
        Error error;
        char lines[2][100];
        Output output = {.fd = open(report, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600)};
        session.output = &output;
        assert_true(output.fd >= 0);
        if (why_run(&session, other, &items, &error) != STATUS_OK) fail_msg("%s", error.text);
        close(output.fd);
        size_t length;
        char *text = file_read(report, &length);
        assert_non_null(strstr(text, "together            2 tensors"));
        snprintf(lines[0], sizeof lines[0], "  --keep %s=f16\n", x->name);
        snprintf(lines[1], sizeof lines[1], "  --keep %s=f16\n", y->name);
        assert_non_null(strstr(text, lines[0]));
        assert_non_null(strstr(text, lines[1]));
        free(text);
        done++;
    }
    modelfile_close(own);
    modelfile_close(other);
    free(report);
    free(a);
    free(b);
    fixture_remove_directory(directory);
}

/* ---- Damage to a real model ---- */

/* The token at which the greedy texts of two models part; SIZE_MAX: they do not. */
static size_t parting(const char *a, const char *b, const char *prompt) {
    Process p = RUN("run", a, "-i", prompt, "-t", "0", "-n", "40", "--against", b);
    if (p.status) fail_msg("%s", p.err);
    size_t at = SIZE_MAX;
    const char *found = strstr(p.out, "they part at token ");
    if (found) assert_int_equal(sscanf(found, "they part at token %zu", &at), 1);
    process_free(&p);
    return at;
}

/* Where the same 6-bit model without the damage goes on like the original, the damaged tensor alone
 * wins the answer back for certain. */
static void a_damaged_tensor_is_named_where_it_turns_an_answer(void **state) {
    (void)state;
    static const char *const tensors[] = {"layers.2.w_down", "layers.0.w_up", "layers.1.wo",
                                          "layers.3.w_gate"};
    static const char *const prompts[] = {"Once upon a time", "The dog", "One day, Tom"};
    char *directory = fixture_directory(), keep[100], line[100];
    char *intact = fixture_path(directory, "intact.bin"), *b = fixture_path(directory, "b.bin");
    size_t turned = 0;
    export_to(shipped, intact, "q6", NULL);
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++) {
        if (!tier_takes(i, 4, 1)) continue;
        snprintf(keep, sizeof keep, "%s=q2_k", tensors[i]);
        snprintf(line, sizeof line, "\n  %s ", tensors[i]);
        export_to(shipped, b, "q6", keep);
        for (size_t k = 0; k < 3; k++) {
            if (turned && tier() == TIER_CHECK) break;
            size_t at = parting(shipped, b, prompts[k]);
            if (at == SIZE_MAX || parting(shipped, intact, prompts[k]) <= at) continue;
            Process p = RUN("run", shipped, "-i", prompts[k], "-t", "0", "-n", "40", "--against", b,
                            "--why", "-j", "1");
            /* Plain C is slow: once is enough. */
            Process q = RUN("run", shipped, "-i", prompts[k], "-t", "0", "-n", "40", "--against", b,
                            "--why", "-j", "3", turned || tier() == TIER_CHECK ? NULL : "--isa",
                            "reference");
            if (p.status || q.status) fail_msg("%s%s", p.err, q.err);
            assert_string_equal(p.out, q.out);
            assert_non_null(strstr(p.out, "changed             1 of 1 answers"));
            assert_non_null(strstr(p.out, line));
            assert_non_null(strstr(p.out, "  --keep "));
            process_free(&p);
            process_free(&q);
            turned++;
        }
    }
    print_message("%zu answers turned\n", turned);
    assert_true(turned > 0);
    free(intact);
    free(b);
    fixture_remove_directory(directory);
}

static void questions_are_explained_by_their_choices(void **state) {
    (void)state;
    static const char questions[] =
        "{\"context\": \"Once upon a time there was a little\", \"choices\": [\" girl\", \" boy\", "
        "\" dog\"], \"answer\": 0}\n"
        "{\"context\": \"She was very\", \"choices\": [\" happy\", \" sad\"], \"answer\": 0}\n"
        "{\"text\": \"The dog ran.\"}\n";
    char *directory = fixture_directory(), *b = fixture_path(directory, "b.bin");
    char *items = fixture_path(directory, "items");
    file_write(items, questions, strlen(questions));
    export_to(shipped, b, "q2_k", NULL);
    Process p = RUN("run", shipped, "--eval-tasks", items, "--against", b, "--why");
    if (p.status) fail_msg("%s", p.err);
    assert_non_null(strstr(p.out, "of 2 answers; 29 tensors differ\n"));
    process_free(&p);
    p = RUN("run", shipped, "--eval-tasks", items, "--why");
    PROCESS_SAYS(p, 2, "--why needs --against MODEL");
    free(b);
    free(items);
    fixture_remove_directory(directory);
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_set_passes_and_nothing_can_be_left_out),
        cmocka_unit_test(two_tensors_that_win_together_are_both_named_and_no_other),
        cmocka_unit_test(a_damaged_tensor_is_named_where_it_turns_an_answer),
        cmocka_unit_test(questions_are_explained_by_their_choices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
