#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/address_sanitizer.h"
#include "base/numbers.h"
#include "kvcache/kvcache_fork.h"
#include "kvcache/kvcache_sizes.h"
#include "kvcache/kvpages.h"
#include "kvcache.h"

enum { LAYERS = 2, KV_HEADS = 3, HEAD_DIM = 5, WIDTH = KV_HEADS * HEAD_DIM };

static const KvShape shape = {
    .type = KV_F32,
    .n_layers = LAYERS,
    .layers = {{.n_kv_heads = KV_HEADS, .key_dim = HEAD_DIM, .value_dim = HEAD_DIM},
               {.n_kv_heads = KV_HEADS, .key_dim = HEAD_DIM, .value_dim = HEAD_DIM}}};

/* Returns element i of the key that a token stores in a layer: distinct everywhere. */
static float key_of(int32_t token, size_t layer, size_t i) {
    return (float)(token * 1000 + (int)layer * 100 + (int)i);
}

static void append(KvCache *cache, int32_t id, int32_t token) {
    Error error;
    float k[WIDTH], v[WIDTH];
    assert_int_equal(kvcache_reserve(cache, id, 1, &error), STATUS_OK);
    for (size_t l = 0; l < LAYERS; l++) {
        for (size_t i = 0; i < WIDTH; i++) k[i] = key_of(token, l, i), v[i] = -k[i];
        kvcache_store(cache, id, kvcache_next(cache, id), l, k, v);
    }
    kvcache_commit(cache, id, 1);
}

static void assert_holds(const KvCache *cache, int32_t id, int32_t position, int32_t token) {
    size_t index = (size_t)(position - kvcache_start(cache, id)), slot = index % KV_PAGE;
    for (size_t l = 0; l < LAYERS; l++) {
        for (size_t head = 0; head < KV_HEADS; head++) {
            const float *k = kvcache_keys(cache, id, index / KV_PAGE, l, head);
            const float *v = kvcache_values(cache, id, index / KV_PAGE, l, head);
            for (size_t d = 0; d < HEAD_DIM; d++) {
                float want = key_of(token, l, head * HEAD_DIM + d);
                assert_true(k[d * KV_PAGE + slot] == want);
                assert_true(v[slot * HEAD_DIM + d] == -want);
            }
        }
    }
}

static KvCache *cache_of(size_t sequences, size_t pages) {
    KvCache *cache;
    Error error;
    size_t bytes = pages * kvcache_sequence_bytes(&shape, KV_PAGE);
    assert_int_equal(kvcache_new(&cache, &shape, sequences, bytes, &error), STATUS_OK);
    return cache;
}

static size_t pages_used(const KvCache *cache) {
    return kvcache_bytes_used(cache) / kvcache_sequence_bytes(&shape, KV_PAGE);
}

/* DeepSeek-V2-Lite's 27 layers: 16 heads with keys of 192 and values of 128 elements, or a latent
 * of 512 and a rotated part of 64. */
static void a_latent_takes_a_ninth_of_the_keys_and_values_that_it_stands_for(void **state) {
    (void)state;
    KvShape latent = {.type = KV_F16, .n_layers = 27};
    for (uint32_t l = 0; l < latent.n_layers; l++)
        latent.layers[l] = (KvLayer){.n_kv_heads = 16, .key_dim = 192, .value_dim = 128};
    assert_int_equal(kvcache_seen_bytes(&latent, 1), 276480);
    for (uint32_t l = 0; l < latent.n_layers; l++)
        latent.layers[l] =
            (KvLayer){.n_kv_heads = 1, .key_dim = 576, .value_dim = 512, .values_in_keys = true};
    assert_int_equal(kvcache_seen_bytes(&latent, 1), 31104);
    latent.type = KV_Q8;
    assert_int_equal(kvcache_seen_bytes(&latent, 1), 27 * (576 + 18 * 4));
    latent.type = KV_BF16;
    assert_int_equal(kvcache_seen_bytes(&latent, 1), 31104);
}

static void what_is_stored_is_read_back_from_any_start(void **state) {
    (void)state;
    KvCache *cache = cache_of(2, 0);
    kvcache_reset(cache, 0, 0);
    kvcache_reset(cache, 1, 100000);
    for (int32_t i = 0; i < 200; i++) append(cache, 0, i), append(cache, 1, i + 500);
    for (int32_t i = 0; i < 200; i++) {
        assert_holds(cache, 0, i, i);
        assert_holds(cache, 1, 100000 + i, i + 500);
    }
    assert_int_equal(pages_used(cache), 8);
    kvcache_free(cache);
}

