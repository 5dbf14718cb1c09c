/* Writes the inputs of scripts/same-as: every fixture as a model directory (or GGUF file), and
 * variations of its config.json.
 *
 *     seed_same DIRECTORY STEP     every STEP-th fixture: 1 writes all of them
 *     seed_same DIRECTORY NAME     this one (for scripts/guard)
 *
 * DIRECTORY/list names them, one a line, for tests/print_same.c:
 *
 *     NAME PATH TYPE CONTEXT PASSES START[,START]... ID[,ID]...
 *
 * where TYPE is the third type to convert to, beside f32 and q8, and each START is the position of
 * the first id in a run over the text. DIRECTORY/NAME.cases holds one config.json a line: keys
 * absent, changed and combined, in the way of tests/fixtures/random_configs.py, but without
 * transformers: whether a revision takes or refuses them, and the Config that it makes of them,
 * must not change unnoticed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <sys/stat.h>

#include "tests/fixture.h"
#include "tests/gguf_fixture.h"
#include "tests/hashed_weights.h"

enum { COMBINED_CASES = 8, KEYS_OF_A_CASE = 3 };

/* The types that fixtures are converted to in turn. */
static const char *const types[] = {"f16", "q4", "bf16", "q4m", "q5", "q6", "q8_64", "q3_k"};

/* ---- Variations of config.json ---- */

/* The object that holds the text model's keys. */
static json_t *text_keys(json_t *config) {
    json_t *text = json_object_get(config, "text_config");
    if (!text) text = json_object_get(config, "llm_config");
    return json_is_object(text) ? text : config;
}

/* Returns another value of the same kind; NULL: the value has none. */
static json_t *another(const json_t *value) {
    switch (json_typeof(value)) {
    case JSON_TRUE:
        return json_false();
    case JSON_FALSE:
        return json_true();
    case JSON_INTEGER:
        return json_integer(json_integer_value(value) + 1);
    case JSON_REAL:
        return json_real(json_real_value(value) * 1.5 + 0.25);
    case JSON_STRING:
        return json_string("other");
    case JSON_NULL:
        return json_integer(2);
    default:
        return NULL;
    }
}

/* Changes one key, if it is there, in the way of `choice`: 0 takes it away, 1 gives it another
 * value, 2 null. */
static void change_key(json_t *keys, const char *key, unsigned choice) {
    json_t *value = json_object_get(keys, key), *changed = NULL;
    if (!value) return; /* an earlier change took it away */
    if (choice == 0) {
        json_object_del(keys, key);
    } else if (choice == 2) {
        json_object_set_new(keys, key, json_null());
    } else if (json_is_array(value)) {
        value = json_deep_copy(value);
        json_array_remove(value, json_array_size(value) / 2);
        json_object_set_new(keys, key, value);
    } else if ((changed = another(value))) {
        json_object_set_new(keys, key, changed);
    }
}

static void put_case(FILE *file, json_t *config) {
    json_dumpf(config, file, JSON_COMPACT);
    fputc('\n', file);
    json_decref(config);
}

/* Writes the variations of one key of the object at `nested` (NULL: the text model's own keys). */
static void key_cases(FILE *file, const json_t *config, const char *nested, const char *key) {
    for (unsigned choice = 0; choice < 3; choice++) {
        json_t *copy = json_deep_copy(config), *keys = text_keys(copy);
        if (nested) keys = json_object_get(keys, nested);
        change_key(keys, key, choice);
        put_case(file, copy);
    }
}

