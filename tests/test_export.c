/* What a user of `export` sees: a target that is complete or absent, messages, exit statuses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/address_sanitizer.h"
#include "convert/convert_target.h"
#include "core/modelfile.h"
#include "fixture.h"
#include "process.h"
#include "tests/tier.h"

/* An empty temporary directory and the path of a target in it. */
typedef struct Place {
    char *directory, *target;
} Place;

static Place place_new(void) {
    Place p = {.directory = fixture_directory()};
    p.target = fixture_path(p.directory, "model.bin");
    return p;
}

static void place_free(Place *p) {
    free(p->target);
    fixture_remove_directory(p->directory);
}

static size_t files_in(const char *directory) {
    DIR *d = opendir(directory);
    assert_non_null(d);
    size_t n = 0;
    for (const struct dirent *e; (e = readdir(d));) n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

/* Expects this exit status, one line on stderr that contains `message`, and nothing on stdout. */
static void assert_fails(Process p, int status, const char *message) {
    if (p.status != status || !strstr(p.err, message))
        print_message("status %d, stderr: %s", p.status, p.err);
    assert_int_equal(p.status, status);
    assert_non_null(strstr(p.err, message));
    assert_ptr_equal(strchr(p.err, '\n'), p.err + p.err_length - 1);
    assert_int_equal(p.out_length, 0);
    process_free(&p);
}

static void assert_done(Process p) {
    if (p.status) print_message("%s", p.err);
    assert_int_equal(p.status, 0);
    assert_int_equal(p.out_length, 0);
    process_free(&p);
}

static void a_wrong_command_line_says_so(void **state) {
    (void)state;
    assert_fails(RUN("export"), 2, "SOURCE and TARGET");
    assert_fails(RUN("export", "one"), 2, "SOURCE and TARGET");
    assert_fails(RUN("export", "one", "two", "three"), 2, "too many operands: three");
    assert_fails(RUN("export", "one", "two", "--type", "q1"), 2,
                 "no type is called 'q1'; there are q2, q3, q4m, q5, q6, f32, ");
    assert_fails(RUN("export", "one", "two", "-t", "Q4_K_M"), 2,
                 "no type is called 'Q4_K_M'; did you mean q4m?");
    assert_fails(RUN("export", "one", "two", "-t", "q4m", "--keep", "output=int8"), 2,
                 "no type is called 'int8'; did you mean q8?");
    assert_fails(RUN("export", "one", "two.safetensors"), 2,
                 "a model.bin is written, which no other");
    assert_fails(RUN("export", "one", "two.gguf", "-z", "three"), 2,
                 "but the types: no --tokenizer");
    assert_fails(RUN("export", "one", "two.gguf", "--target-size", "40M", "--calibrate", "three"),
                 2, "in bits a weight: --target-size 4.5b");
    assert_fails(RUN("export", "one", "-o", "two"), 2,
                 "no option -o: the result stands after the source: SOURCE TARGET");
    assert_fails(RUN("export", "one", "two", "--outtype", "q8_0"), 2,
                 "no option --outtype; did you mean --type TYPE?");
    assert_fails(RUN("export", "--random", "tiny", "two", "-t", "q8", "--keep", "nosuch=f16"), 1,
                 "no matrix is called 'nosuch'");
    assert_fails(RUN("export", "one", "two", "-j", "0"), 2,
                 "-j: 0 is out of range, it must be from 1 to 4096");
    assert_fails(RUN("export", "--random", "tiny"), 2, "TARGET is missing");
    Process help = RUN("export", "--help");
    assert_int_equal(help.status, 0);
    assert_non_null(strstr(help.out, "usage: export"));
    process_free(&help);
}

static void a_source_that_is_wrong_leaves_no_target(void **state) {
    (void)state;
    Place p = place_new();
    assert_fails(RUN("export", "/no/such", p.target), 1, "/no/such: No such file");
    assert_fails(RUN("export", p.directory, p.target), 1, "no model in this directory");
    assert_fails(RUN("export", "Makefile", p.target), 1, "not a model");
    assert_fails(RUN("export", "--random", "huge", p.target), 1, "'huge'");
    assert_fails(RUN("export", "--random", "tiny,dim=0", p.target), 1, "dim is 0");
    assert_fails(RUN("export", "tests/seeds/llama2c/v1", p.target, "-z", "Makefile"), 1,
                 "Makefile");
    assert_fails(RUN("export", "tests/seeds/llama2c/v1", p.target, "-z", "/none"), 1, "/none");
    assert_int_equal(files_in(p.directory), 0);
    assert_fails(RUN("export", "tests/seeds/llama2c/v1", "/no/such/directory/m.bin"), 1,
                 "/no/such/directory/m.bin");
    assert_fails(RUN("export", "tests/seeds/llama2c/v1", p.directory), 1, "not a regular file");
    place_free(&p);
}

static void a_failure_leaves_the_old_target(void **state) {
    (void)state;
    Place p = place_new();
    file_write(p.target, "old", 3);
    assert_fails(RUN("export", "Makefile", p.target), 1, "not a model");
    size_t n;
    char *text = file_read(p.target, &n);
    assert_string_equal(text, "old");
    free(text);
    assert_int_equal(files_in(p.directory), 1);
    place_free(&p);
}

static void a_target_is_replaced_only_by_force(void **state) {
    (void)state;
    Place p = place_new();
    file_write(p.target, "old", 3);
    assert_fails(RUN("export", "--random", "tiny", p.target, "-q"), 1,
                 "exists already; --force replaces it");
    size_t n;
    char *text = file_read(p.target, &n);
    assert_string_equal(text, "old");
    free(text);
    assert_done(RUN("export", "--random", "tiny", p.target, "-q", "--force"));
    text = file_read(p.target, &n);
    assert_memory_equal(text, "verbatim", 8);
    free(text);
    assert_int_equal(files_in(p.directory), 1);
    place_free(&p);
}

static void same_bytes(const char *one, const char *other) {
    size_t n, m;
    char *a = file_read(one, &n), *b = file_read(other, &m);
    assert_int_equal(n, m);
    assert_memory_equal(a, b, n);
    free(a);
    free(b);
}

/* A model.bin is a source, too: of the same type it gives itself, of float32 what the original
 * would. */
static void a_model_bin_is_converted_like_its_original(void **state) {
    (void)state;
    static const char *const types[] = {"f32", "bf16", "q8", "q4", "q4m", "q5", "mxfp4"};
    Place p = place_new();
    char *plain = fixture_path(p.directory, "f32.bin"), *other = fixture_path(p.directory, "b.bin");
    assert_done(RUN("export", "--random", "tiny,dim=96", plain, "-q", "-t", "f32"));
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        assert_done(RUN("export", "--random", "tiny,dim=96", p.target, "-q", "-f", "-t", types[i]));
        assert_done(RUN("export", plain, other, "-q", "-f", "-t", types[i]));
        same_bytes(p.target, other);
        assert_done(RUN("export", p.target, other, "-q", "-f"));
        same_bytes(p.target, other);
    }
    static const char twice[] = "weights of q8 are rounded a second time, to q4";
    assert_done(RUN("export", plain, p.target, "-q", "-f", "-t", "q8"));
    /* of a mixture it names the type of most weights, not the embedding's */
    Process e = RUN("export", p.target, other, "-f", "-t", "q3");
    assert_int_equal(e.status, 0);
    assert_non_null(strstr(e.err, "weights of q8 are rounded a second time, to q3_k:"));
    process_free(&e);
    e = RUN("export", p.target, other, "-f", "-t", "q4");
    assert_int_equal(e.status, 0);
    assert_non_null(strstr(e.err, twice));
    process_free(&e);
    /* run converts it on first use, as other formats. */
    Process r = RUN("run", p.target, "--type", "q4", "--cache-dir", p.directory, "-s", "1", "-n9");
    Process same = RUN("run", other, "-s", "1", "-n", "9");
    assert_int_equal(r.status, 0);
    assert_non_null(strstr(r.err, twice));
    assert_string_equal(r.out, same.out);
    process_free(&r);
    process_free(&same);
    e = RUN("export", plain, plain, "-t", "q8");
    assert_int_equal(e.status, 1);
    assert_non_null(strstr(e.err, "belongs to the source"));
    process_free(&e);
    free(plain);
    free(other);
    place_free(&p);
}

