#include "tests/adapter_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define ADAPTERS "tests/fixtures/adapters"

AdapterFixture adapter_fixture_load(const char *name) {
    char path[256];
    json_error_t error;
    snprintf(path, sizeof path, ADAPTERS "/%s.json", name);
    AdapterFixture f = {.json = json_load_file(path, 0, &error)};
    if (!f.json) fail_msg("%s: %s", path, error.text);
    f.base = fixture_load(json_string_value(json_object_get(f.json, "source")));
    f.n = json_array_size(json_object_get(f.json, "adapters"));
    f.kept = (size_t)json_integer_value(json_object_get(f.json, "kept"));
    f.std = json_number_value(json_object_get(f.json, "std"));
    size_t n = f.kept * f.base.vocab_size;
    f.logits = malloc(n * sizeof *f.logits);
    snprintf(path, sizeof path, ADAPTERS "/%s.logits", name);
    FILE *file = fopen(path, "rb");
    if (!f.logits || !file || fread(f.logits, sizeof *f.logits, n, file) != n)
        fail_msg("%s does not hold %zu floats", path, n);
    fclose(file);
    return f;
}

void adapter_fixture_free(AdapterFixture *f) {
    fixture_free(&f->base);
    json_decref(f->json);
    free(f->logits);
}

char *adapter_directory(json_t *config, json_t *tensors) {
    char *directory = fixture_directory();
    char *keys = fixture_path(directory, "adapter_config.json");
    char *weights = fixture_path(directory, "adapter_model.safetensors");
    assert_int_equal(json_dump_file(config, keys, JSON_INDENT(2)), 0);
    fixture_write_weights(tensors, weights);
    free(keys);
    free(weights);
    return directory;
}

char *adapter_fixture_directory(const AdapterFixture *f, size_t i) {
    json_t *adapter = json_array_get(json_object_get(f->json, "adapters"), i);
    return adapter_directory(json_object_get(adapter, "config"),
                             json_object_get(adapter, "tensors"));
}

void adapter_fixture_gguf(const AdapterFixture *f, const char *name, const char *path,
                          StoredType type) {
    char from[256];
    snprintf(from, sizeof from, ADAPTERS "/%s.gguf.json", name);
    json_t *json = json_load_file(from, 0, NULL);
    assert_non_null(json);
    json_t *adapter = json_array_get(json_object_get(f->json, "adapters"), 0);
    json_object_set(json, "more_recipes", json_object_get(adapter, "tensors"));
    gguf_fixture_write(json, path, type, false);
    json_decref(json);
}

/* Reads the next text's logits; how many they are follows from the base's vocabulary. */
static void read_text(AdapterFixtureText *text, json_t *json, FILE *logits) {
    const json_t *ids = json_object_get(json, "ids");
    AdapterFixture f = adapter_fixture_load(json_string_value(json_object_get(json, "name")));
    *text = (AdapterFixtureText){.name = strdup(json_string_value(json_object_get(json, "name"))),
                                 .type = strdup(json_string_value(json_object_get(json, "type"))),
                                 .n_ids = json_array_size(ids),
                                 .kept = (size_t)json_integer_value(json_object_get(json, "kept")),
                                 .std = json_number_value(json_object_get(json, "std"))};
    size_t n = text->kept * f.base.vocab_size;
    text->ids = calloc(text->n_ids, sizeof *text->ids);
    text->logits = malloc(n * sizeof *text->logits);
    assert_true(text->name && text->type && text->ids && text->logits);
    for (size_t i = 0; i < text->n_ids; i++)
        text->ids[i] = (int32_t)json_integer_value(json_array_get(ids, i));
    assert_int_equal(fread(text->logits, sizeof *text->logits, n, logits), n);
    adapter_fixture_free(&f);
}

size_t adapter_fixture_quantized(AdapterFixtureText **texts) {
    json_t *json = json_load_file(ADAPTERS "/quantized.json", 0, NULL);
    FILE *logits = fopen(ADAPTERS "/quantized.logits", "rb");
    size_t n = json_array_size(json);
    *texts = calloc(n, sizeof **texts);
    if (!json || !logits || !*texts) fail_msg("%s", ADAPTERS "/quantized.json");
    for (size_t i = 0; i < n; i++) read_text(&(*texts)[i], json_array_get(json, i), logits);
    assert_int_equal(fgetc(logits), EOF);
    fclose(logits);
    json_decref(json);
    return n;
}

void adapter_fixture_quantized_free(AdapterFixtureText *texts, size_t n) {
    for (size_t i = 0; i < n; i++) {
        free(texts[i].name), free(texts[i].type);
        free(texts[i].ids), free(texts[i].logits);
    }
    free(texts);
}

char *adapter_of_small_model(const char *salt, int rank) {
    json_t *config = json_pack("{s:s, s:i, s:i, s:[s]}", "peft_type", "LORA", "r", rank,
                               "lora_alpha", rank, "target_modules", "q_proj");
    json_t *tensors = json_object();
    for (int layer = 0; layer < 2; layer++) {
        for (int is_b = 0; is_b < 2; is_b++) {
            char name[128], hashed[160];
            snprintf(name, sizeof name,
                     "base_model.model.model.layers.%d.self_attn.q_proj.lora_%c.weight", layer,
                     "AB"[is_b]);
            snprintf(hashed, sizeof hashed, "%s%s", name, salt);
            json_object_set_new(tensors, name,
                                json_pack("[i, f, f, [i, i], s]", 20, 1.5, 0.0, is_b ? 64 : rank,
                                          is_b ? rank : 64, hashed));
        }
    }
    char *directory = adapter_directory(config, tensors);
    json_decref(config);
    json_decref(tensors);
    return directory;
}

void adapted_open(Adapted *adapted, const char *source, const char *type,
                  const ModelOptions *options, KvType kv_type, const char *const *specs, size_t n) {
    Error error;
    OptionList list = {.n = n};
    for (size_t i = 0; i < n; i++) list.items[i] = specs[i];
    *adapted = (Adapted){.tiny = tiny_model_open(source, type, options, kv_type)};
    adapted->session.model = adapted->tiny.model;
    adapted->session.file = adapted->tiny.file;
    if (adapter_opening_begin(&adapted->opening, &list, &error) != STATUS_OK ||
        adapter_opening_start(&adapted->opening, &adapted->session, &error) != STATUS_OK)
        fail_msg("%s", error.text);
}

void adapted_close(Adapted *adapted) {
    adapter_opening_close(&adapted->opening);
    tiny_model_close(&adapted->tiny);
}
