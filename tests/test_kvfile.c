#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <sys/stat.h>
#include <unistd.h>

#include "modes/chat/kvfile.h"
#include "core/numeric.h"

enum { N = 200, MODEL = 0x1234 };

static const KvShape shape = {
    .type = KV_F16,
    .n_layers = 3,
    .layers = {{.n_kv_heads = 1, .key_dim = 8, .value_dim = 8},
               {.n_kv_heads = 1, .key_dim = 8, .value_dim = 8},
               {.n_kv_heads = 1, .key_dim = 8, .value_dim = 6, .values_in_keys = true}}};
static int32_t tokens[N];

static void append(KvCache *cache, int32_t token) {
    Error error;
    float k[8], v[8];
    assert_int_equal(kvcache_reserve(cache, 0, 1, &error), STATUS_OK);
    for (size_t l = 0; l < shape.n_layers; l++) {
        for (size_t i = 0; i < 8; i++) k[i] = (float)(token + (int)i), v[i] = (float)(token * 2);
        kvcache_store(cache, 0, kvcache_next(cache, 0), l, k, v);
    }
    kvcache_commit(cache, 0, 1);
}

static KvCache *cache_with(size_t n) {
    KvCache *cache;
    Error error;
    assert_int_equal(kvcache_new(&cache, &shape, 1, 0, &error), STATUS_OK);
    kvcache_reset(cache, 0, 0);
    for (size_t i = 0; i < n; i++) append(cache, tokens[i]);
    return cache;
}

/* An unlinked file, whose descriptor is duplicated for each kvfile_open. */
static int new_file(void) {
    char path[] = "/tmp/verbatim-kvfile-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    unlink(path);
    for (int32_t i = 0; i < N; i++) tokens[i] = i * 3 % 101;
    return fd;
}

static KvFile *open_file(int fd, uint64_t fingerprint, bool expect_begun) {
    KvFile *file;
    Error error;
    bool begun;
    assert_int_equal(kvfile_open(&file, "session.kv", dup(fd), fingerprint, &shape, &begun, &error),
                     STATUS_OK);
    assert_int_equal(begun, expect_begun);
    return file;
}

static void save(int fd, size_t n) {
    Error error;
    KvCache *cache = cache_with(n);
    KvFile *file;
    bool begun;
    assert_int_equal(kvfile_open(&file, "session.kv", dup(fd), MODEL, &shape, &begun, &error),
                     STATUS_OK);
    assert_int_equal(kvfile_save(file, cache, 0, tokens, &error), STATUS_OK);
    kvfile_close(file);
    kvcache_free(cache);
}

/* Loads the n tokens, compares the pages with what the cache held, and returns how many tokens came
 * back. */
static size_t load(int fd, size_t n) {
    Error error;
    KvCache *want = cache_with(n), *cache = cache_with(0);
    KvFile *file = open_file(fd, MODEL, false);
    size_t loaded = 0;
    assert_int_equal(kvfile_load(file, cache, 0, tokens, n, &loaded, &error), STATUS_OK);
    assert_int_equal(kvcache_next(cache, 0), (int)loaded);
    for (size_t i = 0; i < loaded; i++) {
        for (size_t l = 0; l < shape.n_layers; l++) {
            const uint16_t *a = kvcache_keys(want, 0, i / KV_PAGE, l, 0);
            const uint16_t *b = kvcache_keys(cache, 0, i / KV_PAGE, l, 0);
            for (size_t d = 0; d < 8; d++)
                assert_int_equal(a[d * KV_PAGE + i % KV_PAGE], b[d * KV_PAGE + i % KV_PAGE]);
            if (shape.layers[l].values_in_keys) continue;
            a = kvcache_values(want, 0, i / KV_PAGE, l, 0);
            b = kvcache_values(cache, 0, i / KV_PAGE, l, 0);
            assert_memory_equal(a + i % KV_PAGE * 8, b + i % KV_PAGE * 8, 16);
        }
    }
    kvfile_close(file);
    kvcache_free(want);
    kvcache_free(cache);
    return loaded;
}

