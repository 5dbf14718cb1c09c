/* Windows that are given back, states, and snapshots of both: what memory they take, how far a
 * sequence must go back, and that its bits equal a new run's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/address_sanitizer.h"
#include "kvcache/kvcache_fork.h"
#include "kvcache/kvcache_saved.h"
#include "kvcache/kvcache_sizes.h"
#include "kvcache/kvcache_snapshots.h"
#include "kvcache.h"
#include "tests/sharing_cases.h"
#include "tests/tier.h"

/* Reserves and commits n positions of sequence 0 in calls of `chunk`. */
static void grow(KvCache *cache, size_t n, size_t chunk) {
    Error error;
    while (n > 0) {
        size_t rows = kvcache_call_rows(cache, 0, n, chunk);
        assert_true(rows > 0 && rows <= chunk && rows <= n);
        if (kvcache_reserve(cache, 0, rows, &error) != STATUS_OK) fail_msg("%s", error.text);
        kvcache_commit(cache, 0, rows);
        n -= rows;
    }
}

static KvCache *new_cache(const KvShape *shape, size_t snapshot_bytes) {
    KvCache *cache;
    Error error;
    assert_int_equal(kvcache_new(&cache, shape, 2, 0, &error), STATUS_OK);
    kvcache_limit_snapshots(cache, snapshot_bytes);
    return cache;
}

static void layers_with_a_window_keep_only_that(void **state) {
    (void)state;
    enum { LAYERS = 12, WINDOW = 1024, N = 32768 }; /* Gemma 3's proportions */
    KvShape shape = kvcache_uniform_shape(LAYERS, 1, 64, KV_F16);
    for (uint32_t l = 0; l < LAYERS; l++) shape.layers[l].window = l % 6 == 5 ? 0 : WINDOW;
    size_t layer = kvcache_position_bytes(&shape) / LAYERS;
    size_t ideal = layer * (LAYERS / 6 * (size_t)N + LAYERS / 6 * 5 * (size_t)WINDOW);
    KvCache *cache = new_cache(&shape, 0);
    grow(cache, N, 512);
    assert_true(kvcache_bytes_used(cache) >= ideal);
    assert_true(kvcache_bytes_used(cache) <= ideal + ideal / 10);
    assert_int_equal(kvcache_sequence_bytes(&shape, N), kvcache_bytes_used(cache));
    kvcache_free(cache);
}

static void sizes_are_predicted_at_any_length(void **state) {
    (void)state;
    KvShape shape = kvcache_uniform_shape(4, 2, 8, KV_F32);
    shape.layers[0].window = 1;
    shape.layers[1].window = 100;
    shape.layers[2] = (KvLayer){.state_floats = 1000};
    shape.layers[3] = (KvLayer){.n_kv_heads = 1, /* a window, and pools that outlive it */
                                .key_dim = 8,
                                .value_dim = 8,
                                .window = 100,
                                .pool = 4,
                                .pool_dim = 8,
                                .pool_index_dim = 4,
                                .state_floats = 96,
                                .values_in_keys = true};
    for (size_t n = 0; n <= 600; n += 37) {
        KvCache *cache = new_cache(&shape, 0);
        grow(cache, n, 50);
        assert_int_equal(kvcache_sequence_bytes(&shape, n), kvcache_bytes_used(cache));
        kvcache_free(cache);
    }
}

/* The resident memory of this process, in bytes. */
static size_t resident(void) {
    unsigned long size, pages;
    FILE *f = fopen("/proc/self/statm", "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%lu %lu", &size, &pages), 2);
    fclose(f);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* Fills n positions of the sequence, in all layers. */
static void fill_sequence(KvCache *cache, const KvShape *shape, int32_t sequence, size_t n,
                          const float *kv) {
    Error error;
    for (size_t at = 0; at < n; at++) {
        assert_int_equal(kvcache_reserve(cache, sequence, 1, &error), STATUS_OK);
        for (uint32_t l = 0; l < shape->n_layers; l++) {
            size_t floats = shape->layers[l].state_floats;
            if (shape->layers[l].n_kv_heads > 0) {
                kvcache_store(cache, sequence, (int32_t)at, l, kv, kv);
            } else if (at == 0) {
                for (size_t i = 0; i < floats; i++) kvcache_state(cache, sequence, l)[i] = 1.0f;
            }
        }
        kvcache_commit(cache, sequence, 1);
    }
}

