/* Adapters (--lora): their logits compared with peft's, the same bits however their rows are
 * mixed, and what is refused. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "layers/lora.h"
#include "tests/adapter_fixture.h"

/* Largest allowed difference of a logit from peft's, in standard deviations of the logits. */
static const double TOLERANCE = 5e-5;

enum { MOST = 4 };

/* The directories of a fixture's adapters, as --lora takes them. */
typedef struct Specs {
    char *directories[MOST];
    char texts[MOST][512];
    const char *list[MOST];
    size_t n;
} Specs;

static void make_specs(Specs *specs, const AdapterFixture *f) {
    specs->n = f->n;
    for (size_t i = 0; i < f->n; i++) {
        specs->directories[i] = adapter_fixture_directory(f, i);
        snprintf(specs->texts[i], sizeof specs->texts[i], "a%zu=%s", i, specs->directories[i]);
        specs->list[i] = specs->texts[i];
    }
}

static void free_specs(Specs *specs) {
    for (size_t i = 0; i < specs->n; i++) fixture_remove_directory(specs->directories[i]);
}

static void assert_same_bits(const char *what, const float *a, const float *b, size_t n) {
    if (memcmp(a, b, n * sizeof *a) == 0) return;
    size_t i = 0;
    while (memcmp(&a[i], &b[i], sizeof *a) == 0) i++;
    fail_msg("%s: logit %zu is %.9g, expected %.9g", what, i, (double)b[i], (double)a[i]);
}

/* ---- peft ---- */

static void logits_are_those_of_peft(void **state) {
    AdapterFixture f = adapter_fixture_load(*state);
    Specs specs;
    Adapted a;
    make_specs(&specs, &f);
    char *source = fixture_source(&f.base);
    const ModelOptions options = {.n_threads = 2};
    adapted_open(&a, source, "f32", &options, KV_F32, specs.list, specs.n);
    size_t vocab = f.base.vocab_size, first = f.base.n_ids - f.kept;
    float *logits = tiny_model_run(&a.tiny, 0, 0, f.base.ids, f.base.n_ids, f.base.n_ids);
    double worst = 0;
    for (size_t i = 0; i < f.kept * vocab; i++) {
        double difference = fabs((double)logits[first * vocab + i] - (double)f.logits[i]);
        if (!(difference <= worst)) worst = difference;
    }
    printf("%-16s %.1e of a deviation\n", (const char *)*state, worst / f.std);
    assert_true(worst / f.std <= TOLERANCE);
    free(logits);
    adapted_close(&a);
    fixture_remove_directory(source);
    free_specs(&specs);
    adapter_fixture_free(&f);
}

/* ---- The same bits ---- */

/* Runs the text in calls of `chunk` rows on one instruction set; the caller frees the logits. */
static float *run_on(const AdapterFixture *f, const char *source, const char *type, const Isa *isa,
                     int threads, size_t chunk, const Specs *specs) {
    Adapted a;
    const ModelOptions options = {.isa = isa, .n_threads = threads};
    adapted_open(&a, source, type, &options, KV_F16, specs->list, specs->n);
    float *logits = tiny_model_run(&a.tiny, 0, 0, f->base.ids, f->base.n_ids, chunk);
    adapted_close(&a);
    return logits;
}

static void bits_do_not_depend_on_threads_chunks_or_instruction_sets(void **state) {
    (void)state;
    static const char *const cases[] = {"qwen2-two", "gemma2-head"}, *const types[] = {"f32", "q8"};
    for (size_t c = 0; c < 2; c++) {
        AdapterFixture f = adapter_fixture_load(cases[c]);
        Specs specs;
        make_specs(&specs, &f);
        char *source = fixture_source(&f.base);
        size_t n = f.base.n_ids * f.base.vocab_size;
        float *expected = run_on(&f, source, types[c], isa_available(0), 1, f.base.n_ids, &specs);
        for (size_t i = 0; isa_available(i); i++) {
            const size_t chunks[] = {1, 7, 48};
            float *logits = run_on(&f, source, types[c], isa_available(i), 1 + (int)(i % 2),
                                   chunks[i % 3], &specs);
            assert_same_bits(isa_available(i)->name, expected, logits, n);
            free(logits);
        }
        free(expected);
        fixture_remove_directory(source);
        free_specs(&specs);
        adapter_fixture_free(&f);
    }
}

