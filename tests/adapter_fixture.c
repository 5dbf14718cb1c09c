#include "tests/adapter_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

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
