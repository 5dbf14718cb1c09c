/* prefill() gives the same logits for any size of chunks, and stops when it is interrupted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

#include "core/prefill.h"
#include "layers/model_watch.h"
#include "session/generate.h"
#include "tests/tiny_model.h"

enum { LENGTH = 23, SEQUENCE = 3 };

typedef struct Seen {
    float *logits; /* [LENGTH][vocab_size] */
    size_t vocab_size, n_logits, n_chunks, done;
    size_t stop_after; /* number of chunks; 0: never */
    sig_atomic_t interrupted;
    size_t interrupt_after;
} Seen;

static Status see(void *context, const PrefillChunk *chunk, Error *error) {
    Seen *seen = context;
    (void)error;
    assert_int_equal(chunk->rows[chunk->n - 1].position, chunk->done - 1);
    assert_int_equal(chunk->rows[0].sequence, SEQUENCE);
    assert_int_equal(chunk->total, LENGTH);
    assert_int_equal(chunk->done, seen->done + chunk->n);
    memcpy(seen->logits + (chunk->done - chunk->n_logits) * seen->vocab_size, chunk->logits,
           chunk->n_logits * seen->vocab_size * sizeof *seen->logits);
    seen->done = chunk->done;
    seen->n_logits += chunk->n_logits;
    if (++seen->n_chunks == seen->interrupt_after) seen->interrupted = 1;
    return seen->n_chunks == seen->stop_after ? STATUS_INTERRUPTED : STATUS_OK;
}

/* Prefills LENGTH tokens in chunks of max_rows into an emptied cache. `seen` collects the logits
 * from row first_wanted on. */
static Status run(TinyModel *tiny, Seen *seen, const int32_t *ids, size_t max_rows,
                  size_t first_wanted) {
    Error error;
    float *logits = malloc(LENGTH * tiny->vocab_size * sizeof *logits);
    seen->logits = calloc(LENGTH * tiny->vocab_size, sizeof *seen->logits);
    seen->vocab_size = tiny->vocab_size;
    assert_non_null(logits);
    assert_non_null(seen->logits);
    kvcache_reset(tiny->cache, SEQUENCE, 0);
    const Prefill p = {.sequence = SEQUENCE,
                       .ids = ids,
                       .n = LENGTH,
                       .first_wanted = first_wanted,
                       .max_rows = max_rows,
                       .logits = logits,
                       .interrupted = &seen->interrupted,
                       .after_chunk = see,
                       .context = seen};
    Status status = prefill(tiny->model, tiny->cache, &p, &error);
    free(logits);
    return status;
}

typedef struct Setup {
    TinyModel tiny;
    int32_t ids[LENGTH];
    float *expected; /* [LENGTH][vocab_size] */
} Setup;

static int open_model(void **state) {
    Setup *s = calloc(1, sizeof *s);
    const ModelOptions options = {.n_threads = 2};
    s->tiny = tiny_model_open("random:tiny", NULL, &options, KV_F32);
    for (size_t i = 0; i < LENGTH; i++) s->ids[i] = (int32_t)((i * 37 + 5) % s->tiny.vocab_size);
    s->expected = tiny_model_run(&s->tiny, 0, 0, s->ids, LENGTH, 1);
    *state = s;
    return 0;
}

static int close_model(void **state) {
    Setup *s = *state;
    free(s->expected);
    tiny_model_close(&s->tiny);
    free(s);
    return 0;
}

static void wanted_logits_are_those_of_one_row_at_a_time(void **state) {
    Setup *s = *state;
    static const size_t chunks[] = {0, 1, 5, LENGTH - 1, LENGTH};
    static const size_t wanted[] = {0, 7, LENGTH - 1, LENGTH};
    for (size_t c = 0; c < sizeof chunks / sizeof *chunks; c++)
        for (size_t w = 0; w < sizeof wanted / sizeof *wanted; w++) {
            Seen seen = {0};
            size_t first = wanted[w] * s->tiny.vocab_size, n = LENGTH - wanted[w];
            assert_int_equal(run(&s->tiny, &seen, s->ids, chunks[c], wanted[w]), STATUS_OK);
            assert_int_equal(seen.n_logits, n);
            assert_int_equal(seen.done, LENGTH);
            assert_memory_equal(seen.logits + first, s->expected + first,
                                n * s->tiny.vocab_size * sizeof *seen.logits);
            assert_int_equal(kvcache_next(s->tiny.cache, SEQUENCE), LENGTH);
            free(seen.logits);
        }
}

static void an_interruption_stops_between_two_chunks_and_not_after_the_last(void **state) {
    Setup *s = *state;
    Seen middle = {.interrupt_after = 2}, last = {.interrupt_after = 5};
    assert_int_equal(run(&s->tiny, &middle, s->ids, 5, 0), STATUS_INTERRUPTED);
    assert_int_equal(middle.n_chunks, 2);
    assert_int_equal(kvcache_next(s->tiny.cache, SEQUENCE), 10); /* finished chunks stay */
    assert_int_equal(run(&s->tiny, &last, s->ids, 5, 0), STATUS_OK);
    assert_int_equal(last.n_chunks, 5);
    free(middle.logits);
    free(last.logits);
}

static void the_callback_can_end_it(void **state) {
    Setup *s = *state;
    Seen seen = {.stop_after = 3};
    assert_int_equal(run(&s->tiny, &seen, s->ids, 4, 0), STATUS_INTERRUPTED);
    assert_int_equal(seen.done, 12);
    free(seen.logits);
}

static void progress_moves_within_a_chunk(void **state) {
    Setup *s = *state;
    enum { TOKENS = 120 }; /* one chunk */
    AdaptiveThreads threads;
    const Session session = {.model = s->tiny.model, .threads = &threads, .shows_progress = true};
    adaptive_threads_init(&threads, NULL);
    threads.observer.part_work = 1.0; /* each layer is a part */
    int32_t ids[TOKENS];
    float *logits = malloc(s->tiny.vocab_size * sizeof *logits);
    char shown[1000] = "";
    Error error;
    assert_non_null(logits);
    for (int i = 0; i < TOKENS; i++) ids[i] = i;
    KvCache *cache;
    const KvShape shape = model_kv_shape(s->tiny.model, KV_F32);
    assert_int_equal(kvcache_new(&cache, &shape, 1, 0, &error), STATUS_OK);
    int screen = memfd_create("screen", MFD_CLOEXEC), before = dup(STDERR_FILENO);
    dup2(screen, STDERR_FILENO);
    model_add_observer(s->tiny.model, &threads.observer);
    Status status = generate_prefill(&session, cache, NULL, ids, TOKENS, logits, &error);
    model_remove_observer(s->tiny.model, &threads.observer);
    dup2(before, STDERR_FILENO);
    close(before);
    assert_int_equal(status, STATUS_OK);
    assert_true(pread(screen, shown, sizeof shown - 1, 0) > 0);
    close(screen);
    const char *half = strstr(shown, " 50%"); /* one layer of two */
    assert_non_null(half);
    assert_non_null(strstr(half, " 100%"));
    kvcache_free(cache);
    free(logits);
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wanted_logits_are_those_of_one_row_at_a_time),
        cmocka_unit_test(an_interruption_stops_between_two_chunks_and_not_after_the_last),
        cmocka_unit_test(the_callback_can_end_it),
        cmocka_unit_test(progress_moves_within_a_chunk),
    };
    return cmocka_run_group_tests(tests, open_model, close_model);
}