static void the_file_is_the_same_on_any_thread_count(void **state) {
    (void)state;
    static const char *const types[] = {"f32", "q8", "q4"};
    for (size_t i = 0; i < 3; i++) {
        Place p = place_new();
        char *other = fixture_path(p.directory, "other.bin");
        static const char shape[] = "tiny,dim=96,vocab_size=9001,ffn_dim=3001";
        assert_done(
            RUN("export", "--random", shape, p.target, "-q", "-f", "-j", "1", "-t", types[i]));
        assert_done(RUN("export", "--random", shape, other, "-q", "-f", "-j", "5", "-t", types[i]));
        size_t n, m;
        char *a = file_read(p.target, &n), *b = file_read(other, &m);
        assert_int_equal(n, m);
        assert_memory_equal(a, b, n);
        free(a);
        free(b);
        free(other);
        place_free(&p);
    }
}

/* Starts `export` without waiting for it. `limit`, when not 0, is the largest file that it may
 * write. */
static pid_t start_export(const char *target, rlim_t limit) {
    char *command = program_command("export");
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        int null = open("/dev/null", O_RDWR);
        dup2(null, 2);
        if (limit) setrlimit(RLIMIT_FSIZE, &(struct rlimit){limit, limit});
        char line[8192];
        snprintf(line, sizeof line, "exec %s --random tinyllama-1.1b,n_layers=6 -t q4 '%s'",
                 command, target);
        execl("/bin/sh", "sh", "-c", line, (char *)NULL);
        _exit(127);
    }
    free(command);
    return pid;
}