static void float16_rounds_to_nearest_even(void **state) {
    (void)state;
    KvShape half = kvcache_uniform_shape(1, 1, 2, KV_F16);
    KvCache *cache;
    Error error;
    assert_int_equal(kvcache_new(&cache, &half, 1, 0, &error), STATUS_OK);
    kvcache_reset(cache, 0, 0);
    assert_int_equal(kvcache_reserve(cache, 0, 1, &error), STATUS_OK);
    float k[2] = {1.0f + 0x1p-11f, 1e6f}, v[2] = {1.0f + 3 * 0x1p-11f, -1e6f};
    kvcache_store(cache, 0, 0, 0, k, v);
    const uint16_t *keys = kvcache_keys(cache, 0, 0, 0, 0);
    const uint16_t *values = kvcache_values(cache, 0, 0, 0, 0);
    assert_true(numbers_half_to_float(keys[0]) == 1.0f);
    assert_true(numbers_half_to_float(values[0]) == 1.0f + 0x1p-9f);
    assert_true(numbers_half_to_float(keys[KV_PAGE]) == 65504.0f); /* saturates, never infinite */
    assert_true(numbers_half_to_float(values[1]) == -65504.0f);
    kvcache_free(cache);
}

/* The values are those of kernels/bfloat.h: to nearest even, below 2^-40 to +0. A pair of elements
 * of a key lies side by side, and so does a pair of positions of a value. */
static void bfloat16_rounds_to_nearest_even_and_has_a_floor(void **state) {
    (void)state;
    KvShape shape16 = kvcache_uniform_shape(1, 2, 3, KV_BF16);
    KvCache *cache;
    Error error;
    assert_int_equal(kvcache_position_bytes(&shape16), 2 * (4 * 2 + 16 * 2));
    assert_int_equal(kvcache_new(&cache, &shape16, 1, 0, &error), STATUS_OK);
    kvcache_reset(cache, 0, 0);
    assert_int_equal(kvcache_reserve(cache, 0, 20, &error), STATUS_OK);
    float k[6] = {0, 0, 0, 1.0f + 0x1p-8f, 1e6f, -0x1.FEp-41f},
          v[6] = {0, 0, 0, 1.0f + 3 * 0x1p-8f, -0.0f, -3.0f};
    kvcache_store(cache, 0, 17, 0, k, v);
    const uint16_t *keys = kvcache_keys(cache, 0, 0, 0, 1);
    const uint16_t *values = kvcache_values(cache, 0, 0, 0, 1);
    /* slot 17 is position 1 of panel 1; a panel of keys has two pairs of 16 positions */
    const uint16_t *pair = keys + (2 * 16 + 1) * 2, *odd = values + 8 * 16 * 2 + 1;
    assert_int_equal(pair[0], 0x3F80); /* 1 */
    assert_int_equal(pair[1], 0x4974); /* 999,424 */
    assert_int_equal(pair[16 * 2], 0);
    assert_int_equal(pair[16 * 2 + 1], 0); /* fills up the pair */
    assert_int_equal(odd[0], 0x3F82);      /* 1 + 2^-6 */
    assert_int_equal(odd[2], 0);
    assert_int_equal(odd[4], 0xC040); /* -3 */
    kvcache_free(cache);
}