static off_t size_of(int fd) {
    struct stat status;
    fstat(fd, &status);
    return status.st_size;
}

static void what_was_saved_comes_back(void **state) {
    (void)state;
    int fd = new_file();
    save(fd, 150);
    assert_int_equal(load(fd, 150), 150);
    assert_int_equal(load(fd, 100), 100); /* a prefix of the tokens */
    assert_int_equal(load(fd, 200), 150);
    close(fd);
}

static void saving_again_costs_only_what_is_new(void **state) {
    (void)state;
    int fd = new_file();
    save(fd, 130);
    off_t before = size_of(fd);
    save(fd, 130);
    assert_int_equal(size_of(fd), before);
    save(fd, 135);
    off_t page = size_of(fd) - before;
    assert_true(page > 0 && page * 3 <= before + 64); /* one page of the three */
    assert_int_equal(load(fd, 135), 135);
    close(fd);
}

static void other_words_after_an_undo_replace_the_old_ones(void **state) {
    (void)state;
    int fd = new_file();
    save(fd, 200);
    tokens[70] = 55; /* the text differs from the second page on */
    assert_int_equal(load(fd, 200), 70);
    save(fd, 150);
    assert_int_equal(load(fd, 150), 150);
    tokens[70] = 70 * 3 % 101; /* the first text again: the file holds both */
    assert_int_equal(load(fd, 200), 200);
    close(fd);
}

static void another_model_begins_anew(void **state) {
    (void)state;
    int fd = new_file();
    save(fd, 100);
    kvfile_close(open_file(fd, MODEL + 1, true));
    kvfile_close(open_file(fd, MODEL, true));
    /* What a program of the revision before wrote is told from another model's. */
    kvfile_close(open_file(fd, MODEL - 1, true));
    KvFile *file = open_file(fd, MODEL, true);
    assert_int_equal(kvfile_other_revision(file), NUMERIC_REVISION - 1);
    kvfile_close(file);
    kvfile_close(open_file(fd, MODEL + 123456, true));
    file = open_file(fd, MODEL, true);
    assert_int_equal(kvfile_other_revision(file), 0);
    kvfile_close(file);
    assert_int_equal(load(fd, 100), 0);
    close(fd);
}

static void any_damaged_byte_costs_at_most_its_page(void **state) {
    (void)state;
    int fd = new_file();
    save(fd, 200);
    off_t size = size_of(fd);
    for (off_t at = 40; at < size; at += 97) {
        unsigned char byte, wrong;
        assert_int_equal(pread(fd, &byte, 1, at), 1);
        wrong = byte ^ 0x40;
        assert_int_equal(pwrite(fd, &wrong, 1, at), 1);
        size_t loaded = load(fd, 200);
        off_t page = (at - 40) / ((size - 40) / 4);
        assert_int_equal(loaded, page * KV_PAGE);
        assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    }
    assert_int_equal(load(fd, 200), 200);
    close(fd);
}

static void a_file_cut_anywhere_gives_its_whole_pages(void **state) {
    (void)state;
    int fd = new_file();
    save(fd, 200);
    for (off_t size = size_of(fd) - 1; size >= 40; size -= 53) {
        assert_int_equal(ftruncate(fd, size), 0);
        size_t loaded = load(fd, 200);
        assert_int_equal(loaded % KV_PAGE, 0);
        assert_true(loaded < 200);
    }
    save(fd, 200);
    assert_int_equal(load(fd, 200), 200);
    close(fd);
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_saved_comes_back),
        cmocka_unit_test(saving_again_costs_only_what_is_new),
        cmocka_unit_test(other_words_after_an_undo_replace_the_old_ones),
        cmocka_unit_test(another_model_begins_anew),
        cmocka_unit_test(any_damaged_byte_costs_at_most_its_page),
        cmocka_unit_test(a_file_cut_anywhere_gives_its_whole_pages),
    };
    return cmocka_run_group_tests_name("kvfile", tests, NULL, NULL);
}
