/* Pools of positions (layers/attention/pooling.h, kvcache/pool_keys.h) beside what other families
 * add to latent attention: latents of an earlier layer, and indexers of the layer's input. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kvcache/kvcache_fork.h"
#include "kvcache/kvcache_snapshots.h"
#include "core/config_fields.h"
#include "convert/convert_target.h"
#include "tests/fixture.h"
#include "tests/tiny_model.h"

/* Gives layer 2 an indexer of its own: layer 1's tensors under other names. */
static void give_an_indexer(json_t *json) {
    json_t *tensors = json_object_get(json, "tensors"), *added = json_object();
    json_t *config = json_object_get(json_object_get(json, "config"), "text_config");
    const char *name;
    json_t *recipe;
    json_object_foreach(tensors, name, recipe) {
        char *copy = strdup(name), *layer = strstr(copy, "layers.1.self_attn.indexer.");
        if (layer) {
            layer[strlen("layers.")] = '2';
            json_object_set(added, copy, recipe);
        }
        free(copy);
    }
    assert_true(json_object_size(added) > 0);
    json_object_update(tensors, added);
    json_decref(added);
    json_object_set_new(config, "indexer_types",
                        json_pack("[s, s, s, s]", "full", "full", "full", "full"));
}

/* The fixture's model, where layer 2 reads the latents of layer 1. */
static TinyModel open_shared(const char *source, int n_threads, KvType kv_type) {
    const ModelOptions options = {.n_threads = n_threads};
    const ConvertOptions convert = {.type = "f32", .n_threads = 1};
    TinyModel tiny = {0};
    Error error;
    int fd = -1;
    if (convert_temporary(source, &convert, &fd, &error) != STATUS_OK ||
        modelfile_open(&tiny.file, source, fd, &error) != STATUS_OK)
        fail_msg("%s", error.text);
    Config *config = modelfile_config_to_change(tiny.file);
    config->kv_distance[2] = 1;
    if (config_validate(config, &error) != STATUS_OK ||
        model_open(&tiny.model, tiny.file, &options, &error) != STATUS_OK)
        fail_msg("%s", error.text);
    const KvShape shape = model_kv_shape(tiny.model, kv_type);
    if (kvcache_new(&tiny.cache, &shape, 2, 0, &error) != STATUS_OK) fail_msg("%s", error.text);
    kvcache_limit_snapshots(tiny.cache, SIZE_MAX);
    tiny.vocab_size = config->vocab_size;
    return tiny;
}

/* Forks sequence 0 at `position` and continues both; compares all logits. */
static void assert_fork(TinyModel *tiny, const Fixture *f, size_t position, const float *logits) {
    Error error;
    size_t rest = f->n_ids - position, vocab = tiny->vocab_size;
    float *before = tiny_model_run(tiny, 0, 0, f->ids, position, 7);
    float *again = calloc(rest * vocab, sizeof *again);
    assert_non_null(again);
    assert_memory_equal(before, logits, position * vocab * sizeof *logits);
    assert_int_equal(kvcache_fork(tiny->cache, 0, (int32_t)position, 1, &error), STATUS_OK);
    assert_int_equal(kvcache_next(tiny->cache, 1), position);
    for (int32_t sequence = 0; sequence < 2; sequence++) {
        tiny_model_continue(tiny, sequence, f->ids + position, rest, 5, again);
        assert_memory_equal(again, logits + position * vocab, rest * vocab * sizeof *again);
    }
    free(before);
    free(again);
}

static void pools_beside_shared_latents_have_the_same_bits_in_any_calls(void **state) {
    (void)state;
    static const size_t chunks[] = {1, 2, 7, 50};
    Fixture f = fixture_load("glm5_next");
    int32_t ids[2 * 48 + 54], *own = f.ids; /* longer than two pages */
    size_t n_own = f.n_ids;
    enum { N = sizeof ids / sizeof *ids };
    for (size_t i = 0; i < N; i++) ids[i] = own[i % n_own];
    give_an_indexer(f.json);
    char *source = fixture_source(&f);
    f.ids = ids;
    f.n_ids = N;
    for (KvType type = 0; type < KV_TYPES; type++) {
        TinyModel tiny = open_shared(source, 1, type), threads = open_shared(source, 3, type);
        float *whole = tiny_model_run(&tiny, 0, 0, ids, N, N);
        for (size_t i = 0; i < sizeof chunks / sizeof *chunks; i++) {
            float *parts = tiny_model_run(&threads, 0, 0, ids, N, chunks[i]);
            assert_memory_equal(whole, parts, N * tiny.vocab_size * sizeof *whole);
            free(parts);
        }
        for (size_t position = 1; position < N; position += 37)
            assert_fork(&tiny, &f, position, whole);
        free(whole);
        tiny_model_close(&tiny);
        tiny_model_close(&threads);
    }
    fixture_remove_directory(source);
    f.ids = own;
    fixture_free(&f);
}

static void pools_that_cannot_be_computed_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *field;
        uint32_t value;
        const char *says;
    } cases[] = {
        {"latent_q_dim", 0, "with latent_q_dim"}, /* the indexer reads the layer's input */
        {"position", POSITION_ROPE, "position 'none'"},
        {"index_pool", 4, "index_pool 4 must divide index_topk (6)"},
        {"index_pool", 4097, "index_pool is 4097"},
        {"index_dim", 0, "index_dim 0"},
        {"hyper_rounds", 1025, "hyper_rounds is 1025"},
        {"altup_streams", 0, "altup_streams is 0"},
        {"altup_streams", 17, "altup_streams is 17"},
    };
    const ModelOptions options = {.n_threads = 1};
    Fixture f = fixture_load("glm5_next");
    char *source = fixture_source(&f);
    TinyModel tiny = tiny_model_open(source, "f32", &options, KV_F32);
    Config *config = modelfile_config_to_change(tiny.file);
    const Config as_it_is = *config;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const ConfigField *field = NULL;
        Error error;
        for (size_t k = 0; (field = config_field(k)); k++)
            if (strcmp(field->name, cases[i].field) == 0) break;
        assert_non_null(field);
        *(uint32_t *)(void *)((char *)config + field->offset) = cases[i].value;
        if (strcmp(cases[i].field, "position") == 0) config->rotary_dim = 2;
        assert_int_equal(config_validate(config, &error), STATUS_FAILED);
        if (!strstr(error.text, cases[i].says))
            fail_msg("%s %u: the error does not say '%s': %s", cases[i].field, cases[i].value,
                     cases[i].says, error.text);
        *config = as_it_is;
    }
    tiny_model_close(&tiny);
    fixture_remove_directory(source);
    fixture_free(&f);
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pools_beside_shared_latents_have_the_same_bits_in_any_calls),
        cmocka_unit_test(pools_that_cannot_be_computed_are_refused),
    };
    return cmocka_run_group_tests_name("pools", tests, NULL, NULL);
}