static void eight_bits_round_each_group_of_a_key_and_each_value(void **state) {
    (void)state;
    enum { DIM = 37, POSITION = 70 };
    KvShape q8 = kvcache_uniform_shape(1, 2, DIM, KV_Q8);
    KvCache *cache;
    Error error;
    float k[2 * DIM], v[2 * DIM];
    for (size_t i = 0; i < 2 * DIM; i++) {
        k[i] = (float)(i % DIM < 32 ? 1 : 100) * (float)((int)(i * 37 % 19) - 9) / 9.0f;
        v[i] = (float)((int)(i * 53 % 23) - 11) / 11.0f * (i < DIM ? 1 : 50); /* larger in head 1 */
    }
    assert_int_equal(kvcache_position_bytes(&q8), 2 * (40 + 2 * 4 + 48 + 4));
    assert_int_equal(kvcache_new(&cache, &q8, 1, 0, &error), STATUS_OK);
    kvcache_reset(cache, 0, 0);
    assert_int_equal(kvcache_reserve(cache, 0, 80, &error), STATUS_OK);
    kvcache_store(cache, 0, POSITION, 0, k, v);
    for (size_t head = 0; head < 2; head++) {
        const int8_t *keys = kvcache_keys(cache, 0, 1, 0, head);
        const int8_t *values = kvcache_values(cache, 0, 1, 0, head);
        const float *key_scales = (const float *)(const void *)(keys + 40 * KV_PAGE);
        const float *value_scales = (const float *)(const void *)(values + 48 * KV_PAGE);
        size_t slot = POSITION % KV_PAGE;
        const float value_scale = (head == 0 ? 1.0f : 50.0f) / 127;
        assert_true(value_scales[slot] == value_scale);
        for (size_t d = 0; d < DIM; d++) {
            float scale = key_scales[d / 32 * KV_PAGE + slot], key = k[head * DIM + d];
            assert_true(scale <= (d < 32 ? 1.0f : 100.0f) / 127);
            assert_true(fabsf(keys[(d / 4 * KV_PAGE + slot) * 4 + d % 4] * scale - key) <=
                        0.5001f * scale);
            assert_true(fabsf(values[(slot / 4 * 48 + d) * 4 + slot % 4] * value_scale -
                              v[head * DIM + d]) <= 0.5001f * value_scale);
        }
    }
    k[33] = INFINITY, v[5] = NAN; /* may affect only their own group of keys, or value */
    kvcache_store(cache, 0, POSITION, 0, k, v);
    const int8_t *keys = kvcache_keys(cache, 0, 1, 0, 0),
                 *values = kvcache_values(cache, 0, 1, 0, 0);
    const float *scales = (const float *)(const void *)(keys + 40 * KV_PAGE);
    assert_true(isfinite(scales[POSITION % KV_PAGE]));
    assert_true(isnan(scales[KV_PAGE + POSITION % KV_PAGE]));
    scales = (const float *)(const void *)(values + 48 * KV_PAGE);
    assert_true(isnan(scales[POSITION % KV_PAGE]));
    kvcache_free(cache);
}

static void a_fork_shares_pages_until_it_diverges(void **state) {
    (void)state;
    KvCache *cache = cache_of(2, 0);
    Error error;
    kvcache_reset(cache, 0, 0);
    for (int32_t i = 0; i < 100; i++) append(cache, 0, i);
    assert_int_equal(kvcache_fork(cache, 0, 90, 1, &error), STATUS_OK);
    assert_int_equal(pages_used(cache), 2);
    append(cache, 1, 7000);
    assert_int_equal(pages_used(cache), 3); /* only the partly shared page was copied */
    for (int32_t i = 0; i < 100; i++) assert_holds(cache, 0, i, i);
    for (int32_t i = 0; i < 90; i++) assert_holds(cache, 1, i, i);
    assert_holds(cache, 1, 90, 7000);
    kvcache_reset(cache, 0, 0); /* sequence 1 keeps the pages that it shares */
    for (int32_t i = 0; i < 90; i++) assert_holds(cache, 1, i, i);
    kvcache_reset(cache, 1, 0);
    assert_int_equal(pages_used(cache), 0);
    kvcache_free(cache);
}

static void writing_after_a_fork_never_reaches_the_other_reader(void **state) {
    (void)state;
    KvCache *cache = cache_of(2, 0);
    Error error;
    kvcache_reset(cache, 0, 0);
    for (int32_t i = 0; i < 70; i++) append(cache, 0, i);
    assert_int_equal(kvcache_fork(cache, 0, 70, 1, &error), STATUS_OK);
    append(cache, 0, 4000); /* the original sequence writes first */
    append(cache, 1, 5000);
    assert_holds(cache, 0, 70, 4000);
    assert_holds(cache, 1, 70, 5000);
    kvcache_free(cache);
}

static void truncation_forgets_and_gives_pages_back(void **state) {
    (void)state;
    KvCache *cache = cache_of(1, 0);
    kvcache_reset(cache, 0, 0);
    for (int32_t i = 0; i < 200; i++) append(cache, 0, i);
    kvcache_truncate(cache, 0, 65);
    assert_int_equal(kvcache_next(cache, 0), 65);
    assert_int_equal(pages_used(cache), 2);
    append(cache, 0, 9999);
    assert_holds(cache, 0, 64, 64);
    assert_holds(cache, 0, 65, 9999);
    kvcache_truncate(cache, 0, 0);
    assert_int_equal(pages_used(cache), 0);
    kvcache_free(cache);
}

