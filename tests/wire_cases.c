#include "tests/wire_cases.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvcache/kvcache_fork.h"
#include "kvcache/kvcache_snapshots.h"
#include "layers/model_watch.h"
#include "ports/cluster/rank.h"
#include "convert/convert_target.h"
#include "tests/thread_wire.h"

enum { MODELS = 3, CONTEXT = 512, MAX_ROWS = 48, LONG = 70, EXCHANGES = 100, VOCABULARY = 64 };

/* The models: windows; states; latents with an index. Their rows are few, their steps all. */
static ModelFile *model_file(size_t i) {
#define SMALL                                                                                      \
    "random:dim=64,n_heads=4,n_kv_heads=4,ffn_dim=96,vocab_size=64,context=512,n_layers=2,"
    static const char *const sources[MODELS] = {
        SMALL "head_dim=16,window=20,window_pattern=2", SMALL "head_dim=16,attend=2,state_kernel=4",
        SMALL "latent_dim=64,latent_q_dim=96,head_dim=48,rotary_dim=16,value_dim=32,index_heads=2,"
              "index_dim=16,index_topk=4"};
    static ModelFile *files[MODELS];
    const ConvertOptions options = {.n_threads = 1, .type = i % 2 ? "f32" : "q8"};
    Error error;
    int fd = -1;
    if (files[i]) return files[i];
    if (convert_temporary(sources[i], &options, &fd, &error) != STATUS_OK ||
        modelfile_open(&files[i], "small", fd, &error) != STATUS_OK) {
        fprintf(stderr, "%s\n", error.text);
        abort();
    }
    return files[i];
}

/* ---- Changing what is sent ---- */

typedef struct Input {
    const uint8_t *changes;
    size_t size;
} Input;

void wire_case_write(uint8_t *change, size_t exchange, size_t offset, int value) {
    size_t place = exchange * WIRE_RANKS * 2;
    const uint8_t bytes[WIRE_CHANGE_BYTES] = {
        (uint8_t)place, (uint8_t)(place >> 8), (uint8_t)(offset / 4), 0, (uint8_t)value, 0};
    memcpy(change, bytes, sizeof bytes);
}

/* A change: the exchange and the rank (two bytes; the lowest bit: whether the value is xored or
 * written), the offset / 4, the kind of value, the value, and more of the offset. */
static void disturb(void *context, size_t exchange, size_t rank, void *data, size_t bytes) {
    const Input *input = context;
    for (size_t i = 0; i * WIRE_CHANGE_BYTES < input->size; i++) {
        uint8_t c[WIRE_CHANGE_BYTES] = {0};
        size_t left = input->size - WIRE_CHANGE_BYTES * i;
        memcpy(c, input->changes + WIRE_CHANGE_BYTES * i, left < sizeof c ? left : sizeof c);
        size_t place = (((size_t)c[0] | (size_t)c[1] << 8) >> 1) % (EXCHANGES * WIRE_RANKS),
               at = (size_t)c[2] * 4;
        uint32_t value = 0;
        if (place / WIRE_RANKS != exchange || place % WIRE_RANKS != rank) continue;
        /* The values that break bounds: small ones of either sign, and single bits. */
        value = c[3] < 128 ? (uint32_t)(int8_t)c[4] : (uint32_t)c[4] << (c[3] % 25);
        at = (at + (size_t)c[5] * 1024) % (bytes + 1);
        if (bytes - at < sizeof value) continue;
        uint32_t old;
        memcpy(&old, (char *)data + at, sizeof old);
        if (c[0] & 1) value ^= old;
        memcpy((char *)data + at, &value, sizeof value);
    }
}

/* ---- The ranks ---- */

/* What a rank holds: freed also after it failed in the middle of something. */
typedef struct RankState {
    pthread_t thread;
    Wire *wire;
    ModelFile *file;
    Rank *rank;
    Model *model;
    KvCache *caches[2];
    float *logits;
    Error error;
} RankState;

static void open_model(RankState *r) {
    Error error;
    ModelOptions options = {.n_threads = 1, .context = CONTEXT, .max_rows = MAX_ROWS};
    if (rank_new(&r->rank, r->wire, &error) != STATUS_OK) abort();
    options.exchange = rank_exchange(r->rank);
    if (model_open(&r->model, r->file, &options, &error) != STATUS_OK) abort();
}

static void close_model(RankState *r) {
    for (size_t i = 0; i < 2; i++) kvcache_free(r->caches[i]);
    model_close(r->model);
    rank_free(r->rank);
    free(r->logits);
    thread_wire_leave(r->wire);
}

