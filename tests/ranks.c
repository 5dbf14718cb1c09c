#include "tests/ranks.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/thread_wire.h"

typedef struct RankThread {
    pthread_t thread;
    Wire *wire;
    const char *path;
    ModelOptions options;
} RankThread;

/* Not with cmocka, whose failures leave the thread that began the test. */
static void *follow(void *of_thread) {
    RankThread *t = of_thread;
    Error error;
    Rank *rank = NULL;
    ModelFile *file = NULL;
    Model *model = NULL;
    if (rank_new(&rank, t->wire, &error) != STATUS_OK ||
        modelfile_open(&file, t->path, -1, &error) != STATUS_OK)
        wire_fail(t->wire, "%s", error.text);
    t->options.exchange = rank_exchange(rank);
    if (model_open(&model, file, &t->options, &error) != STATUS_OK ||
        follower_run(t->wire, model, &error) != STATUS_OK)
        wire_fail(t->wire, "%s", error.text);
    model_close(model);
    modelfile_close(file);
    rank_free(rank);
    return NULL;
}

Ranks ranks_open(const char *path, size_t n, const ModelOptions *options, KvType kv_type) {
    Error error;
    Ranks r = {.n = n, .wires = thread_wires_new(n), .threads = calloc(n, sizeof *r.threads)};
    ModelOptions own = *options;
    assert_non_null(r.threads);
    assert_int_equal(rank_new(&r.first, r.wires[0], &error), STATUS_OK);
    own.exchange = rank_exchange(r.first);
    r.tiny = tiny_model_map(path, &own, kv_type);
    r.divided = *rank_divided(r.first);
    for (size_t i = 1; i < n; i++) {
        r.threads[i] = (RankThread){.wire = r.wires[i], .path = path, .options = *options};
        assert_int_equal(pthread_create(&r.threads[i].thread, NULL, follow, &r.threads[i]), 0);
    }
    return r;
}

void ranks_close(Ranks *r) {
    tiny_model_close(&r->tiny);
    leader_say(rank_leader(r->first), false);
    for (size_t i = 1; i < r->n; i++) pthread_join(r->threads[i].thread, NULL);
    rank_free(r->first);
    thread_wires_free(r->wires);
    free(r->threads);
}