static void a_full_cache_refuses_and_stays_as_it_was(void **state) {
    (void)state;
    KvCache *cache = cache_of(2, 3);
    Error error;
    kvcache_reset(cache, 0, 0);
    for (int32_t i = 0; i < 64; i++) append(cache, 0, i);
    assert_int_equal(kvcache_reserve(cache, 0, 4 * KV_PAGE, &error), STATUS_FAILED);
    assert_non_null(strstr(error.text, "KV cache is full"));
    assert_int_equal(pages_used(cache), 1);
    assert_int_equal(kvcache_next(cache, 0), 64);
    assert_int_equal(kvcache_reserve(cache, 0, 2 * KV_PAGE, &error), STATUS_OK);
    assert_int_equal(kvcache_bytes_free(cache), 0);
    kvcache_truncate(cache, 0, 64); /* frees the reserved pages too */
    assert_int_equal(kvcache_bytes_free(cache), 2 * kvcache_sequence_bytes(&shape, KV_PAGE));
    kvcache_free(cache);
}

static void a_released_page_waits_for_the_next_sequence_and_is_zeroed(void **state) {
    (void)state;
    KvCache *cache = cache_of(2, 3);
    kvcache_reset(cache, 0, 0);
    kvcache_reset(cache, 1, 0);
    for (int32_t i = 1; i <= KV_PAGE; i++) append(cache, 0, i);
    const void *first = kvcache_keys(cache, 0, 0, 0, 0);
    kvcache_reset(cache, 0, 0);
    assert_int_equal(kvcache_bytes_used(cache), 0);
    assert_int_equal(kvcache_bytes_free(cache), 3 * kvcache_sequence_bytes(&shape, KV_PAGE));
    append(cache, 1, 5);
    assert_holds(cache, 1, 0, 5);
    const float *keys = kvcache_keys(cache, 1, 0, 0, 0);
    assert_true(ADDRESS_SANITIZER || keys == first);
    for (size_t i = 1; i < KV_PAGE; i++) assert_true(keys[i] == 0.0f);
    kvcache_free(cache);
}

/* Short sequences leave as many pages of the layer with a window as of the other one; a long one
 * needs few of the former. */
static void spare_pages_are_freed_before_the_cache_is_full(void **state) {
    (void)state;
    enum { LONG = 12 * KV_PAGE, SHORT = 2 * KV_PAGE, N_SHORT = 3 };
    KvShape windowed = shape;
    windowed.layers[0].window = KV_PAGE;
    windowed.layers[0].n_kv_heads = KV_HEADS - 1; /* pages of another size */
    KvCache *cache;
    Error error;
    size_t bytes = 0;
    for (size_t n = 1; n <= LONG; n++) {
        size_t needed = kvcache_sequence_bytes(&windowed, n);
        bytes = needed > bytes ? needed : bytes;
    }
    assert_int_equal(kvcache_new(&cache, &windowed, N_SHORT, bytes, &error), STATUS_OK);
    for (int32_t s = 0; s < N_SHORT; s++) {
        kvcache_reset(cache, s, 0);
        assert_int_equal(kvcache_reserve(cache, s, SHORT, &error), STATUS_OK);
    }
    for (int32_t s = 0; s < N_SHORT; s++) kvcache_reset(cache, s, 0);
    size_t spare = cache->spare_bytes, pages = kvcache_sequence_bytes(&windowed, SHORT);
    assert_int_equal(spare, ADDRESS_SANITIZER ? 0 : N_SHORT * pages);
    for (int32_t i = 0; i < LONG; i++) {
        append(cache, 0, i);
        assert_true(cache->spare_bytes <= bytes - kvcache_bytes_used(cache));
    }
    kvcache_free(cache);
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_latent_takes_a_ninth_of_the_keys_and_values_that_it_stands_for),
        cmocka_unit_test(what_is_stored_is_read_back_from_any_start),
        cmocka_unit_test(float16_rounds_to_nearest_even),
        cmocka_unit_test(bfloat16_rounds_to_nearest_even_and_has_a_floor),
        cmocka_unit_test(eight_bits_round_each_group_of_a_key_and_each_value),
        cmocka_unit_test(a_fork_shares_pages_until_it_diverges),
        cmocka_unit_test(writing_after_a_fork_never_reaches_the_other_reader),
        cmocka_unit_test(truncation_forgets_and_gives_pages_back),
        cmocka_unit_test(a_full_cache_refuses_and_stays_as_it_was),
        cmocka_unit_test(a_released_page_waits_for_the_next_sequence_and_is_zeroed),
        cmocka_unit_test(spare_pages_are_freed_before_the_cache_is_full),
    };
    return cmocka_run_group_tests_name("kvcache", tests, NULL, NULL);
}