static void *follow(void *of_rank) {
    RankState *r = of_rank;
    jmp_buf out;
    bool goes_on = false;
    thread_wire_on_failure(r->wire, &out);
    if (setjmp(out) == 0 && steps_follower_wait(r->wire, &goes_on, &r->error) == STATUS_OK &&
        goes_on) {
        open_model(r);
        const Following following = {r->model, NULL, rank_observed(r->rank), rank_begun(r->rank)};
        steps_follower_run(r->wire, &following, &r->error);
    }
    close_model(r);
    return NULL;
}

/* Runs n rows of a sequence. An error shows as changed logits. */
static void run_rows(RankState *r, size_t cache, int32_t sequence, size_t n) {
    Row rows[MAX_ROWS];
    Error error;
    int32_t first = kvcache_next(r->caches[cache], sequence);
    for (size_t i = 0; i < n; i++)
        rows[i] = (Row){sequence, first + (int32_t)i, (int32_t)(i * 7 % VOCABULARY), i + 1 == n};
    model_forward(r->model, r->caches[cache], rows, n, r->logits, &error);
}

static void observe(PassObserver *observer, size_t layer, size_t row, size_t head, int32_t first,
                    float *weights, size_t n) {
    volatile float last = 0.0f;
    (void)observer;
    if (layer >= 2 || row >= MAX_ROWS || head >= 4 || first < 0 || (size_t)first + n > CONTEXT)
        abort();
    for (size_t i = 0; i < n; i++) last = weights[i];
    (void)last;
}

static void new_cache(RankState *r, size_t i, size_t max_bytes) {
    Error error;
    const KvShape shape = model_kv_shape(r->model, KV_F16);
    if (kvcache_new(&r->caches[i], &shape, 3, max_bytes, &error) != STATUS_OK) abort();
}

/* Everything that rank 0 tells: more than one broadcast's worth of changes, snapshots, forks,
 * drafts that are taken back, an observer, a second cache, and one that is full. */
static void lead(RankState *r) {
    PassObserver observer = {.attended = observe};
    Error error;
    const Row two[] = {{0, 0, 1, true}, {1, 0, 2, true}};
    Row rows[2];
    open_model(r);
    r->logits = malloc(VOCABULARY * MAX_ROWS * sizeof *r->logits);
    if (!r->logits) abort();
    leader_say(rank_leader(r->rank), true);
    new_cache(r, 0, 0);
    kvcache_limit_snapshots(r->caches[0], 1 << 20);
    run_rows(r, 0, 0, 40);
    for (size_t i = 0; i < LONG; i++) kvcache_mark(r->caches[0], 0, kvcache_next(r->caches[0], 0));
    kvcache_fork(r->caches[0], 0, 30, 1, &error);
    memcpy(rows, two, sizeof two);
    for (size_t i = 0; i < 2; i++) rows[i].position = kvcache_next(r->caches[0], (int32_t)i);
    model_forward(r->model, r->caches[0], rows, 2, r->logits, &error);
    kvcache_hold(r->caches[0], 0, 2);
    run_rows(r, 0, 0, 4);
    kvcache_truncate(r->caches[0], 0, kvcache_next(r->caches[0], 0) - 2);
    model_add_observer(r->model, &observer);
    run_rows(r, 0, 1, 3);
    model_remove_observer(r->model, &observer);
    new_cache(r, 1, 1);
    run_rows(r, 1, 0, 2); /* has no room */
    kvcache_free(r->caches[1]);
    r->caches[1] = NULL;
    kvcache_reset(r->caches[0], 1, 7);
    run_rows(r, 0, 1, 1);
    leader_say(rank_leader(r->rank), false);
}

WireErrors wire_case_run(const uint8_t *data, size_t size) {
    RankState ranks[WIRE_RANKS] = {{.wire = NULL}};
    WireErrors errors;
    Input input = {data + 1, size > 0 ? size - 1 : 0};
    Wire **wires = thread_wires_new(WIRE_RANKS);
    jmp_buf out;
    thread_wires_disturb(wires, disturb, &input);
    for (size_t i = 0; i < WIRE_RANKS; i++) {
        ranks[i].wire = wires[i];
        ranks[i].file = model_file(size > 0 ? data[0] % MODELS : 0);
        if (i > 0 && pthread_create(&ranks[i].thread, NULL, follow, &ranks[i]) != 0) abort();
    }
    thread_wire_on_failure(wires[0], &out);
    if (setjmp(out) == 0) lead(&ranks[0]);
    close_model(&ranks[0]);
    for (size_t i = 1; i < WIRE_RANKS; i++) pthread_join(ranks[i].thread, NULL);
    for (size_t i = 0; i < WIRE_RANKS; i++) errors.of[i] = ranks[i].error;
    thread_wires_free(wires);
    return errors;
}