/* 16 sequences take what --info says of one, 16 times: the cache's own count is that number, and
 * the process grows by it. The shape of Qwen 3.5's layers, of which three in four keep a state. */
static void sixteen_sequences_take_the_memory_that_is_predicted(void **state) {
    (void)state;
    enum { SEQUENCES = 16 };
    bool full = getenv("VERBATIM_FULL_SIZE"); /* Qwen 3.5's 4B at 4,096 positions: 3 GB */
    uint32_t layers = full ? 32 : 4, heads = full ? 4 : 2, dim = full ? 256 : 64;
    size_t floats = full ? 32 * 128 * 128 + 3 * 8192 : 8 * 64 * 64 + 3 * 1024;
    size_t n = full ? 4096 : 1024;
    KvShape shape = kvcache_uniform_shape(layers, heads, dim, KV_F16);
    for (uint32_t l = 0; l < layers; l++)
        if (l % 4 != 3) shape.layers[l] = (KvLayer){.state_floats = floats};
    size_t predicted = SEQUENCES * kvcache_sequence_bytes(&shape, n);
    KvCache *cache;
    Error error;
    float *kv = malloc(4096 * sizeof *kv);
    assert_non_null(kv);
    for (size_t i = 0; i < 4096; i++) kv[i] = 1.0f;
    size_t before = resident();
    assert_int_equal(kvcache_new(&cache, &shape, SEQUENCES, 0, &error), STATUS_OK);
    for (int32_t s = 0; s < SEQUENCES; s++) fill_sequence(cache, &shape, s, n, kv);
    size_t grown = resident() - before;
    printf("predicted %zu bytes, used %zu, resident %zu\n", predicted, kvcache_bytes_used(cache),
           grown);
    assert_int_equal(kvcache_bytes_used(cache), predicted);
#if !ADDRESS_SANITIZER /* which keeps a shadow of all memory */
    assert_true(grown <= predicted + predicted / 20);
#endif
    kvcache_free(cache);
    free(kv);
}

static void assert_short_ways_back(const KvShape *shape, size_t n, size_t chunk) {
    KvCache *cache = new_cache(shape, SIZE_MAX);
    Error error;
    grow(cache, n, chunk);
    assert_true(kvcache_n_snapshots(cache, 0) <= 16);
    for (size_t d = 1; d <= n; d += d < 200 ? 1 : 37) {
        size_t position = n - d;
        assert_int_equal(kvcache_fork(cache, 0, (int32_t)position, 1, &error), STATUS_OK);
        size_t again = position - (size_t)kvcache_next(cache, 1);
        if (again > 64 + d / 2) fail_msg("%zu positions back of %zu: %zu again", d, n, again);
    }
    kvcache_free(cache);
}

static void an_edit_runs_little_of_the_text_again(void **state) {
    (void)state;
    KvShape windows = kvcache_uniform_shape(2, 1, 4, KV_F16), states = windows;
    windows.layers[0].window = 100;
    states.layers[0] = (KvLayer){.state_floats = 8};
    for (size_t n = 4000; n <= 4200; n += 19) {
        assert_short_ways_back(&windows, n, 512);
        assert_short_ways_back(&windows, n, 1);
        assert_short_ways_back(&states, n, 512);
        assert_short_ways_back(&states, n, 1);
    }
}

static void a_mark_stays_while_the_text_grows(void **state) {
    (void)state;
    KvShape shape = kvcache_uniform_shape(2, 1, 4, KV_F16);
    shape.layers[1] = (KvLayer){.state_floats = 16};
    shape.layers[0].window = 32;
    KvCache *cache = new_cache(&shape, SIZE_MAX);
    grow(cache, 777, 256);
    kvcache_state(cache, 0, 1)[3] = 5.0f;
    kvcache_mark(cache, 0, 777);
    grow(cache, 3000, 256);
    kvcache_state(cache, 0, 1)[3] = 6.0f;
    kvcache_truncate(cache, 0, 777);
    assert_int_equal(kvcache_next(cache, 0), 777);
    assert_true(kvcache_state(cache, 0, 1)[3] == 5.0f);
    kvcache_free(cache);
}

