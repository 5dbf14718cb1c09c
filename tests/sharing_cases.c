#include "tests/sharing_cases.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "kvcache/kvcache_fork.h"
#include "kvcache/kvcache_saved.h"
#include "kvcache/kvcache_sizes.h"
#include "kvcache/kvcache_snapshots.h"
#include "kvcache/kvpages.h"
#include "modes/chat/kvfile.h"
#include "draft/drafter.h"
#include "core/prefill.h"
#include "tests/fixture.h"
#include "tests/tiny_model.h"

enum { CONTEXT = 400, SEQUENCES = 4, FRESH = 7, MODEL = 77 };

typedef struct Mix {
    TinyModel tiny;
    uint32_t seed;
    int32_t texts[SEQUENCES][CONTEXT]; /* what each sequence of the cache holds */
    size_t lengths[SEQUENCES];
    int32_t saved[CONTEXT]; /* the text that the file holds */
    size_t n_saved;
    KvFile *file;
    float *logits, *expected; /* [DRAFTS_MAX + 1][vocab_size], [vocab_size] */
} Mix;

static uint32_t next_random(Mix *m, uint32_t n) {
    m->seed = m->seed * 1664525u + 1013904223u;
    return (m->seed >> 8) % n;
}

/* Few different tokens, so that texts have something in common now and then. */
static int32_t any_token(Mix *m) {
    return 3 + (int32_t)next_random(m, 4);
}

static Status run(Mix *m, KvCache *cache, int32_t sequence, const int32_t *ids, size_t n,
                  size_t max_rows, float *logits) {
    Error error;
    const Prefill p = {.sequence = sequence,
                       .ids = ids,
                       .n = n,
                       .first_wanted = n - 1,
                       .max_rows = max_rows,
                       .logits = logits};
    return prefill(m->tiny.model, cache, &p, &error);
}

/* Compares the logits of the last of n tokens with a new run's. */
static void assert_as_fresh(Mix *m, const int32_t *text, size_t n, const float *logits) {
    kvcache_reset(m->tiny.cache, FRESH, 0);
    assert_int_equal(run(m, m->tiny.cache, FRESH, text, n, 0, m->expected), STATUS_OK);
    kvcache_reset(m->tiny.cache, FRESH, 0);
    assert_memory_equal(m->expected, logits, m->tiny.vocab_size * sizeof *logits);
}

/* Runs what the cache lacks of the sequence's text, at least its last token, and checks its logits.
 * When memory runs out the sequence is emptied. */
static void catch_up(Mix *m, KvCache *cache, int32_t s) {
    size_t n = m->lengths[s];
    if (n == 0) return;
    if (kvcache_next(cache, s) >= (int32_t)n) kvcache_truncate(cache, s, (int32_t)n - 1);
    size_t next = (size_t)kvcache_next(cache, s);
    assert_true(next < n);
    if (run(m, cache, s, m->texts[s] + next, n - next, 1 + next_random(m, 130), m->logits) !=
        STATUS_OK) {
        kvcache_reset(cache, s, 0);
        m->lengths[s] = 0;
        return;
    }
    assert_as_fresh(m, m->texts[s], n, m->logits);
}

static void extend(Mix *m, int32_t s) {
    size_t most = CONTEXT - DRAFTS_MAX - 1, n = 1 + next_random(m, 120);
    for (; n > 0 && m->lengths[s] < most; n--) m->texts[s][m->lengths[s]++] = any_token(m);
}

static void go_back(Mix *m, KvCache *cache, int32_t s) {
    size_t n = m->lengths[s];
    if (n == 0) return;
    size_t to = next_random(m, 2) ? next_random(m, (uint32_t)n) : n - 1 - next_random(m, 2) * n / 8;
    kvcache_truncate(cache, s, (int32_t)to);
    assert_true(kvcache_next(cache, s) <= (int32_t)to);
    m->lengths[s] = to;
}

static void fork_to(Mix *m, KvCache *cache, int32_t from, int32_t to) {
    Error error;
    size_t n = m->lengths[from];
    if (from == to || n == 0) return;
    size_t position = next_random(m, 2) ? n : next_random(m, (uint32_t)n);
    m->lengths[to] = 0;
    if (kvcache_fork(cache, from, (int32_t)position, to, &error) != STATUS_OK) {
        kvcache_reset(cache, to, 0);
        return;
    }
    assert_true(kvcache_next(cache, to) <= (int32_t)position);
    m->lengths[to] = position;
    memcpy(m->texts[to], m->texts[from], position * sizeof(int32_t));
}

/* A pass with drafts, of which the text takes some. */
static void draft(Mix *m, KvCache *cache, int32_t s) {
    Error error;
    Row rows[DRAFTS_MAX + 1];
    size_t n = m->lengths[s], n_drafts = 1 + next_random(m, DRAFTS_MAX);
    size_t certain = next_random(m, 2);
    if (n == 0 || kvcache_next(cache, s) != (int32_t)n || n + n_drafts > CONTEXT) return;
    if (!kvcache_hold(cache, s, certain)) return;
    for (size_t i = 0; i < n_drafts; i++) {
        m->texts[s][n + i] = any_token(m);
        rows[i] = (Row){s, (int32_t)(n + i), m->texts[s][n + i], true};
    }
    if (model_forward(m->tiny.model, cache, rows, n_drafts, m->logits, &error) != STATUS_OK) return;
    size_t taken = 1 + next_random(m, (uint32_t)n_drafts);
    if (n + taken > CONTEXT - DRAFTS_MAX - 1) taken = 1;
    assert_as_fresh(m, m->texts[s], n + taken, m->logits + (taken - 1) * m->tiny.vocab_size);
    kvcache_truncate(cache, s, (int32_t)(n + taken));
    /* At most the rows after the held states again. */
    assert_true(kvcache_next(cache, s) >= (int32_t)(n + certain));
    m->lengths[s] = n + taken;
    if (m->lengths[s] < CONTEXT - DRAFTS_MAX - 1) return;
    m->lengths[s] = n;
    kvcache_truncate(cache, s, (int32_t)n);
}