/* Runs one more row of each sequence in one pass. */
static void step(Adapted *a, const int32_t *ids, int32_t position, size_t n, float *logits) {
    Row rows[8];
    Error error;
    for (size_t i = 0; i < n; i++) rows[i] = (Row){(int32_t)i, position, ids[position], true};
    if (model_forward(a->tiny.model, a->tiny.cache, rows, n, logits, &error) != STATUS_OK)
        fail_msg("%s", error.text);
}

static void a_row_has_the_bits_of_its_adapters_beside_any_others(void **state) {
    (void)state;
    AdapterFixture f = adapter_fixture_load("qwen2-two");
    Specs specs;
    Adapted a;
    make_specs(&specs, &f);
    char *source = fixture_source(&f.base);
    const ModelOptions options = {.n_threads = 2};
    adapted_open(&a, source, "q8", &options, KV_F16, specs.list, specs.n);
    Lora *lora = a.opening.adapters.lora;
    assert_int_equal(lora_all(lora), 3);
    enum { SEQUENCES = 8 };
    static const uint64_t of[SEQUENCES] = {1, 2, 0, 3, 1, 0, 2, 1};
    size_t vocab = f.base.vocab_size, n_ids = 16;
    float *alone[4], *mixed = malloc(SEQUENCES * vocab * sizeof *mixed);
    for (uint64_t mask = 0; mask < 4; mask++) {
        assert_true(lora_select(lora, 0, mask));
        alone[mask] = tiny_model_run(&a.tiny, 0, 0, f.base.ids, n_ids, 16);
    }
    float *plain = NULL;
    TinyModel base = tiny_model_open(source, "q8", &options, KV_F16);
    plain = tiny_model_run(&base, 0, 0, f.base.ids, n_ids, 16);
    assert_same_bits("no adapter", plain, alone[0], n_ids * vocab);
    assert_int_not_equal(memcmp(alone[1], alone[2], vocab * sizeof *mixed), 0);
    for (int32_t i = 0; i < SEQUENCES; i++) {
        kvcache_reset(a.tiny.cache, i, 0);
        assert_true(lora_select(lora, i, of[i]));
    }
    for (size_t at = 0; at < n_ids; at++) {
        step(&a, f.base.ids, (int32_t)at, SEQUENCES, mixed);
        for (size_t i = 0; i < SEQUENCES; i++)
            assert_same_bits("mixed", alone[of[i]] + at * vocab, mixed + i * vocab, vocab);
    }
    for (size_t i = 0; i < 4; i++) free(alone[i]);
    free(plain);
    free(mixed);
    tiny_model_close(&base);
    adapted_close(&a);
    fixture_remove_directory(source);
    free_specs(&specs);
    adapter_fixture_free(&f);
}

/* ---- What is refused ---- */

/* Opens the adapter on the base; returns the error, or "" when it is taken. */
static const char *refusal(const AdapterFixture *f, json_t *config, json_t *tensors) {
    static Error error;
    Adapted a = {0};
    char *directory = adapter_directory(config, tensors), *source = fixture_source(&f->base);
    const OptionList list = {.items = {directory}, .n = 1};
    const ModelOptions options = {.n_threads = 1};
    a.tiny = tiny_model_open(source, "f32", &options, KV_F32);
    a.session.model = a.tiny.model;
    a.session.file = a.tiny.file;
    error.text[0] = '\0';
    if (adapter_opening_begin(&a.opening, &list, &error) == STATUS_OK)
        adapter_opening_start(&a.opening, &a.session, &error);
    adapted_close(&a);
    fixture_remove_directory(source);
    fixture_remove_directory(directory);
    return error.text;
}

static void assert_refused(const AdapterFixture *f, json_t *config, json_t *tensors,
                           const char *why) {
    const char *error = refusal(f, config, tensors);
    if (!strstr(error, why)) fail_msg("refused with '%s', not '%s'", error, why);
}