static void a_full_disk_leaves_no_target(void **state) {
    (void)state;
    Place p = place_new();
    int status;
    pid_t pid = start_export(p.target, 1 << 20);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 1);
    assert_int_equal(files_in(p.directory), 0);
    place_free(&p);
}

static void a_full_disk_is_told_with_the_target(void **state) {
    (void)state;
    Place p = place_new();
    char *command = program_command("export"), *line = NULL, *message = NULL;
    assert_true(asprintf(&line, "ulimit -f 100; exec %s --random tiny '%s'", command, p.target) >
                0);
    assert_true(asprintf(&message, "%s: cannot write ", p.target) > 0);
    assert_fails(RUN("/bin/sh", "-c", line), 1, message);
    assert_int_equal(files_in(p.directory), 0);
    free(line);
    free(message);
    free(command);
    place_free(&p);
}

static void an_interrupt_leaves_no_target(void **state) {
    (void)state;
    static const int signals[] = {SIGINT, SIGTERM};
    for (size_t i = 0; i < 2; i++) {
        if (!tier_takes(i, 2, 1)) continue; /* test_planted sends SIGTERM as well */
        Place p = place_new();
        int status;
        pid_t pid = start_export(p.target, 0);
        nanosleep(&(struct timespec){0, 400000000}, NULL);
        kill(pid, signals[i]);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 128 + signals[i]);
        assert_int_equal(files_in(p.directory), 0);
        place_free(&p);
    }
}

static void a_conversion_takes_little_memory(void **state) {
    (void)state;
    Place p = place_new();
    char shape[64];
#if ADDRESS_SANITIZER /* which takes some 100 MB for itself */
    size_t vocabulary = 64000;
#else
    size_t vocabulary = tier_count(24000, 64000, 64000);
#endif
    snprintf(shape, sizeof shape, "tinyllama-1.1b,n_layers=1,vocab_size=%zu", vocabulary);
    assert_done(RUN("export", "--random", shape, p.target, "-q", "-t", "f16"));
    struct rusage usage;
    getrusage(RUSAGE_CHILDREN, &usage);
    struct stat info;
    assert_int_equal(stat(p.target, &info), 0);
    print_message("%.0f MB written, at most %.0f MB of memory\n", (double)info.st_size / 1e6,
                  (double)usage.ru_maxrss / 1e3);
    if (!getenv("VERBATIM_RUNNER") || !*getenv("VERBATIM_RUNNER"))
        assert_true((double)usage.ru_maxrss * 1e3 < 0.6 * (double)info.st_size);
    place_free(&p);
}

/* Replaces entering the sandbox, which this process could not leave again: counts the call and
 * returns an error. */
static Status refuse(void *context, Error *error) {
    (*(int *)context)++;
    return error_set(error, "the sandbox says no");
}

static void rights_are_given_up_before_the_source_is_looked_at(void **state) {
    (void)state;
    Place p = place_new();
    Error error;
    int calls = 0;
    const ConvertOptions options = {.n_threads = 1};
    const ExportOptions wishes = {.ready = refuse, .context = &calls};
    char *source = fixture_path(p.directory, "source.gguf");
    file_write(source, "GGUF and nonsense", 17);
    assert_int_equal(convert_to_path(source, &options, &wishes, p.target, &error), STATUS_FAILED);
    assert_string_equal(error.text, "the sandbox says no");
    assert_int_equal(calls, 1);
    assert_int_equal(files_in(p.directory), 1);
    free(source);
    place_free(&p);
}

