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
    const OptionList *adapters; /* of --lora */
} RankThread;

static Status start_adapters(AdapterOpening *opening, Session *session, const OptionList *list,
                             Error *error) {
    if (adapter_opening_begin(opening, list, error) != STATUS_OK) return STATUS_FAILED;
    return adapter_opening_start(opening, session, error);
}

/* Not with cmocka, whose failures leave the thread that began the test. */
static void *follow(void *of_thread) {
    RankThread *t = of_thread;
    Error error;
    Rank *rank = NULL;
    ModelFile *file = NULL;
    Session session = {0};
    AdapterOpening opening = {0};
    if (rank_new(&rank, t->wire, &error) != STATUS_OK ||
        modelfile_open(&file, t->path, -1, &error) != STATUS_OK)
        wire_fail(t->wire, "%s", error.text);
    t->options.exchange = rank_exchange(rank);
    session.file = file;
    if (t->adapters->n > 0) rank_send_floats(rank);
    if (model_open(&session.model, file, &t->options, &error) != STATUS_OK ||
        start_adapters(&opening, &session, t->adapters, &error) != STATUS_OK)
        wire_fail(t->wire, "%s", error.text);
    const Following following = {session.model, opening.adapters.lora, rank_observed(rank),
                                 rank_begun(rank)};
    if (steps_follower_run(t->wire, &following, &error) != STATUS_OK)
        wire_fail(t->wire, "%s", error.text);
    adapter_opening_close(&opening);
    model_close(session.model);
    modelfile_close(file);
    rank_free(rank);
    return NULL;
}

Ranks ranks_open(const char *path, size_t n, const ModelOptions *options, KvType kv_type) {
    static const OptionList none = {.n = 0};
    return ranks_open_adapted(path, n, options, kv_type, &none);
}

Ranks ranks_open_adapted(const char *path, size_t n, const ModelOptions *options, KvType kv_type,
                         const OptionList *adapters) {
    Error error;
    Ranks r = {.n = n,
               .wires = thread_wires_new(n),
               .threads = calloc(n, sizeof *r.threads),
               .adapters = calloc(1, sizeof *r.adapters)};
    ModelOptions own = *options;
    assert_true(r.threads && r.adapters);
    assert_int_equal(rank_new(&r.first, r.wires[0], &error), STATUS_OK);
    if (adapters->n > 0) rank_send_floats(r.first);
    own.exchange = rank_exchange(r.first);
    r.tiny = tiny_model_map(path, &own, kv_type);
    r.divided = *rank_divided(r.first);
    r.session.model = r.tiny.model;
    r.session.file = r.tiny.file;
    if (start_adapters(r.adapters, &r.session, adapters, &error) != STATUS_OK)
        fail_msg("%s", error.text);
    if (adapters->n > 0) leader_set_lora(rank_leader(r.first), r.adapters->adapters.lora);
    for (size_t i = 1; i < n; i++) {
        r.threads[i] = (RankThread){
            .wire = r.wires[i], .path = path, .options = *options, .adapters = adapters};
        assert_int_equal(pthread_create(&r.threads[i].thread, NULL, follow, &r.threads[i]), 0);
    }
    return r;
}

void ranks_close(Ranks *r) {
    adapter_opening_close(r->adapters);
    free(r->adapters);
    tiny_model_close(&r->tiny);
    leader_say(rank_leader(r->first), false);
    for (size_t i = 1; i < r->n; i++) pthread_join(r->threads[i].thread, NULL);
    rank_free(r->first);
    thread_wires_free(r->wires);
    free(r->threads);
}