static void what_is_not_plain_lora_is_refused_by_name(void **state) {
    (void)state;
    static const struct {
        const char *key, *value, *why;
    } cases[] = {
        {"use_dora", "true", "use_dora is true: DoRA"},
        {"bias", "\"all\"", "bias is 'all'"},
        {"lora_bias", "true", "lora_bias is true"},
        {"modules_to_save", "[\"lm_head\"]", "modules_to_save is [\"lm_head\"]: whole modules"},
        {"layer_replication", "[[0,2]]", "layer_replication"},
        {"target_parameters", "[\"mlp.experts.down_proj\"]", "target_parameters"},
        {"trainable_token_indices", "[3]", "trainable_token_indices"},
        {"peft_type", "\"IA3\"", "peft_type is 'IA3'"},
        {"init_lora_weights", "\"pissa\"", "init_lora_weights"},
        {"use_unheard", "1", "the key 'use_unheard' is not known"},
        {"r", "5", "rank 5, but its factors have rank 4"},
        {"lora_alpha", "1e300", "lora_alpha"},
        {"alpha_pattern", "{\"(\":1}", "not a regular expression"},
        {"rank_pattern", "{\"q_proj\":\"2\"}", "not a number"},
        {"rank_pattern", "{\"k_proj\":7}", "rank 7"},
    };
    AdapterFixture f = adapter_fixture_load("llama-attention");
    json_t *adapter = json_array_get(json_object_get(f.json, "adapters"), 0);
    json_t *tensors = json_object_get(adapter, "tensors");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *config = json_deep_copy(json_object_get(adapter, "config"));
        json_object_set_new(config, cases[i].key,
                            json_loads(cases[i].value, JSON_DECODE_ANY, NULL));
        assert_refused(&f, config, tensors, cases[i].why);
        json_decref(config);
    }
    adapter_fixture_free(&f);
}

static void tensors_that_do_not_fit_the_model_are_refused(void **state) {
    (void)state;
#define Q "base_model.model.model.layers.0.self_attn.q_proj."
    static const struct {
        const char *remove, *name, *recipe, *why;
    } cases[] = {
        {Q "lora_B.weight", NULL, NULL, "only one of the two factors"},
        {Q "lora_B.weight", Q "lora_B.weight", "[20,0.25,0,[72,3]]", "A has rank 4 and B rank 3"},
        {Q "lora_A.weight", Q "lora_A.weight", "[20,0.25,0,[4,61]]", "expected"},
        {Q "lora_B.weight", Q "lora_B.weight", "[20,0.25,0,[61,4]]", "expected"},
        {Q "lora_B.weight", Q "lora_B.weight", "[20,0.25,0,[72,4,1]]", "not a plain matrix"},
        {Q "lora_B.weight", Q "lora_B.weight", "[20,1e39,0,[72,4]]", "not a finite number"},
        {NULL, Q "lora_magnitude_vector", "[20,1,0,[60]]", "DoRA"},
        {NULL, "base_model.model.lm_head.weight", "[20,1,0,[131,60]]", "whole tensors"},
        {NULL, "base_model.model.model.layers.99.mlp.up_proj.lora_A.weight", "[20,1,0,[4,60]]",
         "only one"},
    };
    AdapterFixture f = adapter_fixture_load("llama-attention");
    json_t *adapter = json_array_get(json_object_get(f.json, "adapters"), 0);
    json_t *config = json_object_get(adapter, "config");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *tensors = json_deep_copy(json_object_get(adapter, "tensors"));
        if (cases[i].remove) json_object_del(tensors, cases[i].remove);
        if (cases[i].name)
            json_object_set_new(tensors, cases[i].name, json_loads(cases[i].recipe, 0, NULL));
        assert_refused(&f, config, tensors, cases[i].why);
        json_decref(tensors);
    }
    json_t *tensors = json_object();
    json_object_set_new(tensors, "base_model.model.model.layers.0.mlp.router.lora_A.weight",
                        json_loads("[20,1,0,[4,60]]", 0, NULL));
    json_object_set_new(tensors, "base_model.model.model.layers.0.mlp.router.lora_B.weight",
                        json_loads("[20,1,0,[8,4]]", 0, NULL));
    assert_refused(&f, config, tensors, "which is not a matrix of a model of type 'llama'");
    json_decref(tensors);
    adapter_fixture_free(&f);
}

int main(void) {
    static const char *const names[] = {"llama-attention", "phi3-fused", "qwen2-two", "gpt2-all",
                                        "gemma2-head"};
    enum { NAMES = sizeof names / sizeof *names };
    const struct CMUnitTest others[] = {
        cmocka_unit_test(bits_do_not_depend_on_threads_chunks_or_instruction_sets),
        cmocka_unit_test(a_row_has_the_bits_of_its_adapters_beside_any_others),
        cmocka_unit_test(what_is_not_plain_lora_is_refused_by_name),
        cmocka_unit_test(tensors_that_do_not_fit_the_model_are_refused),
    };
    enum { OTHERS = sizeof others / sizeof *others };
    struct CMUnitTest tests[NAMES + OTHERS];
    for (size_t i = 0; i < NAMES; i++)
        tests[i] = (struct CMUnitTest){.name = names[i],
                                       .test_func = logits_are_those_of_peft,
                                       .initial_state = (void *)names[i]};
    memcpy(tests + NAMES, others, sizeof others);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
