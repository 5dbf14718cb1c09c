/* `export --kv-heads N`: fewer key/value heads, each the mean of those that it replaces. */
#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/modelfile.h"
#include "tests/fixture.h"
#include "tests/process.h"
#include "tests/small_model.h"

static void open_file(ModelFile **file, const char *path) {
    Error error;
    if (modelfile_open(file, path, open(path, O_RDONLY | O_CLOEXEC), &error) != STATUS_OK)
        fail_msg("%s", error.text);
}

/* The shape of a tensor in the file, whose vectors have one row. */
static void expect_shape(const ModelFile *file, const char *name, size_t rows, size_t cols) {
    const FileTensor *t = modelfile_find(file, name);
    assert_non_null(t);
    assert_int_equal(t->rows, rows);
    assert_int_equal(t->cols, cols);
}

static void expect_status(const char *source, const char *target, const char *n, int status,
                          const char *message) {
    Process p = RUN("export", source, target, "--kv-heads", n);
    if (p.status != status || !strstr(p.err, message)) fail_msg("%d: %s", p.status, p.err);
    process_free(&p);
}

static void heads_become_the_means_of_their_groups(void **state) {
    (void)state;
    char *directory = fixture_directory(), *target = fixture_path(directory, "grouped.bin");
    char *model = small_model(directory, "tiny,n_heads=8,n_kv_heads=8,head_dim=8,bias=1");
    expect_status(model, target, "2", 0, "key/value heads are means");
    ModelFile *before, *after;
    open_file(&before, model);
    open_file(&after, target);
    assert_int_equal(modelfile_config(after)->n_kv_heads, 2);
    expect_shape(after, "layers.1.wk", 16, 64);
    expect_shape(after, "layers.1.wv", 16, 64);
    const float *was = modelfile_data(before, modelfile_find(before, "layers.1.wk.bias"));
    const float *is = modelfile_data(after, modelfile_find(after, "layers.1.wk.bias"));
    for (size_t i = 0; i < 16; i++) {
        double mean = 0.0;
        for (size_t k = 0; k < 4; k++) mean += (double)was[(i / 8 * 4 + k) * 8 + i % 8] / 4.0;
        assert_true(fabs(mean - (double)is[i]) < 1e-6);
    }
    modelfile_close(before);
    modelfile_close(after);
    Process p = RUN("run", target, "-i", "the", "-n", "3", "-t", "0");
    assert_int_equal(p.status, 0);
    process_free(&p);
    free(target);
    free(model);
    fixture_remove_directory(directory);
}

static void what_cannot_be_merged_is_refused(void **state) {
    (void)state;
    char *directory = fixture_directory(), *target = fixture_path(directory, "grouped.bin");
    char *model = small_model(directory, "tiny,n_heads=4,n_kv_heads=4");
    expect_status(model, target, "3", 1, "fewer than the 4 of layer 0, and a divisor of them");
    expect_status(model, target, "4", 1, "fewer than the 4 of layer 0, and a divisor of them");
    expect_status(model, target, "0", 2, "--kv-heads");
    free(model);
    char *other = fixture_directory();
    model = small_model(other, "tiny,latent_dim=24,latent_q_dim=40,head_dim=20,rotary_dim=8,"
                               "value_dim=12");
    expect_status(model, target, "1", 1, "layer 0 is not attention by keys and values alone");
    free(model);
    fixture_remove_directory(other);
    free(target);
    fixture_remove_directory(directory);
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heads_become_the_means_of_their_groups),
        cmocka_unit_test(what_cannot_be_merged_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
