/* `make core` builds the core alone: the same bytes as run, and no more than a reader can hold. So
 * does decoder.c, the way from a prompt to text in one file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <float.h>
#include <glob.h>

#include "core/modelfile.h"
#include "tests/fixture.h"
#include "tests/process.h"
#include "tests/small_model.h"
#include "tests/tier.h"

static const char model[] = "models/stories.bin";

/* Runs the core with these arguments, and fails unless it prints what `expected` printed. */
#define CORE_PRINTS(expected, ...)                                                                 \
    do {                                                                                           \
        Process p = RUN(core, model, __VA_ARGS__);                                                 \
        if (p.status != 0) fail_msg("%s", p.err);                                                  \
        assert_string_equal(p.out, (expected).out);                                                \
        process_free(&p);                                                                          \
    } while (0)

static void the_core_prints_what_run_prints(void **state) {
    char *core = build_path("core/run");
    (void)state;
    char most[8];
    snprintf(most, sizeof most, "%zu", tier_count(15, 0, 0)); /* 0: the whole story */
    Process story = RUN("run", "-s", "3", "-n", most);
    CORE_PRINTS(story, "-s", "3", "-n", most, "-j", "2");
    CORE_PRINTS(story, "-s", "3", "-n", most, "-j", "1");
    CORE_PRINTS(story, "-s", "3", "-n", most, "-u", "1");
    Process greedy = RUN("run", model, "-t", "0", "-n", "40", "-i", "A dragon", "--echo");
    CORE_PRINTS(greedy, "-t", "0", "-n", "40", "-i", "A dragon", "-e", "-u", "2");
    Process cut = RUN("run", model, "-s", "9", "-n", "30", "-p", "0.5", "--top-k", "7", "-c", "24");
    CORE_PRINTS(cut, "-s", "9", "-n", "30", "-p", "0.5", "-k", "7", "-c", "24");
    process_free(&story);
    process_free(&greedy);
    process_free(&cut);
    free(core);
}

/* All of models/: what a learner tries first must not be refused for a type of weights. */
static void the_core_runs_every_shipped_model(void **state) {
    char *core = build_path("core/run");
    (void)state;
    glob_t models;
    assert_int_equal(glob("models/*.bin", 0, NULL, &models), 0);
    for (size_t i = 0; i < models.gl_pathc; i++) {
        const char *path = models.gl_pathv[i];
        Process run = RUN("run", path, "-i", "A dragon", "-n", "12", "-t", "0.8", "-s", "7");
        Process p = RUN(core, path, "-i", "A dragon", "-n", "12", "-t", "0.8", "-s", "7");
        if (p.status != 0) fail_msg("%s", p.err);
        assert_string_equal(p.out, run.out);
        process_free(&p);
        process_free(&run);
    }
    assert_true(models.gl_pathc >= 9);
    globfree(&models);
    free(core);
}

static void wrong_arguments_are_named(void **state) {
    char *core = build_path("core/run");
    const struct {
        const char *argument, *value, *error;
    } cases[] = {
        {"-t", "warm", "run: -t needs a number from 0 to 1000\n"},
        {"-j", "0", "run: -j needs a whole number from 1 to 1024\n"},
        {"-x", "1", "run: -x: no such option; -h lists them\n"},
        {"other.bin", "1", "run: other.bin: one model at a time, and a prompt goes after -i\n"},
        {"-n", "1.5", "run: -n needs a whole number from 0 to 1e+09\n"},
        {"-t0", "0", "run: -t0: no such option; -h lists them\n"}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Process p = RUN(core, model, cases[i].argument, cases[i].value);
        assert_int_equal(p.status, 2);
        assert_string_equal(p.err, cases[i].error);
        assert_string_equal(p.out, "");
        process_free(&p);
    }
    Process none = RUN(core);
    assert_int_equal(none.status, 2);
    assert_string_equal(none.err, "run: MODEL.bin is missing: run MODEL.bin -i TEXT; -h lists the "
                                  "options\n");
    process_free(&none);
    Process missing = RUN(core, "nothing.bin");
    assert_string_equal(missing.err, "run: nothing.bin: No such file or directory\n");
    process_free(&missing);
    free(core);
}

