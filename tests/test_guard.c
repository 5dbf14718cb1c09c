/* No change adds barriers to a pass or memory to a model unnoticed: both are counted for every
 * fixture and compared with the table tests/guard_passes.txt, whose lines a commit changes when the
 * numbers do. A case fails when there are more barriers, or 0.5% more bytes; a field of a structure
 * is less than that. When there are fewer it prints the line to commit. A line has
 *
 *     NAME PROMPT STEP BATCH MEMORY CACHE
 *
 * the barriers of a pass over the whole text, over one more token, and over one token of each of
 * three texts; the bytes that model_open allocates, and those of the cache for the text. All are
 * those of q8 weights, two threads and the kernels for avx2; other machines skip the test.
 *
 *     VERBATIM_GUARD=FILE build/tests/test_guard      writes the new table to FILE (scripts/guard)
 *
 * The linker puts the functions __wrap_NAME below in the place of NAME (Makefile: GUARD_WRAPS), so
 * that nothing is compiled into the library for it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <omp.h>

#include "base/threads.h"
#include "layers/model_watch.h"
#include "tests/fixture.h"
#include "tests/tier.h"
#include "tests/tiny_model.h"

#define TABLE "tests/guard_passes.txt"

enum { THREADS = 2, TEXTS = 3, MEASURES = 5, FIRST_BYTES = 3 };
static const char *const measures[MEASURES] = {"barriers of a prompt", "barriers of a step",
                                               "barriers of a batch's step", "bytes of a model",
                                               "bytes of a text's cache"};

/* ---- Counting ---- */

/* Since the last measurement began; the other tests of a tier run in the same program. */
static atomic_size_t n_barriers, n_regions, n_bytes;

static void count_barrier(void) {
    if (omp_get_thread_num() == 0) n_barriers++;
}

void __real_barrier_wait(Barrier *barrier);
void __wrap_barrier_wait(Barrier *barrier);
void __wrap_barrier_wait(Barrier *barrier) {
    count_barrier();
    __real_barrier_wait(barrier);
}

/* What the compiler makes of `#pragma omp barrier` and of loops without `nowait`. */
#ifdef __clang__
void __real___kmpc_barrier(void *where, int thread);
void __wrap___kmpc_barrier(void *where, int thread);
void __wrap___kmpc_barrier(void *where, int thread) {
    count_barrier();
    __real___kmpc_barrier(where, thread);
}
#else
void __real_GOMP_barrier(void);
void __wrap_GOMP_barrier(void);
void __wrap_GOMP_barrier(void) {
    count_barrier();
    __real_GOMP_barrier();
}

void __real_GOMP_loop_end(void);
void __wrap_GOMP_loop_end(void);
void __wrap_GOMP_loop_end(void) {
    count_barrier();
    __real_GOMP_loop_end();
}

void __real_GOMP_parallel(void (*function)(void *), void *data, unsigned n, unsigned flags);
void __wrap_GOMP_parallel(void (*function)(void *), void *data, unsigned n, unsigned flags);
void __wrap_GOMP_parallel(void (*function)(void *), void *data, unsigned n, unsigned flags) {
    n_regions++;
    __real_GOMP_parallel(function, data, n, flags);
}
#endif

void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes) {
    n_bytes += bytes;
    return __real_malloc(bytes);
}

void *__real_calloc(size_t n, size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes) {
    n_bytes += n * bytes;
    return __real_calloc(n, bytes);
}

void *__real_realloc(void *memory, size_t bytes);
void *__wrap_realloc(void *memory, size_t bytes);
void *__wrap_realloc(void *memory, size_t bytes) {
    n_bytes += bytes;
    return __real_realloc(memory, bytes);
}

void *__real_aligned_alloc(size_t alignment, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes) {
    n_bytes += bytes;
    return __real_aligned_alloc(alignment, bytes);
}

/* ---- Measuring ---- */

/* All passes run on two threads, however small they are. */
static int begin_part(PassObserver *observer, int most, size_t n_rows, double work, double done) {
    (void)observer, (void)most, (void)n_rows, (void)work, (void)done;
    return THREADS;
}
static PassObserver two_threads = {.part_begins = begin_part, .part_work = 1e30};

/* Runs the rows, of which the last wants logits, and returns the barriers of the pass. */
static size_t pass_barriers(Model *model, KvCache *cache, Row *rows, size_t n, float *logits) {
    Error error;
    n_barriers = n_regions = 0;
    rows[n - 1].wants_logits = true;
    if (model_forward(model, cache, rows, n, logits, &error) != STATUS_OK)
        fail_msg("%s", error.text);
#ifndef __clang__
    assert_int_equal(n_regions, 1);
#endif
    return n_barriers;
}

