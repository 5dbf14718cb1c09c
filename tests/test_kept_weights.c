/* Models larger than the memory: which weights stay, that no bit depends on it, and what --stats
 * says of the disk. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "layers/model_watch.h"
#include "session/kept_weights.h"
#include "system/disk_reads.h"
#include "tests/process.h"
#include "tests/tiny_model.h"

static const char MODEL[] = "models/stories.bin";
static const int32_t IDS[] = {1, 30, 60, 90, 120, 40, 7, 250};
enum { N_IDS = sizeof IDS / sizeof *IDS };

static char *copy; /* of MODEL: its pages are this test's alone */

static int make_copy(void **state) {
    (void)state;
    size_t length;
    char *bytes = file_read(MODEL, &length);
    copy = build_path("tests/kept-weights.bin");
    file_write(copy, bytes, length);
    free(bytes);
    return 0;
}

static int remove_copy(void **state) {
    (void)state;
    unlink(copy);
    free(copy);
    return 0;
}

static void what_stays_fits_the_free_memory_beside_a_matrix_where_the_model_does_not(void **state) {
    (void)state;
    ModelFile *file;
    Error error;
    assert_int_equal(modelfile_open(&file, copy, -1, &error), STATUS_OK);
    double bytes = (double)modelfile_bytes(file);
    assert_true(kept_weights_bytes(file, bytes) == SIZE_MAX);
    assert_true(kept_weights_bytes(file, 1e15) == SIZE_MAX);
    size_t half = kept_weights_bytes(file, bytes / 2);
    assert_true((double)half < bytes / 2 && (double)half > bytes / 5);
    assert_int_equal(kept_weights_bytes(file, 0.0), 0);
    modelfile_close(file);
    assert_int_equal(modelfile_read(&file, copy, -1, &error), STATUS_OK);
    assert_true(kept_weights_bytes(file, bytes / 2) == SIZE_MAX);
    modelfile_close(file);
}

/* Passes of several rows and of one, with this much of the file kept. */
static void assert_same_logits(TinyModel *tiny, size_t kept, const float *expected) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = modelfile_bytes(tiny->file);
    KeptWeights *weights = kept_weights_open(tiny->model, tiny->file, kept, page);
    assert_non_null(weights);
    size_t chunks[] = {N_IDS, 1, 3};
    for (size_t i = 0; i < sizeof chunks / sizeof *chunks; i++) {
        float *logits = tiny_model_run(tiny, 0, 0, IDS, N_IDS, chunks[i]);
        assert_memory_equal(logits, expected, N_IDS * tiny->vocab_size * sizeof *logits);
        free(logits);
    }
    KeptWeightsCounts counts = kept_weights_counts(weights);
    size_t n = counts.multiplied, n_kept = kept / page < n ? kept / page : n;
    assert_true(n > bytes / page / 2 && n < bytes / page);
    assert_int_equal(counts.passing, n - n_kept);
    assert_true(n_kept == n ? counts.given_up == 0 : counts.given_up > counts.passing);
    model_remove_observer(tiny->model, kept_weights_observer(weights));
    kept_weights_close(weights);
}

static void logits_do_not_depend_on_which_weights_stay(void **state) {
    (void)state;
    for (int n_threads = 1; n_threads <= 2; n_threads++) {
        const ModelOptions options = {.n_threads = n_threads};
        TinyModel tiny = tiny_model_map(copy, &options, KV_F16);
        size_t bytes = modelfile_bytes(tiny.file);
        float *expected = tiny_model_run(&tiny, 0, 0, IDS, N_IDS, N_IDS);
        assert_same_logits(&tiny, 0, expected);
        assert_same_logits(&tiny, bytes / 2, expected);
        assert_same_logits(&tiny, bytes, expected);
        free(expected);
        tiny_model_close(&tiny);
    }
}

/* Drops the file's pages from the page cache, where the file system has one that can be dropped. */
static void drop_pages(const char *path) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(fsync(fd), 0);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    close(fd);
}

/* How many pages of the file are in the page cache. */
static size_t pages_in_memory(const char *path) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), n = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    off_t bytes = lseek(fd, 0, SEEK_END);
    assert_true(fd >= 0 && bytes > 0);
    size_t n_pages = ((size_t)bytes + page - 1) / page;
    void *map = mmap(NULL, (size_t)bytes, PROT_READ, MAP_SHARED, fd, 0);
    unsigned char *held = malloc(n_pages);
    assert_true(map != MAP_FAILED && held);
    assert_int_equal(mincore(map, (size_t)bytes, held), 0);
    for (size_t i = 0; i < n_pages; i++) n += held[i] & 1;
    munmap(map, (size_t)bytes);
    close(fd);
    free(held);
    return n;
}