static void write_cases(const char *path, const char *name, json_t *config) {
    FILE *file = fopen(path, "w");
    const char *key, *inner;
    json_t *value, *ignored, *keys = text_keys(config);
    assert_non_null(file);
    size_t n_keys = json_object_size(keys), n = 0;
    const char **all = calloc(n_keys + 1, sizeof *all);
    assert_non_null(all);
    json_object_foreach(keys, key, value) {
        all[n++] = key;
        key_cases(file, config, NULL, key);
        if (json_is_object(value))
            json_object_foreach(value, inner, ignored) key_cases(file, config, key, inner);
    }
    for (unsigned i = 0; i < COMBINED_CASES; i++) {
        json_t *copy = json_deep_copy(config);
        for (unsigned k = 0; k < KEYS_OF_A_CASE; k++) {
            uint64_t hash = hashed_element(hashed_name(name), i * KEYS_OF_A_CASE + k);
            change_key(text_keys(copy), all[hash % n_keys], (unsigned)(hash >> 40) % 3);
        }
        put_case(file, copy);
    }
    json_t *unknown = json_deep_copy(config);
    json_object_set_new(text_keys(unknown), "unknown_key", json_integer(1));
    put_case(file, unknown);
    free(all);
    assert_int_equal(fclose(file), 0);
}

/* ---- The list ---- */

static void list_ids(FILE *list, const Fixture *f) {
    for (size_t i = 0; i < f->n_ids; i++) fprintf(list, "%c%d", i ? ',' : ' ', f->ids[i]);
    fputc('\n', list);
}

static void list_model(FILE *list, const char *name, const char *path, size_t number,
                       const Fixture *f) {
    fprintf(list, "%s %s %s %u ", name, path, types[number % (sizeof types / sizeof *types)],
            f->context);
    for (size_t i = 0; i < f->n_passes; i++)
        fprintf(list, "%s%d", i ? "," : "", f->passes[i].start);
    list_ids(list, f);
}

static void write_fixture(FILE *list, const char *directory, const char *name, size_t number) {
    char path[512], file[600];
    Fixture f = fixture_load(name);
    json_t *config = json_object_get(f.json, "config");
    snprintf(path, sizeof path, "%s/%s", directory, name);
    assert_true(mkdir(path, 0777) == 0);
    snprintf(file, sizeof file, "%s/config.json", path);
    assert_int_equal(json_dump_file(config, file, JSON_INDENT(2)), 0);
    snprintf(file, sizeof file, "%s/model.safetensors", path);
    fixture_write_weights(json_object_get(f.json, "tensors"), file);
    snprintf(file, sizeof file, "%s.cases", path);
    write_cases(file, name, config);
    list_model(list, name, path, number, &f);
    fixture_free(&f);
}

static void write_gguf(FILE *list, const char *directory, const char *name, size_t number) {
    static const StoredType stored[] = {STORED_F32, STORED_F16};
    char path[512], label[256];
    json_t *gguf = gguf_fixture_load(name);
    Fixture f = fixture_load(json_string_value(json_object_get(gguf, "source")));
    snprintf(path, sizeof path, "%s/%s.gguf", directory, name);
    snprintf(label, sizeof label, "%s.gguf", name);
    gguf_fixture_write(gguf, path, stored[number % 2], false);
    list_model(list, label, path, number, &f);
    fixture_free(&f);
    json_decref(gguf);
}

int main(int argc, char **argv) {
    size_t step = argc == 3 ? strtoul(argv[2], NULL, 10) : 0;
    if (argc != 3) {
        fprintf(stderr, "usage: seed_same DIRECTORY STEP|NAME\n");
        return 2;
    }
    char path[512];
    snprintf(path, sizeof path, "%s/list", argv[1]);
    mkdir(argv[1], 0777);
    FILE *list = fopen(path, "w");
    assert_non_null(list);
    char **names = fixture_names(), **gguf_names = gguf_fixture_names();
    for (size_t i = 0; names[i]; free(names[i++]))
        if (step ? i % step == 0 : strcmp(names[i], argv[2]) == 0)
            write_fixture(list, argv[1], names[i], step ? i / step : 0);
    for (size_t i = 0; gguf_names[i]; free(gguf_names[i++]))
        if (step && i % step == 0) write_gguf(list, argv[1], gguf_names[i], i / step);
    free(names);
    free(gguf_names);
    assert_int_equal(fclose(list), 0);
    return 0;
}