static void save(Mix *m, KvCache *cache, int32_t s) {
    Error error;
    if (kvcache_next(cache, s) != (int32_t)m->lengths[s]) return;
    if (kvfile_save(m->file, cache, s, m->texts[s], &error) != STATUS_OK)
        fail_msg("%s", error.text);
    m->n_saved = m->lengths[s];
    memcpy(m->saved, m->texts[s], m->n_saved * sizeof(int32_t));
}

/* Loads what the file has of the saved text, or of its beginning. */
static void load(Mix *m, KvCache *cache, int32_t s) {
    Error error;
    size_t loaded = 0, n = m->n_saved;
    if (n == 0) return;
    if (next_random(m, 2)) n = 1 + next_random(m, (uint32_t)n);
    kvcache_reset(cache, s, 0);
    memcpy(m->texts[s], m->saved, n * sizeof(int32_t));
    m->lengths[s] = n;
    if (kvfile_load(m->file, cache, s, m->saved, n, &loaded, &error) != STATUS_OK) return;
    assert_int_equal(kvcache_next(cache, s), (int)loaded);
    if (n == m->n_saved && next_random(m, 3) > 0) return;
    m->lengths[s] = loaded; /* other words follow */
}

static void step(Mix *m, KvCache *cache) {
    int32_t s = (int32_t)next_random(m, SEQUENCES);
    switch (next_random(m, 10)) {
    case 0:
    case 1:
        go_back(m, cache, s);
        break;
    case 2:
        fork_to(m, cache, (int32_t)next_random(m, SEQUENCES), s);
        break;
    case 3:
        save(m, cache, s);
        break;
    case 4:
        load(m, cache, s);
        break;
    case 5:
        kvcache_mark(cache, s, kvcache_next(cache, s));
        break;
    case 6:
        kvcache_limit_snapshots(cache, next_random(m, 3) * (size_t)200000);
        break;
    case 7:
    case 8:
        draft(m, cache, s);
        break;
    default:
        kvcache_mark(cache, s, kvcache_next(cache, s));
        extend(m, s);
    }
    if (m->lengths[s] == 0 || next_random(m, 3) == 0) extend(m, s);
    catch_up(m, cache, s);
    assert_true(kvcache_n_snapshots(cache, s) <= 16);
    assert_true(cache->spare_bytes <= cache->max_bytes - cache->bytes);
}

static void mix_with(Mix *m, size_t max_bytes, size_t n_steps) {
    Error error;
    KvCache *cache;
    bool begun;
    const KvShape *shape = kvcache_shape(m->tiny.cache);
    memset(m->lengths, 0, sizeof m->lengths);
    m->n_saved = 0;
    assert_int_equal(kvcache_new(&cache, shape, SEQUENCES, max_bytes, &error), STATUS_OK);
    kvcache_limit_snapshots(cache, SIZE_MAX);
    int fd = memfd_create("sharing", 0);
    assert_true(fd >= 0);
    if (kvfile_open(&m->file, "memory", fd, MODEL, shape, &begun, &error) != STATUS_OK)
        fail_msg("%s", error.text);
    for (size_t i = 0; i < n_steps; i++) step(m, cache);
    assert_true(max_bytes == 0 || kvcache_bytes_used(cache) <= max_bytes);
    for (int32_t s = 0; s < SEQUENCES; s++) kvcache_reset(cache, s, 0);
    assert_int_equal(kvcache_bytes_used(cache), 0);
    kvfile_close(m->file);
    kvcache_free(cache);
}

void sharing_mix(const char *model, uint32_t seed, size_t n_steps) {
    static const char prefix[] = "fixture:";
    const ModelOptions options = {.n_threads = 1, .context = CONTEXT, .max_rows = 130};
    Mix *m = calloc(1, sizeof *m);
    assert_non_null(m);
    m->seed = seed;
    if (strncmp(model, prefix, strlen(prefix)) == 0) {
        Fixture fixture = fixture_load(model + strlen(prefix));
        char *source = fixture_source(&fixture);
        m->tiny = tiny_model_open(source, NULL, &options, KV_F16);
        fixture_remove_directory(source);
        fixture_free(&fixture);
    } else {
        m->tiny = tiny_model_open(model, NULL, &options, KV_F16);
    }
    m->logits = malloc((DRAFTS_MAX + 1) * m->tiny.vocab_size * sizeof *m->logits);
    m->expected = malloc(m->tiny.vocab_size * sizeof *m->expected);
    assert_true(m->logits && m->expected);
    mix_with(m, 0, n_steps);
    mix_with(m, 3 * kvcache_sequence_bytes(kvcache_shape(m->tiny.cache), CONTEXT), n_steps);
    tiny_model_close(&m->tiny);
    free(m->logits);
    free(m->expected);
    free(m);
}