static void snapshots_obey_their_share_of_memory(void **state) {
    (void)state;
    enum { STATE = 4096, SHARE = 5 * STATE * 4 };
    KvShape shape = kvcache_uniform_shape(2, 1, 4, KV_F16);
    shape.layers[1] = (KvLayer){.state_floats = STATE};
    KvCache *cache = new_cache(&shape, SHARE);
    for (size_t i = 0; i < 40; i++) {
        grow(cache, 100, 512);
        kvcache_mark(cache, 0, kvcache_next(cache, 0));
        assert_true(kvcache_snapshot_bytes(cache) <= SHARE);
    }
    assert_true(kvcache_n_snapshots(cache, 0) == 5);
    assert_int_equal(kvcache_bytes_used(cache),
                     kvcache_sequence_bytes(&shape, 4000) + kvcache_snapshot_bytes(cache));
    kvcache_limit_snapshots(cache, 0);
    assert_int_equal(kvcache_n_snapshots(cache, 0), 0);
    kvcache_free(cache);
}

static void snapshots_make_room_for_sequences(void **state) {
    (void)state;
    enum { STATE = 4096 };
    KvShape shape = kvcache_uniform_shape(2, 1, 4, KV_F16);
    shape.layers[1] = (KvLayer){.state_floats = STATE};
    KvCache *cache;
    Error error;
    size_t bytes = kvcache_sequence_bytes(&shape, 1000);
    assert_int_equal(kvcache_new(&cache, &shape, 1, bytes, &error), STATUS_OK);
    kvcache_limit_snapshots(cache, SIZE_MAX);
    grow(cache, 1000, 64);
    assert_int_equal(kvcache_reserve(cache, 0, 200, &error), STATUS_FAILED);
    assert_non_null(strstr(error.text, "KV cache is full"));
    assert_int_equal(kvcache_next(cache, 0), 1000);
    kvcache_free(cache);
}

static void any_mix_of_forks_and_truncations_equals_new_runs(void **state) {
    (void)state;
    static const char *const models[] = {
        "random:tiny,n_layers=3,window=70,window_pattern=3",
        "fixture:gemma3n",        /* later layers read the keys of earlier ones */
        "fixture:llama4",         /* chunks */
        "fixture:glm_moe_dsa",    /* keys of an indexer, choices of the layer before */
        "fixture:minimax_m3_vl",  /* keys of an index of blocks */
        "fixture:mistral_large4", /* latents of an earlier layer beside keys of an indexer */
        "fixture:qwen3_5",        /* states */
        "fixture:lfm2",
        "fixture:jamba",
        "fixture:falcon_h1-bias", /* keys and a state in one layer */
        "fixture:zamba2-bias",
        "fixture:zamba",
        "fixture:jetmoe",             /* a mixture of heads */
        "fixture:kimi_linear-groups", /* states by key beside latents */
        "fixture:minimax-window",
        "fixture:glm5_next",   /* pools of positions */
        "fixture:deepseek_v4", /* windows and overlapping pools */
        "fixture:doge-moe",    /* chosen positions in a window */
        "fixture:dots3_note",  /* latents in windows beside larger ones with an indexer */
        "fixture:qwen4_exp",   /* n-grams after states, chosen pools */
        "fixture:zaya",        /* keys, a window and three states in one layer */
        "fixture:inkling",
        "fixture:inkling2",      /* inputs of the rows before, without a convolution of their own */
        "fixture:inkling2_loop", /* a state of each run */
        "fixture:recurrent_gemma-bias",
        "fixture:rwkv",
        "fixture:xlstm",
    };
    for (uint32_t i = 0; i < sizeof models / sizeof *models; i++)
        sharing_mix(models[i], i, tier_count(4, 40, 40));
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_with_a_window_keep_only_that),
        cmocka_unit_test(sizes_are_predicted_at_any_length),
        cmocka_unit_test(sixteen_sequences_take_the_memory_that_is_predicted),
        cmocka_unit_test(an_edit_runs_little_of_the_text_again),
        cmocka_unit_test(a_mark_stays_while_the_text_grows),
        cmocka_unit_test(snapshots_obey_their_share_of_memory),
        cmocka_unit_test(snapshots_make_room_for_sequences),
        cmocka_unit_test(any_mix_of_forks_and_truncations_equals_new_runs),
    };
    return cmocka_run_group_tests_name("snapshots", tests, NULL, NULL);
}
