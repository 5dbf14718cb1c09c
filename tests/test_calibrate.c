/* export --calibrate: how the importance of an input is measured, and what it improves. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "convert/calibrate.h"
#include "convert/convert_target.h"
#include "convert/quantize.h"
#include "convert/quantize_superblocks.h"
#include "fixture.h"
#include "kernels/panel_pack.h"
#include "process.h"
#include "tokenizer.h"
#include "tests/tier.h"

static const char shipped[] = "models/stories.bin",
                  mixture[] = "tiny,n_experts=6,n_experts_used=2,expert_ffn_dim=48";
static char *story; /* a file with the beginning of README.md, more than 3 windows long */

static int write_story(void **state) {
    (void)state;
    size_t length, most = 6000;
    char *text = file_read("README.md", &length);
    assert_true(length > most);
    story = build_path("tests/calibrate-story.txt");
    file_write(story, text, most);
    free(text);
    return 0;
}

static int remove_story(void **state) {
    (void)state;
    unlink(story);
    free(story);
    return 0;
}

static size_t files_in(const char *directory) {
    DIR *d = opendir(directory);
    assert_non_null(d);
    size_t n = 0;
    for (const struct dirent *e; (e = readdir(d));) n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

static Calibration *calibrated(const ModelFile *file, const char *text, int n_threads) {
    const ConvertOptions options = {.n_threads = n_threads};
    Calibration *calibration = NULL;
    InputFile input;
    Error error;
    if (input_open(&input, text, &error) != STATUS_OK ||
        calibrate(&calibration, file, &input, &options, &error) != STATUS_OK)
        fail_msg("%s", error.text);
    input_close(&input);
    return calibration;
}

static ModelFile *opened(const char *path) {
    ModelFile *file;
    Error error;
    if (modelfile_open(&file, path, -1, &error) != STATUS_OK) fail_msg("%s", error.text);
    return file;
}

static size_t number_of(const ModelFile *file, const char *name) {
    const FileTensor *tensor = modelfile_find(file, name);
    assert_non_null(tensor);
    return (size_t)(tensor - modelfile_tensor(file, 0));
}

/* Adds the squares of the inputs of the first layer's queries: a token's embedding after the norm.
 */
static void add_first_inputs(const ModelFile *file, int32_t token, double *squares) {
    const Config *c = modelfile_config(file);
    const Matrix embedding = modelfile_matrix(file, modelfile_find(file, "token_embedding"), 0);
    const float *norm = modelfile_data(file, modelfile_find(file, "layers.0.attention_norm"));
    float *x = malloc(c->dim * sizeof *x);
    double sum = 0.0;
    assert_non_null(x);
    matrix_row(&embedding, (size_t)token, x);
    for (size_t k = 0; k < c->dim; k++) sum += (double)x[k] * (double)x[k];
    double scale = 1.0 / sqrt(sum / c->dim + (double)c->norm_eps);
    for (size_t k = 0; k < c->dim; k++)
        squares[k] += pow((double)x[k] * scale * (double)norm[k], 2.0);
    free(x);
}

static void a_byte_order_mark_is_no_part_of_a_calibration(void **state) {
    (void)state;
    ModelFile *file = opened(shipped);
    size_t length, dim = modelfile_config(file)->dim, wq = number_of(file, "layers.0.wq");
    char *text = file_read(story, &length), *path = build_path("tests/calibrate-marked.txt"),
         *marked = malloc(length + 3);
    memcpy(marked, "\xEF\xBB\xBF", 3);
    memcpy(marked + 3, text, length);
    file_write(path, marked, 3 + 900);
    Calibration *with = calibrated(file, path, 1);
    file_write(path, text, 900);
    Calibration *without = calibrated(file, path, 1);
    assert_memory_equal(calibration_importance(with, wq), calibration_importance(without, wq),
                        dim * sizeof(float));
    calibration_free(with);
    calibration_free(without);
    unlink(path);
    free(path), free(text), free(marked);
    modelfile_close(file);
}

static void importance_is_the_mean_square_of_each_input(void **state) {
    (void)state;
    enum { WINDOW = 511 };
    ModelFile *file = opened(shipped);
    Calibration *calibration = calibrated(file, story, 0);
    size_t length, bytes, dim = modelfile_config(file)->dim, n = 0;
    char *text = file_read(story, &length);
    const void *section = modelfile_section(file, SECTION_TOKENIZER, &bytes);
    Tokenizer *tokenizer;
    TokenList ids = {0};
    Error error;
    assert_int_equal(tokenizer_open(&tokenizer, section, bytes, &error), STATUS_OK);
    assert_int_equal(tokenizer_encode(tokenizer, text, length, NULL, 0, &ids, &error), STATUS_OK);
    assert_true(ids.length > 3 * WINDOW);
    double *squares = calloc(dim, sizeof *squares), all = 0.0;
    assert_non_null(squares);
    for (size_t i = 0; i < ids.length; i++) {
        if (i % WINDOW == 0) {
            add_first_inputs(file, tokenizer_bos(tokenizer), squares);
            n++;
        }
        add_first_inputs(file, ids.ids[i], squares);
        n++;
    }
    const float *wq = calibration_importance(calibration, number_of(file, "layers.0.wq"));
    const float *wv = calibration_importance(calibration, number_of(file, "layers.0.wv"));
    for (size_t k = 0; k < dim; k++) all += squares[k];
    for (size_t k = 0; k < dim; k++) {
        double share = squares[k] * (double)dim / all;
        double expected = ((double)n * share + 16.0) / ((double)n + 16.0);
        assert_true(fabs((double)wq[k] - expected) < 1e-5 * expected);
    }
    assert_memory_equal(wq, wv, dim * sizeof *wq);
    assert_null(calibration_importance(calibration, number_of(file, "final_norm")));
    assert_non_null(calibration_importance(calibration, number_of(file, "output")));
    free(squares);
    free(text);
    token_list_free(&ids);
    tokenizer_close(tokenizer);
    calibration_free(calibration);
    modelfile_close(file);
}

static void assert_same_file(const char *a, const char *b, bool same) {
    size_t n, m;
    char *x = file_read(a, &n), *y = file_read(b, &m);
    assert_int_equal(n, m);
    assert_true((memcmp(x, y, n) == 0) == same);
    free(x);
    free(y);
}

static void export_mixture(const char *target, const char *text, const char *threads) {
    const char *arguments[] = {"export",
                               "--random",
                               mixture,
                               target,
                               "-f",
                               "-q",
                               "-t",
                               "q4",
                               "-j",
                               threads,
                               text ? "--calibrate" : NULL,
                               text,
                               NULL};
    Process p = process_run(arguments, NULL, 0);
    if (p.status) fail_msg("%s", p.err);
    process_free(&p);
}

static void the_file_is_the_same_on_any_thread_count(void **state) {
    (void)state;
    char *directory = fixture_directory();
    char *one = fixture_path(directory, "1.bin"), *five = fixture_path(directory, "5.bin");
    char *plain = fixture_path(directory, "plain.bin");
    export_mixture(one, story, "1");
    export_mixture(five, story, "5");
    export_mixture(plain, NULL, "2");
    assert_same_file(one, five, true);
    assert_same_file(one, plain, false);
    assert_int_equal(files_in(directory), 3);
    free(one);
    free(five);
    free(plain);
    fixture_remove_directory(directory);
}

/* One token reaches two of six experts, so nothing is known of the inputs of the others. */
static void an_expert_that_no_token_reached_has_no_importance(void **state) {
    (void)state;
    char *directory = fixture_directory();
    char *model = fixture_path(directory, "m.bin"), *text = fixture_path(directory, "t.txt");
    export_mixture(model, NULL, "1");
    file_write(text, "a", 1);
    ModelFile *file = opened(model);
    Calibration *calibration = calibrated(file, text, 1);
    size_t known = 0, unknown = 0;
    for (size_t i = 0; i < modelfile_n_tensors(file); i++) {
        const FileTensor *t = modelfile_tensor(file, i);
        if (t->type == TENSOR_VECTOR) continue;
        const float *importance = calibration_importance(calibration, i);
        if (!strstr(t->name, "experts.")) {
            /* The embedding has no importance, because it is looked up and not multiplied. */
            assert_int_equal(importance == NULL, strcmp(t->name, "token_embedding") == 0);
        } else if (importance) {
            known++;
            for (size_t k = 0; k < t->cols; k++)
                assert_true(importance[k] > 0.0f && isfinite(importance[k]));
        } else {
            unknown++;
        }
    }
    assert_true(known > 0 && unknown > 0);
    calibration_free(calibration);
    modelfile_close(file);
    export_mixture(model, text, "2");
    free(model);
    free(text);
    fixture_remove_directory(directory);
}

/* ---- What it improves ---- */

enum { ROWS = 16, COLS = 512 };

static double weighted_error(TensorType type, const float *x, const float *importance,
                             const float *known) {
    const size_t all = (size_t)ROWS * COLS;
    uint8_t *codes = malloc(all), *subs = malloc(2 * all), *panel;
    uint16_t *scales = malloc(2 * all * sizeof *scales);
    size_t bytes, group = tensor_type_info(type)->group, groups = COLS / group;
    uint16_t *minima = tensor_type_info(type)->has_min ? scales + all : NULL;
    double error = 0.0;
    float row[COLS];
    assert_true(tensor_matrix_bytes(type, ROWS, COLS, &bytes));
    panel = aligned_alloc(64, round_up(bytes, 64));
    assert_true(codes && subs && scales && panel);
    memset(scales, 0, 2 * all * sizeof *scales);
    for (size_t r = 0; r < ROWS; r++) {
        const SuperblockCodes at = {codes + r * COLS, scales + r * groups,
                                    scales + all + r * groups, subs + r * groups,
                                    subs + all + r * groups};
        if (is_superblock_type(type)) {
            quantize_superblocks(type, COLS, x + r * COLS, known, &at);
        } else {
            quantize_row(type, COLS, x + r * COLS, known, at.codes, at.scales,
                         minima ? minima + r * groups : NULL);
        }
    }
    const SuperblockCodes rows = {codes, scales, scales + all, subs, subs + all};
    if (is_superblock_type(type)) {
        superblocks_pack(type, COLS, &rows, panel);
    } else {
        panel_pack_codes(type, COLS, codes, scales, minima, panel);
    }
    const Matrix matrix = {.type = type, .rows = ROWS, .cols = COLS, .data = panel};
    for (size_t r = 0; r < ROWS; r++) {
        matrix_row(&matrix, r, row);
        for (size_t k = 0; k < COLS; k++)
            error += (double)importance[k] * pow((double)x[r * COLS + k] - (double)row[k], 2.0);
    }
    free(codes);
    free(subs);
    free(scales);
    free(panel);
    return error;
}

static float normal(uint32_t *seed) {
    float sum = 0.0f;
    for (int i = 0; i < 12; i++) {
        *seed = *seed * 1664525u + 1013904223u;
        sum += (float)(*seed >> 8) / 16777216.0f;
    }
    return sum - 6.0f;
}

/* The inputs are like those of real layers: most are alike, a few are many times larger. */
static void knowing_the_inputs_makes_the_outputs_errors_smaller(void **state) {
    (void)state;
    static float x[ROWS * COLS], importance[COLS];
    uint32_t seed = 1;
    for (size_t i = 0; i < (size_t)ROWS * COLS; i++) x[i] = normal(&seed);
    for (size_t k = 0; k < COLS; k++)
        importance[k] = expf(normal(&seed)) * (k % 50 == 7 ? 100.0f : 1.0f);
    for (TensorType type = TENSOR_F32; type < TENSOR_TYPES; type++) {
        if (!tensor_type_info(type)->group) continue;
        double without = weighted_error(type, x, importance, NULL);
        double with = weighted_error(type, x, importance, importance);
        print_message("%-8s %.4g of the error\n", tensor_type_info(type)->name, with / without);
        assert_true(with < without);
    }
}

/* Writes the texts that the model generates with seeds first ... last to `path`. */
static void write_stories(const char *model, int first, int last, const char *path) {
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    for (int seed = first; seed <= last; seed++) {
        char text[16];
        snprintf(text, sizeof text, "%d", seed);
        Process p = RUN("run", model, "-s", text, "-n", "400", "-p", "1", "-t", "1");
        assert_int_equal(p.status, 0);
        assert_int_equal(fwrite(p.out, 1, p.out_length, f), p.out_length);
        process_free(&p);
    }
    assert_int_equal(fclose(f), 0);
}

static double divergence(const char *model, const char *other, const char *text) {
    Process p = RUN("run", model, "--eval", text, "--against", other, "--kv-type", "f32");
    double value = 0.0;
    if (p.status) fail_msg("%s", p.err);
    const char *line = strstr(p.out, "divergence, mean");
    assert_non_null(line);
    assert_int_equal(sscanf(line, "divergence, mean %lf", &value), 1);
    process_free(&p);
    return value;
}

static void calibrated_models_are_nearer_to_the_original(void **state) {
    (void)state;
    static const char *const types[] = {"q4", "q4m", "q4_k", "q5"};
    const char *source = shared_data("stories260K/stories260K.bin");
    char tokenizer[4096];
    if (!source) {
        print_message("[  SKIPPED ] ../shared/data/stories260K is not here\n");
        skip();
    }
    snprintf(tokenizer, sizeof tokenizer, "%.*stok512.bin",
             (int)(strrchr(source, '/') + 1 - source), source);
    char *path = strdup(source), *directory = fixture_directory();
    char *f32 = fixture_path(directory, "f32.bin"), *small = fixture_path(directory, "small.bin");
    char *text = fixture_path(directory, "text"), *held_out = fixture_path(directory, "held-out");
    Process p = RUN("export", path, f32, "-z", tokenizer, "-q");
    assert_int_equal(p.status, 0);
    process_free(&p);
    size_t n_texts = tier_count(5, 15, 15);
    size_t n_held_out = tier_count(4, 10, 10);
    write_stories(f32, 101, 100 + (int)n_texts, text);
    write_stories(f32, 1, (int)n_held_out, held_out);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (!tier_takes(i, 4, 1)) continue;
        p = RUN("export", path, small, "-z", tokenizer, "-q", "-f", "-t", types[i]);
        process_free(&p);
        double without = divergence(small, f32, held_out);
        p = RUN("export", path, small, "-z", tokenizer, "-q", "-f", "-t", types[i], "--calibrate",
                text);
        process_free(&p);
        double with = divergence(small, f32, held_out);
        print_message("%-5s divergence %.4g without, %.4g with\n", types[i], without, with);
        assert_true(with < without);
    }
    free(path);
    free(f32);
    free(small);
    free(text);
    free(held_out);
    fixture_remove_directory(directory);
}