/* Chunks are a multiple of the kernel's large pages here, of which no part can be dropped. */
static void what_is_given_up_leaves_the_memory(void **state) {
    (void)state;
    char *path = build_path("tests/kept-dropped.bin");
    unlink(path);
    Process p =
        RUN("export", "--random", "dim=512,n_layers=1,n_heads=8,ffn_dim=8192,vocab_size=512", path,
            "-q", "-f", "-t", "q8");
    assert_int_equal(p.status, 0);
    process_free(&p);
    size_t all = pages_in_memory(path);
    drop_pages(path);
    if (pages_in_memory(path) > all / 4) {
        print_message("(nothing can be dropped here: a file system in memory)\n");
        unlink(path);
        free(path);
        return;
    }
    const ModelOptions options = {.n_threads = 2};
    TinyModel tiny = tiny_model_map(path, &options, KV_F16);
    size_t bytes = modelfile_bytes(tiny.file);
    for (size_t keeps = 2; keeps-- > 0;) {
        KeptWeights *weights =
            kept_weights_open(tiny.model, tiny.file, keeps ? bytes : 0, (size_t)2 << 20);
        assert_non_null(weights);
        free(tiny_model_run(&tiny, 0, 0, IDS, 2, 1));
        size_t held = pages_in_memory(path);
        if (keeps ? held < all * 3 / 4 : held > all / 4)
            fail_msg("%zu of %zu pages are in memory", held, all);
        model_remove_observer(tiny.model, kept_weights_observer(weights));
        kept_weights_close(weights);
    }
    tiny_model_close(&tiny);
    unlink(path);
    free(path);
}

/* The MiB that --stats tells; `a_token`: of those, what a token took. */
static double told(double *a_token) {
    double all;
    Process p = RUN("run", copy, "-i", "a", "-n", "4", "--ignore-eos", "--stats");
    const char *at = strstr(p.err, "disk: ");
    assert_non_null(at);
    assert_int_equal(sscanf(at, "disk: %lf MiB read, %lf MiB a token\n", &all, a_token), 2);
    process_free(&p);
    return all;
}

static void the_statistics_tell_what_came_from_disk(void **state) {
    (void)state;
    double a_token, before = disk_reads_mib();
    size_t length;
    drop_pages(copy);
    free(file_read(copy, &length));
    double read = disk_reads_mib() - before, file = (double)length / 0x1p20;
    told(&a_token); /* the program itself is in memory from here on */
    double again = told(&a_token);
    assert_true(again < file / 2 && a_token < file / 2);
    if (read < file / 2) {
        print_message("(no disk is read here: a file system in memory or on a network)\n");
        return;
    }
    drop_pages(copy);
    assert_true(told(&a_token) > file / 2);
    assert_true(a_token < file / 2);
}

/* A watch is told of each expert that runs, and asking for its weights changes no bit. */
static void a_mixture_asks_for_its_experts_and_keeps_its_logits(void **state) {
    (void)state;
    char *path = build_path("tests/kept-mixture.bin");
    unlink(path);
    Process p = RUN("export", "--random",
                    "dim=64,n_layers=2,n_heads=4,n_experts=8,n_experts_used=2,ffn_dim=32,"
                    "vocab_size=512",
                    path, "-q");
    assert_int_equal(p.status, 0);
    process_free(&p);
    for (int n_threads = 1; n_threads <= 2; n_threads++) {
        const ModelOptions options = {.n_threads = n_threads};
        TinyModel tiny = tiny_model_map(path, &options, KV_F16);
        float *expected = tiny_model_run(&tiny, 0, 0, IDS, N_IDS, N_IDS);
        size_t bytes = modelfile_bytes(tiny.file);
        for (size_t i = 0; i < 4; i++) { /* with memory for the experts and without */
            size_t kept = i < 2 ? bytes : 0, chunk = i % 2 ? N_IDS : 1;
            KeptWeights *weights = kept_weights_open(tiny.model, tiny.file, kept, 0);
            assert_non_null(weights);
            assert_int_equal(kept_weights_counts(weights).passing, 0);
            drop_pages(path);
            float *logits = tiny_model_run(&tiny, 0, 0, IDS, N_IDS, chunk);
            assert_memory_equal(logits, expected, N_IDS * tiny.vocab_size * sizeof *logits);
            free(logits);
            assert_true((kept_weights_counts(weights).asked > 0) == (kept > 0));
            model_remove_observer(tiny.model, kept_weights_observer(weights));
            kept_weights_close(weights);
        }
        free(expected);
        tiny_model_close(&tiny);
    }
    unlink(path);
    free(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_stays_fits_the_free_memory_beside_a_matrix_where_the_model_does_not),
        cmocka_unit_test(a_mixture_asks_for_its_experts_and_keeps_its_logits),
        cmocka_unit_test(logits_do_not_depend_on_which_weights_stay),
        cmocka_unit_test(what_is_given_up_leaves_the_memory),
        cmocka_unit_test(the_statistics_tell_what_came_from_disk),
    };
    return cmocka_run_group_tests(tests, make_copy, remove_copy);
}