static void a_target_may_have_as_long_a_name_as_a_file(void **state) {
    (void)state;
    Place p = place_new();
    char name[NAME_MAX + 2] = "";
    memset(name, 'n', NAME_MAX + 1);
    char *too_long = fixture_path(p.directory, name);
    name[NAME_MAX] = '\0';
    char *longest = fixture_path(p.directory, name);
    assert_fails(RUN("export", "--random", "tiny", too_long, "-q"), 1, "n: File name too long");
    assert_int_equal(files_in(p.directory), 0);
    assert_done(RUN("export", "--random", "tiny", longest, "-q"));
    assert_int_equal(access(longest, F_OK), 0);
    assert_int_equal(files_in(p.directory), 1);
    free(too_long);
    free(longest);
    place_free(&p);
}

/* ---- --kv-heads ---- */

static ModelFile *open_file(const char *path) {
    ModelFile *file;
    Error error;
    if (modelfile_open(&file, path, -1, &error) != STATUS_OK) fail_msg("%s", error.text);
    return file;
}

/* Number (row, col) of a tensor of f32: a vector, or panels of 16 rows (docs/format.md). */
static float number_at(const ModelFile *file, const char *name, size_t row, size_t col) {
    const FileTensor *t = modelfile_find(file, name);
    assert_non_null(t);
    const float *data = modelfile_data(file, t);
    if (t->type == TENSOR_VECTOR) return data[row];
    assert_int_equal(t->type, TENSOR_F32);
    return data[row / 16 * 16 * t->cols + col * 16 + row % 16];
}

static void fewer_key_heads_are_the_means_of_those_they_replace(void **state) {
    (void)state;
    static const char *const names[] = {"layers.0.wk", "layers.1.wv", "layers.0.wk.bias",
                                        "layers.1.wv.bias"};
    enum { DIM = 64, HEAD = 16, HEADS = 4, MERGED = 2 };
    Place p = place_new();
    char *merged = fixture_path(p.directory, "merged.bin");
    assert_done(RUN("export", "--random", "tiny,n_kv_heads=4,bias=1", p.target, "-q"));
    assert_done(RUN("export", p.target, merged, "--kv-heads", "2", "-q"));
    ModelFile *before = open_file(p.target), *after = open_file(merged);
    assert_int_equal(modelfile_config(after)->n_kv_heads, MERGED);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t cols = strstr(names[i], "bias") ? 1 : DIM;
        const FileTensor *t = modelfile_find(after, names[i]);
        assert_int_equal(t->rows * t->cols, MERGED * HEAD * cols);
        for (size_t row = 0; row < MERGED * HEAD; row++)
            for (size_t col = 0; col < cols; col++) {
                size_t first = row / HEAD * (HEADS / MERGED) * HEAD + row % HEAD;
                float a = number_at(before, names[i], first, col),
                      b = number_at(before, names[i], first + HEAD, col);
                assert_true(number_at(after, names[i], row, col) ==
                            (float)(((double)a + (double)b) / 2.0));
            }
    }
    assert_true(number_at(before, "layers.1.wq", 17, 3) == number_at(after, "layers.1.wq", 17, 3));
    modelfile_close(before);
    modelfile_close(after);
    assert_fails(RUN("export", p.target, merged, "--kv-heads", "3", "-q", "-f"), 1,
                 "--kv-heads 3: fewer than the 4 of layer 0, and a divisor of them");
    assert_fails(RUN("export", merged, p.target, "--kv-heads", "4", "-q", "-f"), 1,
                 "--kv-heads 4: fewer than the 2 of layer 0");
    free(merged);
    place_free(&p);
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wrong_command_line_says_so),
        cmocka_unit_test(a_source_that_is_wrong_leaves_no_target),
        cmocka_unit_test(a_failure_leaves_the_old_target),
        cmocka_unit_test(a_target_is_replaced_only_by_force),
        cmocka_unit_test(a_model_bin_is_converted_like_its_original),
        cmocka_unit_test(fewer_key_heads_are_the_means_of_those_they_replace),
        cmocka_unit_test(the_file_is_the_same_on_any_thread_count),
        cmocka_unit_test(a_target_may_have_as_long_a_name_as_a_file),
        cmocka_unit_test(a_full_disk_leaves_no_target),
        cmocka_unit_test(a_full_disk_is_told_with_the_target),
        cmocka_unit_test(an_interrupt_leaves_no_target),
        cmocka_unit_test(a_conversion_takes_little_memory),
        cmocka_unit_test(rights_are_given_up_before_the_source_is_looked_at),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