/* ---- Errors ---- */

static void assert_fails(Process p, int status, const char *message) {
    if (p.status != status || !strstr(p.err, message))
        print_message("status %d, stderr: %s", p.status, p.err);
    PROCESS_SAYS(p, status, message);
}

static void failures_say_what_is_missing_and_leave_nothing(void **state) {
    (void)state;
    char *directory = fixture_directory(), *target = fixture_path(directory, "m.bin");
    char *empty = fixture_path(directory, "empty");
    file_write(empty, "", 0);
    assert_fails(RUN("export", "--random", "tiny", target, "--calibrate", story), 2,
                 "--calibrate needs --type");
    assert_fails(RUN("export", "tests/seeds/llama2c/v1", target, "-t", "q4", "--calibrate", story),
                 1, "calibrate-story.txt with: give one with -z");
    assert_fails(RUN("export", "--random", "tiny", target, "-t", "q4", "--calibrate", "/no/such"),
                 1, "/no/such: No such file");
    assert_fails(RUN("export", "--random", "tiny", target, "-t", "q4", "--calibrate", empty), 1,
                 "empty: ");
    assert_int_equal(files_in(directory), 1);
    free(empty);
    free(target);
    fixture_remove_directory(directory);
}

static volatile sig_atomic_t cancel;