static void measure_passes(const Fixture *f, Model *model, size_t *values) {
    Error error;
    KvCache *cache;
    size_t n = f->n_ids < 512 ? f->n_ids : 512;
    float *logits = malloc(f->vocab_size * sizeof *logits);
    Row *rows = calloc(n, sizeof *rows);
    assert_true(logits && rows);
    model_add_observer(model, &two_threads);
    KvShape shape = model_kv_shape(model, KV_F16);
    n_bytes = 0;
    if (kvcache_new(&cache, &shape, TEXTS, 0, &error) != STATUS_OK) fail_msg("%s", error.text);
    for (size_t i = 0; i < n - 1; i++) rows[i] = (Row){0, (int32_t)i, f->ids[i], false};
    values[0] = pass_barriers(model, cache, rows, n - 1, logits);
    rows[0] = (Row){0, (int32_t)n - 1, f->ids[n - 1], false};
    values[1] = pass_barriers(model, cache, rows, 1, logits);
    values[4] = n_bytes; /* of the cache's pages: a pass allocates nothing else */
    for (int32_t i = 0; i < TEXTS; i++) {
        kvcache_reset(cache, i, 0);
        rows[i] = (Row){i, 0, f->ids[0], false};
    }
    values[2] = pass_barriers(model, cache, rows, TEXTS, logits);
    kvcache_free(cache);
    free(rows);
    free(logits);
}

static void measure(const char *name, size_t values[MEASURES]) {
    Error error;
    Model *model;
    Fixture f = fixture_load(name);
    char *source = fixture_source(&f);
    ModelOptions options = {
        .isa = isa_choose("avx2", &error), .n_threads = THREADS, .context = f.context};
    TinyModel tiny = tiny_model_open(source, "q8", &options, KV_F16);
    fixture_remove_directory(source);
    n_bytes = 0;
    if (model_open(&model, tiny.file, &options, &error) != STATUS_OK) fail_msg("%s", error.text);
    values[3] = n_bytes;
    measure_passes(&f, model, values);
    model_close(model);
    tiny_model_close(&tiny);
    fixture_free(&f);
}

/* ---- The table ---- */

static void print_line(FILE *out, const char *name, const size_t values[MEASURES]) {
    fprintf(out, "%-28s", name);
    for (size_t i = 0; i < MEASURES; i++) fprintf(out, " %zu", values[i]);
    fputc('\n', out);
}

/* Finds the line of a fixture; returns false when the table has none. */
static bool table_find(const char *name, size_t values[MEASURES]) {
    FILE *file = fopen(TABLE, "r");
    char line[256], found[128];
    bool is_found = false;
    if (!file) return false;
    while (!is_found && fgets(line, sizeof line, file))
        is_found = sscanf(line, "%127s %zu %zu %zu %zu %zu", found, &values[0], &values[1],
                          &values[2], &values[3], &values[4]) == 1 + MEASURES &&
                   strcmp(found, name) == 0;
    fclose(file);
    return is_found;
}

/* Whether the i-th measure is more, or fewer, than it was. */
static bool is_more(size_t i, size_t value, size_t before) {
    return value > before + (i >= FIRST_BYTES ? before / 200 : 0);
}
static bool is_fewer(size_t i, size_t value, size_t before) {
    return is_more(i, before, value);
}

static void neither_barriers_nor_memory_grow_unnoticed(void **state) {
    const char *name = *state;
    size_t expected[MEASURES] = {0}, values[MEASURES] = {0};
    Error error;
    if (!isa_choose("avx2", &error)) skip();
    bool is_found = table_find(name, expected), grows = false, shrinks = false;
    measure(name, values);
    for (size_t i = 0; is_found && i < MEASURES; i++) {
        bool more = is_more(i, values[i], expected[i]), fewer = is_fewer(i, values[i], expected[i]);
        if (more || fewer)
            printf("%s: %s: %zu, %s than the %zu of " TABLE "\n", name, measures[i], values[i],
                   more ? "more" : "fewer", expected[i]);
        grows = grows || more;
        shrinks = shrinks || fewer;
    }
    if (is_found && !grows && !shrinks) return;
    printf("the line of " TABLE " would be (scripts/guard --update writes it):\n");
    print_line(stdout, name, values);
    if (!is_found || grows) fail_msg("%s: %s", name, grows ? "more than before" : "has no line");
}

/* Lines without more or fewer of anything stay as they are. */
static int write_table(const char *path, char **names) {
    FILE *out = fopen(path, "w");
    if (!out) return 1;
    fputs("# fixture; barriers of a prompt, of a step, of a batch's step; bytes of a model, of a "
          "text's cache\n# (tests/test_guard.c; written by scripts/guard --update)\n",
          out);
    for (size_t i = 0; names[i]; i++) {
        size_t before[MEASURES] = {0}, values[MEASURES];
        bool is_same = table_find(names[i], before);
        measure(names[i], values);
        for (size_t k = 0; k < MEASURES; k++)
            is_same =
                is_same && !is_more(k, values[k], before[k]) && !is_fewer(k, values[k], before[k]);
        print_line(out, names[i], is_same ? before : values);
    }
    return fclose(out) == 0 ? 0 : 1;
}

int main(void) {
    char **names = fixture_names();
    struct CMUnitTest tests[1024];
    size_t n = 0;
    const char *path = getenv("VERBATIM_GUARD");
    if (path) return write_table(path, names);
    for (size_t i = 0; names[i]; i++) {
        if (!tier_takes(i, 8, 1)) continue;
        tests[n++] = (struct CMUnitTest){.name = names[i],
                                         .test_func = neither_barriers_nor_memory_grow_unnoticed,
                                         .initial_state = names[i]};
    }
    int failed = _cmocka_run_group_tests("guard", tests, n, NULL, NULL);
    for (size_t i = 0; names[i]; i++) free(names[i]);
    free(names);
    return failed;
}