/* Writes the story model with weights of its last norm that make the logits infinite. */
static void overflow(const char *path) {
    Error error;
    ModelFile *file;
    size_t n_bytes;
    char *bytes = file_read(model, &n_bytes);
    assert_int_equal(modelfile_open(&file, model, -1, &error), STATUS_OK);
    const FileTensor *norm = modelfile_find(file, "final_norm");
    assert_non_null(norm);
    for (size_t i = 0; i < norm->cols; i++)
        memcpy(bytes + norm->offset + i * sizeof(float), &(float){FLT_MAX}, sizeof(float));
    file_write(path, bytes, n_bytes);
    modelfile_close(file);
    free(bytes);
}

/* The paper's decoder, each way of telling positions, and a llama, greedy and drawn; more than a
 * block of 64 positions. */
static void the_decoder_in_one_file_prints_what_run_prints(void **state) {
    char *decoder = build_path("decoder");
    const struct {
        const char *model, *prompt, *n, *temperature;
    } cases[] = {{"models/paper-mha.bin", "Once upon a time", "80", "0"},
                 {"models/paper-mha.bin", "A dragon", "100", "1"},
                 {"models/sinusoidal.bin", "A dragon", "20", "0.8"},
                 {"models/paper-alibi.bin", "A dragon", "80", "0.8"},
                 {"models/paper-learned.bin", "A dragon", "80", "0.8"},
                 {"models/stories.bin", "A dragon", "20", "0"},
                 {"models/stories.bin", "Once upon a time", "70", "1"}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (!tier_takes(i, 2, 1)) continue;
        Process run = RUN("run", cases[i].model, "-i", cases[i].prompt, "-n", cases[i].n, "-t",
                          cases[i].temperature, "-s", "7");
        Process p =
            RUN(decoder, cases[i].model, cases[i].prompt, cases[i].n, cases[i].temperature, "7");
        if (p.status != 0) fail_msg("%s", p.err);
        assert_string_equal(p.out, run.out);
        process_free(&run);
        process_free(&p);
    }
    char *directory = fixture_directory(), *other = small_model(directory, "tiny,activation=gelu");
    Process p = RUN(decoder, other, "A dragon", "1", "0", "7");
    PROCESS_SAYS(p, 1, "neither the paper's decoder nor a plain llama");
    overflow(other);
    p = RUN(decoder, other, "A dragon", "1", "0", "7");
    PROCESS_SAYS(p, 1, " is not a finite number");
    p = RUN("/bin/sh", "-c", "\"$1\" models/stories.bin a 3 0 7 >/dev/full", "sh", decoder);
    PROCESS_SAYS(p, 1, "decoder: stdout: cannot be written");
    fixture_remove_directory(directory);
    free(other);
    free(decoder);
}

/* Its formulas of a book give the same but for rounding: that of activations to 8 bits in a
 * product, which is a large part of it, and that of float32 in attention. */
static void the_plain_formulas_are_near(void **state) {
    char *decoder = build_path("decoder");
    const char *models[] = {"models/paper-alibi.bin", "models/stories.bin"};
    (void)state;
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        double product, attention;
        Process p = RUN(decoder, models[i], "Once upon a time", "20", "0", "7", "plain");
        assert_int_equal(sscanf(p.err,
                                "plain formulas, largest difference: %lf of a product, %lf of "
                                "attention",
                                &product, &attention),
                         2);
        assert_true(product > 0 && product < 1 && attention > 0 && attention < 1e-5);
        assert_null(strstr(p.err, "bf16_act"));
        process_free(&p);
    }
    char *directory = fixture_directory(), path[4200];
    snprintf(path, sizeof path, "%s/act.bin", directory);
    Process p = RUN("export", model, path, "-q", "-t", "bf16_act");
    assert_int_equal(p.status, 0);
    process_free(&p);
    p = RUN(decoder, path, "Once", "1", "0", "7", "plain");
    PROCESS_SAYS(p, 0, "bf16_act rounds what its weights multiply");
    fixture_remove_directory(directory);
    free(decoder);
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_core_prints_what_run_prints),
        cmocka_unit_test(the_core_runs_every_shipped_model),
        cmocka_unit_test(wrong_arguments_are_named),
        cmocka_unit_test(the_decoder_in_one_file_prints_what_run_prints),
        cmocka_unit_test(the_plain_formulas_are_near),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