static void cancel_when_calibrating(ConvertStep step, uint64_t done, uint64_t total,
                                    void *context) {
    (void)done, (void)total, (void)context;
    if (step == CONVERT_CALIBRATING) cancel = 1;
}

static void an_interrupt_while_calibrating_leaves_nothing(void **state) {
    (void)state;
    char *directory = fixture_directory(), *target = fixture_path(directory, "m.bin");
    const ConvertOptions options = {
        .type = "q4", .n_threads = 1, .progress = cancel_when_calibrating, .cancel = &cancel};
    const ExportOptions wishes = {.calibrate = story};
    Error error;
    assert_int_equal(convert_to_path("random:tiny", &options, &wishes, target, &error),
                     STATUS_INTERRUPTED);
    assert_int_equal(cancel, 1);
    assert_int_equal(files_in(directory), 0);
    free(target);
    fixture_remove_directory(directory);
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_byte_order_mark_is_no_part_of_a_calibration),
        cmocka_unit_test(importance_is_the_mean_square_of_each_input),
        cmocka_unit_test(the_file_is_the_same_on_any_thread_count),
        cmocka_unit_test(an_expert_that_no_token_reached_has_no_importance),
        cmocka_unit_test(knowing_the_inputs_makes_the_outputs_errors_smaller),
        cmocka_unit_test(calibrated_models_are_nearer_to_the_original),
        cmocka_unit_test(failures_say_what_is_missing_and_leave_nothing),
        cmocka_unit_test(an_interrupt_while_calibrating_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, write_story, remove_story);
}
